"""Labelled cases: written from a verdict that a person called wrong, appended to a file, and read for replay.

In a case a call is one entry with the time it returned, so its start is a guess; a call without a result
still runs. Everything is redacted and cut; the text of prompts is left out. Unknown keys are ignored. The
file is for its owner alone, and a line is on disk before it is confirmed.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal
from zlib import crc32

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from wakeful.core.clock import Instant, iso
from wakeful.core.decoding import decode_json, json_decoder
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.ids import SessionId
from wakeful.core.named_secrets import SECRET, names_a_secret
from wakeful.core.process import ProcessState
from wakeful.core.redaction import redact
from wakeful.incidents.line_log import sync_folder
from wakeful.judging import events as e
from wakeful.judging.findings import FindingCode, Health, State, Verdict
from wakeful.judging.masking import count_repeated_ends
from wakeful.judging.questions import question_in
from wakeful.judging.session_record import SessionRecord, safe
from wakeful.judging.state_words import health_text, state_text
from wakeful.sources.parsing import declared_timeout_seconds, kind_of, limit_end_in
from wakeful.sources.turn_failure import says_limit

ENTRIES_MAX: Final = 200
# A call has two events, and many events have no entry.
EVENTS_RECALLED_MAX: Final = 1000
NOTE_CHARS_MAX: Final = 2000
# Both ends of a result distinguish two results; detectors look no further either.
RESULT_END_CHARS: Final = 1000
# The reader of cases takes these words for a person's refusal.
_REFUSED: Final = "The user doesn't want to proceed"


class Expect(StrEnum):
    """The correct verdict."""

    OK = "ok"
    LOOP = "loop"
    ERROR_CASCADE = "error_cascade"
    RUNAWAY = "runaway"
    SILENT = "silent"
    DEAD = "dead"


# A case's label does not say how an agent died.
_LABELS: Final = {FindingCode.SESSION_DEAD: "dead", FindingCode.AGENT_EXITED: "dead"}


class CaseEntry(Struct, frozen=True):
    """One event of a case."""

    t: float
    tool: str | UnsetType = UNSET
    input: Any = UNSET
    result: str | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    user: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    system: str | UnsetType = UNSET


class RecordedVerdict(Struct, frozen=True):
    """The verdict that was wrong, and the version of its rules."""

    state: State
    health: Health
    findings: tuple[FindingCode, ...]
    rules: str


class WrongCase(Struct, frozen=True):
    """One line of the cases file."""

    id: str
    events: tuple[CaseEntry, ...]
    now: float
    proc: str
    expect: Expect
    verdict: RecordedVerdict
    at: str
    note: str


class SavedCase(Struct, frozen=True):
    """The answer to a report."""

    id: str
    path: str
    events: int
    expect: Expect
    verdict: RecordedVerdict


class NoCaseFile(WorldError, code="no-case-book"):
    """Saving a case needs the daemon. Start it with `wakeful up --detach`."""


class NothingWrong(OperatorError, code="nothing-wrong", http_status=409):
    """Nothing to correct: Wakeful reports {shown} as {said}, which matches `{expect}`. Name another verdict, like --expect silent."""


class CaseFile(Struct, frozen=True):
    """The source and target of cases: the newest events of a session's log, and a file to append lines to."""

    path: str
    read_last_events: Callable[[SessionId, int], Sequence[e.Event]]
    append: Callable[[bytes], None]


def label_of(verdict: Verdict) -> str:
    """The verdict as a case's label: its first finding, or ok."""
    findings = verdict.findings
    return _LABELS.get(findings[0].code, findings[0].code.value) if findings else Expect.OK


