"""Telegram's Bot API, as a way to reach a person."""
