"""Claude Code: transcripts, registry, stream-json driver, login."""
