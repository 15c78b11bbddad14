"""One line of a cases file to the events of a whole session and the verdict it must lead to. Pure.

Cases tell less than logs do: a call is one entry with the time it came back, so when it was made is a guess. Keys
that are not named here are ignored.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal
from zlib import crc32

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from wakeful.core.decoding import json_decoder
from wakeful.core.errors import OperatorError
from wakeful.judging import events as e
from wakeful.judging.echoes import echoes_in
from wakeful.judging.questions import question_in
from wakeful.sources.call_kinds import kind_of
from wakeful.sources.failure_words import says_limit
from wakeful.sources.limit_end import limit_end_in
from wakeful.sources.shapes import declared_timeout_seconds


class BadCase(OperatorError):
    """{place}: not a case: {problem}. A case has id, events, now and expect."""

    code = "bad-case"


class LabelledCase(Struct, frozen=True):
    """A session in small, and what must be said of it at `now`."""

    id: str
    events: tuple[e.Event, ...]
    now: float
    gone: bool
    expect: str | None


class _Entry(Struct, gc=False):
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
    events: list[_Entry]
    now: float
    proc: Literal["alive", "gone"] = "alive"
    expect: str | None = None


_decode: Final = json_decoder(_Line)

# As Claude Code does with a Bash call that declares nothing.
_BASH_TIMEOUT_SECONDS: Final = 120.0
# A person's no in the words of several clients.
_REFUSED: Final = re.compile(
    rb"the user doesn't want to|\[request interrupted by user"
    rb"|user (?:rejected|denied|declined|refused|cancell?ed)|(?:rejected|denied|declined|refused|cancell?ed|aborted) by (?:the )?user",
    re.IGNORECASE,
)
_REFUSAL_BYTES_MAX: Final = 200
_COMPACTION_WORDS: Final = ("compact", "condens", "summar", "trimm")
_INTERRUPTED: Final = "[Request interrupted by user"
# What a client writes in a person's place.
_NO_PERSON: Final = ("<task-notification>", "<system-reminder>", "<heartbeat>", "Stop hook feedback")
# Somebody lives, and nothing more.
_LIFE_WORDS: Final = ("heartbeat", "keepalive", "keep-alive", "still alive")
_QUESTION: Final = re.compile(
    r"(?:needs?|requires?|requests?|requested|requesting|awaiting|wait(?:s|ing) for|asks? for|asked for) "
    r"(?:\w+ |a person's ){0,2}(?:permission|approval|confirmation|answer)"
    r"|(?:permission|approval|confirmation) (?:\w+ )?(?:prompt|dialog|request|requested|required|needed|pending)"
)
_API_ERROR: Final = "API Error"


def read_case(line: bytes, place: str) -> LabelledCase:
    """The case of one line. Raises BadCase, which says where."""
    try:
        case = _decode(line)
    except msgspec.DecodeError as problem:
        raise BadCase(place=place, problem=str(problem)) from problem
    return LabelledCase(case.id, tuple(_events(case.events)), case.now, case.proc == "gone", case.expect)


def _events(entries: Sequence[_Entry]) -> list[e.Event]:
    events: list[e.Event] = []
    asked_at: float | None = None
    for number, entry in enumerate(entries, start=1):
        if entry.tool is not UNSET:
            # What came back in one moment was asked for in one message.
            events += _call(entry, entry.tool, f"call-{number}", f"message-{entry.t}", asked_at)
        else:
            events += _words(entry) if events else _first_words(entry)
        # A call is made soon after what came before it, but nobody knows what happens after a last word.
        asked_at = entry.t if entry.text is UNSET else None
    return events


def _call(entry: _Entry, tool: str, call: str, message: str, asked_at: float | None) -> Sequence[e.Event]:
    given = bytes(entry.input)
    seconds = declared_timeout_seconds(given)
    if seconds is None and tool == "Bash":
        seconds = _BASH_TIMEOUT_SECONDS
    kind = kind_of(tool)
    if entry.result is UNSET:
        return (e.CallStarted(entry.t, call, tool, kind, given, seconds, message=message),)
    result = bytes(entry.result)
    refused = entry.is_error and _REFUSED.search(result, 0, _REFUSAL_BYTES_MAX) is not None
    made_at = entry.t if asked_at is None else asked_at
    return (
        e.CallStarted(made_at, call, tool, kind, given, seconds, message=message),
        e.CallEnded(entry.t, call, entry.is_error, refused, result),
    )


def _first_words(entry: _Entry) -> Sequence[e.Event]:
    """What a client merely mentions before anybody asked it for anything opens no turn."""
    told = _words(entry)
    return (e.Opened(entry.t),) if any(type(event) is e.Progressed for event in told) else told


def _words(entry: _Entry) -> Sequence[e.Event]:
    if entry.user is not UNSET:
        is_cut = entry.user.startswith(_INTERRUPTED)
        by_person = not entry.user.startswith(_NO_PERSON)
        return (e.TurnInterrupted(entry.t) if is_cut else e.Prompted(entry.t, by_person=by_person),)
    if entry.text is not UNSET:
        return (_spoken(entry.text, entry.t),)
    return _system(entry.system, entry.t) if entry.system is not UNSET else ()


def _spoken(text: str, at: float) -> e.Event:
    """What the agent said. Some clients write a provider's refusal in its place; an empty answer is an answer too."""
    if text.startswith(_API_ERROR):
        return e.Retried(at)
    words = " ".join(text.split()).encode()
    return e.Spoke(at, crc32(words) or 1, echoes_in(text.encode()), question_in(text).encode())


def _system(said: str, at: float) -> Sequence[e.Event]:
    """What the client said. An error of the provider is no progress, and a limit or an interruption ends the turn."""
    lower = said.lower()
    if says_limit(said):
        return (e.TurnFailed(at, e.Failure.LIMIT, said, until=limit_end_in(said, at)),)
    if _API_ERROR in said:
        return (e.Retried(at),)
    if said.startswith(_INTERRUPTED):
        return (e.TurnInterrupted(at),)
    if any(words in lower for words in _LIFE_WORDS):
        return ()
    if _QUESTION.search(lower) is not None:
        return (e.Asked(at, said),)
    return (e.Compacted(at) if any(word in lower for word in _COMPACTION_WORDS) else e.Progressed(at),)
