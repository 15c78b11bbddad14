"""Claims about a pause: every list says it first and by whom, with a daemon and without; none can forget it."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest
from bench.reference import command_contexts

from support.daemon_process import RunningDaemon
from wakeful.cli import app, read

Words = tuple[str, ...]
Command = Callable[[Words], str]
# Every command that lists something Wakeful sees, keeps or would act on.
LISTS: tuple[Words, ...] = (
    ("ls",),
    ("list",),
    ("ps",),
    ("session", "list"),
    ("session", "ls"),
    ("status",),
    ("services",),
    ("agent", "list"),
    ("work", "list"),
    ("checkpoint", "list"),
    ("checkpoint", "teach"),
    ("incidents",),
    ("events",),
    ("mute",),
    ("report",),
    ("restore", "--dry-run"),
)
NEEDS_DAEMON = {"work list", "checkpoint teach", "restore --dry-run"}
ALONE = tuple(each for each in LISTS if " ".join(each) not in NEEDS_DAEMON)
# What lists nothing of Wakeful's: orders, one session or agent, other programs' own files, setting up. The live
# views have claims of their own.
OTHERS = """
    top watch why logs send answer interrupt stop kill adopt release unpause help version
    open doctor demo replay unmute pause resume up down run attach recover gateway/pair gateway/unpair mcp
    completion
    session/health session/status session/inspect session/why session/self session/wait session/revive session/stop
    session/repair session/adopt session/release session/wrong session/send session/questions session/answer
    session/interrupt session/resume session/claim session/yield
    agent/start agent/stop agent/restart-session
    agent/heartbeat/status agent/heartbeat/wake agent/heartbeat/validate
    work/add work/show work/claim work/heartbeat work/complete work/fail
    checkpoint/show checkpoint/continue checkpoint/rollback checkpoint/abort
    backlog/add backlog/update backlog/list backlog/sync alerts/test
    config/init config/show config/check config/trust config/merge config/import
    setup/hooks setup/alerts setup/autostart setup/completion setup/mcp
    hooks/install hooks/uninstall autostart/install autostart/remove
"""


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    """A daemon that was paused once."""
    daemon = RunningDaemon(tmp_path_factory.mktemp("paused") / "home")
    daemon.up()
    try:
        assert daemon.run("pause", "--reason", "moving house").exit_code == 0
        yield daemon
    finally:
        daemon.end()


@pytest.fixture
def wakeful(
    paused: RunningDaemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """A command typed at the daemon's home, run here: a process for each would take longer than all the rest."""
    for name in set(os.environ) - {"PATH"}:
        monkeypatch.delenv(name)
    for name, value in paused.environ.items():
        monkeypatch.setenv(name, value)

    def run(words: Words) -> str:
        capsys.readouterr()
        # Each command is a process of its own outside of this test.
        read._local_queries.cache_clear()
        assert app._invoke(list(words)) == 0
        return capsys.readouterr().out

    return run


def said_by(body: Any) -> Any:
    """Whom a list's JSON names; the status has it with the daemon."""
    record = body["daemon"]["paused"] if "daemon" in body else body["paused"]
    return record["by"], record["reason"]


def claim(wakeful: Command, words: Words) -> None:
    first = wakeful(words).splitlines()[0]
    assert first.startswith("PAUSED by ")
    by = first.removeprefix("PAUSED by ").partition(" since ")[0]
    assert "moving house; Wakeful takes no action by itself until `wakeful unpause`" in first
    assert said_by(json.loads(wakeful((*words, "--json")))) == (by, "moving house")


def test_every_command_is_a_list_or_is_none() -> None:
    """Every new command decides here whether it must mention a pause."""
    lists = {tuple(word for word in each if not word.startswith("-")) for each in LISTS}
    others = {tuple(each.split("/")) for each in OTHERS.split()}
    assert not lists & others
    leaves = {
        tuple(context.command_path.split()[1:])
        for context in command_contexts(app.root)
        if not isinstance(context.command, click.Group)
    }
    assert leaves == lists | others


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_list_says_first_who_paused(wakeful: Command, words: Words) -> None:
    """In the words and in the JSON that the daemon answers with."""
    claim(wakeful, words)


@pytest.fixture(scope="module")
def down(paused: RunningDaemon) -> None:
    """From here on nothing watches."""
    paused.end()


@pytest.mark.usefixtures("down")
@pytest.mark.parametrize("words", ALONE, ids=" ".join)
def test_a_list_without_a_daemon_says_it_too(wakeful: Command, words: Words) -> None:
    """A pause outlasts the daemon: the next one will do nothing either."""
    claim(wakeful, words)


@pytest.mark.usefixtures("down")
@pytest.mark.parametrize("words", [("events",), ("services",), ("ls",)], ids=" ".join)
def test_a_store_that_cannot_be_read_hides_no_list(
    paused: RunningDaemon, wakeful: Command, words: Words
) -> None:
    """What needs no store is listed without it."""
    store = paused.home / "state" / "wakeful.db"
    whole = store.read_bytes()
    store.write_bytes(b"no database" * 1000)
    try:
        assert not wakeful(words).startswith("PAUSED")
    finally:
        store.write_bytes(whole)
