"""`session why` and `session wrong` at a real daemon with scripted agents: processes, logs and doors are real."""

import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from support.daemon_process import RunningDaemon
from support.real_clients import wait_for
from wakeful.judging.explanation import Explanation
from wakeful.judging.findings import Verdict
from wakeful.judging.resume_command import command_line
from wakeful.judging.thresholds import Policy
from wakeful.replay.cases import WrongCase, read_case
from wakeful.replay.engine import Replay
from wakeful.testing.scripted_agent import RunningAgent, ScriptedAgent, Step

PROMPT: Step = {"prompt": "Ship it"}
PUSH: Step = {"tool": "Bash", "input": {"command": "git push"}, "seconds": 300}
Start = Callable[..., RunningAgent]


@pytest.fixture
def start(daemon: RunningDaemon) -> Iterator[Start]:
    """Starts agents where the daemon looks; all are ended with their tools."""
    started: list[RunningAgent] = []
    daemon.watch(CLAUDE_CONFIG_DIR=daemon.home / "claude")

    def begin(*steps: Step) -> RunningAgent:
        running = ScriptedAgent(daemon.home / "claude", daemon.home / "shop").start(*steps)
        started.append(running)
        return running

    yield begin
    for running in started:
        running.close()


def why_when(
    daemon: RunningDaemon, agent: RunningAgent, fits: Callable[[dict[str, Any]], bool]
) -> Explanation:
    """What `why` says once the session is as wanted, held to its described shape."""
    daemon.wait_for_session(lambda each: each["id"] == agent.session_id and fits(each), "session")
    said = daemon.run("session", "why", agent.session_id, "--json")
    answer = msgspec.json.decode(said.out, type=Explanation)
    assert msgspec.json.encode(answer).decode() + "\n" == said.out
    return answer


def replayed(case_line: bytes) -> Verdict:
    """What the same rules say of a kept case."""
    case = read_case(case_line, "wrong.jsonl")
    replay = Replay([Policy()])
    replay.feed(case.events)
    return replay.finish(case.now, gone=case.gone)[0].verdict


def test_a_running_tool_is_why_it_is_quiet(daemon: RunningDaemon, start: Start) -> None:
    """Working: the sentence names the call and its end, the ladder holds to the tool, waiting is the right command."""
    daemon.up()
    agent = start(PROMPT, PUSH)
    answer = why_when(daemon, agent, lambda each: each["alive_to"] == "tool")
    assert answer.sentence.startswith("at work: `git push` may run until ")
    assert answer.command[:3] == ("wakeful", "session", "wait")
    assert [each.rung for each in answer.ladder if each.hold == "alive"][-2:] == ["tool", "progress"]
    text = daemon.run("session", "why", agent.session_id)
    assert (text.out.splitlines()[0], text.exit_code) == (answer.sentence, 0)
    assert "\x1b" not in text.out
    assert "● agent process" in text.out


def test_a_question_is_why_it_waits(daemon: RunningDaemon, start: Start) -> None:
    """Waiting for a person: the client's own word for it, and no finding about silence."""
    daemon.up()
    answer = why_when(
        daemon,
        start(PROMPT, {"ask": "permission prompt", **PUSH}),
        lambda each: each["state"] == "waiting",
    )
    assert answer.sentence == "waits for you: `permission prompt`, `git push`"
    assert answer.fired == ()


def test_silence_is_why_it_is_degraded(daemon: RunningDaemon, start: Start) -> None:
    """Silent: the rule stands there with the configured number, and the break is at progress."""
    daemon.watch(WAKEFUL_DETECT__SILENCE_SECONDS="1")
    daemon.up()
    agent = start(PROMPT, {"hang": True})
    answer = why_when(daemon, agent, lambda each: bool(each["findings"]))
    assert answer.sentence.startswith("silent less than a minute, longer than expected: ")
    assert [(rule.code, "for 1 s" in rule.rule) for rule in answer.fired] == [("silent", True)]
    assert [each.rung for each in answer.ladder if each.hold == "broken"] == ["progress"]
    assert daemon.run("session", "why", agent.session_id).exit_code == 1


def test_a_death_is_why_it_is_dead(daemon: RunningDaemon, start: Start) -> None:
    """Killed inside a call: the call and the tool that lives on are named, resuming is the right command."""
    daemon.up()
    agent = start(PROMPT, PUSH)
    tool_pid = agent.wait_for_tool()
    daemon.wait_for_session(lambda each: each["alive_to"] == "tool", "work")
    agent.kill()
    why_when(daemon, agent, lambda each: each["health"] == "dead")
    # Orphans are looked for after the death is reported.
    expected = f"died in the middle of `git push`; its tool still runs as process {tool_pid}"
    wait_for(lambda: why_when(daemon, agent, lambda _: True).sentence == expected or None, "orphan")
    answer = why_when(daemon, agent, lambda _: True)
    shop = daemon.home / "shop"
    assert command_line(answer.command) == f"cd {shop} && claude --resume {agent.conversation}"
    assert [each.rung for each in answer.ladder if each.hold == "broken"] == ["agent_process"]


