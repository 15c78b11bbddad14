"""The host itself: its processes, their ends, its clocks."""
