"""`wakeful work`, `wakeful session claim|yield` and the library, against a real daemon."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wakeful
from support.daemon_process import CommandResult, RunningDaemon
from support.real_clients import wait_for
from wakeful.core.errors import WorldError
from wakeful.core.ids import parse_session_id

OPENED = '{"at":"2026-01-01T00:00:00Z","event":"opened"}\n'


@pytest.fixture
def busy(daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch) -> RunningDaemon:
    """A daemon that knows one session, `chat`, and is the one the library finds."""
    daemon.up()
    (Path(daemon.environ["WAKEFUL_HOME"]) / "events" / "chat.jsonl").write_text(OPENED)
    wait_for(lambda: daemon.run("session", "status", "chat").exit_code != 2 or None, "the session")
    monkeypatch.setenv("WAKEFUL_HOME", daemon.environ["WAKEFUL_HOME"])
    return daemon


def add(daemon: RunningDaemon, *words: str) -> str:
    added = daemon.run("work", "add", *words, "--json")
    assert added.exit_code == 0, added.err
    work_id: str = added.json["id"]
    return work_id


def piped(daemon: RunningDaemon, given: bytes, *words: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        daemon.argv(*words), env=daemon.environ, input=given, capture_output=True, timeout=60, check=False
    )


def test_a_work_from_asked_to_done(busy: RunningDaemon) -> None:
    """Added in one shell, claimed, kept and completed in another; text and JSON say the same."""
    work_id = add(busy, "--project", "shop", "--context", "the build is red", "mend it")
    assert f"{work_id}  pending  0/1" in busy.run("work", "list").out
    run = busy.run("work", "claim", "--project", "shop", "--json").json["run"]
    assert (run["work_id"], run["prompt"], run["context"]) == (work_id, "mend it", "the build is red")
    assert str(os.getpid()) in run["owner"]
    epoch = str(run["epoch"])
    assert busy.run("work", "heartbeat", work_id, "--epoch", epoch, "--ttl", "2m").exit_code == 0
    done = busy.run("work", "complete", work_id, "--epoch", epoch, "--result", "green")
    assert (done.exit_code, done.out) == (0, f"{work_id} is done, 1 of 1 attempts made\n")
    shown = busy.run("work", "show", work_id, "--json").json
    assert [(each["state"], each["untrusted"]) for each in shown["history"]] == [("done", "green")]


def test_no_work_and_lost_leases_are_the_answer_no(busy: RunningDaemon) -> None:
    """Exit 1 for an empty queue and for an epoch that does not hold the run; exit 2 for an unknown task."""
    none = busy.run("work", "claim")
    assert (none.exit_code, none.out) == (1, "no task is due\n")
    work_id = add(busy, "--attempts", "2", "mend it")
    busy.run("work", "claim")
    late = busy.run("work", "complete", work_id, "--epoch", "9")
    assert (late.exit_code, late.out) == (1, "")
    assert late.err.startswith(f"wakeful: The lease on {work_id} with epoch 9 has ended")
    failed = busy.run("work", "fail", work_id, "--epoch", "1", "--reason", "no network")
    assert (failed.exit_code, failed.out) == (0, f"{work_id} is pending, 1 of 2 attempts made\n")
    assert busy.run("work", "show", "w-nobody").exit_code == 2


def test_prompts_are_anything_and_terminals_are_safe(busy: RunningDaemon) -> None:
    """A prompt from a pipe is kept byte by byte, shown without its control characters, and refused when too long."""
    prompt = "line one\n\x1b[2J☃ line two"
    added = piped(busy, prompt.encode(), "work", "add", "--json", "-")
    work_id = json.loads(added.stdout)["id"]
    assert busy.run("work", "show", work_id, "--json").json["prompt"] == prompt
    for words in (("list",), ("show", work_id), ("claim",)):
        out = busy.run("work", *words).out
        assert "line two" in out
        assert "\x1b" not in out
    assert piped(busy, b"x" * 1_000_000, "work", "add", "-").returncode == 0
    long = piped(busy, b"x" * 1_000_001, "work", "add", "-")
    assert (long.returncode, b"more than 1,000,000 bytes" in long.stderr) == (2, True)
    assert piped(busy, b"\xff\xfe bytes", "work", "add", "-").returncode == 0
    assert piped(busy, b"  \n", "work", "add", "-").returncode == 2


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_an_empty_prompt_is_no_work(busy: RunningDaemon, prompt: str) -> None:
    """One sentence says so, and nothing is stored."""
    refused = busy.run("work", "add", prompt)
    assert (refused.exit_code, refused.err) == (
        2,
        "wakeful: The prompt is empty. Write what the agent should do.\n",
    )
    assert busy.run("work", "list", "--json").json["works"] == []


def test_one_key_makes_one_work_across_a_crash(busy: RunningDaemon) -> None:
    """Said again after the daemon was killed, an order with a key is still one work."""
    first = add(busy, "--key", "nightly-1", "mend it")
    busy.kill()
    busy.up()
    assert add(busy, "--key", "nightly-1", "mend it") == first
    other = busy.run("work", "add", "--key", "nightly-1", "something else")
    assert (other.exit_code, "another body" in other.err) == (2, True)
    assert busy.run("work", "add", "--key", "a\r\nX: y", "mend it").exit_code == 2
    assert len(busy.run("work", "list", "--json").json["works"]) == 1


def test_a_lease_outlives_the_daemon(busy: RunningDaemon) -> None:
    """kill -9 of the daemon takes no run from its owner: same epoch, and it completes afterwards."""
    work_id = add(busy, "--session", "chat", "mend it")
    run = busy.run("work", "claim", "--json").json["run"]
    busy.kill()
    assert busy.run("work", "heartbeat", work_id, "--epoch", str(run["epoch"])).exit_code == 3
    busy.up()
    held = busy.run("session", "claim", "chat")
    assert (held.exit_code, run["owner"] in held.err) == (1, True)
    assert busy.run("work", "complete", work_id, "--epoch", str(run["epoch"])).exit_code == 0


def test_a_conversation_is_claimed_and_given_back(busy: RunningDaemon) -> None:
    """One owner at a time: the second learns who owns it and since when, and gets it once it is free."""
    first = busy.run("session", "claim", "chat", "--owner", "nightly", "--json").json
    second = busy.run("session", "claim", "chat", "--owner", "other")
    assert (second.exit_code, second.out) == (1, "")
    assert f"chat is claimed by nightly since {first['since']}" in second.err
    epoch = str(first["epoch"])
    kept = busy.run("session", "claim", "chat", "--epoch", epoch, "--ttl", "5m", "--json").json
    assert kept["lease_until"] > first["lease_until"]
    assert busy.run("session", "yield", "chat", "--epoch", epoch).out == "chat is free\n"
    assert busy.run("session", "yield", "chat", "--epoch", epoch).exit_code == 1
    assert busy.run("session", "claim", "chat", "--json").json["epoch"] == first["epoch"] + 1
    assert busy.run("session", "claim", "nobody").exit_code == 2


@pytest.mark.parametrize(
    "words", [("work", "list"), ("work", "claim"), ("work", "add", "x"), ("session", "claim", "chat")]
)
def test_without_a_daemon_it_is_said_what_to_do(daemon: RunningDaemon, words: tuple[str, ...]) -> None:
    """Leases live in the store, and the daemon keeps it: exit 3 and how to start it."""
    said: CommandResult = daemon.run(*words)
    assert (said.exit_code, said.out) == (3, "")
    assert said.err.startswith("wakeful: Wakeful is not running. Start it with `wakeful up`")


def test_the_library_claims_keeps_and_completes(busy: RunningDaemon) -> None:
    """The same runs as the command line's, with this process as their holder."""
    assert wakeful.claim_next_run() is None
    work_id = add(busy, "--attempts", "2", "mend it")
    run = wakeful.claim_next_run(owner="a program")
    assert run is not None
    assert (run.work_id, run.epoch, run.owner) == (work_id, 1, "a program")
    assert wakeful.heartbeat_run_lease(work_id, run.epoch, ttl_seconds=300) > run.lease_until
    assert wakeful.fail_run(work_id, run.epoch, "no network") == "pending"
    with pytest.raises(wakeful.LeaseLost):
        wakeful.heartbeat_run_lease(work_id, run.epoch)
    again = wakeful.claim_next_run()
    assert again is not None
    wakeful.complete_run(work_id, again.epoch, "green")
    assert busy.run("work", "show", work_id, "--json").json["state"] == "done"


