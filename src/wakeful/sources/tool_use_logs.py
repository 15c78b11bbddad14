"""Where tool hooks write: `<folder>/<session id>/tool_use.jsonl`."""

from pathlib import Path

from wakeful.core.errors import BadSessionId
from wakeful.core.ids import parse_log_name
from wakeful.judging.subject import Subject
from wakeful.sources.eye import LogSource, Owner
from wakeful.sources.tool_use_reader import ToolUseReader, project_in


def tool_use_logs(folders: tuple[Path, ...], host: str) -> LogSource:
    """Folders of tool logs. Nobody vouches for them: without an active record they are never silent."""

    def owner(parts: tuple[str, ...]) -> Owner | None:
        if len(parts) != 2 or parts[1] != "tool_use.jsonl":
            return None
        try:
            session_id = parse_log_name(parts[0])
        except BadSessionId:
            return None
        return Owner(
            Subject(
                session_id, "tool-use", host, "tool_use.jsonl", project=project_in(session_id) or session_id
            )
        )

    return LogSource("tool-use-logs", folders, "tool_use.jsonl", 2, owner, ToolUseReader)
