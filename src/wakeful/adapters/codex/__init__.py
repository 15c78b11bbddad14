"""Codex as it writes itself down: rollouts, and the locks of the processes that write them."""
