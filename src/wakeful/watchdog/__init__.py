"""The watchdog over sessions and jobs in Redis."""
