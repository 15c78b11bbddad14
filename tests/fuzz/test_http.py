"""Odd requests never break the daemon: whatever is asked, the answer is below 500 and a document."""

import json
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.supervisor_fixture import HttpFixture, open_http_fixture, received

FUZZ = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ROUTES = (
    "",
    "/health",
    "/status",
    "/inspect",
    "/events",
    "/calls",
    "/messages",
    "/wait",
    "/self",
    "/nothing",
)
NAMES = (
    "all",
    "include_health",
    "health",
    "state",
    "project",
    "limit",
    "cursor",
    "after",
    "until",
    "conversation",
    "pid",
)
VALUES = st.one_of(
    st.text(max_size=40),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["true", "idle", "dead", "claude-working", "-1", "9" * 30, "%00", "null", "[]"]),
)
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
# Every order there is, with a place for an id where it has one.
ORDERS = (
    *("/api/work", "/api/work/claim", "/api/sessions"),
    *("/api/pause", "/api/resume", "/api/mutes", "/api/unmute", "/api/logins/revoke"),
    *("/api/lessons", "/api/lessons/forget", "/api/events/archive", "/api/agents/{}/heartbeat/wake"),
    *(f"/api/checkpoints/{{}}/{verb}" for verb in ("continue", "rollback", "abort")),
    *(f"/api/work/{{}}/{verb}" for verb in ("heartbeat", "complete", "fail")),
    *(
        f"/api/sessions/{{}}/{verb}"
        for verb in (
            "send",
            "answer",
            "interrupt",
            "resume",
            "stop",
            "adopt",
            "release",
            "claim",
            "renew",
            "yield",
            "wrong",
            "mute",
            "revive",
            "restore",
            "repair",
        )
    ),
)
FIELDS = (
    *("prompt", "environ", "question_id", "reply", "argv", "cwd", "provider", "name", "driver", "session_id"),
    *("project", "context", "attempts_max", "delay_seconds", "owner", "holder", "epoch", "ttl_seconds"),
    *("result", "reason", "expect", "note", "kind", "value", "for_seconds", "by", "approved"),
    *("dry_run", "always_local", "even_remote", "prefix"),
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["claude", "working", "session", "project", "code", "loop"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
REAL_IDS = st.sampled_from(["claude-working", "working", "claude-", "killed", "self"])


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpFixture]:
    with open_http_fixture(tmp_path_factory.mktemp("doors")) as opened:
        yield opened


@pytest.fixture(scope="module")
def owner(doors: HttpFixture) -> Iterator[httpx.Client]:
    with doors.socket() as client:
        yield client


def check(answer: httpx.Response) -> None:
    # The desk of these doors keeps no cases, which is the only thing it may be unable to do.
    assert answer.status_code < 500 or answer.json()["code"] == "no-case-book", answer.text
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"]


@FUZZ
@given(
    st.text(max_size=300) | REAL_IDS, st.sampled_from(ROUTES), st.dictionaries(st.sampled_from(NAMES), VALUES)
)
def test_odd_ids_and_queries(owner: httpx.Client, text: str, route: str, params: dict[str, str]) -> None:
    """Any text as an id, any value as a parameter."""
    path = f"/api/sessions/{quote(text, safe='', errors='replace')}{route}"
    # Waiting is bounded, so that the fuzzer is too.
    check(owner.get(path, params={**params, "timeout": "0"}))


@FUZZ
@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_odd_lists(owner: httpx.Client, params: dict[str, str]) -> None:
    """Any filter of the list."""
    check(owner.get("/api/sessions", params=params))


@FUZZ
@given(METHODS, st.text(max_size=100), st.binary(max_size=300) | st.just(b"{}") | st.just(b'{"code":1}'))
def test_odd_paths_and_bodies(owner: httpx.Client, method: str, path: str, body: bytes) -> None:
    """Any path, any method, any body that says it is JSON; and the same at the login."""
    headers = {"content-type": "application/json"}
    for where in ("/" + quote(path, safe="/%", errors="replace"), "/api/login-codes", "/api/logout"):
        check(owner.request(method, where, content=body, headers=headers))


@FUZZ
@given(
    st.sampled_from(ORDERS),
    st.text(max_size=60) | REAL_IDS,
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6),
    # No client sends a header that begins or ends with a blank.
    st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30),
)
def test_odd_orders(
    owner: httpx.Client, route: str, text: str, body: dict[str, object], key: str | None
) -> None:
    """Any id and any fields, at every route that changes something."""
    headers = {"content-type": "application/json"} | ({} if key is None else {"idempotency-key": key})
    path = route.format(quote(text, safe="", errors="replace"))
    content = json.dumps(body, allow_nan=False, default=str) if finite(body) else "{}"
    check(owner.post(path, content=content.encode("utf-8", "replace"), headers=headers))


def finite(value: object) -> bool:
    """Whether JSON can say it."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def test_every_order_is_fuzzed(doors: HttpFixture) -> None:
    """A route that is added is added here, too."""
    app: Any = doors.app._app
    known = {re.sub(r"\{[^}]*\}", "{}", route.path) for route in app.routes if route.method == "POST"}
    assert known - {
        "/api/login",
        "/api/logout",
        "/api/login-codes",
        "/api/decisions",
        "/api/shutdown",
    } == set(ORDERS)


HEADER_NAMES = st.sampled_from(
    b"Host Origin Authorization Cookie Content-Type Content-Length Transfer-Encoding Upgrade Connection Expect "
    b"Sec-WebSocket-Key Sec-WebSocket-Version X".split()
)
HEADER_VALUES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b"wakeful", b"websocket", b"Upgrade", b"13", b"chunked", b"0", b"5", b"100-continue"]),
    st.sampled_from(
        [b"dGhlIHNhbXBsZSBub25jZQ==", b"application/json", b"keep-alive", b"close", b"wakeful-1=x"]
    ),
)


@FUZZ
@given(
    st.binary(max_size=40)
    | st.sampled_from([b"GET /api/ws HTTP/1.1", b"POST /api/login HTTP/1.1", b"GET / HTTP/1.0"]),
    st.lists(st.tuples(HEADER_NAMES, HEADER_VALUES), max_size=8),
    st.binary(max_size=60),
)
def test_odd_bytes(doors: HttpFixture, start: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Any bytes on the wire: an answer below 500 or a closed connection, and the next client is served."""
    request = start + b"\r\n" + b"".join(b"%b: %b\r\n" % each for each in headers) + b"\r\n" + body
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(20)
        door.connect(str(doors.path))
        door.sendall(request)
        door.shutdown(socket.SHUT_WR)
        answer = received(door)
    assert not answer.startswith(b"HTTP/1.1 5"), answer
    assert b"text/plain" not in answer.partition(b"\r\n\r\n")[0]


def test_nothing_broke(owner: httpx.Client) -> None:
    """After all that the daemon still answers."""
    assert owner.get("/healthz").text == "ok"
