"""Attacks on HTTP, against a real daemon: its Unix socket and its loopback port, with the token and without it."""

import json
import os
import re
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from redteam.conftest import Redteam
from support.raw_http import ANSWER_SECONDS_MAX, RawConnection, RawHttpDaemon
from support.real_clients import wait_for
from wakeful.http.connection import UNREAD_BYTES_MAX
from wakeful.testing.scripted_agent import ScriptedAgent

DEEP = b"[" * 50_000
# What no route may answer with 500, wherever it stands: as a value, a name, a header or a body.
NASTY = (
    b"%FF%FE",
    b"%ED%A0%80",
    b"%C0%AF",
    b"%00",
    b"9" * 5000,
    b"-" + b"9" * 400,
    b"1e999",
    b"nan",
    b"inf",
    b"%F0%9F%98%80" * 200,
    b"[" * 2000,
    b"%5B%22%5Cud800%22%5D",
    b"2026-13-99T99%3A99",
    b"0001-01-01T00%3A00%3A00",
    b"9999999d",
)
BODIES = (
    b'{"a":"\xff\xfe"}',
    b'{"a":"\\ud800"}',
    b'{"prompt":"\\ud800","reason":"\\udfff"}',
    DEEP,
    b'{"a":' * 20_000,
    b'{"for_seconds":1e999}',
    b'{"for_seconds":%b}' % (b"9" * 5000),
    b'{"ttl_seconds":-1e308,"epoch":99999999999999999999999}',
    b"\xef\xbb\xbf{}",
    b"\0",
    b"NaN",
    b'"',
    b"[]",
    b"null",
    '{"a":1}'.encode("utf-16"),
)
HEADERS = (
    b"Cookie",
    b"Origin",
    b"X-Wakeful-Csrf",
    b"Idempotency-Key",
    b"Accept",
    b"Range",
    b"Sec-Fetch-Site",
)
HEADER_VALUES = (
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"=;=;;=",
    b'wakeful-1="\\ud800"',
    b"9" * 5000,
    b"bytes=0-99999999999999999999",
)
OPENING = (
    b"GET %b HTTP/1.1\r\nHost: %b\r\n%bUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[RawHttpDaemon]:
    daemon = RawHttpDaemon(tmp_path / "h")
    yield daemon
    daemon.end()


def wires(house: RawHttpDaemon) -> list[RawConnection]:
    return [house.wire(tcp=False), house.wire(tcp=True)]


def routes(wire: RawConnection) -> list[tuple[str, str]]:
    """Method and path of every route, ids as `x`."""
    status, body = wire.ask("GET", b"/api/openapi.json")
    assert status == 200
    paths = json.loads(body)["paths"]
    found = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    assert len(found) > 50
    return [(method, re.sub(r"\{[^}]*\}", "x", path)) for method, path in found]


def spellings(path: bytes, host: bytes) -> Iterator[bytes]:
    """Other ways to write a path that a router might take for the same."""
    first, rest = path[:4], path[4:]
    folder, _, last = path.rpartition(b"/")
    yield b"/" + path
    yield path + b"/"
    yield folder + b"//" + last
    yield b"/." + path
    yield b"/x/.." + path
    yield first + b"/%2e%2e" + first + rest
    yield path.replace(b"/", b"%2F", 2)
    yield b"/" + path[1:].replace(b"/", b"%2f", 1) + b"%2f"
    yield path.replace(b"/", b"\\")
    yield b"/" + path[1:].replace(b"/", b"%5C", 1) + b"%5c"
    yield path + b";x=1"
    yield first + b";" + rest
    yield b"/%61" + path[2:]
    yield path[:-1] + b"%%%02X" % path[-1]
    yield path + b"%c3%a4"
    yield path + b"%C3%a4"
    yield path + b"%FF"
    yield path + b"#x"
    yield b"http://" + host + path


def test_a_path_has_one_spelling(house: RawHttpDaemon, redteam: Redteam) -> None:
    """Every other one is refused before routing: on every route, with every method, at both listeners."""
    house.up()
    for wire in wires(house):
        every = routes(wire)
        for method, path in every[:: redteam.rounds(6, 1)]:
            for target in spellings(path.encode(), wire.host):
                status, body = wire.ask(method, target, b"{}" if method == "POST" else b"")
                # What does not begin with a slash is no request at all.
                held = status == 400 and (b"path-not-canonical" in body or target[:1] != b"/")
                redteam.attack("HTTP paths", f"{wire.name} {method} {target!r}: {status}", held=held)
        for target in spellings(b"/api/ws", wire.host):
            if b"#" in target:
                # A WebSocket's address is split elsewhere; it is refused, with other words.
                continue
            status, _ = wire.send(OPENING % (target, wire.host, wire.proof))
            wire.close()
            redteam.attack("HTTP paths", f"{wire.name} WebSocket {target!r}: {status}", held=status == 400)
        assert wire.ask("GET", b"/api/status")[0] == 200
    assert "Traceback" not in house.said()


def test_no_bytes_are_a_fault_of_ours(house: RawHttpDaemon, redteam: Redteam) -> None:
    """Invalid UTF-8, lone surrogates, deep nesting and huge numbers, as query, header, cookie or body: below 500."""
    house.up()
    for wire in wires(house):
        every = [each for each in routes(wire) if each[1] != "/api/shutdown"]
        for method, path in every[:: redteam.rounds(5, 2)]:
            for status, what in _nasty_answers(wire, method, path.encode()):
                redteam.attack(
                    "HTTP bytes", f"{wire.name} {method} {path} {what}: {status}", held=status < 500
                )
        assert wire.ask("GET", b"/api/status")[0] == 200
    assert "Traceback" not in house.said()


def _nasty_answers(wire: RawConnection, method: str, path: bytes) -> Iterator[tuple[int, str]]:
    body = b"{}" if method == "POST" else b""
    names = (b"limit", b"timeout", b"since", b"cursor", b"until")
    for number, value in enumerate(NASTY):
        name = names[number % len(names)]
        # No route may wait: that would be the length of this test.
        yield wire.ask(method, b"%b?%b=%b" % (path, name, value), body)[0], f"?{name!r}={value[:20]!r}"
        yield wire.ask(method, b"%b?%b=1" % (path, value), body)[0], f"?{value[:20]!r}=1"
        yield wire.ask(method, path + b"/" + value, body)[0], f"/{value[:20]!r}"
    for number, value in enumerate(HEADER_VALUES):
        name = HEADERS[number % len(HEADERS)]
        yield wire.ask(method, path, body, b"%b: %b\r\n" % (name, value))[0], f"{name!r}: {value[:20]!r}"
    for value in BODIES:
        yield wire.ask(method, path, value)[0], f"body {value[:20]!r}"


def frame(opcode: int, payload: bytes, *, fin: bool = True, reserved: int = 0) -> bytes:
    """A masked frame, as a client sends it."""
    first = bytes([(0x80 if fin else 0) | reserved | opcode])
    if len(payload) < 126:
        length = bytes([0x80 | len(payload)])
    else:
        length = bytes([0x80 | 126]) + struct.pack("!H", len(payload))
    return first + length + b"\0\0\0\0" + payload


FRAMES = (
    frame(1, b"\xff\xfe"),
    frame(1, b"\xed\xa0\x80"),
    frame(1, b"\xf0\x9f", fin=False) + frame(0, b"\x98", fin=True),
    frame(1, b"x" * 60_000),
    frame(2, b"\0" * 5000),
    frame(1, b"{}", reserved=0x70),
    frame(3, b""),
    frame(8, b"\x03"),
    frame(8, struct.pack("!H", 999) + b"\xff"),
    frame(9, b"x" * 126),
    frame(0, b"lost"),
    bytes([0x81, 0xFF]) + b"\xff" * 8,
    frame(9, b"") * 3000,
    os.urandom(4000),
    b"\x81\x05hello",
)


def test_no_frame_is_a_fault_of_ours(house: RawHttpDaemon, redteam: Redteam) -> None:
    """What a client of the WebSocket says has no content: it is closed, and the next one is served."""
    house.up()
    for said in FRAMES:
        with house.unix() as door:
            door.sendall(OPENING % (b"/api/ws", b"localhost", b""))
            assert door.recv(4096).startswith(b"HTTP/1.1 101 ")
            door.settimeout(2)
            try:
                door.sendall(said)
                door.shutdown(socket.SHUT_WR)
                while door.recv(65536):
                    pass
            except (ConnectionResetError, BrokenPipeError, TimeoutError):
                pass
        redteam.attack("WebSocket frames", repr(said[:20]), held="Traceback" not in house.said())
    assert house.run("ls").exit_code == 0


BAD_REQUESTS = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
    b"NONSENSE\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\n\r\n",
    b"GET //api/status HTTP/1.1\r\nHost: %b\r\n\r\n",
    b"GET /api/sessions HTTP/1.1\r\nHost: %b\r\n\r\n",
    b"GET /api/sessions HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"POST /api/login HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n\xff\xff",
    b"POST /api/login HTTP/1.1\r\nHost: %b\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
    b"GET /api/ws HTTP/1.1\r\nHost: %b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"GET /api/ws HTTP/1.1\r\nHost: %b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX: \xff\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: %b\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: %b\r\n\r\n",
    b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: %b\r\n\r\n",
    b"POST /api/login HTTP/1.1\r\nHost: %b\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
)
LOG_BYTES_MAX = 64 * 1024
ACCESS_LOG_BYTES_MAX = 4 * 1024 * 1024


