"""Log source for hook reports: reads and removes the files that hooks drop into the spool.

A report is only evidence: nothing is run, opened or decided because of it. The payloads of both clients have
the same shape and name no client: a transcript named `rollout-…` is Codex's, any other Claude Code's. Without
one the id decides: Codex makes UUIDs of version 7, Claude Code random ones. Payloads carry no time, so the
file's time counts. The time of an empty file per client records the last report; it tells whether hooks work
at all, because a client may silently skip hooks that are not trusted. Nothing is judged by it.
"""

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import inf
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Raw, Struct

from wakeful.control.briefs import OWN_PROMPT_PREFIXES
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import ConversationId, SessionId, parse_session_id
from wakeful.hooks.model import SLOTS
from wakeful.judging import events as e
from wakeful.judging.evidence import SessionIdentity
from wakeful.linux.files import read_small
from wakeful.sources.base import EvidenceSink, FileChanges, FolderWatcher, Source
from wakeful.sources.folder_watch import watch_or_await
from wakeful.sources.parsing import asked_call
from wakeful.sources.turn_failure import turn_failed_event

# A busy agent reports many times a minute; one mark is enough.
MARK_SECONDS: Final = 60.0

log = logging.getLogger("wakeful")


class HookReportTimes:
    """Records the time of the last report in a file per client, at most once a minute."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._marked: dict[str, float] = {}

    def mark(self, client: str) -> None:
        """Record that a hook of this client has reported. On a full disk the report itself is not lost."""
        awake = self._clock.now().awake
        if awake - self._marked.get(client, -MARK_SECONDS) < MARK_SECONDS:
            return
        self._marked[client] = awake
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            (self._folder / f"{client}.fired").touch(mode=0o600)
        except OSError as problem:
            log.warning("the last report of %s hooks could not be stored: %s", client, problem)


def last_report_at(folder: Path, client: str) -> float | None:
    """When a hook of this client last reported, give or take a minute; None if none ever did."""
    try:
        return (folder / f"{client}.fired").lstat().st_mtime
    except OSError:
        return None


PAYLOAD_BYTES_MAX: Final = 1024 * 1024
_TEXT_CHARS_MAX: Final = 2000
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


class HookReport(Struct, frozen=True):
    provider: str
    conversation_id: ConversationId
    cwd: str | None
    events: tuple[e.Event, ...]


class _Payload(Struct, gc=False):
    session_id: str
    hook_event_name: str
    transcript_path: str | None = None
    cwd: str | None = None
    tool_name: str | None = None
    tool_input: Raw = Raw(b"")
    notification_type: str | None = None
    last_assistant_message: str | None = None
    error: Raw = Raw(b"")
    prompt: Raw = Raw(b"")


_decode: Final = json_decoder(_Payload)


def read_hook(payload: bytes, at: float) -> HookReport | None:
    """The report in the payload; None if it is too long, not (yet) whole, or of no conversation. Never raises."""
    if len(payload) > PAYLOAD_BYTES_MAX:
        return None
    try:
        hook = _decode(payload)
    except msgspec.DecodeError:
        return None
    # A UUID is the only id of both clients, and the only one that may become part of a session's name.
    version = _UUID.fullmatch(hook.session_id)
    if version is None:
        return None
    name = (hook.transcript_path or "").rpartition("/")[2]
    is_codex = name.startswith("rollout-") if hook.transcript_path else version[1] == "7"
    return HookReport(
        "codex" if is_codex else "claude",
        ConversationId(hook.session_id),
        hook.cwd[:_TEXT_CHARS_MAX] if hook.cwd else None,
        tuple(_events(hook, at)),
    )


def _events(hook: _Payload, at: float) -> list[e.Event]:
    build = _EVENT_BUILDERS.get(hook.hook_event_name)
    if build is not None:
        return [build(hook, at)]
    if hook.hook_event_name in _PROGRESS:
        return [e.Progressed(at)]
    return [e.RecordSkipped(at, hook.hook_event_name[:40])]


def _answered_event(hook: _Payload, at: float) -> e.Event:
    """The call that asked has run or was refused; the transcript says which."""
    return e.QuestionAnswered(at, hook.tool_name)


def _notification_event(hook: _Payload, at: float) -> e.Event:
    if hook.notification_type in {"permission_prompt", "elicitation_dialog"}:
        return e.QuestionAsked(at, "")
    # Clients send it a minute after a turn, also after an interrupted one.
    return e.TurnEnded(at, by_mark=True) if hook.notification_type == "idle_prompt" else e.Progressed(at)


def _failure_event(hook: _Payload, at: float) -> e.Event:
    code = bytes(hook.error).decode("utf-8", "replace").strip('"')
    message = (hook.last_assistant_message or "")[:_TEXT_CHARS_MAX]
    return turn_failed_event(message, at, code=code)


_EVENT_BUILDERS: Final[Mapping[str, Callable[[_Payload, float], e.Event]]] = {
    "SessionStart": lambda hook, at: e.LogOpened(at, ConversationId(hook.session_id), hook.cwd),
    "UserPromptSubmit": lambda hook, at: e.Prompted(
        at, by_wakeful=bytes(hook.prompt)[1:].startswith(OWN_PROMPT_PREFIXES)
    ),
    "PermissionRequest": lambda hook, at: e.QuestionAsked(
        at, asked_call(hook.tool_name or "", hook.tool_input)
    ),
    "Elicitation": lambda _hook, at: e.QuestionAsked(at, ""),
    "Notification": _notification_event,
    "PostToolUse": _answered_event,
    "PostToolUseFailure": _answered_event,
    "PermissionDenied": _answered_event,
    "ElicitationResult": lambda _hook, at: e.QuestionAnswered(at),
    "PreCompact": lambda _hook, at: e.CompactionStarted(at),
    "PostCompact": lambda _hook, at: e.CompactionEnded(at),
    # `by_mark`, so that a failed turn stays failed: clients report the failure and the end in any order.
    "Stop": lambda _hook, at: e.TurnEnded(at, by_mark=True),
    "StopFailure": _failure_event,
    "Interrupt": lambda _hook, at: e.TurnInterrupted(at),
    "SessionEnd": lambda _hook, at: e.ClientClosed(at),
}
_PROGRESS: Final = frozenset(
    {
        "PreToolUse", "PostToolBatch", "MessageDisplay", "SubagentStart", "SubagentStop",
        "PreModelRequest", "PostModelRequest", "UserPromptExpansion", "TaskCreated", "TaskCompleted",
    }
)  # fmt: skip

# A hook writes within milliseconds: a file that is still unreadable after this time is no report. An older report was
# written while Wakeful did not run: it is evidence of the past, not that its agent lives.
FRESH_SECONDS_MAX: Final = 60.0
# More reports than this are read in the next turn of the loop: a flood must not stop it.
REPORTS_AT_ONCE_MAX: Final = 200
# More files than this were written while Wakeful did not run; the oldest are dropped.
FILES_MAX: Final = 20_000
# Reports per minute about sessions that no other source knows. A client starts far fewer sessions.
UNKNOWN_MAX: Final = 300
UNKNOWN_SECONDS: Final = 60.0
_SLOT_DIGITS: Final = len(str(SLOTS))


class SpoolContext(Protocol):
    def is_known(self, session_id: SessionId) -> bool:
        """Whether another source knows this session."""

    def continue_reading(self, source: Source, act: Callable[[], None]) -> None:
        """Call `act` in the next turn of the loop."""


class HookSpoolSource:
    """Watches the spool folder. Without `folders` it scans once and removes nothing."""

    name = "hook-spool"
    delay_reason = None

    def __init__(
        self,
        folder: Path,
        host: str,
        clock: Clock,
        sink: EvidenceSink,
        folders: FolderWatcher | None = None,
        report_times: HookReportTimes | None = None,
        ignored_folders: Sequence[str] = (),
        *,
        context: SpoolContext,
    ) -> None:
        self._folder = folder
        self._host = host
        self._clock = clock
        self._sink = sink
        self._folders = folders
        self._report_times = report_times
        # Wakeful's own one-shot calls of the clients run in these folders; they are no sessions.
        self._ignored_folders = ignored_folders
        self._context = context
        # In the order of arrival. Slots are read first: the hooks that Wakeful installs write to them.
        self._slots: dict[str, None] = {}
        self._unread: dict[str, None] = {}
        self._surplus: list[str] = []
        self._has_more = False
        self._unknown_since = -inf
        self._unknown_count = 0
        self._dropped_count = 0

    @property
    def skipped_logs(self) -> str | None:
        if not self._dropped_count:
            return None
        return f"{self._dropped_count:,} hook reports were dropped since the start: too many at once"

    def scan(self) -> None:
        if self._folders is not None:
            watch_or_await(self._folders, str(self._folder))
        waiting = sorted(_list_reports(self._folder))
        self._queue(path for _, path in waiting if _is_slot(path))
        others = [path for _, path in waiting if not _is_slot(path)]
        self._queue(others[-FILES_MAX:] if self._folders is not None else others[-REPORTS_AT_ONCE_MAX:])
        if self._folders is not None and len(others) > FILES_MAX:
            self._surplus = others[:-FILES_MAX]
            self._count_dropped(len(self._surplus))
        if not self._has_more:
            self.read_next()

    def on_changes(self, changes: FileChanges) -> None:
        if changes.needs_scan(str(self._folder)):
            self.scan()
            return
        inside = [Path(path) for path in changes.changed if path.startswith(f"{self._folder}/")]
        dropped = sorted((mtime, str(path)) for path in inside if (mtime := _mtime(path)) is not None)
        self._queue(path for _, path in dropped)
        if dropped and not self._has_more:
            self.read_next()

    def read_next(self) -> None:
        self._has_more = False
        for unread in (self._slots, self._unread):
            for path in list(islice(unread, REPORTS_AT_ONCE_MAX)):
                del unread[path]
                self._read_report(Path(path))
        for path in self._surplus[-REPORTS_AT_ONCE_MAX:]:
            _remove(Path(path))
        del self._surplus[-REPORTS_AT_ONCE_MAX:]
        self._has_more = bool(self._slots or self._unread or self._surplus)
        if self._has_more:
            self._context.continue_reading(self, self.read_next)

    def _queue(self, paths: Iterable[str]) -> None:
        for path in paths:
            (self._slots if _is_slot(path) else self._unread)[path] = None

    def catch_up(self, session_id: SessionId) -> None:
        """Does nothing: reports are read as they arrive."""

    def _read_report(self, path: Path) -> None:
        mtime, written_wall = _mtime(path), _ctime(path)
        if mtime is None:
            return
        payload = read_small(path, PAYLOAD_BYTES_MAX)
        hook = read_hook(payload, mtime) if payload else None
        if hook is not None:
            self._report(hook, mtime, written_wall or mtime)
        if self._folders is not None and (hook is not None or not self._is_fresh(mtime)):
            _remove(path)

    def _is_admitted(self, session_id: SessionId) -> bool:
        """Whether a report counts. Reports about unknown sessions are limited per minute: ids are easy to invent."""
        if self._context.is_known(session_id):
            return True
        now = self._clock.now().awake
        if now - self._unknown_since >= UNKNOWN_SECONDS:
            self._unknown_since, self._unknown_count = now, 0
        self._unknown_count += 1
        if self._unknown_count > UNKNOWN_MAX:
            self._count_dropped(1)
        return self._unknown_count <= UNKNOWN_MAX

    def _count_dropped(self, count: int) -> None:
        if not self._dropped_count:
            log.warning("hook reports are dropped: too many at once; `wakeful status` counts them")
        self._dropped_count += count

    def _is_fresh(self, mtime: float) -> bool:
        return self._clock.now().wall - mtime <= FRESH_SECONDS_MAX

    def _report(self, hook: HookReport, at: float, written_wall: float) -> None:
        try:
            session_id = parse_session_id(f"{hook.provider}-{hook.conversation_id}")
        except BadSessionId:
            return
        if self._report_times is not None:
            self._report_times.mark(hook.provider)
        if hook.cwd in self._ignored_folders or not self._is_admitted(session_id):
            return
        identity = SessionIdentity(
            session_id,
            hook.provider,
            self._host,
            "hook",
            conversation_id=ConversationId(hook.conversation_id),
        )
        opened = e.LogOpened(at, identity.conversation_id, hook.cwd)
        self._sink.on_report(
            identity, [opened, *hook.events], live=self._is_fresh(at), written_wall=written_wall
        )


def _is_slot(path: str) -> bool:
    name = path.rpartition("/")[2]
    return len(name) <= _SLOT_DIGITS and name.isascii() and name.isdigit()


def _list_reports(folder: Path) -> Iterator[tuple[float, str]]:
    """The files with their times; none if the folder is missing or unreadable."""
    try:
        with os.scandir(folder) as entries:
            for each in entries:
                if (mtime := _mtime(each)) is not None:
                    yield mtime, each.path
    except OSError:
        return


def _remove(path: Path) -> None:
    """Remove a file from the spool. What cannot be removed, such as a folder, holds no report and stays."""
    with suppress(OSError):
        path.unlink()


def _mtime(path: Path | os.DirEntry[str]) -> float | None:
    """When the file was written; None if it has been removed since."""
    try:
        return path.stat(follow_symlinks=False).st_mtime
    except OSError:
        return None


def _ctime(path: Path) -> float | None:
    """As `_mtime`, by a time that the writer cannot choose."""
    try:
        return path.lstat().st_ctime
    except OSError:
        return None
