"""Claims about who may decide: a person's caller passes, a caller inside a session is refused, at both listeners."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support import claude_transcripts
from support.daemon_process import RunningDaemon
from support.stub_clients import tool_runner
from support.supervisor_fixture import HttpFixture, open_http_fixture
from wakeful.core.ids import SessionId
from wakeful.http.caller import RequestClass, classify_path
from wakeful.linux.tcp_peers import inode_of, tcp_callers

CONVERSATION = "5a74ada3-0000-4000-8000-000000000001"
SESSION = f"claude-{CONVERSATION}"
# With what each needs to be understood.
DECISIONS: dict[str, dict[str, object]] = {
    "/api/sessions": {"argv": ["claude"], "cwd": "/", "environ": {}},
    "/api/sessions/claude-working/adopt": {},
    "/api/sessions/claude-working/send": {"prompt": "go on"},
    "/api/sessions/claude-working/stop": {},
    "/api/sessions/claude-working/resume": {},
    "/api/sessions/claude-working/interrupt": {},
    "/api/agents/fox/start": {},
    "/api/agents/fox/stop": {},
    "/api/agents/fox/restart-session": {},
    "/api/login-codes": {},
    "/api/decisions": {},
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
def doors(tmp_path: Path) -> Iterator[HttpFixture]:
    with open_http_fixture(tmp_path) as doors:
        yield doors


def callers(doors: HttpFixture) -> list[httpx.Client]:
    by_socket = httpx.Client(transport=httpx.HTTPTransport(uds=str(doors.path)), base_url="http://wakeful")
    by_token = httpx.Client(base_url=doors.url, headers={"authorization": f"Bearer {doors.token}"})
    return [by_socket, by_token]


@pytest.mark.parametrize("path", DECISIONS)
def test_an_agent_may_not_decide(doors: HttpFixture, path: str) -> None:
    """Neither over the socket nor with the token, and nothing happens."""
    doors.working_for[os.getpid()] = SessionId("claude-working")
    for caller in callers(doors):
        with caller:
            answer = caller.post(path, json=DECISIONS[path])
            assert answer.status_code == 403
            # Only the socket accepts the daemon's end, from any caller.
            assert answer.json()["code"] in {"agent-may-not-decide", "wrong-door"}
    assert doors.orders == []


def test_a_person_may(doors: HttpFixture) -> None:
    """The same caller, outside every session, adopts and releases."""
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


def test_reading_is_for_everybody(doors: HttpFixture) -> None:
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
    """The same port towards another program is another connection."""
    table = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:9C40 0100007F:128B 01 00000000:00000000 00:00000000 00000000     0        0 4242 1\n"
    )
    assert inode_of(table, ("127.0.0.1", 40000), ("127.0.0.1", 4747)) == 4242
    assert inode_of(table, ("127.0.0.1", 40000), ("127.0.0.1", 4748)) is None


def test_the_daemon_knows_its_agents_children(daemon: RunningDaemon, tmp_path: Path) -> None:
    """A command below a session's process, or marked by its client, cannot adopt it or end the daemon."""
    config = daemon.home / "claude"
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    with tool_runner(tmp_path / "bin", daemon.environ) as agent:
        claude_transcripts.register(config, CONVERSATION, agent.pid, "busy")
        claude_transcripts.write(config, CONVERSATION, claude_transcripts.prompt(time.time(), CONVERSATION))
        daemon.up()
        daemon.wait_for_session(lambda record: record["session_alive"], "living session")
        assert agent.ask(daemon.argv("down")).exit_code == 1
        marked = daemon.run("session", "adopt", SESSION, environ={"CLAUDE_CODE_SESSION_ID": CONVERSATION})
        assert (marked.exit_code, "Only people may decide" in marked.err) == (1, True)
        assert daemon.run("session", "adopt", SESSION).exit_code == 0


def test_an_order_that_nobody_thought_of_is_a_decision() -> None:
    """Only what agents work with is open to them; a new route is guarded by being new."""
    assert classify_path("/api/something/new") is RequestClass.DECISION
    kinds = {
        classify_path(path)
        for path in ("/api/work", "/api/work/7/complete", "/api/login", "/api/sessions/x/claim")
    }
    assert kinds == {RequestClass.UNRESTRICTED}
    assert {classify_path(path) for path in ("/api/shutdown", "/api/pause")} == {RequestClass.REDUCING}
    assert classify_path("/api/sessions/claim/stop") is RequestClass.DECISION
    assert classify_path("/api/checkpoints/7/continue") is RequestClass.APPROVAL


def test_a_caller_over_ipv6_is_found() -> None:
    """The kernel keeps those connections in another table."""
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this host has no ::1")
    with server, socket.create_connection(server.getsockname()[:2]) as client:
        own, other = client.getsockname()[:2], client.getpeername()[:2]
        assert tcp_callers(own, other) == [os.getpid()]


def test_a_connection_that_is_closed_has_no_caller() -> None:
    """The kernel still lists it; who had it open is gone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        own, other = client.getsockname(), client.getpeername()
        accepted, _ = server.accept()
        client.close()
        with accepted:
            assert tcp_callers(own, other) == []
