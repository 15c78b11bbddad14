"""The HTTP door, on loopback and on the Unix socket: one application, one gate in front of it."""
