"""HEARTBEAT.md: found, read within bounds, and understood or refused with its line."""
