"""What Wakeful asks of the kernel: /proc, pidfds, signals, locks, child processes, systemd."""