def test_bad_requests_fill_no_disk(house: RawHttpDaemon, redteam: Redteam) -> None:
    """Ten thousand of them, without a token: the daemon's log grows by a few KB, the access log not beyond its bound."""
    house.up()
    wire = house.wire(tcp=True, token=b"")
    count = redteam.rounds(1_400, 10_000)
    before = len(house.said())
    for number in range(count):
        request = BAD_REQUESTS[number % len(BAD_REQUESTS)]
        request = request.replace(b"%b", wire.host)
        if wire.send(request)[0] == 0:
            wire.close()
    wire.close()
    grown = len(house.said()) - before
    access = sum(each.stat().st_size for each in (house.home / "state").rglob("access.log*"))
    redteam.attack("HTTP logs", f"the log grew by {grown} bytes", held=grown < LOG_BYTES_MAX)
    redteam.attack("HTTP logs", f"the access log has {access} bytes", held=access < ACCESS_LOG_BYTES_MAX)
    redteam.figure(f"{count:,} bad requests without a token", f"{grown:,} B log, {access:,} B access log")
    assert "Traceback" not in house.said()


def test_wrong_tokens_cost_time_and_lock_nobody_out(house: RawHttpDaemon, redteam: Redteam) -> None:
    """On one connection and on many, from any loopback address; the right token and the socket do not wait meanwhile."""
    house.up()
    address = house.address
    guess = (
        b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer wrong\r\n\r\n" % address[1]
    )
    began = time.monotonic()
    one = house.wire(tcp=True, token=b"")
    statuses = [one.send(guess)[0] for _ in range(5)]
    took = time.monotonic() - began
    # 0.1 + 0.2 + 0.4 + 0.8 + 1.6 s.
    redteam.attack(
        "Wrong tokens", f"5 on one connection took {took:.1f} s", held=took > 3.0 and set(statuses) == {401}
    )

    def many(number: int) -> tuple[int, float]:
        start = time.monotonic()
        source = (f"127.0.{number % 7}.{1 + number % 200}", 0)
        with socket.create_connection(address, timeout=4, source_address=source) as door:
            door.sendall(guess)
            try:
                return int(door.recv(4096)[9:12]), time.monotonic() - start
            except TimeoutError:
                return 0, time.monotonic() - start

    with ThreadPoolExecutor(40) as pool:
        guesses = [pool.submit(many, number) for number in range(40)]
        wait_for(lambda: sum(each.done() for each in guesses) > 30 or None, "refusals")
        for wire in wires(house):
            start = time.monotonic()
            status, _ = wire.ask("GET", b"/api/status")
            seconds = time.monotonic() - start
            redteam.attack(
                "Wrong tokens",
                f"the right one at the {wire.name}: {status}, {seconds:.1f} s",
                held=status == 200 and seconds < 2,
            )
        answers = [each.result() for each in guesses]
    answered = [seconds for status, seconds in answers if status == 401]
    # Those that wait pay one after the other, at 3 to 5 s each; the others are not answered but refused.
    held = len(answered) <= 2 and {status for status, _ in answers} <= {0, 401, 429}
    redteam.attack("Wrong tokens", f"40 connections: {len(answered)} answered in 4 s", held=held)


