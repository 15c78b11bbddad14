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
# Notifications about a monitor's event or a command that waits for input have the same form, without this.
_OVER: Final = b"<status>"
NOTIFICATION_BYTES_MAX: Final = 1000
# The beginning of a result's text, and the id of its task. Version 2.1.199 put 150 characters between them.
_OPENING: Final = re.compile(
    rb'(?:\[\{"type": ?"text", ?"text": ?)?"(?:Command (?:running in|was|did not)|Async agent launched|Monitor started'
    rb'|Workflow launched)[^"]{0,400}?(?:ID: |agentId: |\(task )([\w-]{1,40})'
)
_TASK_ID_CHARS_MAX: Final = 200
# Every result about a task has one of these; other results are not decoded.
_MARKS: Final = (b'_launched"', b'"backgroundTaskId"', b'"timeoutMs"', b'"task_type"')
_LAUNCHED: Final = frozenset({"async_launched", "remote_launched"})
_RUNNING: Final = frozenset({"running", "pending"})


class _Task(Struct, gc=False):
    task_id: str = ""
    status: str = ""


class _Result(Struct, gc=False):
    """The fields of a call's `toolUseResult` about a task."""

    status: Any = None
    agent_id: Any = msgspec.field(default=None, name="agentId")
    task_id: Any = msgspec.field(default=None, name="taskId")
    background_task_id: Any = msgspec.field(default=None, name="backgroundTaskId")
    timeout_ms: Any = msgspec.field(default=None, name="timeoutMs")
    error: Any = None
    # A call that ends a task or requests its status has these fields.
    asked_id: Any = msgspec.field(default=None, name="task_id")
    asked_type: Any = msgspec.field(default=None, name="task_type")
    task: _Task | None = None


_decode: Final = json_decoder(_Result)


def is_notification(opening: bytes) -> bool:
    return opening.startswith(_NOTIFICATION)


def task_ended(opening: bytes, at: float) -> Sequence[e.Event]:
    """The end of a task, if the message begins with one."""
    if not is_notification(opening) or _OVER not in opening[:NOTIFICATION_BYTES_MAX]:
        return ()
    task = _TASK.search(opening, 0, NOTIFICATION_BYTES_MAX)
    return (e.TaskEnded(at, task[1].decode()),) if task is not None else ()


def task_left_running(result: bytes, content: bytes) -> str:
    """The task that goes on after its call ended; empty if there is none. `content` is the result as text."""
    fields = _decode_result(result)
    task = _launched_task_id(fields) if fields is not None else None
    if isinstance(task, str) and task:
        return task[:_TASK_ID_CHARS_MAX]
    match = _OPENING.match(content)
    return match[1].decode() if match is not None else ""


def task_ended_by(result: bytes) -> str:
    """The task that this call ended, or found to have ended; empty if there is none."""
    fields = _decode_result(result)
    if fields is None:
        return ""
    if isinstance(fields.asked_id, str) and isinstance(fields.asked_type, str):
        return fields.asked_id
    task = fields.task
    return task.task_id if task is not None and task.status and task.status not in _RUNNING else ""


def _decode_result(result: bytes) -> _Result | None:
    if not result.startswith(b"{") or not any(mark in result for mark in _MARKS):
        return None
    try:
        return _decode(result)
    except msgspec.DecodeError:  # of another shape: its text is matched instead
        return None


def _launched_task_id(fields: _Result) -> object:
    if fields.background_task_id is not None:
        return fields.background_task_id
    if fields.status in _LAUNCHED:
        return None if fields.error else fields.agent_id or fields.task_id
    return fields.task_id if fields.timeout_ms is not None else None
