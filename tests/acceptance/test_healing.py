"""Claims about healing real agents: found dead or hung, brought back once in their conversation, and people told.

A real daemon, real Claude Code, a scripted model, a stand-in `gh`; no keys are typed after the start.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket

import msgspec
import pytest

from support.cli_user import DONE, Operator, Record, bash
from support.daemon_process import RunningDaemon
from support.fake_gh import StandInGh
from support.real_clients import ClaudeHome, wait_for
from support.telegram_sink import Telegram
from support.tmux_server import Server
from wakeful.testing.scripted_model import script

HANGING = {"hang": "mid", "loop": True}
CHAT = "77"
MANAGED = ("north", "south", "west", "east", "busy-1", "busy-2")


@pytest.fixture
def gh(tmp_path: Path) -> StandInGh:
    return StandInGh(tmp_path / "gh")


@pytest.fixture
def silence_seconds() -> float:
    """How long a client may be silent in a turn."""
    return 6


@pytest.fixture
def healed(
    claude: ClaudeHome, daemon: RunningDaemon, gh: StandInGh, telegram: Telegram, silence_seconds: float
) -> Operator:
    daemon.watch(
        **claude.environ(),
        WAKEFUL_HEAL__CONFIRM_SECONDS="1",
        WAKEFUL_DETECT__SILENCE_SECONDS=str(silence_seconds),
        WAKEFUL_GITHUB__REPO="me/agents",
        WAKEFUL_ALERTS__TELEGRAM_TOKEN="123:abc",
        WAKEFUL_ALERTS__TELEGRAM_CHAT=CHAT,
        WAKEFUL_ALERTS__TELEGRAM_API=telegram.http.url,
    )
    daemon.environ["PATH"] = f"{gh.bin}:{daemon.environ['PATH']}"
    daemon.up()
    return Operator(daemon, claude)


def events(operator: Operator) -> list[Record]:
    log = Path(operator.daemon.environ["WAKEFUL_HOME"]) / "logs" / "critical_events.jsonl"
    return [msgspec.json.decode(line) for line in log.read_bytes().splitlines()] if log.exists() else []


def written(operator: Operator, **fields: str) -> Record:
    def look() -> Record | None:
        return next((each for each in events(operator) if fields.items() <= each.items()), None)

    return wait_for(look, f"event {fields}", 40)


def test_killed_in_a_tool_it_comes_back_by_itself(
    healed: Operator, claude: ClaudeHome, gh: StandInGh
) -> None:
    """One revival in the same conversation, with an issue, a line in the log and its outcome; the work goes on."""
    session_id = healed.start("--headless", "--prompt", script(bash("sleep 100"), DONE), "--", "claude")
    claude.wait_for_tool("sleep")
    alive = healed.wait_until(session_id, "work", state="prompting")
    os.kill(alive["pid"], signal.SIGKILL)
    event = written(healed, action_taken="revival_attempted")
    assert (event["session_id"], event["reason"]) == (session_id, "session_dead")
    assert event["github_issue"] == gh.issues[0]["url"]
    back = healed.wait_until(
        session_id, "end of its work", state="idle", health="healthy", session_alive=True
    )
    assert (back["attempt"], back["pid"] != alive["pid"]) == (2, True)
    written(healed, event="session_recovered")
    assert len([each for each in events(healed) if each["event"] == "session_unhealthy"]) == 1


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("--headless", "heal.stopped:1"),
        ("--detach", "heal.stopped:1"),
        ("--headless", "stop.interrupted:1"),
        ("--detach", "stop.interrupted:1"),
        ("--detach", "typing.begun:2"),
    ],
)
def test_a_daemon_that_is_killed_in_a_revival_loses_no_work(
    healed: Operator, claude: ClaudeHome, place: str, fault: str
) -> None:
    """The old client wrote its interruption into the log, and may have outlived that; the new one has no brief yet: the
    next daemon sends it, once."""
    daemon = healed.daemon
    daemon.end()
    daemon.environ["WAKEFUL_FAULTS"] = f"{fault}:kill"
    daemon.up()
    session_id = healed.start(place, "--prompt", script(HANGING), "--", "claude")
    wait_for(lambda: daemon.has_ended() or None, "death of the daemon", 40)
    del daemon.environ["WAKEFUL_FAULTS"]
    daemon.up()
    # It hangs again: that is seen only because it was briefed.
    written(healed, session_id=session_id, event="revival_failed")
    (log,) = claude.logs()
    prompts = [each for each in log.read_bytes().splitlines() if b'"type":"user"' in each]
    assert sum(b"Wakeful: your process ended in the middle of your work" in each for each in prompts) == 1
    assert [each["event"] for each in events(healed)] == ["session_unhealthy", "revival_failed"]


def test_hung_in_the_middle_of_an_answer_it_is_replaced(healed: Operator, claude: ClaudeHome) -> None:
    """Silent for too long: its process is ended, seen dead, and another goes on; hung again, it is given up."""
    session_id = healed.start("--headless", "--prompt", script(HANGING), "--", "claude")
    first = healed.wait_until(session_id, "work", state="prompting")
    event = written(healed, action_taken="revival_attempted")
    assert event["reason"].startswith("silent_for_")
    back = healed.wait_until(session_id, "next attempt", attempt=2, session_alive=True)
    assert back["pid"] != first["pid"]
    assert len(claude.registry()) == 1


@pytest.mark.parametrize("silence_seconds", [2])
def test_a_stream_that_hangs_every_time_is_revived_once_and_given_up_once(
    healed: Operator, telegram: Telegram, silence_seconds: float
) -> None:
    """The budget belongs to what was asked: ended between two attempts, the session is still at the same work."""
    session_id = healed.start("--headless", "--prompt", script(HANGING), "--", "claude")
    written(healed, event="revival_failed")
    # Twice as long as a third attempt would need to be found silent and replaced.
    time.sleep(2 * (silence_seconds + 1))
    assert [each["event"] for each in events(healed)] == ["session_unhealthy", "revival_failed"]
    healed.wait_until(session_id, "the second attempt, and no third", attempt=2)
    (told,) = telegram.texts(CHAT)
    assert "resumed its conversation" in told
    assert "then gave up" in told


def test_a_closed_port_is_the_networks_incident(
    claude: ClaudeHome, daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that is refused its connection: the host cannot reach its providers, whatever client it is."""
    with socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(claude.model, "url", f"http://127.0.0.1:{closed.getsockname()[1]}")
        daemon.watch(**claude.environ(), WAKEFUL_HEAL__CONFIRM_SECONDS="1")
        daemon.up()
        operator = Operator(daemon, claude)
        operator.start("--headless", "--prompt", script(DONE), "--", "claude")
        (incident,) = wait_for(
            lambda: operator.type("incidents", "--json").json["incidents"] or None, "incident"
        )
    assert incident["cause"] == "network"


