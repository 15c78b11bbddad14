"""Claims about a daemon that is killed while it types: its own text is known again, and removed or sent, never doubled.

Real daemon, real tmux. The input line is a stand-in that writes down what it took, and the real Claude Code.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, TmuxSession, end_tmux, require_tmux, tmux, wait_for

NAME: Final = "typist"
FIRST, SECOND = "the first of two prompts", "a second prompt"
# A delivery into the stand-in takes about a third of a second, into Claude Code about half of one.
KILLED_WITHIN_SECONDS: Final = 0.9
ROUNDS: Final = 12
AGENT: Final = """
import sys
while True:
    line = input("> ")
    with open(sys.argv[1], "a") as file:
        file.write(line + "\\n")
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[RunningDaemon]:
    require_tmux()
    daemon = RunningDaemon(tmp_path / "wakeful")
    yield daemon
    daemon.end()
    end_tmux(socket(daemon))


def socket(daemon: RunningDaemon) -> Path:
    return Path(daemon.environ["WAKEFUL_HOME"]) / "tmux.sock"


def pane(daemon: RunningDaemon) -> TmuxSession:
    return TmuxSession(socket(daemon), NAME)


class Typist:
    """A stand-in in a pane, and what it took."""

    def __init__(self, daemon: RunningDaemon, folder: Path) -> None:
        self.daemon = daemon
        self.taken = folder / "taken"
        self._program = folder / "agent.py"
        self._program.write_text(AGENT)

    def start(self) -> None:
        command = (sys.executable, str(self._program), str(self.taken))
        started = self.daemon.run("run", "--detach", "--name", NAME, "--", *command)
        assert started.exit_code == 0, started.err
        wait_for(lambda: pane(self.daemon).screen().startswith(">") or None, "input line")

    def lines(self) -> list[str]:
        return self.taken.read_text().splitlines() if self.taken.exists() else []


@pytest.fixture
def typist(daemon: RunningDaemon, tmp_path: Path) -> Typist:
    return Typist(daemon, tmp_path)


def warnings(daemon: RunningDaemon, session: str = NAME) -> list[str]:
    found: list[str] = daemon.run("session", "status", session, "--json").json["supervision"]["warnings"]
    return found


def notes(daemon: RunningDaemon) -> list[Path]:
    return sorted((Path(daemon.environ["WAKEFUL_HOME"]) / "run").glob("typing-*"))


@pytest.mark.parametrize(
    ("point", "sent", "said"),
    [
        ("typing.begun", [], "the text was not typed, nothing was sent"),
        ("typing.pasted", [], "it was removed, and nothing was sent"),
        ("typing.seen", [], "it was removed, and nothing was sent"),
        ("typing.entered", [FIRST], ""),
        ("act.done", [FIRST], ""),
    ],
)
def test_killed_at_each_step_its_text_is_known_again(
    typist: Typist, point: str, sent: list[str], said: str
) -> None:
    """The true result is reported, the next prompt is taken whole, and no prompt twice."""
    daemon = typist.daemon
    daemon.up()
    typist.start()
    daemon.end()
    daemon.watch(WAKEFUL_FAULTS=f"{point}:1:kill")
    daemon.up()
    assert daemon.run("session", "send", NAME, FIRST).exit_code == 3
    wait_for(lambda: daemon.has_ended() or None, "death of the daemon")
    (note,) = notes(daemon)
    assert note.stat().st_mode & 0o777 == 0o600
    del daemon.environ["WAKEFUL_FAULTS"]
    daemon.up()
    assert notes(daemon) == []
    told = warnings(daemon)
    assert [said in each for each in told] == ([True] if said else [])
    again = daemon.run("session", "send", NAME, SECOND)
    assert again.exit_code == 0, again.out + again.err
    wait_for(lambda: typist.lines() == [*sent, SECOND] or None, f"prompts: {typist.lines()}")
    assert warnings(daemon) == []


def test_a_draft_that_somebody_wrote_is_left_alone(typist: Typist) -> None:
    """Words behind ours make the line a person's: nothing is removed, nothing is typed, and both are said."""
    daemon = typist.daemon
    daemon.up()
    typist.start()
    daemon.end()
    daemon.watch(WAKEFUL_FAULTS="typing.pasted:1:kill")
    daemon.up()
    daemon.run("session", "send", NAME, FIRST)
    wait_for(lambda: daemon.has_ended() or None, "death of the daemon")
    pane(daemon).tmux("send-keys", "-l", " and mine")
    wait_for(lambda: f"{FIRST} and mine" in pane(daemon).screen() or None, "draft")
    del daemon.environ["WAKEFUL_FAULTS"]
    daemon.up()
    refused = daemon.run("session", "send", NAME, SECOND)
    assert (refused.exit_code, "a person's draft" in refused.out) == (1, True), refused.out
    assert f"> {FIRST} and mine" in pane(daemon).screen()
    assert typist.lines() == []


