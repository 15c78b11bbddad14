"""Any bytes give records or a malformed mark, no reader raises, and a good record after a bad one is never lost."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from hypothesis import given, settings, strategies as st

from support.judging_helpers import POLICY, at, folded, held
from support.recordings import SMALL, lines_of, recordings
from wakeful.hooks.spool import read_hook
from wakeful.integrations.claude_code.transcript import TranscriptReader
from wakeful.integrations.codex.rollout import RolloutReader
from wakeful.judging import events as e
from wakeful.judging.judge import judge
from wakeful.sources.base import LogReader
from wakeful.sources.event_log import NeutralReader
from wakeful.sources.log_file import AROUND
from wakeful.sources.tool_use_log import ToolUseReader

READERS: Final[Mapping[str, Callable[[], LogReader]]] = {
    "claude": TranscriptReader,
    "codex": RolloutReader,
    "tool_use": ToolUseReader,
    "neutral": NeutralReader,
}
PROMPTS: Final[Mapping[str, bytes]] = {
    "claude": b'{"type":"user","timestamp":"2026-01-05T09:00:00Z","message":{"content":"fix it {\\"a\\":1}"}}',
    "codex": b'{"timestamp":"2026-01-05T09:00:00Z","type":"event_msg","payload":{"type":"user_message","message":"{"}}',
    "tool_use": b'{"event":"pre_tool_use","tool_name":"Bash","tool_input":{"a":"}"},"start_time":1770281100.5}',
    "neutral": b'{"at":1770281100.5,"event":"prompt","note":"{\\"}"}',
}
GOOD: Final = {
    name: [
        *(line for path in recordings(SMALL) if path.parent.name == name for line in lines_of(path)),
        PROMPTS[name],
    ]
    for name in READERS
}
EVERY_READER: Final = pytest.mark.parametrize("name", READERS)
EXAMPLES: Final = settings(max_examples=150, deadline=None)

# Names our readers look at, so that wrong types meet the code that reads them.
KEYS: Final = st.sampled_from(
    [
        "type", "payload", "timestamp", "message", "content", "stop_reason", "usage", "id", "name", "input",
        "tool_use_id", "is_error", "text", "subtype", "error", "call_id", "output", "arguments", "item", "info",
        "event", "tool_name", "start_time", "end_time", "exit_code", "tool_output_preview", "at", "call", "tool",
        "about", "reason", "pid", "session_id", "hook_event_name", "isSidechain", "isApiErrorMessage", "cwd",
    ]
)  # fmt: skip
WORDS: Final = st.sampled_from(
    [
        "user", "assistant", "system", "event_msg", "response_item", "session_meta", "function_call", "tool_use",
        "tool_result", "text", "function_call_output", "item_completed", "task_complete", "token_count",
        "pre_tool_use", "post_tool_use", "opened", "call", "failed", "2026-01-05T09:00:00Z", "0001-01-01", "Stop",
        "7e3eb83f-1111-4111-8111-111111111111", "", "\x00", "\U0001f600",
    ]
)  # fmt: skip
VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)
RECORDS: Final = st.dictionaries(KEYS, VALUES, max_size=12)
BLANKS: Final = st.text(st.sampled_from("\0 \t\r\v\f\n"), max_size=3).map(str.encode)


def survives(name: str, line: bytes) -> list[e.Event]:
    """What the reader makes of a line; whatever it is can be folded and judged."""
    reader = READERS[name]()
    events = list(reader.read(line))
    assert all(isinstance(event, e.Event) for event in events)
    assert isinstance(reader.is_boundary(line), bool)
    judge(folded(events), held(), POLICY, at(2e9))
    return events


def is_no_object(line: bytes) -> bool:
    try:
        return not isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return True


@EVERY_READER
@EXAMPLES
@given(line=st.binary(max_size=300))
def test_any_bytes_are_survived(name: str, line: bytes) -> None:
    """Bytes that hold no object are marked as malformed, unless they are blank; nothing is raised."""
    events = survives(name, line.replace(b"\n", b""))
    if is_no_object(line) and line.strip(AROUND):
        assert any(isinstance(event, e.LineMalformed) for event in events)


@EVERY_READER
@settings(max_examples=40, deadline=None)
@given(record=RECORDS, before=BLANKS, behind=BLANKS)
def test_blanks_around_a_record_are_nothing(
    name: str, record: dict[str, Any], before: bytes, behind: bytes
) -> None:
    """What a crash leaves around a record, and the newline behind it, do not change what is read; alone they are nothing."""
    line = json.dumps(record).encode()
    assert list(READERS[name]().read(before + line + behind)) == list(READERS[name]().read(line))
    assert not READERS[name]().read(before + behind)


@EVERY_READER
@EXAMPLES
@given(record=RECORDS)
def test_any_object_is_survived(name: str, record: dict[str, Any]) -> None:
    """Known names with wrong types, missing parts and strange numbers: a record, a drift or a skip, no exception."""
    line = json.dumps(record).encode()
    assert not any(isinstance(event, e.LineMalformed) for event in survives(name, line))


@EVERY_READER
@EXAMPLES
@given(choice=st.data())
def test_a_damaged_record_is_survived(name: str, choice: st.DataObject) -> None:
    """A real record with some bytes replaced, cut or doubled never harms the reader."""
    line = bytearray(choice.draw(st.sampled_from(GOOD[name])))
    for _ in range(choice.draw(st.integers(1, 4))):
        place = choice.draw(st.integers(0, len(line) - 1))
        length = choice.draw(st.integers(0, 20))
        line[place : place + length] = choice.draw(st.binary(max_size=20))
        line = line or bytearray(b"{")
    survives(name, bytes(line).replace(b"\n", b""))


@EVERY_READER
@EXAMPLES
@given(choice=st.data())
def test_a_good_record_behind_a_torn_one_is_kept(name: str, choice: st.DataObject) -> None:
    """A writer that died inside of a line, and another that went on in the same line, lose only the torn record."""
    torn = choice.draw(st.sampled_from(GOOD[name]))
    torn = torn[: choice.draw(st.integers(1, len(torn) - 1))]
    alone = [event for event in READERS[name]().read(PROMPTS[name]) if not isinstance(event, e.CallStarted)]
    glued = list(READERS[name]().read(torn + PROMPTS[name]))
    assert isinstance(glued[0], e.LineMalformed)
    assert [event for event in glued[1:] if not isinstance(event, e.CallStarted)] == alone
    assert len(glued) == 1 + len(READERS[name]().read(PROMPTS[name]))


@EVERY_READER
@EXAMPLES
@given(bad=st.binary(max_size=200), choice=st.data())
def test_a_good_line_after_a_bad_line_is_the_same(name: str, bad: bytes, choice: st.DataObject) -> None:
    """No bad line changes what the reader makes of the next good one."""
    good = choice.draw(st.sampled_from(GOOD[name]))
    reader, fresh = READERS[name](), READERS[name]()
    reader.read(bad.replace(b"\n", b""))
    kinds = [type(event) for event in reader.read(good)]
    assert kinds == [type(event) for event in fresh.read(good)]


@EXAMPLES
@given(raw=st.binary(max_size=300) | RECORDS.map(lambda record: json.dumps(record).encode()))
def test_any_payload_is_survived(raw: bytes) -> None:
    """A spool file may hold anything; it gives a report or nothing."""
    hook = read_hook(raw, 5.0)
    assert hook is None or hook.provider in {"claude", "codex"}
