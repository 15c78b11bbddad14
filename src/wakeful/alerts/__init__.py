"""Messages to people: what they say, when they are sent, mute and pause."""
