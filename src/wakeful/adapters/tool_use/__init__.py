"""Logs of an agent's tool hooks: one line before a call, one after it, and no turns."""
