"""Many sessions: the living are shown, the old are folded, and only requested logs are read."""

import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import claude_transcripts, stub_clients
from support.daemon_process import RunningDaemon

OLD = 2000
LIVE = 6


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """2,000 transcripts of a month ago, and six living agents."""
    folder = tmp_path / "claude"
    month_ago = time.time() - 30 * 86_400
    for number in range(OLD):
        conversation = str(uuid.UUID(int=number))
        path = claude_transcripts.write(
            folder,
            conversation,
            claude_transcripts.prompt(month_ago, conversation),
            claude_transcripts.answer(month_ago, conversation),
            project=f"-old-{number % 20}",
        )
        claude_transcripts.age(path, month_ago)
    client = stub_clients.program(folder.parent / "bin")
    agents = [subprocess.Popen(client, stdin=subprocess.PIPE) for _ in range(LIVE)]
    for agent in agents:
        conversation = str(uuid.uuid4())
        claude_transcripts.write(folder, conversation, claude_transcripts.prompt(time.time(), conversation))
        claude_transcripts.register(folder, conversation, agent.pid, "busy")
    yield folder
    for agent in agents:
        agent.communicate(b"\n")


def test_the_first_list_shows_the_living_and_folds_the_rest(daemon: RunningDaemon, config: Path) -> None:
    """Six live sessions among 2,000 old transcripts: six are listed, 2,000 are counted."""
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    daemon.up()
    listed = daemon.run("session", "list", "--json").json
    assert [each["state"] for each in listed["sessions"]] == ["prompting"] * LIVE
    assert listed["older"] == OLD
    assert "2,000 older" in daemon.run("ls").out


def test_old_sessions_are_there_for_whoever_asks(daemon: RunningDaemon, config: Path) -> None:
    """`--all` lists every one; asked for by name an old transcript is read."""
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    daemon.up()
    everything = daemon.run("ls", "--all", "--json").json["sessions"]
    assert len(everything) == OLD + LIVE
    old = daemon.run("session", "status", str(uuid.UUID(int=7)), "--json")
    assert (old.json["state"], old.json["health"], old.json["findings"]) == ("stopped", "unknown", [])
    assert old.json["project"] == "proj"
    assert old.exit_code == 5


def test_without_a_daemon_one_look_says_the_same(daemon: RunningDaemon, config: Path) -> None:
    """One read-only look, said so, and no file left behind."""
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    before = sorted(daemon.home.rglob("*"))
    looked = daemon.run("session", "list", "--json")
    assert len(looked.json["sessions"]) == LIVE
    assert "no daemon" in looked.err
    assert sorted(daemon.home.rglob("*")) == before
