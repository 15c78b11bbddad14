"""A claim about many agents whose model hangs every time: each is revived once, given up once and told of once.

A real daemon and real processes; the agents are cheap ones. The suite has ten, `WAKEFUL_HANGING=50` has fifty.
"""

import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from support.daemon_process import RunningDaemon
from support.gateway_process import end_agents
from support.real_clients import wait_for
from support.stub_claude import install
from support.telegram_sink import Telegram
from wakeful.alerts.digest import MESSAGES_MAX

AGENTS = int(os.environ.get("WAKEFUL_HANGING", "10"))
# All of them are asked before the first is found silent.
SILENCE_SECONDS = 6 + AGENTS // 5
CHAT = "77"


def test_each_is_revived_once_given_up_once_and_told_of_once(
    daemon: RunningDaemon, telegram: Telegram, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the log of an agent that was ended shows it idle for a while before it reads why it is back."""
    daemon.watch(
        WAKEFUL_HEAL__CONFIRM_SECONDS="1",
        WAKEFUL_HEAL__PACE_SECONDS="0.1",
        WAKEFUL_HEAL__PACE_BURST=str(AGENTS),
        WAKEFUL_DETECT__SILENCE_SECONDS=str(SILENCE_SECONDS),
        WAKEFUL_ALERTS__TELEGRAM_TOKEN="123:abc",
        WAKEFUL_ALERTS__TELEGRAM_CHAT=CHAT,
        WAKEFUL_ALERTS__TELEGRAM_API=telegram.http.url,
    )
    daemon.up()
    try:
        sessions = _start_all(daemon, tmp_path)
        wait_for(lambda: len(_given_up(daemon)) == AGENTS or None, "give-ups", 4 * SILENCE_SECONDS + 60)
        # A session that was revived again would be found silent and ended within this time.
        time.sleep(SILENCE_SECONDS + 4)
        counted = [_figures(daemon, telegram, each) for each in sessions]
        spoken = len(telegram.texts(CHAT))
        digested = _digested(telegram)
    finally:
        daemon.end()
        end_agents(tmp_path, daemon)
    with capsys.disabled():
        sys.stdout.write(f"\n{AGENTS} hanging sessions: {_words(counted)}; {spoken} messages in all\n")
    assert {(revivals, give_ups) for revivals, give_ups, _ in counted} == {(1, 1)}
    # Beyond the budget of messages one digest stands for many sessions: each is reported once, alone or in a digest.
    told = sum(alerts for _, _, alerts in counted)
    assert told + digested == AGENTS
    assert all(alerts <= 1 for _, _, alerts in counted)
    assert spoken == AGENTS if AGENTS <= MESSAGES_MAX else spoken < AGENTS


def _start_all(daemon: RunningDaemon, folder: Path) -> list[str]:
    """All of them are up before the first is asked anything: where some fail early, the others are not revived."""
    program, project = install(folder / "bin"), folder / "project"
    project.mkdir()

    def start(_number: int) -> str:
        started = daemon.run("run", "--json", "--headless", "--", program, cwd=project)
        assert started.exit_code == 0, started.err
        return str(started.json["session_id"])

    def ask(session_id: str) -> None:
        answered = client.post(f"/api/sessions/{session_id}/send", json={"prompt": "stuck here"})
        assert answered.json()["outcome"] == "recovered", answered.text

    transport = httpx.HTTPTransport(uds=str(daemon.socket))
    with (
        ThreadPoolExecutor(4) as pool,
        httpx.Client(transport=transport, base_url="http://wakeful", timeout=60) as client,
    ):
        sessions = list(pool.map(start, range(AGENTS)))
        list(pool.map(ask, sessions))
        return sessions


def _events(daemon: RunningDaemon) -> list[dict[str, Any]]:
    log = Path(daemon.environ["WAKEFUL_HOME"], "logs/critical_events.jsonl")
    # The last line may be on its way.
    whole = log.read_bytes().rpartition(b"\n")[0] if log.exists() else b""
    return [msgspec.json.decode(line) for line in whole.splitlines()]


def _given_up(daemon: RunningDaemon) -> set[str]:
    return {each["session_id"] for each in _events(daemon) if each["event"] == "revival_failed"}


def _figures(daemon: RunningDaemon, telegram: Telegram, session_id: str) -> tuple[int, int, int]:
    """Revivals, give-ups and alerts; each alert says what was done and that it was given up."""
    events = [each for each in _events(daemon) if each["session_id"] == session_id]
    revivals = sum(each["action_taken"] == "revival_attempted" for each in events)
    give_ups = sum(each["event"] == "revival_failed" for each in events)
    told = [each for each in telegram.texts(CHAT) if session_id in each]
    assert all("resumed its conversation" in each and "gave up" in each for each in told), told
    return revivals, give_ups, len(told)


def _digested(telegram: Telegram) -> int:
    """How many sessions the digests stand for."""
    heads = [each.partition("\n")[0] for each in telegram.texts(CHAT)]
    return sum(int(each.split()[0]) for each in heads if each.endswith("problems at once"))


def _words(counted: list[tuple[int, int, int]]) -> str:
    names = ("revivals", "give-ups", "alerts")
    columns = zip(*counted, strict=True)
    return "; ".join(
        f"{name} per session {dict(sorted(Counter(column).items()))}"
        for name, column in zip(names, columns, strict=True)
    )
