"""Docker: engine, agents in containers, transcripts inside them."""
