"""Claims about the daemon's own log: what others can cause does not fill a disk."""

import logging
import os
from pathlib import Path

import pytest

from wakeful.linux import log_files
from wakeful.linux.log_files import shorten_own
from wakeful.linux.logging import (
    EQUAL_MESSAGES_MAX,
    TEMPLATES_MAX,
    WINDOW_SECONDS,
    LogRateLimit,
    log_to_stderr,
)


def record(template: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("wakeful.http", logging.ERROR, "x.py", 1, template, arguments, None)


def test_equal_messages_are_counted_once_there_are_many() -> None:
    """A thousand tracebacks a second are twenty a minute, and the next minute says how many there were."""
    now = 0.0
    limit = LogRateLimit(lambda: now)
    through = [limit.filter(record("request %d failed", number)) for number in range(1000)]
    assert sum(through) == EQUAL_MESSAGES_MAX
    assert limit.filter(record("another"))
    now = WINDOW_SECONDS
    following = record("request %d failed", 7)
    assert limit.filter(following)
    assert (
        following.getMessage()
        == f"request 7 failed (and {1000 - EQUAL_MESSAGES_MAX} more like it in the minute before)"
    )


def test_made_up_templates_do_not_grow_the_memory() -> None:
    """Few templates exist; an id in one of them must not make it endless."""
    limit = LogRateLimit(lambda: 0.0)
    for number in range(3 * TEMPLATES_MAX):
        limit.filter(record(f"session {number}"))
    assert len(limit._counts) <= TEMPLATES_MAX


@pytest.mark.parametrize("flags", [os.O_APPEND, 0])
def test_a_log_that_is_appended_to_is_kept_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int
) -> None:
    """Its end is kept beside it, and the program goes on writing; a file that is written as a whole is left alone."""
    monkeypatch.setattr(log_files, "LOG_BYTES_MAX", 1000)
    path = tmp_path / "up.log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        os.write(descriptor, b"x" * 5000)
        shorten_own(descriptor)
        os.write(descriptor, b"next")
    finally:
        os.close(descriptor)
    if flags:
        assert (path.read_bytes(), len((tmp_path / "up.log.1").read_bytes())) == (b"next", 5000)
    else:
        assert [each.name for each in tmp_path.iterdir()] == ["up.log"]


def test_no_move_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred agents that change their state at once are a hundred lines."""
    log = logging.getLogger("wakeful.test-moves")
    log_to_stderr(log)
    for number in range(100):
        log.info("agent %s: running -> unknown", number)
    assert len(capsys.readouterr().err.splitlines()) == 100


def test_a_message_holds_no_terminal_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """A quoted text from outside colours nothing, sets no title and turns no line around; line breaks stay."""
    log = logging.getLogger("wakeful.test-terminal")
    log_to_stderr(log)
    log.info("refused: %s\nand more", "\x1b[31mred\x07 \x1b]0;title\x07 \u202etxt")
    said = capsys.readouterr().err
    assert said.endswith("txt\nand more\n")
    assert said.replace("\n", "").isprintable(), said
