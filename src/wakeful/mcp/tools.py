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
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WakefulError
from wakeful.core.ids import parse_session_id
from wakeful.heartbeat.model import parse_target

Until = Literal["idle", "waiting", "stopped"]
Health = Literal["healthy", "stale", "unknown", "degraded", "dead"]
State = Literal["idle", "prompting", "waiting", "starting", "stopping", "stopped", "detached"]
# A model reads what it is given: twenty rows are a page of text.
LIMIT: Final = 20
LIMIT_MAX: Final = 200
# One question lasts this long: whoever hung up meanwhile leaves a thread behind for no longer.
SLICE_SECONDS: Final = 10.0
# A start, a prompt and seeing that it was taken.
WAKE_SECONDS_MAX: Final = 120.0
# `judging.wording.quoted` sees to it that nothing quoted has a backquote of its own.
_QUOTATION: Final = re.compile("`([^`]*)`")


class ToolRefusal(Struct, frozen=True):
    """What was not done, and why: the part of a problem document that an agent can act on."""

    code: str
    detail: str
    exit_code: int
    retryable: bool


class FindingBody(Struct, frozen=True):
    code: str


class WaitBody(Struct, frozen=True):
    kind: str
    until: str | None


class SessionBody(Struct, frozen=True):
    """A session in a list, without what takes long to read; `session_health` gives all of it."""

    id: str
    name: str | None
    project: str
    agent: str | None
    provider: str
    managed: bool
    state: str
    health: str
    attention: str
    findings: tuple[FindingBody, ...]
    expected_waits: tuple[WaitBody, ...]
    last_activity_at: str | None
    valid_until: str | None


class SessionPageBody(Struct, frozen=True):
    """A page of them. `older` are folded for their age; `next_cursor` goes on, null at the end.

    `paused` says who stopped everything Wakeful would do by itself.
    """

    sessions: tuple[SessionBody, ...]
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
        asked = {"project": project, "health": health, "state": state, "limit": limit, "cursor": cursor}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return msgspec.json.encode(decode_json(self._get(f"/api/sessions?{query}"), SessionPageBody))

    def session_health(self, session_id: str) -> bytes:
        return self._get(f"/api/sessions/{parse_session_id(session_id)}")

    def session_why(self, session_id: str) -> bytes:
        return separate_untrusted(self._get(f"/api/sessions/{parse_session_id(session_id)}/why"))

    def wait_for_session(self, session_id: str, until: Until, timeout_seconds: float) -> bytes:
        """In slices, so that nobody waits for long on behalf of somebody who is gone."""
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
    """A document whose sentences quote nobody: what stood in them inside backquotes is listed under `untrusted`.

    People see where a quotation ends; a model that reads a sentence of ours shall not find an order in it.
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
    """With the daemon's own code, where it was the daemon that refused."""
    given = error.facts.get("problem")
    problem = given if isinstance(given, dict) else {}
    code, retryable = problem.get("code", error.code), problem.get("retryable", error.retryable)
    return ToolRefusal(str(code), str(error), error.exit_code, bool(retryable))
