"""Reading on in a conversation: each excerpt of a real log begins where the last one ended."""

import asyncio
import json
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from support import claude_transcripts
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.core.ids import SessionId
from wakeful.daemon.observer import PlainProcesses, SessionObserver
from wakeful.judging.events import Said
from wakeful.linux.clock import SystemClock
from wakeful.sources import log_source
from wakeful.sources.log_source import LogExcerpt

CONVERSATION = str(uuid.uuid4())
Read = Callable[[str], LogExcerpt]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log with one prompt."""
    for name in ("HOME", "CODEX_HOME", "WAKEFUL_HOME", "TMUX_TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    first = claude_transcripts.prompt(time.time() - 60, CONVERSATION, "first")
    return claude_transcripts.write(tmp_path / "claude", CONVERSATION, first)


@pytest.fixture
def read(path: Path) -> Read:
    assert path.exists()
    observer = SessionObserver(Config(), StatePaths.from_environ(os.environ), SystemClock(), PlainProcesses())
    asyncio.run(observer.scan())

    def read_after(cursor: str) -> LogExcerpt:
        excerpt = observer.read_conversation(SessionId(f"claude-{CONVERSATION}"), cursor)
        assert excerpt is not None
        return excerpt

    return read_after


def add(path: Path, text: str) -> None:
    with path.open("a") as log:
        log.write(json.dumps(claude_transcripts.prompt(time.time(), CONVERSATION, text)) + "\n")


def texts(excerpt: LogExcerpt) -> list[bytes]:
    return [event.text for event in excerpt.events if isinstance(event, Said)]


def test_each_excerpt_begins_where_the_last_one_ended(path: Path, read: Read) -> None:
    first = read("")
    assert (texts(first), first.is_continued) == ([b"first"], False)
    nothing = read(first.cursor)
    assert (texts(nothing), nothing.is_continued, nothing.cursor) == ([], True, first.cursor)
    add(path, "second")
    second = read(nothing.cursor)
    assert (texts(second), second.is_continued) == ([b"second"], True)
    add(path, "third")
    assert texts(read(second.cursor)) == [b"third"]
    assert texts(read("")) == [b"first", b"second", b"third"]


def test_a_line_that_is_not_complete_is_read_once_it_is(path: Path, read: Read) -> None:
    cursor = read("").cursor
    whole = json.dumps(claude_transcripts.prompt(time.time(), CONVERSATION, "second")) + "\n"
    with path.open("a") as log:
        log.write(whole[:40])
    torn = read(cursor)
    assert (texts(torn), torn.is_continued) == ([], True)
    with path.open("a") as log:
        log.write(whole[40:])
    assert texts(read(torn.cursor)) == [b"second"]


def test_a_replaced_log_is_read_anew(path: Path, read: Read) -> None:
    cursor = read("").cursor
    path.write_text(json.dumps(claude_transcripts.prompt(time.time(), CONVERSATION, "x")) + "\n")
    shorter = read(cursor)
    assert (texts(shorter), shorter.is_continued) == ([b"x"], False)
    other = path.with_suffix(".new")
    other.write_text(path.read_text() * 3)
    other.rename(path)
    replaced = read(shorter.cursor)
    assert (texts(replaced), replaced.is_continued) == ([b"x"] * 3, False)


@pytest.mark.parametrize("cursor", ["1-0", "99999999999999999999-999999999999999999", "0-1"])
def test_a_cursor_of_another_log_gives_the_end_of_this_one(read: Read, cursor: str) -> None:
    excerpt = read(cursor)
    assert (texts(excerpt), excerpt.is_continued) == ([b"first"], False)


def test_what_is_too_much_to_follow_is_skipped(
    path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A viewer wants the newest, so a log that grew by more than one reading is read from its end."""
    cursor = read("").cursor
    for number in range(40):
        add(path, f"{number} " + "x" * 100)
    monkeypatch.setattr(log_source, "LAST_LINES_BYTES_MAX", 5000)
    excerpt = read(cursor)
    assert not excerpt.is_continued
    assert 1 < len(texts(excerpt)) < 20
    assert texts(excerpt)[-1].startswith(b"39 ")
