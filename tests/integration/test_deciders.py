"""Claims about who may decide: a person's caller passes, whoever works inside a session is refused, at both doors."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import transcripts
from daemons import RunningDaemon
from desks import Doors, open_doors
from wakeful.adapters.system.connections import inode_of, tcp_callers
from wakeful.domain.ids import SessionId

CONVERSATION = "5a74ada3-0000-4000-8000-000000000001"
SESSION = f"claude-{CONVERSATION}"
# With what each needs to be understood.
DECISIONS: dict[str, dict[str, object]] = {
    "/api/sessions/claude-working/adopt": {},
    "/api/sessions/claude-working/answer": {"question_id": "q1", "reply": "allow"},
    "/api/sessions/claude-working/revive": {"approved": True},
    "/api/sessions/claude-working/restore": {},
    "/api/sessions/claude-working/repair": {},
    "/api/pause": {},
    "/api/mutes": {"kind": "project", "value": "shop", "for_seconds": 60},
    "/api/events/archive": {"before": "1d"},
    "/api/shutdown": {},
}


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    with open_doors(tmp_path) as doors:
        yield doors


def callers(doors: Doors) -> list[httpx.Client]:
    by_socket = httpx.Client(transport=httpx.HTTPTransport(uds=str(doors.path)), base_url="http://wakeful")
    by_token = httpx.Client(base_url=doors.url, headers={"authorization": f"Bearer {doors.token}"})
    return [by_socket, by_token]


@pytest.mark.parametrize("path", DECISIONS)
def test_an_agent_may_not_decide(doors: Doors, path: str) -> None:
    """Neither over the socket nor with the token, and nothing happens."""
    doors.working_for[os.getpid()] = SessionId("claude-working")
    for caller in callers(doors):
        with caller:
            answer = caller.post(path, json=DECISIONS[path])
            assert answer.status_code == 403
            # The daemon's end is an order of the socket alone, whoever asks.
            assert answer.json()["code"] in {"agent-may-not-decide", "wrong-door"}
    assert doors.orders == []


def test_a_person_may(doors: Doors) -> None:
    """The same caller, working for nobody, adopts and releases."""
    for caller in callers(doors):
        with caller:
            for said in (b"", b"{}", b'{"name": "fox"}'):
                adopted = caller.post(
                    "/api/sessions/claude-working/adopt",
                    content=said,
                    headers={"content-type": "application/json"},
                )
                assert (adopted.status_code, adopted.json()["managed"]) == (200, True)
            assert caller.get("/api/sessions/fox").json()["id"] == "claude-working"
            assert caller.post("/api/sessions/claude-working/release", json={}).json()["managed"] is False


def test_reading_is_for_everybody(doors: Doors) -> None:
    """An agent may ask how it is."""
    doors.working_for[os.getpid()] = SessionId("claude-working")
    for caller in callers(doors):
        with caller:
            assert caller.get("/api/sessions/claude-working").status_code == 200


def test_the_caller_of_a_connection_is_found() -> None:
    """By the kernel's own table and the descriptors of processes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            assert tcp_callers(client.getsockname(), client.getpeername()) == [os.getpid()]
        assert tcp_callers(("127.0.0.1", 1), server.getsockname()) == []


def test_a_row_is_found_by_both_addresses() -> None:
    """The same port towards somebody else is another connection."""
    table = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:9C40 0100007F:128B 01 00000000:00000000 00:00000000 00000000     0        0 4242 1\n"
    )
    assert inode_of(table, ("127.0.0.1", 40000), ("127.0.0.1", 4747)) == 4242
    assert inode_of(table, ("127.0.0.1", 40000), ("127.0.0.1", 4748)) is None


@pytest.fixture
def agent() -> Iterator[subprocess.Popen[str]]:
    """A process that stands for a client and runs the commands it is given, as its tools would run."""
    program = "import subprocess, sys\nfor line in sys.stdin: print(subprocess.run(line.split()).returncode, flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


def test_the_daemon_knows_its_agents_children(daemon: RunningDaemon, agent: subprocess.Popen[str]) -> None:
    """A command below a session's process, or marked by its client, cannot adopt it or end the daemon."""
    config = daemon.home / "claude"
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    transcripts.register(config, CONVERSATION, agent.pid, "busy")
    transcripts.write(config, CONVERSATION, transcripts.prompt(time.time(), CONVERSATION))
    daemon.up()
    daemon.wait_for_session(lambda record: record["session_alive"], "living session")
    assert agent.stdin is not None
    assert agent.stdout is not None
    inside = " ".join(["env", f"WAKEFUL_HOME={daemon.environ['WAKEFUL_HOME']}", *daemon.argv("down")])
    agent.stdin.write(f"{inside}\n")
    agent.stdin.flush()
    assert agent.stdout.readline() == "1\n"
    marked = daemon.run("session", "adopt", SESSION, environ={"CLAUDE_CODE_SESSION_ID": CONVERSATION})
    assert (marked.exit_code, "Decisions are for people" in marked.err) == (1, True)
    assert daemon.run("session", "adopt", SESSION).exit_code == 0
