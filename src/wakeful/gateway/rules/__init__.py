"""The chat gateway's rules. Pure."""
