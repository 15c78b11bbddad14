"""Ids, clock, errors, text safety, redaction, process identity and leases: what every package may use."""