def test_every_door_explains_in_the_same_bytes(daemon: RunningDaemon, start: Start) -> None:
    """Command, socket and port answer `why` with the same bytes and the same exit code."""
    daemon.up()
    agent = start(PROMPT, PUSH)
    why_when(daemon, agent, lambda each: each["alive_to"] == "tool")
    url = daemon.run("status", "--json").json["daemon"]["listening"][1]
    token = (Path(daemon.environ["WAKEFUL_HOME"]) / "token").read_text().strip()
    path = f"/api/sessions/{agent.session_id}/why"
    with (
        httpx.Client(
            transport=httpx.HTTPTransport(uds=str(daemon.socket)), base_url="http://wakeful"
        ) as owner,
        httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, trust_env=False) as client,
    ):

        def equal() -> bool | None:
            # Lengths are in whole minutes: one may pass between two questions, but not between all of them.
            said = daemon.run("session", "why", agent.session_id, "--json")
            here, there = owner.get(path), client.get(path)
            assert here.headers["x-wakeful-exit"] == there.headers["x-wakeful-exit"] == str(said.exit_code)
            return said.out.encode() == here.content + b"\n" == there.content + b"\n" or None

        assert wait_for(equal, "the same bytes", 5)


def test_without_a_daemon_one_look_explains(daemon: RunningDaemon, start: Start) -> None:
    """`why` needs no daemon; `wrong` does, and says how to start one."""
    agent = start(PROMPT, PUSH)
    agent.wait_for_tool()
    said = daemon.run("session", "why", agent.session_id, "--json")
    assert said.json["sentence"].startswith("at work: `git push` may run until ")
    assert "no daemon" in said.err
    refused = daemon.run("session", "wrong", agent.session_id)
    assert refused.exit_code == 3
    assert "wakeful up" in refused.err


def test_a_wrong_verdict_is_kept_and_replays(daemon: RunningDaemon, start: Start) -> None:
    """A loop that was none: the line decodes, is its owner's alone, and leads the same rules to the same finding."""
    daemon.up()
    secret = "sk-ant-abcdefgh12345678"
    look: Step = {"tool": "Bash", "input": {"command": f"curl -H {secret}"}, "result": f"no {secret}"}
    agent = start(PROMPT, {"loop": [look], "times": 6}, {"hang": True})
    daemon.wait_for_session(lambda each: [code["code"] for code in each["findings"]] == ["loop"], "loop")
    kept = daemon.run("session", "wrong", agent.session_id, "--note", f"a poll, token={secret}", "--json")
    assert (kept.exit_code, kept.json["expect"], kept.json["verdict"]["findings"]) == (0, "ok", ["loop"])
    book = Path(kept.json["path"])
    assert stat.S_IMODE(book.stat().st_mode) == 0o600
    (line,) = book.read_bytes().splitlines()
    assert secret.encode() not in line
    case = msgspec.json.decode(line, type=WrongCase)
    assert (case.id, case.expect, case.proc, len(case.events)) == (kept.json["id"], "ok", "alive", 7)
    assert [finding.code for finding in replayed(line).findings] == ["loop"]


def test_a_torn_line_takes_no_case_along(daemon: RunningDaemon, start: Start) -> None:
    """After a crash inside a line the next report begins a line of its own; text for people says where it went."""
    daemon.up()
    agent = start(PROMPT, PUSH)
    why_when(daemon, agent, lambda each: each["alive_to"] == "tool")
    book = Path(daemon.environ["WAKEFUL_HOME"]) / "cases" / "wrong.jsonl"
    book.parent.mkdir()
    book.write_bytes(b'{"id": "torn')
    said = daemon.run("session", "wrong", agent.session_id, "--expect", "silent")
    assert (said.exit_code, str(book) in said.out) == (0, True)
    _torn, line = book.read_bytes().splitlines()
    case = msgspec.json.decode(line, type=WrongCase)
    assert (case.expect, case.verdict.rules) == ("silent", daemon.sessions()[0]["rules"])


def test_a_bad_report_is_refused(daemon: RunningDaemon, start: Start) -> None:
    """An unknown expectation or session, or one that was met, is the operator's mistake, and no file appears."""
    daemon.up()
    agent = start(PROMPT, PUSH)
    why_when(daemon, agent, lambda each: each["alive_to"] == "tool")
    assert daemon.run("session", "wrong", agent.session_id, "--expect", "splendid").exit_code == 2
    assert daemon.run("session", "wrong", "nobody").exit_code == 2
    well = daemon.run("session", "wrong", agent.session_id)
    assert (well.exit_code, "--expect" in well.err) == (2, True)
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=str(daemon.socket)), base_url="http://wakeful"
    ) as owner:
        for report in ({"expect": "splendid"}, {"note": "x" * 2001}, {"extra": 1}):
            answer = owner.post(f"/api/sessions/{agent.session_id}/wrong", json=report)
            assert (answer.status_code, answer.json()["code"]) == (400, "bad-request")
    assert not (Path(daemon.environ["WAKEFUL_HOME"]) / "cases").exists()


def test_an_orphan_that_ended_is_waited_for_no_more(daemon: RunningDaemon, start: Start) -> None:
    """As soon as the tool is done, and after a restart as before it, `why` says what is true now."""
    daemon.up()
    agent = start(PROMPT, PUSH)
    tool_pid = agent.wait_for_tool()
    daemon.wait_for_session(lambda each: each["alive_to"] == "tool", "work")
    agent.kill()
    waits = f"resume it once process {tool_pid} has ended: its tool still runs, and would run twice"
    wait_for(lambda: why_when(daemon, agent, lambda _: True).command_text == waits or None, "orphan")
    daemon.end()
    daemon.up()
    wait_for(lambda: why_when(daemon, agent, lambda _: True).command_text == waits or None, "orphan again")
    os.kill(tool_pid, signal.SIGKILL)
    goes_on = "resume the conversation where it stopped"
    wait_for(lambda: why_when(daemon, agent, lambda _: True).command_text == goes_on or None, "its end")
    assert why_when(daemon, agent, lambda _: True).sentence == "died in the middle of `git push`"
