"""Slow and rude clients against the real servers: each costs a bounded time and a bounded memory."""

import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from support.supervisor_fixture import HttpFixture, open_http_fixture, raw, received
from wakeful.core.ids import SessionId
from wakeful.http import connection as connections, gate
from wakeful.http.gate import BODY_BYTES_MAX, PROMPT_BODY_BYTES_MAX
from wakeful.sessions.feed import SessionChange

PROBLEM = "application/problem+json"
OPENING = (
    b"GET /api/ws HTTP/1.1\r\nHost: wakeful\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def resident_bytes() -> int:
    """The memory of this process, which is the doors' too."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpFixture]:
    with open_http_fixture(tmp_path_factory.mktemp("doors")) as opened:
        yield opened


@pytest.fixture
def own_doors(tmp_path: Path) -> Iterator[HttpFixture]:
    """For a test that leaves a crowd behind."""
    with open_http_fixture(tmp_path) as opened:
        yield opened


def test_a_body_has_an_end(doors: HttpFixture) -> None:
    """More than a mebibyte is refused, announced or in chunks; just that much is read."""
    just = b'{"code":"%b"}' % (b"x" * (BODY_BYTES_MAX - 11))
    assert len(just) == BODY_BYTES_MAX
    json_type = {"content-type": "application/json"}

    def endless() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 65536

    with doors.socket(headers=json_type) as client:
        assert client.post("/api/login-codes", content=just).status_code == 201
        assert client.post("/api/login-codes", content=just + b" ").json()["code"] == "body-too-large"
        assert client.post("/api/login-codes", content=endless()).status_code == 413


def test_a_prompt_may_be_longer_than_other_bodies(doors: HttpFixture) -> None:
    """Four mebibytes where prompts are given, so that one of a megabyte fits however it is written; no byte more."""
    prompt = '"\\\n' * 333_333
    just = msgspec.json.encode({"prompt": prompt}).ljust(PROMPT_BODY_BYTES_MAX)
    with doors.socket(headers={"content-type": "application/json"}) as client:
        for path in ("/api/work", "/api/sessions", "/api/sessions/nobody/send"):
            assert client.post(path, content=just).status_code != 413
            assert client.post(path, content=just + b" ").json()["code"] == "body-too-large"
        assert client.post("/api/sessions/nobody/stop", content=just).status_code == 413
        work_id = client.post("/api/work", content=just).json()["id"]
        assert client.get(f"/api/work/{work_id}").json()["prompt"] == prompt


def test_a_gigabyte_is_read_by_nobody(doors: HttpFixture) -> None:
    """A huge body costs the daemon no memory, whatever its method, and its sender is cut off."""
    before = resident_bytes()
    piece = b"x" * 65536
    for method in (b"GET", b"POST"):
        head = method + b" /api/login-codes HTTP/1.1\r\nHost: wakeful\r\nContent-Type: application/json\r\n"
        sent = 0
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(20)
            door.connect(str(doors.path))
            door.sendall(head + b"Content-Length: 1073741824\r\n\r\n")
            try:
                while sent < 256 * 1024 * 1024:
                    sent += door.send(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass
        assert resident_bytes() - before < 32 * 1024 * 1024


def test_half_an_order_is_none(own_doors: HttpFixture) -> None:
    """A caller that hangs up before the order is whole has not given it."""
    head = b"POST /api/shutdown HTTP/1.1\r\nHost: wakeful\r\nContent-Type: application/json\r\n"
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(str(own_doors.path))
        door.sendall(head + b"Content-Length: 100\r\n\r\n{")
    with own_doors.socket() as owner:
        assert owner.get("/healthz").text == "ok"
    assert not own_doors.orders


def test_a_slow_body_is_not_waited_for(doors: HttpFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that announces a body and does not send it gets an error and is freed."""
    monkeypatch.setattr(gate, "BODY_SECONDS_MAX", 0.2)
    host = f"Host: 127.0.0.1:{doors.port}\r\nAuthorization: Bearer {doors.token}\r\n".encode()
    request = b"POST /api/login-codes HTTP/1.1\r\n" + host
    with socket.create_connection(("127.0.0.1", doors.port), timeout=20) as door:
        door.sendall(request + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
        assert door.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_a_slow_head_is_cut_off(doors: HttpFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that dribbles its headers, or says nothing at all, is gone when its time is over."""
    monkeypatch.setattr(connections, "HEAD_SECONDS_MAX", 0.3)
    with socket.create_connection(("127.0.0.1", doors.port), timeout=20) as mute:
        assert received(mute) == b""
    with socket.create_connection(("127.0.0.1", doors.port), timeout=20) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        began = time.monotonic()
        for _ in range(50):
            try:
                slow.sendall(b"X-Dribble: 1\r\n")
            except (BrokenPipeError, ConnectionResetError):
                break
            time.sleep(0.05)
        assert time.monotonic() - began < 2
    half = raw(doors, b"GET / HTTP/1.1\r\n")
    assert half.startswith(b"HTTP/1.1 408 ")
    assert PROBLEM.encode() in half


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 200_000,
        b"GET /" + b"x" * 200_000,
        b"GET / HTTP/1.1\r\n" + b"X-Many: x\r\n" * 20_000 + b"\r\n",
    ],
)
def test_a_head_has_an_end(doors: HttpFixture, request_head: bytes) -> None:
    """Endless headers are refused before they are parsed."""
    assert raw(doors, request_head)[:13] in {b"HTTP/1.1 431 ", b""}


def test_a_head_that_comes_at_once_has_an_end_too(doors: HttpFixture) -> None:
    """Whole headers are counted as well, where they arrive in one piece."""
    head = b"GET /healthz HTTP/1.1\r\nHost: wakeful\r\n" + b"X-Many: x\r\n" * 9_000 + b"\r\n"
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(20)
        door.connect(str(doors.path))
        door.sendall(head)
        assert door.recv(13) == b"HTTP/1.1 431 "


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET\r\n\r\n",
        b"NONSENSE / HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
    ],
)
def test_noise_gets_a_problem_document(doors: HttpFixture, noise: bytes) -> None:
    """What is no HTTP (TLS, for one) gets an answer in the form every error has."""
    answer = raw(doors, noise)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert PROBLEM.encode() in answer
    assert b"text/plain" not in answer


@pytest.mark.parametrize(
    "lines",
    [
        b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n",
        OPENING.partition(b"Host: wakeful\r\n")[2].removesuffix(b"\r\n"),
        b"Upgrade: websocket\r\nConnection: Upgrade\r\n" + b"X-Many: x\r\n" * 300,
        b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
    ],
)
@pytest.mark.parametrize("start", [b"GET /api/ws", b"POST /api/ws", b"GET /api/ws?\xff"])
def test_half_a_websocket_harms_nobody(
    doors: HttpFixture, start: bytes, lines: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """An opening that is none is refused without a traceback, and never in plain text."""
    head = start + b" HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n" % doors.port
    answer = raw(doors, head + lines + b"\r\n")
    assert answer[:11] in {b"HTTP/1.1 40", b"HTTP/1.1 42", b""}
    assert b"text/plain" not in answer
    assert not [record for record in caplog.records if record.exc_info]


def test_a_thousand_connections_are_bounded(own_doors: HttpFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """512 are served, the others refused; the socket stays open, and one that asks replaces one that does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    monkeypatch.setattr(connections, "IDLE_SECONDS_MIN", 5.0)
    crowd = [socket.create_connection(("127.0.0.1", own_doors.port), timeout=20) for _ in range(1000)]
    try:
        last = received(crowd[-1])
        assert last.startswith(b"HTTP/1.1 503 ")
        assert b"too-many-connections" in last
        with own_doors.socket() as owner:
            assert owner.get("/healthz").text == "ok"
        open_count = sum(_still_open(each) for each in crowd)
        assert open_count == connections.connections_max() == 512
        time.sleep(connections.IDLE_SECONDS_MIN)
        with own_doors.tcp() as client:
            assert client.get("/healthz").text == "ok"
    finally:
        for each in crowd:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with own_doors.tcp() as client:
        assert client.get("/healthz").text == "ok"


def _still_open(connection: socket.socket) -> bool:
    """Neither answered nor closed by the other end."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
    return False


def test_an_answer_nobody_takes_is_thrown_away(
    own_doors: HttpFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that asks again and again without reading is cut off, although the port's page needs no token."""
    monkeypatch.setattr(connections, "STALL_SECONDS_MAX", 0.3)
    request = b"GET /page.js HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % own_doors.port
    with socket.create_connection(("127.0.0.1", own_doors.port), timeout=20) as greedy:
        _until(lambda: _is_cut_off(greedy, request * 1000))


def _is_cut_off(connection: socket.socket, words: bytes) -> bool:
    try:
        connection.sendall(words)
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def test_a_caller_that_hangs_up_is_not_waited_for(own_doors: HttpFixture) -> None:
    """An hour of waiting ends with the connection of its caller."""
    waiting = own_doors.house.registry._known.waiters
    request = b"GET /api/sessions/working/wait?until=stopped&timeout=3600 HTTP/1.1\r\nHost: wakeful\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(own_doors.path))
        caller.sendall(request)
        _until(lambda: bool(own_doors.call(lambda: dict(waiting))))
    _until(lambda: not own_doors.call(lambda: dict(waiting)))


def test_a_subscriber_that_never_reads_does_not_grow_memory(
    own_doors: HttpFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is dropped and forgotten while the daemon tells the others on, no larger than before."""
    monkeypatch.setattr(connections, "STALL_SECONDS_MAX", 0.3)
    feed = own_doors.house.feed
    record = msgspec.Raw(b'"' + b"x" * 100_000 + b'"')
    change = SessionChange(
        SessionId("x"), None, "idle", None, "healthy", "idle", "2027-01-15T08:00:00.000Z", record
    )

    def is_forgotten() -> bool:
        feed.publish([change])
        return not feed._subscribers

    before = resident_bytes()
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.connect(str(own_doors.path))
        deaf.sendall(OPENING)
        _until(lambda: bool(feed._subscribers))
        _until(lambda: own_doors.call(is_forgotten))
        assert b'{"hello":' in received(deaf), "it was listening"
    assert resident_bytes() - before < 32 * 1024 * 1024


def _until(true: Callable[[], bool], seconds_max: float = 15) -> None:
    """Wait for something another thread does."""
    end = time.monotonic() + seconds_max
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
