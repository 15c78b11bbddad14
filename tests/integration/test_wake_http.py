"""Claims about waking over HTTP: all thirteen reasons, the same bytes by command, TCP and socket; no agent wakes itself."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from support.heartbeat_fixture import HeartbeatFixture
from support.supervisor_fixture import HttpFixture, open_http_fixture, subject
from wakeful.cli.app import root
from wakeful.config.heartbeat import HeartbeatConfig
from wakeful.heartbeat.model import HeartbeatStatus, WakeAnswer
from wakeful.judging.events import Prompted
from wakeful.judging.wake_eligibility import IneligibilityReason
from wakeful.storage.base import ActionOutcome

NAME = "of-fox"
WAKE = "/api/agents/fox/heartbeat/wake"
STATUS = "/api/agents/fox/heartbeat/status"
QUIET_NOW = "preferences: {quiet_windows: [{timezone: UTC, start: 07:00, end: 09:30}]}"


class Scene:
    """A house whose fox is in some situation. `again` restores the situation before every question."""

    def __init__(self, folder: Path) -> None:
        self.house = HeartbeatFixture(folder, HeartbeatConfig(max_wakes_per_cycle=3), burst=1_000_000)
        self.doors: HttpFixture | None = None
        self.again: Callable[[], None] = lambda: None

    def fox(self, *fields: str, policy: bool = True) -> None:
        if policy:
            self.house.write_policy("fox", *fields)
        asyncio.run(self.house.raise_agent("fox"))

    def call(self, act: Callable[[], object]) -> None:
        assert self.doors is not None
        self.doors.call(act)

    def rest(self) -> None:
        """The turn ends, and an hour passes."""
        self.house.end_turn(NAME)
        self.house.clock.advance(3600.0)


def _unhealthy(scene: Scene) -> None:
    scene.fox()
    scene.house.fail(NAME)


def _not_attachable(scene: Scene) -> None:
    scene.fox()
    scene.house.path_open = False


def _active(scene: Scene) -> None:
    scene.fox()
    scene.house.work(NAME)


def _raced(scene: Scene) -> None:
    scene.fox()
    scene.house.meanwhile = lambda _session: scene.house.hear(NAME, Prompted(scene.house.wall()))
    scene.again = lambda: scene.call(scene.rest)


def _cooling(scene: Scene) -> None:
    def begin() -> None:
        assert scene.doors is not None
        scene.call(scene.rest)
        assert scene.doors.run(scene.house.wakes.wake("fox")).reason is None
        scene.call(lambda: scene.house.end_turn(NAME))

    scene.fox()
    scene.again = begin


def _rate_limited(scene: Scene) -> None:
    def begin() -> None:
        assert scene.doors is not None
        scene.call(lambda: scene.house.clock.advance(3600.0))
        for agent in ("ant", "bee", "cat"):
            scene.call(lambda agent=agent: scene.house.end_turn(f"of-{agent}"))  # type: ignore[misc]
            assert scene.doors.run(scene.house.wakes.wake(agent)).reason is None

    scene.fox()
    for agent in ("ant", "bee", "cat"):
        scene.house.write_policy(agent)
        asyncio.run(scene.house.raise_agent(agent))
    scene.again = begin


def _coalesced(scene: Scene) -> None:
    def begin() -> None:
        assert scene.doors is not None
        begun = threading.Event()

        async def hold() -> None:
            if scene.house.client.held is None:
                scene.house.client.held = asyncio.Event()
                first = asyncio.ensure_future(scene.house.wakes.wake("fox"))
                scene.first = first  # type: ignore[attr-defined]
                await asyncio.sleep(0)
            begun.set()

        scene.doors.run(hold())

    scene.fox()
    scene.again = begin


def _failing(scene: Scene) -> None:
    scene.fox()
    scene.house.living.outcome = ActionOutcome.INEFFECTIVE
    scene.again = lambda: scene.call(lambda: scene.house.clock.advance(3600.0))


SCENES: dict[IneligibilityReason, Callable[[Scene], None]] = {
    IneligibilityReason.SESSION_NOT_FOUND: lambda scene: None,  # noqa: ARG005 - there is no session
    IneligibilityReason.SESSION_UNHEALTHY: _unhealthy,
    IneligibilityReason.SESSION_NOT_ATTACHABLE: _not_attachable,
    IneligibilityReason.SESSION_PROMPT_ACTIVE: _active,
    IneligibilityReason.SESSION_PROMPT_ACTIVE_RACE: _raced,
    IneligibilityReason.COOLDOWN_ACTIVE: _cooling,
    IneligibilityReason.QUIET_WINDOW: lambda scene: scene.fox(QUIET_NOW),
    IneligibilityReason.HEARTBEAT_DISABLED: lambda scene: scene.fox("enabled: false"),
    IneligibilityReason.HEARTBEAT_INVALID: lambda scene: scene.fox("enabled: perhaps"),
    IneligibilityReason.HEARTBEAT_NO_POLICY: lambda scene: scene.fox(policy=False),
    IneligibilityReason.HEARTBEAT_RATE_LIMITED: _rate_limited,
    IneligibilityReason.WAKE_COALESCED: _coalesced,
    IneligibilityReason.SYNTHETIC_PROMPT_FAILED: _failing,
}
# What only an attempt shows is in no status.
ATTEMPTED = {IneligibilityReason.SESSION_PROMPT_ACTIVE_RACE, IneligibilityReason.SYNTHETIC_PROMPT_FAILED}


Typed = Callable[..., tuple[bytes, int]]


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Typed:
    """What the command says, and how it ends; in this process, for an interpreter takes a second to start."""
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path))

    def run(*words: str) -> tuple[bytes, int]:
        exit_code = root.main(["agent", "heartbeat", *words, "fox", "--json"], standalone_mode=False)
        sys.stdout.flush()
        said = capfdbinary.readouterr()
        assert said.err == b""
        return said.out.removesuffix(b"\n"), exit_code

    return run


def test_every_reason_has_a_scene() -> None:
    """Thirteen of them."""
    assert set(SCENES) == set(IneligibilityReason)


@pytest.mark.parametrize("reason", IneligibilityReason)
def test_a_reason_is_the_same_by_every_door(
    reason: IneligibilityReason, typed: Typed, tmp_path: Path
) -> None:
    """Byte for byte, of `wake` and of `status`; a refused wake ends a command with 1."""
    scene = Scene(tmp_path)
    SCENES[reason](scene)
    with open_http_fixture(tmp_path, scene.house) as doors:
        scene.doors = doors
        with doors.socket() as by_socket, doors.tcp() as by_tcp:
            bodies = []
            for ask in (by_socket, by_tcp):
                scene.again()
                answer = ask.post(WAKE, json={})
                assert (answer.status_code, answer.headers["x-wakeful-exit"]) == (200, "1")
                bodies.append(answer.content)
            scene.again()
            said, exit_code = typed("wake")
            assert exit_code == 1
            assert {*bodies, said} == {bodies[0]}
            assert msgspec.json.decode(said, type=WakeAnswer).reason is reason
            statuses = [ask.get(STATUS).content for ask in (by_socket, by_tcp)]
            status, exit_code = typed("status")
            assert exit_code == 0
            assert {*statuses, status} == {status}
            shown = msgspec.json.decode(status, type=HeartbeatStatus)
            assert shown.last_audit is not None
            assert shown.last_audit.reason is (
                None
                if reason is IneligibilityReason.WAKE_COALESCED and not shown.last_audit.outcome
                else reason
            )
            if reason not in ATTEMPTED:
                assert shown.ineligibility_reason is reason
        if scene.house.client.held is not None:
            doors.call(scene.house.client.held.set)


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[HttpFixture]:
    scene = Scene(tmp_path)
    scene.fox()
    with open_http_fixture(tmp_path, scene.house) as doors:
        yield doors


def test_an_agent_does_not_wake_itself_by_any_door(doors: HttpFixture) -> None:
    """A caller inside the session learns so; another session may wake it."""
    with doors.socket() as by_socket, doors.tcp() as by_tcp:
        doors.working_for[os.getpid()] = subject(NAME).id
        for ask in (by_socket, by_tcp):
            answer = ask.post(WAKE, json={})
            assert (answer.status_code, answer.json()["code"]) == (403, "wakes-itself")
            assert ask.get(STATUS).status_code == 200
        doors.working_for[os.getpid()] = subject("somebody-else").id
        assert by_tcp.post(WAKE, json={}).json()["outcome"] == "sent"


def test_a_wake_takes_no_words_and_no_odd_names(doors: HttpFixture) -> None:
    """It carries no text; what is no name is refused; without the token every caller is refused."""
    with doors.tcp() as ask, doors.tcp(token="") as stranger:
        assert ask.post(WAKE, json={"prompt": "rm"}).status_code == 400
        empty = ask.post(WAKE, headers={"content-type": "application/json"})
        assert (empty.status_code, "its body is missing" in empty.json()["detail"]) == (400, True)
        assert ask.post("/api/agents/..%2Ffox/heartbeat/wake", json={}).status_code in (400, 404)
        assert ask.post("/api/agents/Fox!/heartbeat/wake", json={}).json()["code"] == "bad-agent-name"
        assert ask.get("/api/agents/heartbeat/heartbeat/status").json()["code"] == "bad-agent-name"
        assert stranger.post(WAKE, json={}).status_code == 401
        assert stranger.get(STATUS).status_code == 401


def test_a_thousand_requests_are_one_prompt(doors: HttpFixture) -> None:
    """From twenty connections at once; the others are refused, each with its reason."""
    house = doors.house
    assert isinstance(house, HeartbeatFixture)
    reasons: list[str | None] = []

    def ask() -> None:
        with doors.socket() as client:
            reasons.extend(client.post(WAKE, json={}).json()["reason"] for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reasons) == 1000
    assert reasons.count(None) == len(house.living.prompts) == 1
    assert sum(each.count for each in house.audits.of("fox", 2000)) == 1000
