"""What a running Claude Code says about itself in its registry file, for one process that is known."""

from pathlib import Path

from wakeful.core.process import Process
from wakeful.integrations.claude_code.registry import Entry, read_entry
from wakeful.linux import proc


def config_folder_of(
    process: Process, variable: str = "CLAUDE_CONFIG_DIR", usual: str = ".claude"
) -> Path | None:
    """Where a client keeps its things; None if its environment cannot be read."""
    if told := proc.environ_value(process.pid, variable):
        return Path(told)
    home = proc.environ_value(process.pid, "HOME")
    return Path(home) / usual if home else None


def entry_of(process: Process) -> Entry | None:
    """Its entry; None if it wrote none yet, or if the file is another process's."""
    folder = config_folder_of(process)
    if folder is None:
        return None
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
