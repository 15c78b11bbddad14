"""Reads recorded logs for `wakeful replay`: finds files, detects formats, yields sessions with events.

Read-only, bounded and without a clock. Files may be compressed; they are opened one after the other, when
their events are needed. A recording ends where its file ends: a last line without a newline counts. One table
holds all formats.
"""

import gzip
import heapq
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import json_decoder
from wakeful.core.errors import OperatorError, WakefulError, WorldError
from wakeful.core.ids import is_uuid
from wakeful.core.text import plain
from wakeful.integrations.claude_code.transcript import TranscriptReader
from wakeful.integrations.codex.rollout import RolloutReader
from wakeful.judging.events import Event
from wakeful.replay.cases import read_case
from wakeful.sources.base import LogReader
from wakeful.sources.event_log import NeutralReader
from wakeful.sources.log_file import LineSplitter, Oversized, without_blanks
from wakeful.sources.parsing import read_damaged
from wakeful.sources.tool_use_log import ToolUseReader, project_in

# The fastest of 64 KB to 1 MB: with more, lines and records leave the cache of a core before they are used.
CHUNK_BYTES: Final = 256 * 1024
SUFFIXES: Final = (".jsonl", ".jsonl.gz")


class RecordingUnreadable(WorldError):
    """{path}: {problem}"""

    code = "recording-unreadable"


def recording_files(path: Path) -> list[Path]:
    """The file itself, or every recording below a folder, in order. Below it no link is followed."""
    if not path.is_dir():
        return [path]
    found = [
        Path(folder, name) for folder, _, names in os.walk(path) for name in names if name.endswith(SUFFIXES)
    ]
    return sorted(each for each in found if stat.S_ISREG(each.lstat().st_mode))


def recording_lines(
    path: Path, on_bytes: Callable[[int], None], chunk_bytes: int = CHUNK_BYTES
) -> Iterator[list[bytes | Oversized]]:
    """The lines of a file in batches; `on_bytes` gets how much of the file each batch took.

    Raises RecordingUnreadable, also in the middle: what was given before counts.
    """
    lines, at = LineSplitter(), 0
    try:
        with path.open("rb", buffering=0) as file:
            # read1: the bytes before a cut are returned before the cut is reported.
            read = gzip.GzipFile(fileobj=file).read1 if path.suffix == ".gz" else file.read
            while chunk := read(chunk_bytes):
                yield lines.cut(chunk)
                at, before = file.tell(), at
                on_bytes(at - before)
    except (OSError, EOFError, zlib.error) as problem:
        said = getattr(problem, "strerror", None) or str(problem)
        raise RecordingUnreadable(path=path, problem=said) from problem
    yield lines.cut(b"\n")


CASES: Final = "cases"
READERS: Final[Mapping[str, Callable[[], LogReader]]] = {
    "claude": TranscriptReader,
    "codex": RolloutReader,
    "tool-use": ToolUseReader,
    "events": NeutralReader,
}
# A transcript may begin with summaries and other marks before its own records.
FORMAT_LINES_MAX: Final = 50
# Recorded lines have 3 KB on average; the first ones show the format.
_FORMAT_CHUNK_BYTES: Final = 32 * 1024
_SUBAGENTS: Final = "subagents"
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9._:@+-]+")
_TOOL_USE: Final = frozenset({b'"pre_tool_use"', b'"post_tool_use"'})
_at: Final = attrgetter("at")
# A first record can be long (instructions, tools), and only its keys are needed.
_decode_keys: Final = json_decoder(dict[str, msgspec.Raw])


class NoSuchRecording(OperatorError):
    """{path}: no such file or folder."""

    code = "no-such-recording"


class FormatUnknown(OperatorError):
    """{path}: unknown log format. Name it with --format claude, codex, tool-use, events or cases."""

    code = "format-unknown"


class NoRecordings(OperatorError):
    """{path}: no recordings found. Recordings end in .jsonl or .jsonl.gz."""

    code = "nothing-recorded"


class RecordedSession(Struct, frozen=True):
    """A recorded session: its events in batches, and what its file says about its end."""

    id: str
    format: str
    batches: Iterable[Sequence[Event]]
    now: float | None = None
    gone: bool | None = None
    expect: str | None = None
    # The time of the last write to its file.
    written: float | None = None
    # Whose it is, by its name.
    project: str | None = None


class RecordingFiles(Struct, frozen=True):
    """The files to replay with their size in bytes, and files of a folder that are no log."""

    files: tuple[tuple[Path, str], ...]
    size_bytes: int
    left_out: tuple[Path, ...]


