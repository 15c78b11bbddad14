"""Recordings of every dialect: read without a mark, whatever their version says, and drift seen when they change.

`$WAKEFUL_CORPUS` names a folder of real recordings; without it the small ones of the repository are read.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec import Struct

from support.judging_helpers import POLICY, at, codes, folded, held
from support.recordings import CORPUS, SMALL, lines_of, reader_of, recordings
from wakeful.judging import events as e
from wakeful.judging.activity import Activity
from wakeful.judging.findings import FindingCode
from wakeful.judging.folding import fold
from wakeful.judging.judge import judge

EVERY_RECORDING: Final = pytest.mark.parametrize("recording", recordings(), ids=lambda path: path.name[:20])
EVERY_FOLDER: Final = sorted({SMALL, CORPUS})


def events_of(recording: Path, lines: Sequence[bytes]) -> list[e.Event]:
    reader = reader_of(recording)
    return [event for line in lines for event in reader.read(line)]


def marks(events: list[e.Event]) -> list[e.Event]:
    return [
        event for event in events if isinstance(event, e.LineMalformed | e.FormatDrifted | e.RecordSkipped)
    ]


@EVERY_RECORDING
def test_every_record_is_understood(recording: Path) -> None:
    """No malformed mark, no drift, no unknown type, and a turn that was seen."""
    events = events_of(recording, lines_of(recording))
    assert marks(events) == []
    assert any(isinstance(event, e.Prompted) for event in events)
    assert any(isinstance(event, e.CallEnded) for event in events)
    assert any(isinstance(event, e.LogOpened) and event.conversation_id for event in events)


@EVERY_RECORDING
def test_a_version_nobody_has_seen_changes_nothing(recording: Path) -> None:
    """Shapes decide, not versions: all but the version itself reads the same from 9.9.9."""
    lines = lines_of(recording)
    newer = [rewritten(line) for line in lines]
    assert newer != lines

    def told(lines: Sequence[bytes]) -> list[e.Event]:
        return [event for event in events_of(recording, lines) if not isinstance(event, e.LogOpened)]

    assert told(newer) == told(lines)


def rewritten(line: bytes) -> bytes:
    record = msgspec.json.decode(line)
    if "version" in record:
        return line.replace(b'"%s"' % record["version"].encode(), b'"9.9.9"')
    version = record.get("payload", {}).get("cli_version")
    return line.replace(b'"%s"' % version.encode(), b'"9.9.9"') if version else line


class Needed(Struct, frozen=True):
    """A field without which a record cannot be judged: where it stands, and in which records or blocks."""

    kind: str
    path: str
    where: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.path}-{self.where[1] if self.where else 'all'}"


NEEDED: Final = (
    Needed("claude", "type"),
    Needed("claude", "timestamp"),
    Needed("claude", "message", ("type", "user")),
    Needed("claude", "message", ("type", "assistant")),
    Needed("claude", "message.content", ("type", "user")),
    Needed("claude", "message.content", ("type", "assistant")),
    Needed("claude", "message.stop_reason", ("type", "assistant")),
    Needed("claude", "message.content.type"),
    Needed("claude", "message.content.id", ("message.content.type", "tool_use")),
    Needed("claude", "message.content.name", ("message.content.type", "tool_use")),
    Needed("claude", "message.content.input", ("message.content.type", "tool_use")),
    Needed("claude", "message.content.tool_use_id", ("message.content.type", "tool_result")),
    Needed("claude", "message.content.text", ("type", "user")),
    Needed("claude", "subtype", ("type", "system")),
    Needed("codex", "type"),
    Needed("codex", "timestamp"),
    Needed("codex", "payload"),
    Needed("codex", "payload.type", ("type", "event_msg")),
    Needed("codex", "payload.type", ("type", "response_item")),
    Needed("codex", "payload.id", ("type", "session_meta")),
    Needed("codex", "payload.name", ("payload.type", "function_call")),
    Needed("codex", "payload.arguments", ("payload.type", "function_call")),
    Needed("codex", "payload.call_id", ("payload.type", "function_call")),
    Needed("codex", "payload.call_id", ("payload.type", "function_call_output")),
    Needed("codex", "payload.output", ("payload.type", "function_call_output")),
    Needed("codex", "payload.name", ("payload.type", "custom_tool_call")),
    Needed("codex", "payload.input", ("payload.type", "custom_tool_call")),
    Needed("codex", "payload.call_id", ("payload.type", "custom_tool_call")),
    Needed("codex", "payload.output", ("payload.type", "custom_tool_call_output")),
    Needed("codex", "payload.action", ("payload.type", "local_shell_call")),
    Needed("codex", "payload.call_id", ("payload.type", "tool_search_call")),
    Needed("codex", "payload.call_id", ("payload.type", "tool_search_output")),
    Needed("codex", "payload.item", ("payload.type", "item_completed")),
    Needed("codex", "payload.item.type", ("payload.type", "item_completed")),
    Needed("codex", "payload.usage", ("type", "token_usage_record")),
)


def holders(value: Any, path: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The objects that hold the last name of a path; lists on the way stand for each of their items."""
    if isinstance(value, list):
        for inner in value:
            yield from holders(inner, path)
    elif isinstance(value, dict) and len(path) == 1:
        yield value
    elif isinstance(value, dict):
        yield from holders(value.get(path[0]), path[1:])


