"""Claims about bad orders: too early, too long, empty, foreign, to a session that is gone.

The real command, daemon and clients. Each is either carried out whole or refused in one line; nothing gets lost.
"""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from support import prerequisites
from support.cli_user import DONE, Operator, bash
from support.real_clients import ClaudeHome, CodexHome, wait_for
from support.run_program import run_program
from support.tmux_server import Server
from wakeful.testing.scripted_model import script

MEGABYTE = 1_000_000
FREE = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")


def long_prompt(filling: str) -> str:
    """A prompt of exactly one megabyte that the scripted model answers."""
    told = script(DONE)
    count = (MEGABYTE - len(told)) // len(filling.encode())
    return told + filling * count + "x" * (MEGABYTE - len(told) - count * len(filling.encode()))


def test_a_stop_while_starting_ends_what_was_started(operator: Operator, claude: ClaudeHome) -> None:
    """Called by its name before its start has come to its end, it is managed already, and nothing of it is left."""
    with operator.begin("run", "--detach", "--name", "docs", "--", "claude") as starting:
        wait_for(
            lambda: any(each["name"] == "docs" for each in operator.daemon.sessions()) or None, "session"
        )
        was_starting = starting.poll() is None
        stopped = operator.type("session", "stop", "docs")
        said = starting.communicate(timeout=60)[0]
    assert (stopped.exit_code, "stopped (" in stopped.out) == (0, True), stopped.err + stopped.out
    assert was_starting, f"the start was over before anybody could stop it: {said}"
    wait_for(lambda: claude.registry() == [] or None, "end of the agent")
    # The daemon of this test has the same home, and its tmux server stays.
    server = Server(Path(operator.daemon.environ["WAKEFUL_HOME"]) / "tmux.sock")
    assert sorted(claude.pids()) == sorted([operator.daemon.pid, server.pid])
    left = operator.act("status", "docs")
    assert (left["name"], left["managed"], left["session_alive"]) == ("docs", True, False)


@pytest.mark.parametrize("filling", ["x", '"\\\n', "漢"], ids=["plain", "escaped", "wide"])
def test_a_megabyte_arrives_whole_without_a_terminal(
    operator: Operator, claude: ClaudeHome, filling: str
) -> None:
    """However JSON writes it: the conversation's file holds every character of it."""
    session_id = operator.start("--headless", "--", "claude")
    prompt = long_prompt(filling)
    assert len(prompt.encode()) == MEGABYTE
    sent = operator.pipe(prompt.encode(), "session", "send", session_id)
    assert (sent.exit_code, "prompt sent (" in sent.out) == (0, True), sent.err + sent.out
    operator.wait_until(session_id, "end of the turn", state="idle", health="healthy")
    assert prompt in wait_for(lambda: prompts_of(claude) or None, "prompt")


def prompts_of(claude: ClaudeHome) -> list[str]:
    """What the conversation's file says a person wrote."""
    lines = [line for path in claude.logs() for line in path.read_text().splitlines()]
    said = [each["message"]["content"] for each in map(json.loads, lines) if each["type"] == "user"]
    return [each for each in said if isinstance(each, str)]


def test_a_megabyte_arrives_whole_at_codex(codex_operator: Operator, codex: CodexHome) -> None:
    """As the first prompt of a conversation, from standard input."""
    prompt = long_prompt('"\\\n')
    command = ("run", "--prompt", "-", "--json", "--", "codex", "exec", *FREE)
    started = codex_operator.pipe(prompt.encode(), *command)
    assert started.exit_code == 0, started.err + started.out
    codex_operator.wait_until(started.json["session_id"], "end of the turn", state="stopped", managed=True)
    (rollout,) = codex.logs()
    assert json.dumps(prompt, ensure_ascii=False)[1:-1] in rollout.read_text()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"caf\xe9", "it is not text in UTF-8"),
        (b"", "it is empty"),
        (b" \n\t ", "it is empty"),
        (
            b"x" * (1024 * 1024 + 1),
            "it has more than 1,048,576 bytes; write it to a file and send the file's path",
        ),
    ],
    ids=["not UTF-8", "nothing", "blank", "too long"],
)
def test_what_is_no_prompt_is_not_sent(operator: Operator, said: bytes, reason: str) -> None:
    """One line that says why, for a first prompt and for a later one; no agent is started or disturbed."""
    refused = operator.pipe(said, "run", "--headless", "--prompt", "-", "--", "claude")
    assert (refused.exit_code, refused.err) == (2, f"wakeful: This prompt was not sent: {reason}.\n")
    assert (refused.out, operator.daemon.sessions()) == ("", [])
    refused = operator.pipe(said, "session", "send", "nobody")
    assert (refused.exit_code, refused.err) == (2, f"wakeful: This prompt was not sent: {reason}.\n")


