"""Counters and histograms."""
