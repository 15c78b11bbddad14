"""Wakeful: the truth about every agent session on this machine.

Nothing is imported here but what a name asked for needs: the command's start time depends on it.
"""

__version__ = "0.1.0.dev0"
