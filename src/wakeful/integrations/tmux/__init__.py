"""tmux: panes as a source, typing, starting, agents."""
