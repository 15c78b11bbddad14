"""Figures and generated pages, each by one command."""
