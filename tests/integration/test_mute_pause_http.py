"""Claims about mute, pause and incidents over HTTP: real servers, the real command, and no decision from inside a session."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from support.daemon_process import CommandResult, RunningDaemon
from support.supervisor_fixture import HttpFixture
from wakeful.alerts.mute_pause import MutePause
from wakeful.alerts.mute_pause_model import MuteKind
from wakeful.core.ids import SessionId
from wakeful.incidents.model import Cause, Incident, Origin
from wakeful.incidents.service import Incidents
from wakeful.linux.clock import SystemClock
from wakeful.storage.sqlite.store import SqliteStore
from wakeful.testing.virtual_clock import VirtualClock

MUTE: dict[str, Any] = {"kind": "project", "value": "shop", "for_seconds": 7200}
DECISIONS: dict[str, dict[str, Any]] = {
    "/api/pause": {},
    "/api/resume": {},
    "/api/mutes": MUTE,
    "/api/sessions/working/mute": {"for_seconds": 60},
    "/api/unmute": {"kind": "project", "value": "shop"},
}
Command = Callable[..., CommandResult]
T = TypeVar("T")


@pytest.fixture
def wakeful(doors: HttpFixture) -> Command:
    """The real command, which finds these doors at its home."""
    environ = {"WAKEFUL_HOME": str(doors.path.parent), "HOME": str(doors.path.parent), "LANG": "C.UTF-8"}

    def run(*words: str) -> CommandResult:
        return CommandResult(
            subprocess.run(
                [sys.executable, "-m", "wakeful", *words],
                env={**environ, "PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        )

    return run


def at_home(doors: HttpFixture, work: Coroutine[Any, Any, T]) -> T:
    """Do something in the loop of the servers."""
    return asyncio.run_coroutine_threadsafe(work, doors._loop).result(10)


@pytest.mark.parametrize("path", DECISIONS)
def test_an_agent_may_neither_silence_nor_stop_wakeful(doors: HttpFixture, path: str) -> None:
    """Nor let it go on; at neither door, and nothing changes."""
    doors.working_for[os.getpid()] = SessionId("claude-working")
    for caller in (doors.socket(), doors.tcp()):
        with caller:
            answer = caller.post(path, json=DECISIONS[path])
            assert (answer.status_code, answer.json()["code"]) == (403, "agent-may-not-decide")
    assert doors.house.calm.current_pause is None
    assert doors.house.calm._mutes == {}


def test_an_agent_may_see_what_is_silent(doors: HttpFixture) -> None:
    """All may read."""
    doors.working_for[os.getpid()] = SessionId("claude-working")
    with doors.tcp() as agent:
        assert agent.get("/api/mutes").json() == {"mutes": [], "paused": None}
        assert agent.get("/api/incidents").json() == {"incidents": [], "paused": None}


def test_without_a_token_nothing_is_silenced(doors: HttpFixture) -> None:
    """The port wants proof before it looks at an order."""
    with doors.tcp(token="") as stranger:
        for path, body in DECISIONS.items():
            assert stranger.post(path, json=body).status_code == 401
        assert stranger.get("/api/mutes").status_code == 401
        assert stranger.get("/api/incidents").status_code == 401


def test_a_pause_is_said_everywhere(owner: httpx.Client) -> None:
    """In the status, in every list and by a second pause, always with the first one's name."""
    paused = {"by": "ada", "since": "2027-01-15T08:00:00.000Z", "reason": "upgrade", "until": None}
    order = {"by": "ada", "reason": "upgrade"}
    assert owner.post("/api/pause", json=order).json() == {"paused": paused, "changed": True}
    assert owner.post("/api/pause", json={"by": "ben"}).json() == {"paused": paused, "changed": False}
    status = owner.get("/api/status").json()
    assert (status["paused"], status["daemon"]["paused"]) == (True, paused)
    assert owner.get("/api/sessions").json()["paused"] == paused
    assert owner.post("/api/resume", json={}).json() == {"paused": None, "changed": True}
    assert owner.post("/api/resume", json={}).json() == {"paused": None, "changed": False}
    assert owner.get("/api/status").json()["paused"] is False
    assert owner.get("/api/sessions").json()["paused"] is None


