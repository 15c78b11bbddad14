"""Hooks of the clients: installation and spool."""
