"""Reads the tool logs of queued sessions below one folder, and checks their working folders. Read-only."""

import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

from wakeful.core.ids import SessionId
from wakeful.judging.events import Event
from wakeful.sources.log_file import LogFile
from wakeful.sources.parsing import read_damaged
from wakeful.sources.tool_use_log import ToolUseReader
from wakeful.watchdog.queue import LogReading

_Logs = dict[SessionId, tuple[LogFile, ToolUseReader]]


class ToolLogFiles:
    """Implements QueueSessionFiles for `<root>/<session id>/tool_use.jsonl`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._logs: _Logs = {}

    def read(self, session_ids: Sequence[SessionId]) -> dict[SessionId, LogReading]:
        # Resolved at each read: the folder may appear, or be moved, meanwhile.
        root = os.path.realpath(self._root)
        # An abandoned read may still store its logs: it does so in this dict, which `forget` has replaced by then.
        logs = self._logs
        readings = {each: _new_events(logs, each, root) for each in session_ids}
        return {each: reading for each, reading in readings.items() if reading is not None}

    def forget(self, kept: Collection[SessionId]) -> None:
        self._logs = {each: log for each, log in self._logs.items() if each in kept}

    def is_folder_gone(self, path: str) -> bool:
        if not path.startswith("/") or "\0" in path:
            return False
        try:
            return not stat.S_ISDIR(Path(path).stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:  # no permission, or a host that does not answer: unknown
            return False


def _new_events(logs: _Logs, session_id: SessionId, root: str) -> LogReading | None:
    path = f"{root}/{session_id}/tool_use.jsonl"
    known = logs.get(session_id)
    reset = known is None or known[0].path != path
    log, reader = (LogFile(path, root), ToolUseReader()) if known is None or reset else known
    logs[session_id] = log, reader
    events: list[Event] = []
    more = True
    while more:
        batch = log.read_new()
        if batch.refused is not None and not events:
            del logs[session_id]
            return None
        if batch.reset:
            reset = True
            events.clear()
        for line in batch.lines:
            events += reader.read(line)
        for mark in batch.marks:
            events += read_damaged(mark.tail, reader.read)
        more = batch.more and batch.refused is None
    return LogReading(tuple(events), reset)
