"""Codex: rollouts, driver, login."""