def is_said(text: str, said: Callable[[], list[str]]) -> bool | None:
    return text in said() or None


def killed_while_it_types(daemon: RunningDaemon, prompt: str, seconds: float) -> None:
    asked = subprocess.Popen(
        daemon.argv("session", "send", NAME, prompt),
        env=daemon.environ,
        cwd=daemon.home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # The command itself takes a while to come up: the first note is the begin of the typing.
    begun = time.monotonic() + 10
    while not notes(daemon) and asked.poll() is None and time.monotonic() < begun:
        time.sleep(0.002)
    time.sleep(seconds)
    daemon.kill()
    asked.wait(30)


def test_killed_at_any_moment_every_prompt_is_sent_once_or_not_at_all(typist: Typist) -> None:
    """Random kills: the report of each prompt is what the program took, and later prompts are never declined."""
    dice = random.Random(17)
    daemon = typist.daemon
    daemon.up()
    typist.start()
    expected: list[str] = []
    for number in range(ROUNDS):
        prompt = f"prompt number {number} of many"
        killed_while_it_types(daemon, prompt, dice.uniform(0, 0.4))
        daemon.up()
        told = warnings(daemon)
        if not any("nothing was sent" in each for each in told):
            assert told == [], f"nobody could say what became of {prompt!r}"
            expected.append(prompt)
        after = daemon.run("session", "send", NAME, f"after {number}")
        assert after.exit_code == 0, f"round {number}: {after.out}{after.err}"
        expected.append(f"after {number}")
        wait_for(partial(is_said, expected[-1], typist.lines), "prompts")
        assert typist.lines() == expected, f"round {number}: {told}"


def said_by_people(claude: ClaudeHome) -> list[str]:
    """What the conversation's file says a person wrote."""
    records = [json.loads(line) for log in claude.logs() for line in log.read_text().splitlines()]
    said = [each["message"]["content"] for each in records if each["type"] == "user"]
    return [each.strip() for each in said if isinstance(each, str)]


def test_the_log_proves_what_the_screen_does_not_show(daemon: RunningDaemon, claude: ClaudeHome) -> None:
    """Killed after Enter, and a person scrolls in the pane: the conversation's log says that the prompt was sent."""
    daemon.watch(**claude.environ(), WAKEFUL_FAULTS="typing.entered:1:kill")
    daemon.up()
    started = daemon.run("run", "--detach", "--name", NAME, "--", "claude", cwd=claude.project)
    assert started.exit_code == 0, started.out + started.err
    assert daemon.run("session", "send", NAME, FIRST).exit_code == 3
    wait_for(lambda: daemon.has_ended() or None, "death of the daemon")
    wait_for(partial(is_said, FIRST, partial(said_by_people, claude)), "prompt")
    pane(daemon).tmux("copy-mode")
    del daemon.environ["WAKEFUL_FAULTS"]
    daemon.up()
    assert warnings(daemon) == []
    assert said_by_people(claude) == [FIRST]


def test_killed_while_it_types_to_claude_code(daemon: RunningDaemon, claude: ClaudeHome) -> None:
    """The same with the real client, with short prompts and with pastes that it shows by a mark only."""
    dice = random.Random(4)
    daemon.watch(**claude.environ())
    daemon.up()
    started = daemon.run("run", "--detach", "--name", NAME, "--", "claude", cwd=claude.project)
    assert started.exit_code == 0, started.out + started.err
    expected: list[str] = []
    for number in range(ROUNDS // 2):
        prompt = (
            f"prompt number {number}" if number % 2 else "\n".join(f"row {number} {row}" for row in range(12))
        )
        killed_while_it_types(daemon, prompt, dice.uniform(0, KILLED_WITHIN_SECONDS))
        daemon.up()
        told = warnings(daemon)
        if not any("nothing was sent" in each for each in told):
            assert told == [], f"nobody could say what became of {prompt!r}"
            expected.append(prompt)
        after = daemon.run("session", "send", NAME, f"after {number}")
        assert after.exit_code == 0, (
            f"round {number}: {after.out}{after.err}\n{tmux(socket(daemon), 'capture-pane', '-p')}"
        )
        expected.append(f"after {number}")
        wait_for(partial(is_said, expected[-1], partial(said_by_people, claude)), "prompts")
        assert said_by_people(claude) == expected, f"round {number}: {told}"
    assert notes(daemon) == []