def test_a_mute_is_listed_until_it_ends(doors: HttpFixture, owner: httpx.Client) -> None:
    """By its session's whole id, with its end, and as a note of the status."""
    made = owner.post("/api/sessions/working/mute", json={"for_seconds": 7200})
    muted = {
        "kind": "session",
        "value": "claude-working",
        "until": "2027-01-15T10:00:00.000Z",
        "by": "a client over HTTP",
        "reason": "",
    }
    assert (made.status_code, made.json()) == (201, muted)
    owner.post("/api/mutes", json=MUTE).raise_for_status()
    assert [each["value"] for each in owner.get("/api/mutes").json()["mutes"]] == ["claude-working", "shop"]
    assert any(
        "claude-working is muted" in each for each in owner.get("/api/status").json()["daemon"]["notes"]
    )
    doors.call(lambda: doors.house.clock.advance(7200))
    assert owner.get("/api/mutes").json() == {"mutes": [], "paused": None}
    assert owner.get("/api/status").json()["daemon"]["notes"] == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"kind": "project", "value": "shop"}, 400, "bad-request"),
        ({**MUTE, "for_seconds": 0}, 400, "bad-request"),
        ({**MUTE, "for_seconds": 30 * 86_400 + 1}, 400, "bad-request"),
        ({**MUTE, "value": "\n"}, 400, "no-mute-target"),
        ({**MUTE, "value": "x" * 301}, 400, "bad-request"),
        ({**MUTE, "kind": "host"}, 400, "bad-request"),
        ({**MUTE, "kind": "code", "value": "lop"}, 400, "no-such-code"),
        ({**MUTE, "kind": "session", "value": "nobody"}, 404, "session-not-found"),
        ({**MUTE, "kind": "session", "value": "../x"}, 400, "bad-session-id"),
    ],
)
def test_a_mute_that_names_nothing_or_never_ends_is_refused(
    owner: httpx.Client, body: dict[str, Any], status: int, code: str
) -> None:
    """Each with its own code, and nothing is silent."""
    answer = owner.post("/api/mutes", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert owner.get("/api/mutes").json() == {"mutes": [], "paused": None}


def test_a_forgotten_session_can_be_unmuted(owner: httpx.Client, doors: HttpFixture) -> None:
    """By its whole id, although nothing else is known of it; for one that was not muted the exit code is 1."""
    gone = {"kind": "session", "value": "claude-gone"}
    at_home(doors, doors.house.calm.mute(MuteKind.SESSION, "claude-gone", 60, by="ada"))
    first, second = owner.post("/api/unmute", json=gone), owner.post("/api/unmute", json=gone)
    assert [each.json()["changed"] for each in (first, second)] == [True, False]
    assert [each.headers["x-wakeful-exit"] for each in (first, second)] == ["0", "1"]


def test_the_command_mutes_lists_and_unmutes(wakeful: Command) -> None:
    """By id, by project and by code; the person who runs it is named."""
    assert wakeful("mute").out == "no mutes\n"
    made = wakeful("mute", "working", "--for", "1h30m", "--reason", "a demo")
    assert made.exit_code == 0, made.err
    assert made.out.startswith("session claude-working is muted until 2027-01-15T09:30:00.000Z by ")
    assert made.out.endswith(": a demo\n")
    assert wakeful("mute", "--code", "loop", "--for", "2h", "--json").json["kind"] == "code"
    assert [each["value"] for each in wakeful("mute", "--json").json["mutes"]] == ["claude-working", "loop"]
    assert wakeful("status").out.count("is muted until") == 2
    assert wakeful("unmute", "working").out == "unmuted session claude-working\n"
    again = wakeful("unmute", "working")
    assert (again.exit_code, again.out) == (1, "session claude-working was not muted\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mute", "working"), "Set a duration, like --for 2h"),
        (("mute", "--for", "2h"), "Name one target"),
        (("mute", "working", "--project", "shop", "--for", "2h"), "Name one target"),
        (("mute", "--project", "shop", "--for", "31d"), "at most 30 days"),
        (("mute", "--project", "shop", "--for", "0s"), "Invalid duration"),
        (("mute", "--code", "lop", "--for", "2h"), "error_cascade"),
        (("mute", "nobody", "--for", "2h"), "No session 'nobody'"),
        (("unmute",), "Name one target"),
    ],
)
def test_a_mistake_is_one_line(wakeful: Command, words: tuple[str, ...], said: str) -> None:
    """Exit 2, what to do instead, and nothing is silent."""
    done = wakeful(*words)
    assert (done.exit_code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert said in line
    assert wakeful("mute").out == "no mutes\n"


def test_the_command_pauses_and_lists_say_so_first(wakeful: Command) -> None:
    """Lists and `status` begin with it, in JSON too, until `unpause`."""
    paused = wakeful("pause", "--reason", "an upgrade")
    assert paused.out.startswith("PAUSED by ")
    assert wakeful("pause").out.startswith("already PAUSED by ")
    for words in (("ls",), ("status",), ("session", "list"), ("incidents",), ("mute",)):
        first = wakeful(*words).out.splitlines()[0]
        assert first.startswith("PAUSED by ")
        assert first.endswith(": an upgrade; Wakeful takes no action by itself until `wakeful unpause`")
    assert wakeful("status", "--json").json["daemon"]["paused"]["reason"] == "an upgrade"
    assert wakeful("ls", "--json").json["paused"]["reason"] == "an upgrade"
    assert wakeful("unpause").out == "pause ended; automatic actions are on\n"
    assert wakeful("unpause").out == "Wakeful was not paused\n"
    assert "PAUSED" not in wakeful("status").out + wakeful("ls").out


async def _two_incidents(doors: HttpFixture) -> Incident:
    book = doors.house.incidents
    await book.join(SessionId("claude-killed"), Origin(Cause.SESSION, "claude-killed"), "its process is gone")
    doors.house.clock.advance(60)
    for name in ("working", "asking"):
        await book.join(SessionId(f"claude-{name}"), Origin(Cause.NETWORK, "testhost"), "ENOTFOUND")
    doors.house.clock.advance(3600)
    over = await book.leave(SessionId("claude-killed"))
    assert over is not None
    return over


def test_an_outage_under_many_is_one_incident(
    doors: HttpFixture, owner: httpx.Client, wakeful: Command
) -> None:
    """Open ones first; what is over only when asked for; hostile words stay words."""
    assert wakeful("incidents").out.startswith("No incident is open.")
    assert wakeful("incidents", "--all").out == "No incidents in the last 30 days.\n"

    over = at_home(doors, _two_incidents(doors))
    (opened,) = owner.get("/api/incidents").json()["incidents"]
    assert opened["sessions"] == ["claude-working", "claude-asking"]
    assert (opened["cause"], opened["resolved_at"], opened["affected"]) == ("network", None, 2)
    both = owner.get("/api/incidents?all=true").json()["incidents"]
    assert [each["id"] for each in both] == [opened["id"], over.id]
    lines = wakeful("incidents", "--all").out.splitlines()
    # The real clock decides how long it goes on.
    assert lines[0].startswith("OPEN  since 2027-01-15 08:01 UTC, for ")
    assert lines[0].endswith("testhost cannot reach its providers: 2 sessions affected")
    assert lines[1:] == [
        "    claude-working: not resolved yet",
        "    claude-asking: not resolved yet",
        "resolved  from 2027-01-15 08:00 UTC, for 1h  claude-killed: its process is gone",
        "    recovered",
    ]
    assert wakeful("incidents", "--json").json["incidents"] == [opened]


def test_daemons_that_share_a_store_share_the_quiet(tmp_path: Path) -> None:
    """A change at one is known to the other when it asks, and the real store keeps it over a restart."""
    asyncio.run(_shared_quiet(tmp_path / "wakeful.db"))


async def _shared_quiet(path: Path) -> None:
    clock = VirtualClock()
    here, there = await SqliteStore.open(path), await SqliteStore.open(path)
    one, other = MutePause(here, clock), MutePause(there, clock)
    await one.pause("ada", "upgrade")
    await one.mute(MuteKind.CODE, "loop", 60, by="ada")
    assert await other.reload() == one.current_pause
    assert other.mutes(clock.now().wall) == one.mutes(clock.now().wall)
    assert await other.pause("ben") is False
    assert await other.resume()
    assert await one.reload() is None
    await one.pause("cyd")
    await here.close()
    await there.close()
    again = await SqliteStore.open(path)
    later = MutePause(again, clock)
    pause = await later.reload()
    await again.close()
    assert pause is not None
    assert pause.by == "cyd"


async def _kept(folder: Path) -> None:
    """What a daemon left behind: an open incident, one that is over, a mute and a pause."""
    store, clock = await SqliteStore.open(folder / "wakeful.db"), SystemClock()
    incidents, mute_pause = Incidents(store, clock), MutePause(store, clock)
    await incidents.join(SessionId("claude-working"), Origin(Cause.AUTH, "claude"), "login")
    await incidents.join(SessionId("claude-asking"), Origin(Cause.NETWORK, "tower"), "no route")
    await incidents.leave(SessionId("claude-asking"))
    await mute_pause.mute(MuteKind.PROJECT, "shop", 7200.0, by="ada")
    await mute_pause.pause("ada")
    await store.close()


def test_without_a_daemon_incidents_and_mutes_are_read_from_its_store(tmp_path: Path) -> None:
    """As it last knew them, said so, and no file is touched; where there is no store, there is nothing."""
    daemon = RunningDaemon(tmp_path / "home")
    assert daemon.run("incidents").out.startswith("No incident is open.")
    assert daemon.run("mute").out == "no mutes\n"
    state = Path(daemon.environ["WAKEFUL_HOME"])
    assert not state.exists()
    state.mkdir()
    asyncio.run(_kept(state))
    before = {each.name: each.stat().st_mtime_ns for each in state.iterdir()}
    open_ones = daemon.run("incidents")
    assert (open_ones.exit_code, "no daemon" in open_ones.err) == (0, True)
    assert [each.partition(" ")[0] for each in open_ones.out.splitlines()[:2]] == ["PAUSED", "OPEN"]
    both = daemon.run("incidents", "--all", "--json").json["incidents"]
    assert [each["cause"] for each in both] == ["auth", "network"]
    assert "project shop is muted until" in daemon.run("mute").out
    assert {each.name: each.stat().st_mtime_ns for each in state.iterdir()} == before
    with sqlite3.connect(state / "wakeful.db") as store:
        store.execute("PRAGMA user_version = 1")
    store.close()
    refused = daemon.run("incidents")
    assert (refused.exit_code, "Run `wakeful up` to upgrade it" in refused.err) == (2, True)
