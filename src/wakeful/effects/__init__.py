"""What an interrupted call may have changed. Pure."""