def test_ipv6_is_as_good(house: RawHttpDaemon, redteam: Redteam) -> None:
    """`::1`: page, token, login, cookie, orders of a person; another Host or Origin is refused there, too."""
    house.environ["WAKEFUL_DAEMON__HOST"] = "::1"
    house.up()
    address = house.address
    assert address[0] == "::1"
    wire = house.wire(tcp=True)
    ours = b"[::1]:%d" % address[1]
    wire.host = ours
    assert wire.ask("GET", b"/api/status")[0] == 200
    assert wire.ask("POST", b"/api/pause", b'{"by":"me"}')[0] in {200, 201}, "an order that asks who calls"
    assert wire.ask("POST", b"/api/resume", b'{"by":"me"}')[0] in {200, 201}
    link = house.run("open", "--print").out if house.run("open", "--print").exit_code == 0 else ""
    assert not link or f"http://[::1]:{address[1]}/#code=" in link
    _, said = wire.ask("POST", b"/api/login-codes", b"{}")
    code = json.loads(said)["code"]
    assert json.loads(said)["url"].startswith(f"http://[::1]:{address[1]}/#code=")
    stranger = house.wire(tcp=True, token=b"")
    stranger.host = ours
    origin = b"Origin: http://%b\r\n" % ours
    with socket.create_connection(address, timeout=ANSWER_SECONDS_MAX) as door:
        body = json.dumps({"code": code}).encode()
        door.sendall(
            b"POST /api/login HTTP/1.1\r\nHost: %b\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (ours, origin, len(body), body)
        )
        answer = door.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200 ")
    found = re.search(rb"set-cookie: ([^;]+);", answer)
    assert found is not None
    cookie = b"Cookie: %b\r\n%b" % (found[1], origin)
    assert stranger.ask("GET", b"/api/status", extra=cookie)[0] == 200
    for host in (
        b"[::1]",
        b"[::2]:%d" % address[1],
        b"::1:%d" % address[1],
        b"[::1]:1",
        b"[0:0:0:0:0:0:0:1]:%d" % address[1],
    ):
        stranger.host = host
        redteam.attack("IPv6", f"Host {host!r}", held=stranger.ask("GET", b"/healthz")[0] == 403)
    stranger.host = ours
    for foreign in (b"http://[::1]:1", b"http://evil.example", b"null", b"https://%b" % ours):
        status, _ = stranger.ask("GET", b"/healthz", extra=b"Origin: %b\r\n" % foreign)
        redteam.attack("IPv6", f"Origin {foreign!r}", held=status == 403)
    redteam.attack("IPv6", "without proof", held=stranger.ask("GET", b"/api/status")[0] == 401)
    assert house.run("ls").exit_code == 0