def find_recordings(paths: Sequence[Path], wanted: str) -> RecordingFiles:
    """The recordings below these paths. Raises NoSuchRecording, NoRecordings, FormatUnknown and RecordingUnreadable."""
    files: dict[Path, str] = {}
    left_out: list[Path] = []
    for path in paths:
        if not path.exists():
            raise NoSuchRecording(path=plain(str(path)))
        found = recording_files(path)
        if not found:
            raise NoRecordings(path=plain(str(path)))
        for file in found:
            form = wanted if wanted != "auto" else _format_or_none(file, is_named=file == path)
            if form is None:
                left_out.append(file)
            else:
                files[file] = form
    return RecordingFiles(tuple(files.items()), sum(file.stat().st_size for file in files), tuple(left_out))


def recorded_sessions(
    shelf: RecordingFiles, on_bytes: Callable[[int], None], on_problem: Callable[[WakefulError], None]
) -> Iterator[RecordedSession]:
    """Every session of these files. A damaged file is reported and read as far as possible."""
    sides = _side_logs(shelf)
    beside = {side for logs in sides.values() for side in logs}
    for file, form in shelf.files:
        if form == CASES:
            yield from _cases(file, on_bytes)
        elif file not in beside:
            files = (file, *sides.get(file, ()))
            logs = [_batches(each, READERS[form](), on_bytes, on_problem) for each in files]
            batches = logs[0] if len(logs) == 1 else _merge_logs(logs)
            name = _id_of(file, form)
            project = project_in(name) if form == "tool-use" else None
            yield RecordedSession(name, form, batches, written=file.stat().st_mtime, project=project)


def _format_or_none(file: Path, *, is_named: bool) -> str | None:
    """A file given by name must be a log; a file found in a folder may be anything."""
    try:
        form = format_of(file)
    except RecordingUnreadable:
        if is_named:
            raise
        return None
    if form is None and is_named:
        raise FormatUnknown(path=plain(str(file)))
    return form


def format_of(file: Path) -> str | None:
    """The format of a log by the shape of its first records; None if it is unknown."""
    looked_at = 0
    for lines in recording_lines(file, lambda _size: None, _FORMAT_CHUNK_BYTES):
        for line in lines:
            if isinstance(line, bytes) and (form := _format_of_line(line)) is not None:
                return form
            looked_at += 1
            if looked_at >= FORMAT_LINES_MAX:
                return None
    return None


def _format_of_line(line: bytes) -> str | None:
    try:
        record = _decode_keys(line)
    except msgspec.DecodeError:
        return None
    if "events" in record and "id" in record:
        return CASES
    if bytes(record.get("event", b"")) in _TOOL_USE:
        return "tool-use"
    if "event" in record and "at" in record:
        return "events"
    if "payload" in record and "type" in record:
        return "codex"
    return "claude" if "type" in record and ({"sessionId", "message", "uuid"} & record.keys()) else None


def _cases(file: Path, on_bytes: Callable[[int], None]) -> Iterator[RecordedSession]:
    number = 0
    for lines in recording_lines(file, on_bytes):
        for line in lines:
            number += 1
            if text := without_blanks(line):
                case = read_case(text if isinstance(text, bytes) else b"", f"{plain(str(file))}:{number}")
                yield RecordedSession(plain(case.id), CASES, (case.events,), case.now, case.gone, case.expect)


def _batches(
    file: Path, reader: LogReader, on_bytes: Callable[[int], None], on_problem: Callable[[WakefulError], None]
) -> Iterator[Sequence[Event]]:
    read = reader.read
    try:
        for lines in recording_lines(file, on_bytes):
            events: list[Event] = []
            for line in lines:
                if type(line) is bytes:
                    events += read(line)
                else:
                    events += read_damaged(line.tail if isinstance(line, Oversized) else line, read)
            yield events
    except WakefulError as problem:
        on_problem(problem)


def _merge_logs(logs: Sequence[Iterator[Sequence[Event]]]) -> Iterator[Sequence[Event]]:
    """The events of a session and its subagents' logs in order of time: while those grow, it works."""
    streams = [(event for batch in log for event in batch if event.at) for log in logs]
    return ((event,) for event in heapq.merge(*streams, key=_at))


def _side_logs(shelf: RecordingFiles) -> dict[Path, list[Path]]:
    """The subagents' logs of each transcript that is there too: `<uuid>/subagents/<name>` beside `<uuid>.jsonl`."""
    present = {file for file, _ in shelf.files}
    sides: dict[Path, list[Path]] = {}
    for file, _ in shelf.files:
        if file.parent.name == _SUBAGENTS:
            main = file.parents[2] / f"{file.parents[1].name}{''.join(file.suffixes)}"
            if main in present:
                sides.setdefault(main, []).append(file)
    return sides


def _id_of(file: Path, form: str) -> str:
    stem = file.name.removesuffix(".gz").removesuffix(".jsonl")
    if form == "tool-use" and stem == "tool_use":
        stem = file.resolve().parent.name
    if is_uuid(stem[-36:]):
        return f"{form}-{stem[-36:]}"
    return _NOT_IN_IDS.sub("_", stem) or form
