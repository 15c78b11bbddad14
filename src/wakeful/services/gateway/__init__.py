"""The chat gateway: messages become turns of managed sessions, and turns become answers."""
