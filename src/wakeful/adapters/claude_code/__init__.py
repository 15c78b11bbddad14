"""Claude Code as it writes itself down: transcripts and the registry of running processes."""
