"""Claims about machines that share a store: none takes another's sessions for its own dead ones.

Real daemons on machines made of namespaces, and a cheap client that notes every start. Each waits a few seconds, because
nothing may happen: without host scope another daemon acted within three seconds.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from support import stub_claude
from support.daemon_process import CommandResult
from support.machines import MachineDaemon, NamespaceMachine, machines
from support.real_clients import wait_for

# Two rounds of healing and of following the store, on a busy machine.
QUIET_SECONDS = 7.0
# What a client of the daemon on a machine runs there: one request with an idempotency key.
POST = """
import sys
import time
from pathlib import Path
from wakeful.client.client import DaemonClient
from wakeful.config.paths import StatePaths
state, target, body, key, at = sys.argv[1:]
time.sleep(float(at) - time.time())
answer = DaemonClient(StatePaths(state)).post(target, body.encode(), key=key, timeout_seconds=45)
print(answer.body.decode())
"""


class Fleet:
    """The machines of one test, their daemons, the one store, and the starts of the client."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._daemons: list[MachineDaemon] = []
        self.store = folder / "shared.db"
        self.home = folder / "agents"
        self.project = self.home / "shop"
        self.project.mkdir(parents=True)
        self._starts = folder / "starts"
        program = Path(stub_claude.install(folder / "bin"))
        noting = f'open({str(self._starts)!r}, "a").write(f"{{sys.argv}}\\n")\ntime.sleep(float(os.environ.get("START_SECONDS", 0)))'
        program.write_text(program.read_text().replace("\nRecord = ", f"\n{noting}\nRecord = ", 1))

    def machines(self, *names: str, **identity: str) -> list[NamespaceMachine]:
        return self._stack.enter_context(machines(self._folder, *names, **identity))

    def daemon(
        self,
        machine: NamespaceMachine,
        *,
        home: Path | None = None,
        state: Path | None = None,
        **environ: str,
    ) -> MachineDaemon:
        """A daemon that heals after a second; without `home`, its machine shares no files but the store.

        With `state`, that is its state folder and has its store.
        """
        daemon = MachineDaemon(machine, self._folder / f"daemon-{len(self._daemons)}")
        daemon.watch(
            **({"HOME": home} if home is not None else {}),
            **(
                {"WAKEFUL_STORE__URL": f"sqlite:///{self.store}"}
                if state is None
                else {"WAKEFUL_HOME": state}
            ),
            WAKEFUL_HEAL__CONFIRM_SECONDS="1",
            WAKEFUL_HEAL__PACE_SECONDS="0.1",
            PATH=f"{self._folder / 'bin'}:{os.environ['PATH']}",
            **environ,
        )
        self._daemons.append(daemon)
        return daemon

    def run(self, daemon: MachineDaemon, *words: str) -> CommandResult:
        return daemon.run("run", "--json", "--headless", *words, "--", "claude", cwd=self.project)

    def start(self, daemon: MachineDaemon, prompt: str = "hang here") -> str:
        """An agent in the middle of a turn, or after it; returns the id of its session."""
        done = self.run(daemon, "--prompt", prompt)
        assert done.exit_code == 0, done.err
        state = "prompting" if prompt.startswith("hang") else "idle"
        seen = daemon.wait_for_session(lambda each: each["state"] == state, f"{state} agent", 20)
        return str(seen["id"])

    @property
    def starts(self) -> list[str]:
        return self._starts.read_text().splitlines() if self._starts.exists() else []

    def rows(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)) as reader:
            return [row[0] for row in reader.execute(query)]

    def end(self) -> None:
        self._stack.close()
        for daemon in self._daemons:
            daemon.wait_until_over()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.end()


def record_of(daemon: MachineDaemon, session_id: str) -> dict[str, Any]:
    return daemon.wait_for_session(lambda each: each["id"] == session_id, session_id, 10)


