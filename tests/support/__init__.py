"""Fixtures, stand-ins and servers that several test suites share."""
