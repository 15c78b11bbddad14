"""Completion as a shell has it: the printed script in a real bash, answers from the daemon's door, never for long."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from support.fake_daemon_socket import SILENCE, FakeDaemonSocket, http
from support.real_clients import require_programs
from wakeful.cli.completion import ASK_SECONDS_MAX, CANDIDATES_MAX

SESSIONS = msgspec.json.encode(
    {
        "sessions": [
            {"id": "claude-3f2a91bc", "name": "fox", "project": "shop", "state": "idle", "health": "healthy"},
            {"id": "codex-77aa", "name": None, "project": "a: b, c", "state": "stopped", "health": "dead"},
            {
                "id": "claude-5b60",
                "name": None,
                "short_name": "web",
                "project": "web",
                "state": "waiting",
                "health": "healthy",
            },
            {
                "id": "claude-3f99",
                "name": "$(touch pwned) *",
                "project": "",
                "state": "idle",
                "health": "healthy",
            },
        ]
    }
)
AGENTS = msgspec.json.encode({"agents": [{"id": "fern", "state": "running"}]})
SCRIPT = {"/api/sessions": http(SESSIONS), "/api/agents": http(AGENTS)}


class Shell:
    """A home with a bash in it that has read the script."""

    def __init__(self, home: Path) -> None:
        self.home = home
        bin_folder = home / "bin"
        bin_folder.mkdir()
        command = bin_folder / "wakeful"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m wakeful "$@"\n')
        command.chmod(0o755)
        (home / "state").mkdir(mode=0o700)
        self.environ = {
            "HOME": str(home),
            "WAKEFUL_HOME": str(home / "state"),
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
        }

    def run(self, *words: str, **environ: str) -> str:
        return subprocess.run(
            words,
            env=self.environ | environ,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout

    def press_tab(self, *words: str) -> list[str]:
        """What bash offers after these words; the last one is not finished."""
        asked = f'COMP_WORDS=("$@") COMP_CWORD={len(words) - 1}; _wakeful_completion wakeful'
        script = f'eval "$(wakeful completion bash)"; {asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'
        return self.run("bash", "-c", script, "bash", *words).split()

    def asked(self, *words: str) -> list[str]:
        """The same without a shell around it: values only."""
        said = self.run(
            "wakeful",
            _WAKEFUL_COMPLETE="bash_complete",
            COMP_WORDS=" ".join(words),
            COMP_CWORD=str(len(words) - 1),
        )
        return [line.partition(",")[2] for line in said.splitlines() if line]

    def door(self, script: dict[str, bytes]) -> FakeDaemonSocket:
        return FakeDaemonSocket(self.home / "state" / "wakeful.sock", script)


@pytest.fixture
def shell() -> Iterator[Shell]:
    # Short: a socket's path has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="wk") as name:
        yield Shell(Path(name))


def test_bash_completes_commands_and_sessions(shell: Shell) -> None:
    """Commands from the table; names, ids and bare conversation ids from the daemon; nothing that a shell would run."""
    with shell.door(SCRIPT):
        assert shell.press_tab("wakeful", "inc") == ["incidents"]
        assert shell.press_tab("wakeful", "session", "why", "") == [
            "fox",
            "codex-77aa",
            "web",
            "claude-3f99",
        ]
    assert not (shell.home / "pwned").exists()


def test_a_word_goes_on_in_every_way_it_could(shell: Shell) -> None:
    """By name, by id, by conversation; agents where one is wanted, both where one goes to a terminal."""
    with shell.door(SCRIPT):
        assert shell.asked("wakeful", "session", "health", "3f2") == ["3f2a91bc"]
        assert shell.asked("wakeful", "why", "claude-") == ["claude-3f2a91bc", "claude-5b60", "claude-3f99"]
        assert shell.asked("wakeful", "stop", "w") == ["web"]
        assert shell.asked("wakeful", "mute", "cod") == ["codex-77aa"]
        assert shell.asked("wakeful", "agent", "start", "f") == ["fern"]
        assert shell.asked("wakeful", "attach", "f") == ["fern", "fox"]
        assert shell.asked("wakeful", "session", "wait", "fox", "--until", "w") == ["waiting"]


def test_nobody_waits_long_for_a_completion(shell: Shell) -> None:
    """A daemon that is not there, or says nothing, offers nothing, soon and without a word."""
    assert shell.asked("wakeful", "session", "health", "") == []
    with shell.door({"/": SILENCE}):
        began = time.monotonic()
        assert shell.asked("wakeful", "session", "health", "") == []
        assert ASK_SECONDS_MAX <= time.monotonic() - began < ASK_SECONDS_MAX + 10


def test_ten_thousand_sessions_are_not_all_offered(shell: Shell) -> None:
    """A hundred candidates at most; one more letter leaves fewer."""
    many = [
        {"id": f"s-{each}", "name": None, "project": "", "state": "idle", "health": "healthy"}
        for each in range(10_000)
    ]
    with shell.door({"/api/sessions": http(msgspec.json.encode({"sessions": many}))}):
        assert len(shell.asked("wakeful", "session", "health", "")) == CANDIDATES_MAX
        assert shell.asked("wakeful", "session", "health", "s-9999") == ["s-9999"]


def test_fish_explains_commands_in_whole_sentences(shell: Shell) -> None:
    """A comma in an explanation is not its end."""
    require_programs("fish")
    places = shell.home / ".config/fish/completions"
    places.mkdir(parents=True)
    (places / "wakeful.fish").write_text(shell.run("wakeful", "completion", "fish"))
    offered = shell.run("fish", "-c", "complete -C 'wakeful config '").splitlines()
    assert "show\tShow every value and its origin" in offered


def test_zsh_and_fish_are_told_whose_session_it_is(shell: Shell) -> None:
    """Project, state and health, in words that neither takes for a separator of its own."""
    words = {"COMP_WORDS": "wakeful session why ", "COMP_CWORD": "3"}
    with shell.door(SCRIPT):
        zsh = shell.run("wakeful", _WAKEFUL_COMPLETE="zsh_complete", **words).splitlines()
        fish = shell.run("wakeful", _WAKEFUL_COMPLETE="fish_complete", **words | {"COMP_CWORD": ""})
    assert zsh[:6] == ["plain", "fox", "shop idle healthy", "plain", "codex-77aa", "stopped dead"]
    assert "plain,web\tweb waiting healthy" in fish.splitlines()
    assert "plain,codex-77aa\tstopped dead" in fish.splitlines()


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(shell: Shell, name: str) -> None:
    """The printed script asks this program in its own way."""
    script = shell.run("wakeful", "completion", name)
    assert f"_WAKEFUL_COMPLETE={name}_complete" in script