IDLE_COUNT = 300
FEW_DESCRIPTORS = 256


def test_idle_connections_leave_watching_its_descriptors(house: RawHttpDaemon, redteam: Redteam) -> None:
    """300 idle connections, 256 descriptors: a session that begins is seen, its end at once, and `ls` answers."""
    house.descriptors_max = FEW_DESCRIPTORS
    house.up()
    address, before, memory = house.address, house.cpu_seconds, house.resident_bytes
    began = time.monotonic()
    with ExitStack() as stack:
        for number in range(IDLE_COUNT):
            door = socket.create_connection(address, timeout=ANSWER_SECONDS_MAX)
            stack.enter_context(door)
            if number % 3 == 1:
                door.sendall(b"GET / HTTP/1.1\r\n")
            elif number % 3 == 2:
                stack.enter_context(house.unix())
        most = house.descriptors
        redteam.attack("Connections", f"{most} of {FEW_DESCRIPTORS} descriptors are used", held=most < 192)
        redteam.figure(
            f"{IDLE_COUNT} idle connections, {FEW_DESCRIPTORS} descriptors", f"{most} descriptors used"
        )
        agent = ScriptedAgent(house.home / ".claude", house.home / "project")
        with agent.start(
            {"prompt": "go on"}, {"tool": "Bash", "input": {"command": "make"}, "seconds": 600}
        ) as life:
            life.wait_for_tool(60)
            mine = house.wait_for_session(lambda each: each["id"] == life.session_id, "session")
            redteam.attack("Connections", "a session is seen", held=mine["state"] == "prompting")
            pidfds = [
                each for each in Path(f"/proc/{house.pid}/fd").iterdir() if "pidfd" in str(each.readlink())
            ]
            redteam.attack("Connections", "its end is told by a pidfd", held=bool(pidfds))
            start = time.monotonic()
            held = house.run("ls").exit_code == 0 and time.monotonic() - start < 5
            redteam.attack("Connections", "`ls` answers", held=held)
            time.sleep(1.1)
            wire = house.wire(tcp=True)
            redteam.attack("Connections", "the port answers", held=wire.ask("GET", b"/api/status")[0] == 200)
            life.process.kill()
            house.wait_for_session(
                lambda each: each["id"] == mine["id"] and each["health"] == "dead", "death"
            )
    cpu, grown = house.cpu_seconds - before, house.resident_bytes - memory
    redteam.figure(f"{IDLE_COUNT} idle connections", _cost(cpu, time.monotonic() - began, grown))
    redteam.attack("Connections", f"{grown:,} B more", held=grown < 32 * 1024 * 1024)
    assert "Too many open files" not in house.said()
    assert "Traceback" not in house.said()


