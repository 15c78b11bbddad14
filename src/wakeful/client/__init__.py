"""Clients of the daemon's socket."""
