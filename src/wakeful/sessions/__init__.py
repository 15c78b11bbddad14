"""Supervised sessions: registry, supervisor, change feed, transition writer."""
