"""Recognizes tasks that Claude Code leaves running after a call returns. Pure.

Tasks are commands, agents, workflows and monitors. The fields of `toolUseResult` decide in every client that
writes them. Its text is matched only where those fields are missing, because the text changes from version to
version.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import json_decoder
from wakeful.judging import events as e

_NOTIFICATION: Final = b"<task-notification>"
_TASK: Final = re.compile(rb"<task-id>([\w-]{1,40})<")
# Events of a monitor and a command that waits for input are told the same way, without this.
_OVER: Final = b"<status>"
NOTIFICATION_BYTES_MAX: Final = 1000
# The first words of a result, and where its task's id stands. Version 2.1.199 put 150 characters between them.
_WORDS: Final = re.compile(
    rb'(?:\[\{"type": ?"text", ?"text": ?)?"(?:Command (?:running in|was|did not)|Async agent launched|Monitor started'
    rb'|Workflow launched)[^"]{0,400}?(?:ID: |agentId: |\(task )([\w-]{1,40})'
)
_TASK_ID_CHARS_MAX: Final = 200
# One of these stands in every result that tells of a task: the others are not looked into.
_MARKS: Final = (b'_launched"', b'"backgroundTaskId"', b'"timeoutMs"', b'"task_type"')
_LAUNCHED: Final = frozenset({"async_launched", "remote_launched"})
_RUNNING: Final = frozenset({"running", "pending"})


class _Task(Struct, gc=False):
    task_id: str = ""
    status: str = ""


class _Result(Struct, gc=False):
    """A call's `toolUseResult`, as far as it tells of a task."""

    status: Any = None
    agent_id: Any = msgspec.field(default=None, name="agentId")
    task_id: Any = msgspec.field(default=None, name="taskId")
    background_task_id: Any = msgspec.field(default=None, name="backgroundTaskId")
    timeout_ms: Any = msgspec.field(default=None, name="timeoutMs")
    error: Any = None
    # What ended a task, or asked how it is, names it so.
    asked_id: Any = msgspec.field(default=None, name="task_id")
    asked_type: Any = msgspec.field(default=None, name="task_type")
    task: _Task | None = None


_decode: Final = json_decoder(_Result)


def is_notification(opening: bytes) -> bool:
    return opening.startswith(_NOTIFICATION)


def task_ended(opening: bytes, at: float) -> Sequence[e.Event]:
    """The end of a task, if that is what the message opens with."""
    if not is_notification(opening) or _OVER not in opening[:NOTIFICATION_BYTES_MAX]:
        return ()
    task = _TASK.search(opening, 0, NOTIFICATION_BYTES_MAX)
    return (e.TaskEnded(at, task[1].decode()),) if task is not None else ()


def task_left_running(result: bytes, words: bytes) -> str:
    """The task that goes on although its call came back; empty if there is none."""
    said = _decode_result(result)
    task = _launched_task_id(said) if said is not None else None
    if isinstance(task, str) and task:
        return task[:_TASK_ID_CHARS_MAX]
    told = _WORDS.match(words)
    return told[1].decode() if told is not None else ""


def task_ended_by(result: bytes) -> str:
    """The task that this call ended, or found to be over; empty if there is none."""
    said = _decode_result(result)
    if said is None:
        return ""
    if isinstance(said.asked_id, str) and isinstance(said.asked_type, str):
        return said.asked_id
    task = said.task
    return task.task_id if task is not None and task.status and task.status not in _RUNNING else ""


def _decode_result(result: bytes) -> _Result | None:
    if not result.startswith(b"{") or not any(mark in result for mark in _MARKS):
        return None
    try:
        return _decode(result)
    except msgspec.DecodeError:  # of another shape: its words are read instead
        return None


def _launched_task_id(said: _Result) -> object:
    if said.background_task_id is not None:
        return said.background_task_id
    if said.status in _LAUNCHED:
        return None if said.error else said.agent_id or said.task_id
    return said.task_id if said.timeout_ms is not None else None