def test_a_call_elsewhere_is_not_repeated_before_a_person_says_yes(
    healed: Operator, claude: ClaudeHome
) -> None:
    """Held, with the call named; `session revive --yes` releases it."""
    pushing = bash("curl -X POST http://127.0.0.1:9/ ; sleep 100")
    session_id = healed.start(
        "--headless", "--prompt", script(pushing, DONE), "--", "claude", "--allowedTools", "Bash"
    )
    claude.wait_for_tool("sleep")
    alive = healed.wait_until(session_id, "work", state="prompting")
    os.kill(alive["pid"], signal.SIGKILL)
    written(healed, action_taken="held_for_approval")
    assert "note       1 incident is open: `wakeful incidents`\n" in healed.type("status").out
    why = healed.type("session", "why", session_id, "--json").json
    assert why["command"] == ["wakeful", "checkpoint", "show", "1"]
    refused = healed.type("session", "revive", session_id)
    assert (refused.exit_code, "curl -X POST" in refused.err, "--yes" in refused.err) == (1, True, True)
    assert healed.act("revive", session_id, "--yes")["outcome"] == "recovered"
    healed.wait_until(session_id, "return", attempt=2, session_alive=True)


def test_a_found_neighbour_is_told_about_and_left_alone(healed: Operator, claude: ClaudeHome) -> None:
    """Killed the same way, it is not started again."""
    process = claude.run_print(script(bash("sleep 100"), DONE), "--allowedTools", "Bash")
    claude.wait_for_tool("sleep")
    healed.daemon.wait_for_session(lambda each: each["state"] == "prompting", "found session")
    os.kill(process.pid, signal.SIGKILL)
    written(healed, event="session_unhealthy", action_taken="none")
    assert claude.registry() == [] or all(each["pid"] == process.pid for each in claude.registry())


