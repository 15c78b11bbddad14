"""The log of critical events: a file of whole lines that any number of processes share."""
