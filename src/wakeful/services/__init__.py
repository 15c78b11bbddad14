"""Thin async: they carry values between eyes, rules, store and doors, and decide nothing themselves."""
