"""Actions on sessions: driver interface, gate, ownership, idempotency."""
