"""One package or module for each outside system."""
