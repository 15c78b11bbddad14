"""Claims about the clients of the daemon's socket: one request, one answer, and the same errors in both."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from support.fake_daemon_socket import SILENCE, FakeDaemonSocket, http
from wakeful.client.async_client import AsyncDaemonClient
from wakeful.client.client import DaemonClient, decode_body
from wakeful.client.errors import (
    DaemonAway,
    DaemonEnded,
    DaemonFailed,
    DaemonNotRunning,
    DaemonRefused,
    DaemonSilent,
    DaemonUnreachable,
    DaemonVersionMismatch,
    RequestDeclined,
    RequestFailed,
    RequestRefused,
)
from wakeful.config.paths import StatePaths
from wakeful.core.errors import WakefulError
from wakeful.judging.session_record import SessionRecord
from wakeful.views.records import SessionList

TARGET = "/api/sessions/x/stop"
SECONDS = 0.3
Ask = Callable[[str, str], bytes]


def ask_blocking(home: str, method: str) -> bytes:
    client = DaemonClient(StatePaths(home))
    if method == "GET":
        return client.get(TARGET, timeout_seconds=SECONDS).body
    return client.post(TARGET, timeout_seconds=SECONDS).body


def ask_async(home: str, method: str) -> bytes:
    async def ask() -> bytes:
        client = AsyncDaemonClient(StatePaths(home).socket)
        return await (client.get(TARGET, SECONDS) if method == "GET" else client.post(TARGET, {}, SECONDS))

    return asyncio.run(ask())


both_clients = pytest.mark.parametrize("ask", [ask_blocking, ask_async])


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Its name is short: a socket's path has 107 bytes at most.
    return tmp_path_factory.mktemp("w")


def error_of(ask: Ask, home: Path, method: str, answer: bytes) -> WakefulError:
    with FakeDaemonSocket(home / "wakeful.sock", {"/": answer}), pytest.raises(WakefulError) as raised:
        ask(str(home), method)
    return raised.value


@both_clients
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_answer_comes_back_whole(ask: Ask, home: Path, method: str) -> None:
    """Also one that needs many reads."""
    body = b'"' + b"x" * 3_000_000 + b'"'
    with FakeDaemonSocket(home / "wakeful.sock", {"/": http(body)}) as door:
        assert ask(str(home), method) == body
    assert [(each.method, each.target) for each in door.asked] == [(method, TARGET)]


@both_clients
@pytest.mark.parametrize(
    ("exit_code", "status", "kind"),
    [
        (1, 409, RequestDeclined),
        (2, 404, RequestRefused),
        (3, 503, RequestFailed),
        (4, 500, DaemonFailed),
    ],
)
def test_a_refusal_is_an_error_of_its_family(
    ask: Ask, home: Path, exit_code: int, status: int, kind: type[DaemonRefused]
) -> None:
    """With the daemon's words and code, and the exit code that the daemon names."""
    body = b'{"code":"not-managed","detail":"Wakeful only found it."}'
    error = error_of(ask, home, "POST", http(body, status=status, exit_code=exit_code))
    assert type(error) is kind
    assert isinstance(error, DaemonRefused)
    assert (error.reason, error.exit_code) == ("not-managed", exit_code)
    assert "Wakeful only found it." in str(error)


@both_clients
def test_a_refusal_that_is_no_document_is_told_by_its_status(ask: Ask, home: Path) -> None:
    """Nothing of an unreadable body is shown."""
    error = error_of(ask, home, "GET", http(b"<html>", status=502, exit_code=3))
    assert isinstance(error, RequestFailed)
    assert (str(error), error.reason) == ("status 502", "unknown")


@both_clients
@pytest.mark.parametrize(
    ("method", "answer", "kind"),
    [
        ("GET", SILENCE, DaemonSilent),
        ("POST", SILENCE, DaemonSilent),
        ("GET", http(b"{}")[:-1], DaemonUnreachable),
        ("POST", http(b"{}")[:-1], DaemonEnded),
        ("GET", b"SSH-2.0-OpenSSH\r\n", DaemonUnreachable),
    ],
)
def test_a_daemon_that_does_not_answer_is_away(
    ask: Ask, home: Path, method: str, answer: bytes, kind: type[DaemonAway]
) -> None:
    """A request that may have been carried out says where to look."""
    error = error_of(ask, home, method, answer)
    assert type(error) is kind
    assert ("wakeful session why x" in str(error)) == (kind is DaemonEnded)


@both_clients
@pytest.mark.parametrize("folder", ["none", "n" * 120])
def test_without_a_socket_it_is_not_running(ask: Ask, home: Path, folder: str) -> None:
    """Also where the path is too long for a socket."""
    with pytest.raises(DaemonNotRunning, match="wakeful up"):
        ask(str(home / folder), "GET")


def test_an_answer_of_another_version_says_so() -> None:
    """A record that lacks a field, and what is no JSON; what an earlier daemon did not send has a default."""
    for body in (b'{"older":0,"next_cursor":null}', b"no"):
        with pytest.raises(DaemonVersionMismatch, match="wakeful down"):
            decode_body(body, SessionList)
    assert decode_body(b'{"sessions":[],"older":0,"next_cursor":null}', SessionList).paused is None


def test_an_older_client_reads_a_newer_daemons_record() -> None:
    """Findings, waits and actions without a name here are left out; a state without one is a version mismatch."""
    finding = {"severity": "warning", "since": "t", "summary": "s", "evidence": [], "untrusted": []}
    wait = {"since": "t", "until": None, "evidence": "e", "untrusted": ""}
    action = {"allowed": True, "reason": "r", "argv": [], "reversible": True}
    record: dict[str, object] = {
        **dict.fromkeys(("schema", "attempt"), 1),
        **dict.fromkeys(
            ("id", "project", "provider", "host", "source", "judged_at", "updated_at", "rules"), "x"
        ),
        **dict.fromkeys(
            ("managed", "active_prompt", "attachable", "eligible_for_wake", "session_alive"), False
        ),
        **dict.fromkeys(
            ("agent", "conversation_id", "ineligibility_reason", "broken_at", "cwd", "pid"), None
        ),
        **dict.fromkeys(("last_activity_at", "last_presence_at", "started_at", "valid_until"), None),
        "state": "prompting",
        "health": "degraded",
        "attention": "operator",
        "alive_to": "turn",
        "findings": [{**finding, "code": "possessed"}, {**finding, "code": "loop"}],
        "expected_waits": [{**wait, "kind": "eclipse"}, {**wait, "kind": "tool"}],
        "actions": [{**action, "name": "exorcise"}, {**action, "name": "stop"}],
        "last_error": {"code": "possessed", "at": "t", "untrusted": ""},
    }
    read = decode_body(
        msgspec.json.encode({"sessions": [record], "older": 0, "next_cursor": None}), SessionList
    )
    seen = read.sessions[0]
    assert (seen.health, [each.code for each in seen.findings]) == ("degraded", ["loop"])
    assert [each.kind for each in seen.expected_waits] == ["tool"]
    assert [each.name for each in seen.actions] == ["stop"]
    assert seen.last_error is None
    with pytest.raises(DaemonVersionMismatch):
        decode_body(msgspec.json.encode({**record, "state": "levitating"}), SessionRecord)
