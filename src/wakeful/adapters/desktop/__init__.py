"""The desktop this process belongs to, if it belongs to one."""
