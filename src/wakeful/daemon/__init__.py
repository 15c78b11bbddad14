"""Builds the daemon from its parts and runs it."""
