"""How records are printed."""
