"""git, asked and never told."""
