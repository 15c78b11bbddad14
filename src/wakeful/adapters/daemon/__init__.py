"""Sessions of the running daemon, for programs beside it: asked for over its Unix socket, heard in their run folders."""