def test_words_that_are_no_text_are_named(operator: Operator, tmp_path: Path) -> None:
    """In the command, the name and the folder: one line each, and nothing is started."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    here, there = operator.home.project, folder
    for cwd, words in (
        (here, ("--", os.fsdecode(b"caf\xe9"))),
        (here, ("--name", os.fsdecode(b"\xff"), "--", "claude")),
        (there, ("--", "claude")),
    ):
        refused = operator.daemon.run("run", "--detach", *words, cwd=cwd)
        assert (refused.exit_code, "not UTF-8 text" in refused.err, refused.err.count("\n")) == (
            2,
            True,
            1,
        )
    assert operator.daemon.sessions() == []


def test_what_could_command_a_terminal_is_refused(operator: Operator, claude: ClaudeHome) -> None:
    """Escape sequences, and what is longer than a terminal takes; with and without a terminal nothing is typed."""
    in_tmux = operator.start("--name", "docs", "--", "claude")
    for prompt, reason in (("red \x1b[31m", "U+001B"), ("bell \x07", "U+0007"), ("x" * 40_000, "32,768")):
        refused = operator.type("session", "send", in_tmux, prompt)
        assert (refused.exit_code, reason in refused.err, refused.err.count("\n")) == (2, True, 1), (
            refused.err
        )
    headless = operator.type("run", "--headless", "--prompt", "red \x1b[31m", "--", "claude")
    assert (headless.exit_code, "U+001B" in headless.err) == (2, True), headless.err
    assert claude.logs() == []
    assert len(operator.daemon.sessions()) == 1


def test_a_folder_that_vanished_is_named(operator: Operator, claude: ClaudeHome, tmp_path: Path) -> None:
    """Under a shell that stands in it, and under a conversation that is to be continued there."""
    command = shlex.join([sys.executable, "-m", "wakeful", "run", "--", "claude"])
    gone = f"mkdir gone && cd gone && rmdir ../gone && {command}"
    done = run_program(["/bin/sh", "-c", gone], env=operator.daemon.environ, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n"), "no longer exists" in done.stderr) == (2, 1, True)
    session_id = operator.start("--headless", "--prompt", script(DONE), "--", "claude")
    operator.wait_until(session_id, "end of the turn", state="idle")
    assert operator.act("stop", session_id)["outcome"] == "recovered"
    operator.wait_until(session_id, "end", session_alive=False)
    shutil.rmtree(claude.project)
    resumed = operator.daemon.run("session", "resume", session_id)
    assert (resumed.exit_code, f"{claude.project} no longer exists" in resumed.err) == (2, True)
    claude.project.mkdir()


def test_one_prompt_claude_takes_no_more_when_adopted(operator: Operator, claude: ClaudeHome) -> None:
    """The message has the true reason, and says that the conversation can go on once it has ended; a second release, too."""
    claude.run_print(script(bash("sleep 100"), DONE), "--allowedTools", "Bash")
    claude.wait_for_tool("sleep")
    found = operator.daemon.wait_for_session(lambda each: each["state"] == "prompting", "session")
    assert operator.act("adopt", found["id"])["managed"]
    sent = operator.act("send", found["id"], "hurry up")
    assert (sent["outcome"], "accepts no more" in sent["words"]) == ("declined", True), sent
    assert operator.act("interrupt", found["id"])["outcome"] == "declined"
    assert operator.type("session", "release", found["id"]).exit_code == 0
    again = operator.type("session", "release", found["id"])
    assert (again.exit_code, "is not managed by Wakeful: there is nothing to release" in again.err) == (
        2,
        True,
    ), again.err


def test_codex_goes_on_in_its_own_place_after_the_daemon_died(
    codex: CodexHome, operator_apart: Operator
) -> None:
    """Killed in the middle of a turn, the daemon loses none; the next prompt has its sender's keys and the first
    one's home, neither of which the daemon has."""
    daemon, environ = operator_apart.daemon, codex.environ()

    def typed(*arguments: str) -> dict[str, object]:
        done = daemon.run(*arguments, environ=environ, cwd=codex.project)
        assert done.exit_code == 0, done.err + done.out
        answer: dict[str, object] = done.json
        return answer

    turn = script({"run": "sleep 2"}, DONE)
    started = typed("run", "--json", "--name", "shop", "--", "codex", "exec", *FREE, turn)
    session_id = str(started["session_id"])
    codex.wait_for_tool("sleep")
    daemon.kill()
    daemon.up()
    ended = operator_apart.wait_until(session_id, "end of the turn", state="stopped", managed=True)
    assert (ended["attempt"], ended["name"]) == (1, "shop")
    environ |= {"HOME": str(daemon.home), "CODEX_HOME": str(daemon.home / "another")}
    assert typed("session", "send", "--json", "shop", script(DONE))["outcome"] == "recovered"
    (rollout,) = codex.logs()
    wait_for(lambda: rollout.read_text().count("All done") >= 2 or None, "second answer")


def test_a_client_of_another_version_is_driven_by_its_shapes(
    operator: Operator, claude: ClaudeHome, tmp_path: Path
) -> None:
    """An unknown version is no reason to refuse; doctor names it."""
    package = tmp_path / "newer"
    package.mkdir()
    real = shutil.which("claude", path=str(prerequisites.bin_dir()))
    fake = package / "claude"
    fake.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "99.1.0 (Claude Code)" && exit\nexec {real} "$@"\n'
    )
    fake.chmod(0o755)
    (package / "package.json").write_text('{"version": "99.1.0"}')
    operator.daemon.watch(PATH=f"{package}:{operator.daemon.environ['PATH']}")
    session_id = operator.start("--headless", "--prompt", script(DONE), "--", "claude")
    operator.wait_until(session_id, "end of the turn", state="idle", managed=True)
    assert operator.act("send", session_id, script(DONE))["outcome"] == "recovered"
    doctor = operator.type("doctor")
    assert f"99.1.0 at {fake}" in doctor.out
    assert claude.logs()
