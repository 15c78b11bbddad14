"""Decisions that a person takes before anything is repeated."""