def test_owning_a_conversation_in_a_block(busy: RunningDaemon) -> None:
    """Inside the block no one else gets it and it is renewed; after it, also after an error, it is free."""
    with wakeful.own("chat", owner="a program", ttl_seconds=1) as ours:
        assert (ours.session_id, ours.epoch) == ("chat", 1)
        with pytest.raises(wakeful.ConversationHeld, match="claimed by a program since"), wakeful.own("chat"):
            raise AssertionError("two owners")
        first = _held_until(busy)
        wait_for(lambda: _held_until(busy) > first or None, "a heartbeat")
        ours.require()
    with pytest.raises(KeyError), wakeful.own("chat") as ours:
        raise KeyError(ours.epoch)
    assert busy.run("session", "claim", "chat", "--json").json["epoch"] == 3


def _held_until(daemon: RunningDaemon) -> str:
    """Until when, as the refusal says it."""
    refused = daemon.run("session", "claim", "chat")
    assert refused.exit_code == 1
    return refused.err.partition(", until ")[2]


def test_whoever_loses_a_conversation_is_told(busy: RunningDaemon) -> None:
    """Given away under its feet, the block's owner learns it from `lost`, and from LeaseLost at the end."""

    def overtaken() -> None:
        with wakeful.own("chat", ttl_seconds=1) as ours:
            assert busy.run("session", "yield", "chat", "--epoch", str(ours.epoch)).exit_code == 0
            assert ours.lost.wait(60)
            ours.require()

    with pytest.raises(wakeful.LeaseLost):
        overtaken()


def test_the_library_without_a_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The world's fault, said in one sentence; a mistake in a name is an AttributeError as everywhere."""
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path))
    with pytest.raises(WorldError, match="wakeful up"):
        wakeful.claim_next_run()
    with pytest.raises(WorldError), wakeful.own(parse_session_id("chat")):
        raise AssertionError("owned without a store")
    nothing: Any = wakeful
    with pytest.raises(AttributeError, match="no attribute 'claim_next_runs'"):
        _ = nothing.claim_next_runs


def test_importing_wakeful_imports_nothing() -> None:
    """The names of the library cost nothing until one is used."""
    code = "import sys; before = set(sys.modules); import wakeful; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['wakeful']\n"