SUBSCRIBERS = 400
SUBSCRIBERS_BYTES_MAX = 64 * 1024 * 1024
KEPT_BYTES_MAX = 16 * 1024 * 1024


def test_silent_subscribers_are_bounded_and_given_back(house: RawHttpDaemon, redteam: Redteam) -> None:
    """400 that never read, some of them pinging all the while: bounded memory, `ls` answers, and a second crowd needs no more."""
    house.up()
    for number in range(300):
        _event_log(house, number, "begun")
    wait_for(lambda: len(house.sessions()) >= 300 or None, "sessions")
    memory, before, began = house.resident_bytes, house.cpu_seconds, time.monotonic()
    first = _silent_crowd(house, redteam.rounds(4, 12)) - memory
    cost = _cost(house.cpu_seconds - before, time.monotonic() - began, first)
    redteam.figure(f"{SUBSCRIBERS} silent subscribers", cost)
    redteam.attack("Subscribers", f"{first:,} B at most", held=first < SUBSCRIBERS_BYTES_MAX)
    second = _silent_crowd(house, redteam.rounds(2, 12)) - memory
    # The allocator keeps some of what was freed; a crowd that is not given back is another `first`.
    redteam.attack("Subscribers", f"{second:,} B for another crowd", held=second < first + KEPT_BYTES_MAX)
    assert "Traceback" not in house.said()


