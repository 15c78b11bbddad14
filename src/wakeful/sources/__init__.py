"""Where evidence comes from: log files, folder watches, tool-use logs, event logs."""
