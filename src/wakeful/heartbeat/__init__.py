"""Scheduled wakes by HEARTBEAT.md."""
