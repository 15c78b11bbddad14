"""CHECKPOINT_<n>.md on the disk."""