def require_left_alone(fleet: Fleet, here: MachineDaemon, there: MachineDaemon, session_id: str) -> None:
    """For some seconds, `there` starts nothing and says that it cannot know; `here` goes on."""
    until = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < until:
        assert len(fleet.starts) == 1, "the other machine started the agent again"
        time.sleep(0.2)
    own, foreign = record_of(here, session_id), record_of(there, session_id)
    assert (own["state"], own["health"], own["session_alive"]) == ("prompting", "healthy", True)
    assert foreign["health"] == "unknown"
    assert there.run("incidents", "--json").json["incidents"] == []
    assert [each["code"] for each in foreign["findings"]] == ["runs_elsewhere"]
    assert foreign["findings"][0]["summary"] == f"runs on another machine: {here.machine.name}"
    assert (foreign["host"], foreign["actions"], foreign["managed"]) == (here.machine.name, [], False)


def test_each_machine_leaves_the_agents_of_the_others_alone(fleet: Fleet) -> None:
    """Two hosts with homes of their own on one store. Before, one agent became nine in 25 s."""
    one, two = fleet.machines("one", "two")
    here, there = fleet.daemon(one), fleet.daemon(two)
    here.up()
    session_id = fleet.start(here)
    there.up()
    require_left_alone(fleet, here, there, session_id)
    refused = there.run("send", session_id, "hello")
    assert refused.exit_code == 1
    assert "runs on another machine, one" in refused.err
    assert len(fleet.starts) == 1


def test_a_shared_home_gives_a_conversation_no_second_owner(fleet: Fleet) -> None:
    """The other host reads the same log and finds no process. Before, it resumed the conversation within 3 s."""
    one, two = fleet.machines("one", "two")
    here, there = fleet.daemon(one, home=fleet.home), fleet.daemon(two, home=fleet.home)
    here.up()
    session_id = fleet.start(here)
    there.up()
    require_left_alone(fleet, here, there, session_id)
    for words in (("adopt", session_id), ("resume", session_id, "--yes"), ("stop", session_id)):
        assert there.run(*words).exit_code == 1
    assert len(fleet.starts) == 1
    assert record_of(here, session_id)["health"] == "healthy"


def test_two_containers_with_one_volume_are_two_machines(fleet: Fleet) -> None:
    """One machine id, one boot, two pid namespaces. Before, both said that all is well with two owners."""
    one, two = fleet.machines("one", "two", machine_id="0" * 32, boot_id="one boot of one kernel")
    here, there = fleet.daemon(one, home=fleet.home), fleet.daemon(two, home=fleet.home)
    here.up()
    session_id = fleet.start(here)
    there.up()
    require_left_alone(fleet, here, there, session_id)


