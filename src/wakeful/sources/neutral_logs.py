"""Where neutral event logs lie: `<folder>/<session id>.jsonl`, one per session."""

from pathlib import Path

from wakeful.core.errors import BadSessionId
from wakeful.core.ids import parse_log_name
from wakeful.judging.subject import Subject
from wakeful.sources.eye import LogSource, Owner
from wakeful.sources.neutral_reader import NeutralReader


def event_logs(folders: tuple[Path, ...], host: str) -> LogSource:
    """Logs that any program appends to. They vouch for themselves until they name a process or say `closed`."""

    def owner(parts: tuple[str, ...]) -> Owner | None:
        try:
            session_id = parse_log_name(parts[-1].removesuffix(".jsonl"))
        except BadSessionId:
            return None
        return Owner(Subject(session_id, "events", host, "event-log", project=session_id, vouched=True))

    return LogSource("event-logs", folders, ".jsonl", 1, owner, NeutralReader)
