"""The questions that agents can ask the daemon through MCP tools.

It needs no MCP library. Each answer is the daemon's own document, in which text of agents appears under
`untrusted` only. A refusal carries its code. The calls block, so `server.py` runs them in threads.
"""

import re
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.cli.commands.session import TIMED_OUT_EXIT_CODE, WAIT_SECONDS_MAX
from wakeful.client.client import ANSWER_SECONDS_MAX, DaemonClient
from wakeful.client.errors import DaemonRefused
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WakefulError
from wakeful.core.ids import parse_session_id
from wakeful.heartbeat.model import parse_target

Until = Literal["idle", "waiting", "stopped"]
Health = Literal["healthy", "stale", "unknown", "degraded", "dead"]
State = Literal["idle", "prompting", "waiting", "starting", "stopping", "stopped", "detached"]
# A model reads all it gets: twenty rows are a page of text.
LIMIT: Final = 20
LIMIT_MAX: Final = 200
# The longest single request: a caller that hung up leaves a thread behind for no longer.
SLICE_SECONDS: Final = 10.0
# A start, a prompt and seeing that it was taken.
WAKE_SECONDS_MAX: Final = 120.0
# `judging.wording.quoted` makes sure that quoted text has no backquote of its own.
_QUOTATION: Final = re.compile("`([^`]*)`")


class ToolRefusal(Struct, frozen=True):
    """The part of a problem document that an agent can act on."""

    code: str
    detail: str
    exit_code: int
    retryable: bool


class BriefFinding(Struct, frozen=True):
    code: str


class BriefWait(Struct, frozen=True):
    kind: str
    until: str | None


class BriefSession(Struct, frozen=True):
    """The fields of a session that its list shows to a model; `session_health` gives all of them."""

    id: str
    name: str | None
    project: str
    agent: str | None
    provider: str
    managed: bool
    state: str
    health: str
    attention: str
    findings: tuple[BriefFinding, ...]
    expected_waits: tuple[BriefWait, ...]
    last_activity_at: str | None
    valid_until: str | None


class BriefSessionList(Struct, frozen=True):
    """A page of sessions. `older` counts those folded for their age; `next_cursor` is null at the end."""

    sessions: tuple[BriefSession, ...]
    older: int
    next_cursor: str | None
    paused: PauseRecord | None = None


class DaemonQueries:
    """One method for each tool. Raises WakefulError."""

    def __init__(self, client: DaemonClient, conversations: Sequence[str], pids: Sequence[int]) -> None:
        self._client = client
        self._conversations = conversations
        self._pids = pids

    def list_sessions(
        self, project: str | None, health: str | None, state: str | None, limit: int, cursor: str | None
    ) -> bytes:
        filters = {"project": project, "health": health, "state": state, "limit": limit, "cursor": cursor}
        query = urlencode({name: value for name, value in filters.items() if value is not None})
        return msgspec.json.encode(decode_json(self._get(f"/api/sessions?{query}"), BriefSessionList))

    def session_health(self, session_id: str) -> bytes:
        return self._get(f"/api/sessions/{parse_session_id(session_id)}")

    def session_why(self, session_id: str) -> bytes:
        return separate_untrusted(self._get(f"/api/sessions/{parse_session_id(session_id)}/why"))

    def wait_for_session(self, session_id: str, until: Until, timeout_seconds: float) -> bytes:
        """In slices, so that no request waits for long after its caller is gone."""
        assert timeout_seconds <= WAIT_SECONDS_MAX, "bounded by the tool's schema"
        path = f"/api/sessions/{parse_session_id(session_id)}/wait"
        deadline = monotonic() + timeout_seconds
        while True:
            seconds = min(SLICE_SECONDS, max(0.0, deadline - monotonic()))
            query = urlencode({"until": until, "timeout": f"{seconds:.3f}"})
            answer = self._client.get(f"{path}?{query}", timeout_seconds=seconds + ANSWER_SECONDS_MAX)
            if answer.exit_code != TIMED_OUT_EXIT_CODE or seconds < SLICE_SECONDS:
                return answer.body

    def list_incidents(self, include_resolved: bool) -> bytes:
        return separate_untrusted(
            self._get("/api/incidents?all=true" if include_resolved else "/api/incidents")
        )

    def own_session(self) -> bytes:
        """The session that started this server."""
        query = [
            *(("conversation", each) for each in self._conversations),
            *(("pid", each) for each in self._pids),
        ]
        return self._get(f"/api/sessions/self?{urlencode(query)}")

    def wake(self, agent: str) -> bytes:
        name = parse_target(agent)
        return self._client.post(f"/api/agents/{name}/heartbeat/wake", timeout_seconds=WAKE_SECONDS_MAX).body

    def _get(self, target: str) -> bytes:
        return self._client.get(target).body


def separate_untrusted(body: bytes) -> bytes:
    """The document with its quotations (text in backquotes) moved out of the sentences to `untrusted`.

    People see where a quotation ends; a model must not find an order in a sentence of Wakeful.
    """
    quotations: list[str] = []
    document = _take_out_quotations(decode_json(body), quotations)
    return msgspec.json.encode({**document, "untrusted": quotations})


def _take_out_quotations(value: Any, quotations: list[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: each if key == "untrusted" else _take_out_quotations(each, quotations)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_take_out_quotations(each, quotations) for each in value]
    if not isinstance(value, str):
        return value
    quotations += _QUOTATION.findall(value)
    return _QUOTATION.sub("`…`", value)


def refusal_of(error: WakefulError) -> ToolRefusal:
    """With the daemon's own code, if the daemon refused."""
    problem = error.problem if isinstance(error, DaemonRefused) else {}
    code, retryable = problem.get("code", error.code), problem.get("retryable", error.retryable)
    return ToolRefusal(str(code), str(error), error.exit_code, bool(retryable))
