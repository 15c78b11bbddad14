"""Configuration schema, loading and state folder paths."""
