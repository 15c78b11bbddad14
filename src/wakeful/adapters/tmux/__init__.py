"""tmux servers of this user, seen from outside by their sockets."""