def renamed(line: bytes, needed: Needed) -> bytes:
    """The record with the field under another name, or the very line where there is none."""
    name = needed.path.rpartition(".")[2]
    if b'"%s"' % name.encode() not in line:
        return line
    record = msgspec.json.decode(line)
    changed = False
    for holder in list(holders(record, needed.path.split("."))):
        if name in holder and matches(record, holder, needed):
            holder[f"{name}_2"] = holder.pop(name)
            changed = True
    return msgspec.json.encode(record) if changed else line


def matches(record: Any, holder: dict[str, Any], needed: Needed) -> bool:
    if needed.where is None:
        return True
    path, wanted = needed.where
    inside = path.rpartition(".")[0] == needed.path.rpartition(".")[0]
    places = [holder] if inside else holders(record, path.split("."))
    return any(place.get(path.rpartition(".")[2]) == wanted for place in places)


@pytest.mark.parametrize("needed", NEEDED, ids=lambda needed: needed.name)
def test_a_renamed_field_is_one_reader_drift(needed: Needed) -> None:
    """Every recording that has the field says once that the format changed; at least one has it."""
    seen = 0
    for recording in (each for folder in EVERY_FOLDER for each in recordings(folder)):
        lines = lines_of(recording)
        changed = [renamed(line, needed) for line in lines] if recording.parent.name == needed.kind else lines
        if changed == lines:
            continue
        activity = folded(events_of(recording, changed))
        if activity.drifted is None and only_quiet(recording, lines, changed):
            continue
        seen += 1
        found = codes(judge(activity, held(), POLICY, activity.last_at or at(0.0)))
        assert found.count(FindingCode.READER_DRIFT) == 1, (recording.name, found)
    assert seen > 0


def only_quiet(recording: Path, lines: Sequence[bytes], changed: Sequence[bytes]) -> bool:
    """Whether the field stood only in records that say nothing anyhow."""
    return not any(
        reader_of(recording).read(line) for line, other in zip(lines, changed, strict=True) if line != other
    )


@EVERY_RECORDING
def test_a_healthy_session_is_never_accused_while_it_works(recording: Path) -> None:
    """Looked at just before every record, alive all the time: no death, loop, cascade or drift.

    `silent` may come true here: these recordings know nothing of the permission prompts inside of them.
    """
    activity, reader = Activity(), reader_of(recording)
    runtime, accused = held(), set()
    for line in lines_of(recording):
        for event in reader.read(line):
            if activity.last_at is not None:
                accused |= set(codes(judge(activity, runtime, POLICY, at(event.at))))
            fold(activity, event, at(event.at))
    assert accused <= {FindingCode.SILENT, FindingCode.TOOL_WEDGED, FindingCode.AUTH_REQUIRED}