def case_of(
    record: SessionRecord,
    verdict: Verdict,
    events: Iterable[e.Event],
    now: Instant,
    *,
    expect: Expect,
    note: str,
) -> WrongCase:
    """The case of a verdict that should have been `expect`. Raises NothingWrong if it is."""
    at = iso(now.wall)
    codes = tuple(each.code for each in record.findings)
    if label_of(verdict) == expect:
        verdict_text = ", ".join((state_text(record.state), health_text(record.health), *codes))
        raise NothingWrong(shown=record.id, said=verdict_text, expect=expect)
    entries = case_entries(events)
    is_asked = any(entry.tool == "AskUserQuestion" and entry.result is UNSET for entry in entries)
    if verdict.state is State.WAITING and not is_asked:
        # Only a hook or a registry file reported the question; the log has none.
        entries.append(_question_entry(now.wall, ""))
    return WrongCase(
        id=f"{record.id}@{at}",
        events=tuple(entries[-ENTRIES_MAX:]),
        now=round(now.wall, 3),
        proc="gone" if verdict.agent is ProcessState.DEAD else "alive",
        expect=expect,
        verdict=RecordedVerdict(record.state, record.health, codes, record.rules),
        at=at,
        note=redact(note)[:NOTE_CHARS_MAX],
    )


def case_entries(events: Iterable[e.Event]) -> list[CaseEntry]:
    """A log's events as entries of a case, in order of time."""
    writer = _CaseWriter()
    for event in events:
        writer.add(event)
    return writer.entries()


class _CaseWriter:
    """Joins calls with their results; open calls and questions come last."""

    def __init__(self) -> None:
        self._entries: list[CaseEntry] = []
        self._calls: dict[str, e.CallStarted] = {}
        self._open_question: e.QuestionAsked | None = None

    def add(self, event: e.Event) -> None:
        if isinstance(event, e.CallStarted):
            self._calls[event.call] = event
        elif isinstance(event, e.CallEnded):
            key = event.call or next(
                (call.call for call in reversed(self._calls.values()) if call.tool == event.tool), None
            )
            call = self._calls.pop(key, None) if key is not None else None
            if call is not None:
                self._entries.append(_ended_call_entry(call, event))
        elif isinstance(event, e.QuestionAsked):
            self._open_question = event
        elif isinstance(event, e.QuestionAnswered):
            self._open_question = None
        else:
            self._add_event(event)

    def entries(self) -> list[CaseEntry]:
        still_open = [
            CaseEntry(round(call.at, 3), tool=safe(call.tool), input=_redacted_input(call))
            for call in self._calls.values()
        ]
        if self._open_question is not None:
            still_open.append(_question_entry(self._open_question.at, self._open_question.about))
        return sorted((*self._entries, *still_open), key=lambda entry: entry.t)

    def _add_event(self, event: e.Event) -> None:
        if isinstance(event, (e.Prompted, e.TurnEnded, e.TurnFailed, e.TurnInterrupted)):
            # An open call or question belongs to a turn that is over.
            self._calls.clear()
            self._open_question = None
        entry = _event_entry(event)
        if entry is not None:
            self._entries.append(entry)


def _event_entry(event: e.Event) -> CaseEntry | None:
    """The entry of an event that is no call. Text is replaced by its number: equal texts stay equal and
    cannot be read."""
    at = round(event.at, 3)
    match event:
        case e.Prompted(by_person=True):
            return CaseEntry(at, user="[a prompt]")
        case e.TextWritten() | e.TurnEnded(by_mark=False):
            return CaseEntry(at, text=f"[words {event.words}]")
        case e.Progressed() | e.PlanProposed() | e.Prompted():
            return CaseEntry(at, system="progress")
        case e.CompactionEnded():
            return CaseEntry(at, system="context compacted")
        case e.RequestRetried():
            return CaseEntry(at, system="API Error: retried")
        case e.TurnFailed():
            return CaseEntry(at, system=f"API Error: {safe(event.message)}")
        case e.TurnInterrupted():
            # Like a turn that ended: nothing more is expected.
            return CaseEntry(at, text="[interrupted]")
    return None


def _ended_call_entry(call: e.CallStarted, end: e.CallEnded) -> CaseEntry:
    result = _REFUSED if end.refused else _result(end.result)
    return CaseEntry(
        round(end.at, 3),
        tool=safe(call.tool),
        input=_redacted_input(call),
        result=result,
        is_error=end.is_error or end.refused,
    )


def _question_entry(at: float, about: str) -> CaseEntry:
    return CaseEntry(round(at, 3), tool="AskUserQuestion", input={"question": safe(about)})