@pytest.mark.parametrize("are_two", [False, True], ids=["one machine", "two machines"])
def test_one_key_through_two_daemons_acts_once(fleet: Fleet, *, are_two: bool) -> None:
    """Before, each daemon delivered the prompt; the key was kept without compare-and-set."""
    made = fleet.machines(*(("one", "two") if are_two else ("one",)))
    here = fleet.daemon(made[0], home=fleet.home)
    there = fleet.daemon(made[-1], home=fleet.home)
    here.up()
    session_id = fleet.start(here, "hello")
    there.up()
    record_of(there, session_id)
    # The way to the agent is on their volume, too.
    run = (Path(each.environ["WAKEFUL_HOME"], "run") for each in (here, there))
    own, others = run
    others.rmdir()
    others.symlink_to(own)
    at = str(time.time() + 5)
    body = json.dumps({"prompt": "slow 1"})
    asked = [
        subprocess.Popen(
            each.machine.argv(
                *(sys.executable, "-c", POST, each.environ["WAKEFUL_HOME"]),
                *(f"/api/sessions/{session_id}/send", body, "the key", at),
            ),
            env=each.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for each in (here, there)
    ]
    answers = [each.communicate(timeout=50) for each in asked]
    log = next(fleet.home.glob(".claude/projects/*/*.jsonl"))
    prompts = re.findall(r'"role": "user", "content": "slow 1"', log.read_text())
    assert len(prompts) == 1, answers
    if not are_two:
        assert answers[0][0] == answers[1][0] != "", answers


def test_a_machine_without_an_agent_keeps_the_notes_of_another_about_it(fleet: Fleet) -> None:
    """Two machines declare different agents. Before, a start deleted the notes about agents that it did not know."""
    one, two = fleet.machines("one", "two")
    here, there = fleet.daemon(one), fleet.daemon(two)
    config = here.home / "wakeful.toml"
    config.write_text('[agents.bot]\nruntime = "tmux"\ncommand = ["sleep", "100000"]\n')
    here.watch(WAKEFUL_CONFIG=config)
    here.up()
    started = here.run("agent", "start", "bot", "--json")
    assert started.exit_code == 0, started.err
    notes = "SELECT key FROM notes WHERE kind = 'agent'"
    wait_for(lambda: fleet.rows(notes) or None, "note about the agent", 10)
    there.up()
    time.sleep(2)
    assert fleet.rows(notes) == ["bot"]


def test_a_start_of_one_machine_is_concluded_there_only(fleet: Fleet) -> None:
    """The other machine starts meanwhile. Before, it concluded the intent and gave the claim back."""
    one, two = fleet.machines("one", "two")
    here, there = fleet.daemon(one, START_SECONDS="6"), fleet.daemon(two)
    here.up()
    words = here.argv("run", "--json", "--headless", "--prompt", "hang here", "--", "claude")
    start = subprocess.Popen(words, env=here.environ, cwd=fleet.project, stdout=subprocess.PIPE, text=True)
    is_open = "SELECT id FROM intents WHERE outcome IS NULL"
    wait_for(lambda: fleet.rows(is_open) or None, "intent of the start", 10)
    there.up()
    assert fleet.rows("SELECT outcome FROM intents") == [None]
    assert fleet.rows("SELECT count(*) FROM leases WHERE owner IS NOT NULL") == [1]
    out, _ = start.communicate(timeout=40)
    assert json.loads(out)["outcome"] == "recovered", out
    assert len(fleet.starts) == 1


def test_after_a_reboot_a_machine_still_resumes_its_own_agents(fleet: Fleet) -> None:
    """A reboot is another boot id of the same machine: its processes are gone for certain."""
    (one,) = fleet.machines("one")
    daemon = fleet.daemon(one)
    daemon.watch(WAKEFUL_HEAL__CONFIRM_SECONDS="86400")
    daemon.up()
    session_id = fleet.start(daemon)
    one.reboot()
    wait_for(lambda: daemon.has_ended() or None, "end of the daemon", 10)
    daemon.up()
    seen = daemon.wait_for_session(lambda each: each["id"] == session_id and each["findings"], "death", 20)
    assert (seen["health"], seen["findings"][0]["code"]) == ("dead", "session_dead")
    listed = daemon.run("restore", "--dry-run")
    assert session_id in listed.out or seen["short_name"] in listed.out, listed.out + listed.err


def test_a_container_that_is_started_again_continues_what_it_stored(fleet: Fleet, tmp_path: Path) -> None:
    """It has other pids than before, and its own state folder: the session is managed, its agent unknown, not dead."""
    one, two = fleet.machines("one", "two", machine_id="0" * 32, boot_id="one boot of one kernel")
    before = fleet.daemon(one, home=fleet.home, state=tmp_path / "volume")
    before.up()
    session_id = fleet.start(before)
    one.end()
    after = fleet.daemon(two, home=fleet.home, state=tmp_path / "volume")
    after.up()
    until = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < until:
        assert len(fleet.starts) == 1, "nothing shows that the agent has ended"
        time.sleep(0.2)
    record = record_of(after, session_id)
    assert (record["managed"], record["health"], record["session_alive"]) == (True, "unknown", False)
    assert [each["code"] for each in record["findings"]] == []
