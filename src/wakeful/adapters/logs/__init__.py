"""Following append-only logs: bytes to lines, one file at a time, and the folders they lie in.

Nothing here knows what a line means, writes to a log, locks it or follows a symlink below a root.
"""