def _redacted_input(call: e.CallStarted) -> Any:
    try:
        value = _redact_strings(decode_json(call.input))
    except msgspec.DecodeError:
        return {"text": _redact_and_cut(call.input.decode("utf-8", "replace"))}
    if call.timeout_seconds is not None and isinstance(value, dict) and "timeout_ms" not in value:
        value.setdefault("timeout", round(call.timeout_seconds * 1000))
    return value


def _redact_strings(value: Any) -> Any:
    """The same structure with every string redacted; cutting JSON as text would break it."""
    match value:
        case str():
            return _redact_and_cut(value)
        case dict():
            # A value whose key names a secret is a secret, in any form.
            return {
                safe(key): SECRET
                if isinstance(each, str) and names_a_secret(key, each)
                else _redact_strings(each)
                for key, each in value.items()
            }
        case list():
            return [_redact_strings(each) for each in value]
    return value


def _result(raw: bytes) -> str:
    try:
        decoded = _redact_strings(decode_json(raw)) if raw else ""
        return decoded if isinstance(decoded, str) else _redact_and_cut(msgspec.json.encode(decoded).decode())
    except msgspec.DecodeError:
        return _redact_and_cut(raw.decode("utf-8", "replace"))


def _redact_and_cut(text: str) -> str:
    """Redacted first and then cut, so that no half of a secret is left."""
    clean = redact(text)
    if len(clean) <= 2 * RESULT_END_CHARS:
        return clean
    left_out = len(text) - 2 * RESULT_END_CHARS
    return f"{clean[:RESULT_END_CHARS]}[{left_out} characters left out]{clean[-RESULT_END_CHARS:]}"


_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class CaseNotSaved(WorldError, code="case-not-kept", retryable=True):
    """The case could not be written to {path}: {reason}."""


