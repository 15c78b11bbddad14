"""The settings files of agent clients, in which our hooks stand. Only what is ours there is ever changed."""
