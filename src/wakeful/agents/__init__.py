"""Managed agents: declared workloads in tmux or containers."""
