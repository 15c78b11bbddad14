"""Claims about the tools an agent leaves behind: real processes with a client's marks."""

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from support.real_clients import wait_for
from wakeful.core.ids import SessionId
from wakeful.judging.evidence import Orphan
from wakeful.sources.tool_processes import orphans_of, unlogged_calls

PUSH = "sleep 60; true 'git push'"


class Left:
    """Tools of one conversation, ended with the test."""

    def __init__(self, opened: ExitStack) -> None:
        self.conversation = str(uuid4())
        self._opened = opened

    def start(self, command: str, **more: str) -> int:
        marks = {"CLAUDE_CODE_SESSION_ID": self.conversation, "PATH": os.environ["PATH"], **more}
        process = subprocess.Popen(
            ["/bin/bash", "-c", f"eval {shlex.quote(command)}; true"], env=marks, start_new_session=True
        )
        self._opened.callback(process.wait)
        self._opened.callback(os.killpg, process.pid, 9)
        return process.pid

    def seen(self, count: int) -> tuple[Orphan, ...]:
        def look() -> tuple[Orphan, ...] | None:
            found = orphans_of(SessionId(f"claude-{self.conversation}"))
            return found if len(found) == count else None

        return wait_for(look, f"{count} orphans")


@pytest.fixture
def left() -> Iterator[Left]:
    with ExitStack() as opened:
        yield Left(opened)


def test_a_tool_younger_than_its_log_is_a_call(left: Left) -> None:
    """By its first process only: what that started in turn is the same call."""
    began = time.time() - 1
    pid = left.start(PUSH)
    (call,) = unlogged_calls(left.seen(2), [], began, time.time())
    assert (call.call, call.tool, b"git push" in call.input) == (f"process-{pid}", "Bash", True)
    assert began < call.at <= time.time()


def test_a_tool_that_the_log_has_seen_come_back_is_none(left: Left) -> None:
    """A server in the background is older than the last line of the log."""
    left.start(PUSH)
    assert unlogged_calls(left.seen(2), [], time.time() + 1, time.time()) == []


def test_a_tool_of_an_open_call_is_no_second_one(left: Left) -> None:
    """However the client quoted it; another open call is not it."""
    began = time.time() - 1
    command = """sleep 60; echo 'it is' "done" """
    left.start(command)
    orphans = left.seen(2)
    asked = json.dumps({"command": command, "description": "x"}).encode()
    assert unlogged_calls(orphans, [b'{"file_path":"a"}', asked], began, time.time()) == []
    assert len(unlogged_calls(orphans, [b'{"command":"make test"}'], began, time.time())) == 1


def test_hooks_and_status_lines_are_no_calls(left: Left) -> None:
    """They carry the conversation's mark, too."""
    began = time.time() - 1
    left.start(PUSH, CLAUDE_PROJECT_DIR="/somewhere")
    assert unlogged_calls(left.seen(2), [], began, time.time()) == []
