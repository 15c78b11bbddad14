"""The client of the daemon's socket."""
