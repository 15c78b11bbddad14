"""A program with the name of the client that it stands for."""