def test_long_polls_that_never_read_are_bounded_and_given_back(
    house: RawHttpDaemon, redteam: Redteam
) -> None:
    """400 that wait for an hour: little memory, `ls` answers, and when they hang up nothing of them is left."""
    house.up()
    _event_log(house, 0, "begun")
    wait_for(lambda: bool(house.sessions()) or None, "session")
    memory = house.resident_bytes
    request = b"GET /api/sessions/s0/wait?until=stopped&timeout=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(SUBSCRIBERS):
            stack.enter_context(house.unix()).sendall(request)
        wait_for(lambda: house.descriptors >= SUBSCRIBERS or None, "waiting")
        redteam.attack("Subscribers", "`ls` beside 400 long polls", held=house.run("ls").exit_code == 0)
        grown = house.resident_bytes - memory
    redteam.attack("Subscribers", f"{grown:,} B for 400 long polls", held=grown < 32 * 1024 * 1024)
    redteam.figure(f"{SUBSCRIBERS} long polls", f"{grown / 1e6:.1f} MB more")
    wait_for(lambda: house.descriptors < 40 or None, "descriptors given back")
    assert "Traceback" not in house.said()


# Three times what may wait at one listener, and what the daemon needs to make the answers.
UNREAD_GROWTH_MAX = 3 * UNREAD_BYTES_MAX + 32 * 1024 * 1024


def test_answers_that_nobody_reads_are_bounded_and_given_back(house: RawHttpDaemon, redteam: Redteam) -> None:
    """400 that ask for a long list and never read it: bounded memory, and one who reads gets its answer."""
    house.up()
    for number in range(600):
        _event_log(house, number, "begun")
    wait_for(lambda: len(house.sessions()) >= 600 or None, "sessions")
    memory = house.resident_bytes
    request = b"GET /api/sessions?all=true HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(SUBSCRIBERS):
            stack.enter_context(house.unix()).sendall(request)
        redteam.attack("Subscribers", "`ls` beside 400 answers", held=house.run("ls").exit_code == 0)
        grown = house.resident_bytes - memory
    redteam.attack("Subscribers", f"{grown:,} B for 400 unread answers", held=grown < UNREAD_GROWTH_MAX)
    redteam.figure(f"{SUBSCRIBERS} unread answers", f"{grown / 1e6:.1f} MB more")
    wait_for(lambda: house.descriptors < 40 or None, "descriptors given back")
    assert "Traceback" not in house.said()


def _silent_crowd(house: RawHttpDaemon, rounds: int) -> int:
    """The memory that the daemon has at most while they are there."""
    most = 0
    with ExitStack() as stack:
        doors = [stack.enter_context(house.unix()) for _ in range(SUBSCRIBERS)]
        for door in doors:
            door.sendall(OPENING % (b"/api/ws", b"localhost", b""))
        wait_for(lambda: house.descriptors >= SUBSCRIBERS or None, "subscribers")
        for round_number in range(rounds):
            for number in range(300):
                _event_log(house, number, f"round {round_number}")
            _ping(doors[:40])
            assert house.run("ls").exit_code == 0
            most = max(most, house.resident_bytes)
    wait_for(lambda: house.descriptors < 40 or None, "descriptors given back")
    return most


def _event_log(house: RawHttpDaemon, number: int, words: str) -> None:
    folder = house.home / "state" / "events"
    folder.mkdir(mode=0o700, exist_ok=True)
    line = {"at": time.time(), "event": "prompt", "note": words * 20, "pid": 1}
    with (folder / f"s{number}.jsonl").open("a") as log:
        log.write(json.dumps(line) + "\n")


def _ping(doors: Sequence[socket.socket]) -> None:
    for door in doors:
        door.setblocking(False)
        try:
            for _ in range(50):
                door.send(frame(9, b"x" * 100) * 500)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass


def _cost(cpu_seconds: float, seconds: float, grown: int) -> str:
    return f"{100 * cpu_seconds / seconds:.0f} % of a core, {grown / 1e6:.1f} MB more"
