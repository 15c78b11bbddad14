"""What a running Claude Code says about itself in its registry file, for one process that is known."""

from pathlib import Path

from wakeful.adapters.claude_code.registry import Entry, read_entry
from wakeful.adapters.system import proc
from wakeful.domain.process import Process


def entry_of(process: Process) -> Entry | None:
    """Its entry; None if it wrote none yet, or if the file is another process's."""
    told = proc.environ_value(process.pid, "CLAUDE_CONFIG_DIR")
    home = proc.environ_value(process.pid, "HOME")
    if not told and not home:
        return None
    folder = Path(told) if told else Path(home or "/") / ".claude"
    entry = read_entry(folder / "sessions" / f"{process.pid}.json")
    try:
        return entry if entry is not None and entry.process == process else None
    except ValueError:
        # Not written by the client we know.
        return None


def status_of(process: Process) -> str | None:
    """`busy`, `idle` or `waiting` as it says; None if it says nothing."""
    entry = entry_of(process)
    return None if entry is None else entry.status