def append_case(path: Path, line: bytes) -> None:
    """Append one line durably. Raises CaseNotSaved."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, _FLAGS, 0o600)
        try:
            _append(file, line)
        finally:
            os.close(file)
        sync_folder(path.parent)
    except OSError as error:
        raise CaseNotSaved(path=path, reason=error.strerror) from error


def _append(file: int, line: bytes) -> None:
    size = os.fstat(file).st_size
    # A crash can leave a torn line: it is ended first, so that it does not spoil the next one.
    torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
    left = (b"\n" if torn else b"") + line + b"\n"
    while left:
        left = left[os.write(file, left) :]
    os.fsync(file)


class BadCase(OperatorError, code="bad-case"):
    """{place}: not a case: {problem}. A case needs id, events, now and expect."""


class LabelledCase(Struct, frozen=True):
    """A short session, and the verdict that it must get at `now`."""

    id: str
    events: tuple[e.Event, ...]
    now: float
    gone: bool
    expect: str | None


class _RawEntry(Struct, gc=False):
    t: float
    tool: str | UnsetType = UNSET
    input: Raw = Raw(b"{}")
    result: Raw | UnsetType = UNSET
    is_error: bool = False
    user: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    system: str | UnsetType = UNSET


class _Line(Struct, gc=False):
    id: str
    events: list[_RawEntry]
    now: float
    proc: Literal["alive", "gone"] = "alive"
    expect: str | None = None


_decode: Final = json_decoder(_Line)

# The default of Claude Code for a Bash call without a timeout.
_BASH_TIMEOUT_SECONDS: Final = 120.0
# A person's refusal in the words of several clients.
_REFUSAL_WORDS: Final = re.compile(
    rb"the user doesn't want to|\[request interrupted by user"
    rb"|user (?:rejected|denied|declined|refused|cancell?ed)|(?:rejected|denied|declined|refused|cancell?ed|aborted) by (?:the )?user",
    re.IGNORECASE,
)
_REFUSAL_BYTES_MAX: Final = 200
_COMPACTION_WORDS: Final = ("compact", "condens", "summar", "trimm")
_INTERRUPTED: Final = "[Request interrupted by user"
# Text that a client writes in a person's place.
_CLIENT_PREFIXES: Final = ("<task-notification>", "<system-reminder>", "<heartbeat>", "Stop hook feedback")
# Signs of life without progress.
_KEEPALIVE_WORDS: Final = ("heartbeat", "keepalive", "keep-alive", "still alive")
_QUESTION: Final = re.compile(
    r"(?:needs?|requires?|requests?|requested|requesting|awaiting|wait(?:s|ing) for|asks? for|asked for) "
    r"(?:\w+ |a person's ){0,2}(?:permission|approval|confirmation|answer)"
    r"|(?:permission|approval|confirmation) (?:\w+ )?(?:prompt|dialog|request|requested|required|needed|pending)"
)
_API_ERROR: Final = "API Error"


def read_case(line: bytes, place: str) -> LabelledCase:
    """The case of one line. Raises BadCase, which names the place."""
    try:
        case = _decode(line)
    except msgspec.DecodeError as problem:
        raise BadCase(place=place, problem=str(problem)) from problem
    return LabelledCase(case.id, tuple(_events(case.events)), case.now, case.proc == "gone", case.expect)


def _events(entries: Sequence[_RawEntry]) -> list[e.Event]:
    events: list[e.Event] = []
    previous_at: float | None = None
    for number, entry in enumerate(entries, start=1):
        if entry.tool is not UNSET:
            # Calls that returned at the same time were made in one message.
            events += _call_events(entry, entry.tool, f"call-{number}", f"message-{entry.t}", previous_at)
        else:
            found = _text_events(entry)
            # Progress that a client reports before the first prompt opens no turn.
            is_opening = not events and any(type(event) is e.Progressed for event in found)
            events += (e.LogOpened(entry.t),) if is_opening else found
        # A call is made soon after the entry before it, but after a final text its start is unknown.
        previous_at = entry.t if entry.text is UNSET else None
    return events


def _call_events(
    entry: _RawEntry, tool: str, call: str, message: str, previous_at: float | None
) -> Sequence[e.Event]:
    given = bytes(entry.input)
    seconds = declared_timeout_seconds(given)
    if seconds is None and tool == "Bash":
        seconds = _BASH_TIMEOUT_SECONDS
    kind = kind_of(tool)
    if entry.result is UNSET:
        return (e.CallStarted(entry.t, call, tool, kind, given, seconds, message=message),)
    result = bytes(entry.result)
    refused = entry.is_error and _REFUSAL_WORDS.search(result, 0, _REFUSAL_BYTES_MAX) is not None
    made_at = entry.t if previous_at is None else previous_at
    return (
        e.CallStarted(made_at, call, tool, kind, given, seconds, message=message),
        e.CallEnded(entry.t, call, entry.is_error, refused, result),
    )


def _text_events(entry: _RawEntry) -> Sequence[e.Event]:
    if entry.user is not UNSET:
        is_interrupted = entry.user.startswith(_INTERRUPTED)
        by_person = not entry.user.startswith(_CLIENT_PREFIXES)
        return (e.TurnInterrupted(entry.t) if is_interrupted else e.Prompted(entry.t, by_person=by_person),)
    if entry.text is not UNSET:
        return (_text_event(entry.text, entry.t),)
    return _system_events(entry.system, entry.t) if entry.system is not UNSET else ()


def _text_event(text: str, at: float) -> e.Event:
    """Text of the agent. Some clients write a provider's refusal in its place; an empty answer is an answer too."""
    if text.startswith(_API_ERROR):
        return e.RequestRetried(at)
    words = " ".join(text.split()).encode()
    return e.TextWritten(
        at, crc32(words) or 1, count_repeated_ends(text.encode()), question_in(text).encode()
    )


def _system_events(text: str, at: float) -> Sequence[e.Event]:
    """A message of the client. A provider's error is no progress, and a limit or an interruption ends the turn."""
    lower = text.lower()
    if says_limit(text):
        return (e.TurnFailed(at, e.Failure.LIMIT, text, until=limit_end_in(text, at)),)
    if _API_ERROR in text:
        return (e.RequestRetried(at),)
    if text.startswith(_INTERRUPTED):
        return (e.TurnInterrupted(at),)
    if any(words in lower for words in _KEEPALIVE_WORDS):
        return ()
    if _QUESTION.search(lower) is not None:
        return (e.QuestionAsked(at, text),)
    return (e.CompactionEnded(at) if any(word in lower for word in _COMPACTION_WORDS) else e.Progressed(at),)
