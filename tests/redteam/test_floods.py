"""Floods: thousands of deaths, problems and questions at once stay few messages, and every one of them is still listed."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clients import wait_for
from daemons import RunningDaemon
from flood_scenes import LivingCrowd
from telegrams import Telegram

from .conftest import Redteam

WAY_IN = "floods"


class Webhook(Telegram):
    """Takes what an apprise `json://` address sends."""

    @property
    def address(self) -> str:
        return json.dumps([f"json://{self.http.address}/hook"])

    @property
    def messages(self) -> list[str]:
        return [str(msgspec.json.decode(got.body)["message"]) for got in self.http.got]


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    yield webhook
    webhook.end()


def test_deaths_at_once_are_one_incident_and_one_message(
    daemon: RunningDaemon, webhook: Webhook, tmp_path: Path, redteam: Redteam
) -> None:
    """Every session is in the incident, in the list and in the log of events; a restart in the middle repeats nothing."""
    count = redteam.rounds(300, 5_000)
    crowd = LivingCrowd(tmp_path, count, lambda number: f"/home/u/p{number % 7}")
    watch(daemon, crowd, webhook)
    try:
        daemon.up()
        wait_for(lambda: states(daemon).count("prompting") == count or None, "a crowd at work", 60)
        began = cpu_seconds(daemon)
        crowd.die()
        wait_for(lambda: len(incidents(daemon)) > 0 or None, "an incident", 60)
        daemon.kill()
        daemon.up()
        wait_for(lambda: len(events(daemon)) >= count or None, "every event", 120)
        wait_for(lambda: webhook.messages or None, "a message", 120)
    finally:
        crowd.die()
    (incident,) = incidents(daemon)
    redteam.attack(WAY_IN, f"{len(webhook.messages)} messages", held=len(webhook.messages) == 1)
    redteam.attack(WAY_IN, "sessions missing", held=incident["affected"] == count)
    redteam.attack(WAY_IN, "sessions not listed", held=states(daemon).count("stopped") == count)
    named = {each["session_id"] for each in events(daemon)}
    redteam.attack(WAY_IN, "events missing", held=len(named) == count)
    redteam.figure(f"messages for {count:,} deaths at once", str(len(webhook.messages)))
    assert began < 60


def watch(daemon: RunningDaemon, crowd: LivingCrowd, webhook: Webhook) -> None:
    daemon.watch(
        CLAUDE_CONFIG_DIR=crowd.config,
        WAKEFUL_ALERTS__URLS=webhook.address,
        WAKEFUL_HEAL__CONFIRM_SECONDS="1",
    )


def states(daemon: RunningDaemon) -> list[str]:
    return [str(each["state"]) for each in daemon.sessions()]


def incidents(daemon: RunningDaemon) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.run("incidents", "--json").json["incidents"]
    return found


def events(daemon: RunningDaemon) -> list[dict[str, Any]]:
    log = Path(daemon.environ["WAKEFUL_HOME"], "logs/critical_events.jsonl")
    whole = log.read_bytes().rpartition(b"\n")[0] if log.exists() else b""
    return [msgspec.json.decode(line) for line in whole.splitlines()]


def cpu_seconds(daemon: RunningDaemon) -> float:
    fields = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
