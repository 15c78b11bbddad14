"""The event log any program can append to; `docs/reference/event-log.md` is its contract."""
