"""Whatever apprise can reach."""
