"""The hub's doors: HTTP and WebSocket, over a scripted runtime. The page is in `test_page_views`."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import unix_connect

from support.agents_fixture import TestHub, agent, with_pid
from support.supervisor_fixture import HttpFixture, SupervisorFixture, open_http_fixture
from wakeful.agents.model import AgentObservation, AgentRecord
from wakeful.core.ids import SessionId
from wakeful.testing.scripted_runtime import ALIVE, SESSION_DEAD

SESSION = SessionId("claude-9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d")


class HubDoors:
    """Listeners of a daemon with a hub; time stands still, and a change is looked at when a test says so."""

    def __init__(self, doors: HttpFixture, hub: TestHub) -> None:
        self.doors = doors
        self.hub = hub
        self.client: httpx.Client = doors.socket()

    def happens(self, name: str, glimpse: AgentObservation) -> None:
        """The world is like this, and it was looked at."""
        self.hub.runtime.observations[name] = glimpse
        loop = vars(self.doors)["_loop"]
        looked = self.hub.hub.inspect(tuple(self.hub.book.agents.values()))
        asyncio.run_coroutine_threadsafe(looked, loop).result(10)

    def post(self, path: str, **body: object) -> httpx.Response:
        return self.client.post(f"/api/agents/{path}", json=body)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubDoors]:
    house = SupervisorFixture()
    scripted = TestHub(agent("claude"), agent("codex"))
    scripted.feed = house.feed
    house.hub = scripted.hub
    with open_http_fixture(tmp_path, house) as doors:
        hub = HubDoors(doors, scripted)
        yield hub
        hub.client.close()


def test_an_agent_is_listed_with_every_field(hub: HubDoors) -> None:
    """The record of the issue, in its order, and `session_alive` true only when it was seen."""
    hub.happens("claude", with_pid(ALIVE, 41))
    listed: list[dict[str, Any]] = hub.client.get("/api/agents").json()["agents"]
    assert [each["state"] for each in listed] == ["running", "stopped"]
    assert [each["session_alive"] for each in listed] == [True, False]
    assert tuple(listed[0]) == AgentRecord.__struct_fields__
    assert hub.client.get("/api/agents/claude").json() == listed[0]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "cluade", 404, "agent-not-found"),
        ("GET", "heartbeat", 400, "bad-agent-name"),
        ("GET", "A%20B", 400, "bad-agent-name"),
        ("POST", "cluade/start", 404, "agent-not-found"),
        ("POST", "claude/stop", 409, "agent-refuses"),
        ("POST", "claude/restart-session", 409, "agent-not-stale"),
    ],
)
def test_what_is_refused_says_so(hub: HubDoors, method: str, path: str, status: int, code: str) -> None:
    """A problem document with a stable code; the nearest name for an unknown one."""
    answer = hub.client.request(method, f"/api/agents/{path}", json={} if method == "POST" else None)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    if code == "agent-not-found":
        assert "Did you mean 'claude'?" in answer.json()["detail"]


def test_orders_answer_with_the_record(hub: HubDoors) -> None:
    """Start, restart and stop, each with what was seen after it."""
    assert hub.post("claude/start").json()["state"] == "running"
    assert hub.post("claude/start").status_code == 409
    hub.happens("claude", SESSION_DEAD)
    assert hub.post("claude/restart-session").json()["state"] == "running"
    assert hub.post("claude/stop").json()["state"] == "stopped"
    assert [act for act, _ in hub.hub.runtime.actions] == [
        "start claude",
        "restart-session claude",
        "stop claude",
    ]


def test_a_busy_agent_is_stopped_only_with_a_yes(hub: HubDoors) -> None:
    """409 with its own code, so that a caller can ask a person."""
    hub.hub.sessions.by_pid[41] = SESSION
    hub.hub.sessions.busy.add(SESSION)
    hub.happens("claude", with_pid(ALIVE, 41))
    refused = hub.post("claude/stop", yes=False)
    assert (refused.status_code, refused.json()["code"]) == (409, "agent-busy")
    assert hub.post("claude/stop", yes=True).json()["state"] == "stopped"


def test_changes_are_pushed_and_the_attach_command_is_told(hub: HubDoors) -> None:
    """A message of its own kind with old and new state, reason, time and record."""
    with unix_connect(str(hub.doors.path), "ws://wakeful/api/ws", proxy=None) as listener:
        assert "hello" in json.loads(listener.recv(10))
        hub.happens("claude", with_pid(ALIVE, 41))
        change = json.loads(listener.recv(10))["agent"]
    assert (change["id"], change["old_state"], change["state"]) == ("claude", "stopped", "running")
    assert change["record"]["since"] == change["at"]
    told = hub.client.get("/api/agents/claude/attach").json()
    assert told == {"argv": ["tmux", "attach-session", "-t", "=agent-claude"], "program": "claude"}


def test_the_api_description_knows_agents(hub: HubDoors) -> None:
    """openapi.json has every route and its conflicts."""
    paths = hub.client.get("/api/openapi.json").json()["paths"]
    assert "409" in paths["/api/agents/{name}/start"]["post"]["responses"]
    assert "get" in paths["/api/agents"]
