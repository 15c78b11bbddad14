"""The scripted agent as a program named after its client."""
