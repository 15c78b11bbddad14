"""Sources of evidence: log files, folder watches, tool-use logs, event logs."""