def test_a_killed_tmux_server_brings_its_sessions_back(
    healed: Operator, claude: ClaudeHome, telegram: Telegram
) -> None:
    """Six managed ones, idle or at work, return to their conversations; two found ones stay; one incident, one alert."""
    asking = script(bash("touch x; sleep 100"), DONE)
    prompts = {name: asking if name.startswith("busy") else script(DONE) for name in MANAGED}
    given = ("run", "--json", "--detach")
    begun = [
        healed.begin(*given, "--name", name, "--prompt", prompt, "--", "claude")
        for name, prompt in prompts.items()
    ]
    answers = [msgspec.json.decode(each.communicate(timeout=120)[0]) for each in begun]
    assert [each["outcome"] for each in answers] == ["recovered"] * len(MANAGED), answers
    managed = [each["session_id"] for each in answers]
    socket = Path(healed.daemon.environ["WAKEFUL_HOME"]) / "tmux.sock"
    for name, prompt in (("found-idle", script(DONE)), ("found-busy", asking)):
        claude.in_tmux(socket, prompt, name, at_once_max=len(MANAGED) + 2)
    with _explained(healed):
        before = wait_for(lambda: _all_set(healed), "six managed and two found sessions that have begun")
    os.kill(Server(socket).pid, signal.SIGKILL)
    for session_id in managed:
        back = wait_for(lambda: _returned(healed, session_id), f"return of {session_id}", 90)  # noqa: B023
        assert (back["attempt"], back["conversation_id"]) == (2, before[session_id]["conversation_id"])
    listed = healed.type("incidents", "--all", "--json").json["incidents"]
    assert [each["cause"] for each in listed] == ["tmux_server"]
    # Questions that were open before are different ones.
    told = wait_for(lambda: _of_trouble(telegram.texts(CHAT)) or None, "alert", 90)
    assert [each.partition(" on ")[0] for each in told] == ["the tmux server"], told
    assert "resumed 6 sessions" in told[0], told
    with _explained(healed):
        wait_for(lambda: _found_living(healed) == [False, False] or None, "end of both found sessions")


def _found_living(operator: Operator) -> list[bool]:
    return [each["session_alive"] for each in operator.daemon.sessions() if not each["managed"]]


def _of_trouble(texts: list[str]) -> list[str]:
    return [each for each in texts if "needs you" not in each and "Resolved" not in each]


@contextmanager
def _explained(operator: Operator) -> Iterator[None]:
    """A waiter that times out learns what there was instead."""
    try:
        yield
    except AssertionError as late:
        seen = ("name", "state", "health", "pid", "session_alive", "last_activity_at", "findings")
        late.add_note(str([{key: each[key] for key in seen} for each in operator.daemon.sessions()]))
        raise


def _all_set(operator: Operator) -> dict[str, Record] | None:
    """Every session, once four managed and one found have ended their turn and the others ask."""
    records = operator.daemon.sessions()
    idle = [each for each in records if each["state"] == "idle" and each["last_activity_at"] is not None]
    # Who is killed before it has written anything leaves nothing behind.
    asking = [each for each in records if each["state"] == "waiting" and each["last_activity_at"] is not None]
    panes = [each for each in records if any(action["name"] == "attach" for action in each["actions"])]
    ready = (len(idle), len(asking), len(panes)) == (5, 3, 8)
    return {each["id"]: each for each in records} if ready else None


def _returned(operator: Operator, session_id: str) -> Record | None:
    record = operator.record(session_id)
    return record if record is not None and record["session_alive"] and record["attempt"] == 2 else None


def test_found_sessions_are_restored_because_a_person_asks(
    healed: Operator, claude: ClaudeHome, tmp_path: Path
) -> None:
    """Their tmux server is killed: they are left alone, `restore --dry-run` lists them, `restore` brings them back."""
    hand = tmp_path / "hand.sock"
    claude.in_tmux(hand, script(DONE), "garden")
    found = healed.daemon.wait_for_session(
        lambda each: (
            each["state"] == "idle"
            # It is idle before its first prompt, too; what said nothing is not brought back.
            and each["last_activity_at"] is not None
            and any(action["name"] == "attach" for action in each["actions"])
        ),
        "found session in its pane",
    )
    os.kill(Server(hand).pid, signal.SIGKILL)
    healed.wait_until(found["id"], "end", session_alive=False)
    listed = wait_for(lambda: healed.type("restore", "--dry-run", "--json").json["lost"] or None, "list")
    assert [(each["name"], each["cwd"], each["skipped"]) for each in listed] == [
        ("garden", str(claude.project), None)
    ]
    assert claude.registry() == [] or not healed.record(found["id"])["session_alive"]  # type: ignore[index]
    done = healed.type("restore")
    assert (done.exit_code, "garden" in done.out, "resumed" in done.out) == (0, True, True), done.err
    back = healed.wait_until(found["id"], "return", session_alive=True, managed=True)
    assert (back["conversation_id"], back["name"]) == (found["conversation_id"], "garden")
    assert healed.type("restore").out.startswith("nothing to resume")
