"""Who comes in and who does not, against the real servers on a real socket and a real port."""

import logging
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect, unix_connect

from support.supervisor_fixture import HttpFixture, open_http_fixture, raw
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.http.access_log import FILE_BYTES_MAX, RECORDS_MAX, AccessRecord, access_file
from wakeful.http.auth import PUBLIC_ROUTES
from wakeful.http.logins import LOGIN_KIND, LOGIN_SECONDS_MAX, LOGINS_MAX, Logins
from wakeful.storage.base import Note
from wakeful.testing.virtual_clock import VirtualClock

FOREIGN_HOSTS = (
    "evil.example",
    "evil.example:{port}",
    "localhost",
    "127.0.0.1:1",
    "localhost:{port}.evil.example",
    "",
)
FOREIGN_ORIGINS = ("http://evil.example", "null", "http://localhost:1", "https://127.0.0.1:{port}", "")
PROBLEM = "application/problem+json"
# Named here once more: whatever else is served to strangers is a mistake.
PAGE_SCRIPTS = [
    "actions",
    "address",
    "agents",
    "asking",
    "checkpoints",
    "conversation",
    "dom",
    "events",
    "groups",
    "incidents",
    "keys",
    "ladder",
    "lanes",
    "link",
    "notices",
    "page",
    "prompt",
    "report",
    "roster",
    "rows",
    "session",
    "sessions",
    "spans",
    "table",
    "timeline",
]


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpFixture]:
    with open_http_fixture(tmp_path_factory.mktemp("doors")) as opened:
        yield opened


@pytest.fixture
def own_doors(tmp_path: Path) -> Iterator[HttpFixture]:
    """For tests whose failures would slow the others down."""
    with open_http_fixture(tmp_path) as opened:
        yield opened


def every_route(doors: HttpFixture) -> list[tuple[str, str]]:
    """Method and path of everything the application would answer, and one path it would not."""
    app: Any = doors.app._app
    found = [
        (method, "/" + "/".join("x" if part.startswith("{") else part for part in route.path.split("/")[1:]))
        for route in app.routes
        for method in (route.method, "OPTIONS", "HEAD")
        if route.method != "WEBSOCKET"
    ]
    assert len(found) > 30, "the routes were not found"
    return [*found, ("GET", "/nowhere")]


@contextmanager
def logged_in(doors: HttpFixture) -> Iterator[tuple[httpx.Client, dict[str, str]]]:
    """A browser that has used a fresh link, and the header that its page would send along."""
    with doors.tcp(token="") as browser:
        code = doors.call(doors.access.logins.new_code)
        answer = browser.post("/api/login", json={"code": code})
        assert answer.status_code == 200
        yield browser, {"x-wakeful-csrf": answer.json()["csrf"]}


def follow(doors: HttpFixture, **headers: str) -> ClientConnection:
    return connect(
        f"ws://127.0.0.1:{doors.port}/api/ws",
        additional_headers=headers,
        origin=None,
        proxy=None,
        open_timeout=10,
    )


def refused(doors: HttpFixture, **headers: str) -> int:
    """The status with which a WebSocket is refused."""
    with pytest.raises(InvalidStatus) as caught:
        follow(doors, **headers).close()
    response = caught.value.response
    assert response.headers["content-type"] == PROBLEM
    return response.status_code


def test_every_route_without_a_token_is_401(doors: HttpFixture) -> None:
    """Nothing answers a stranger but the health check, the page's shell and the one-time login."""
    open_paths = {
        "/",
        "/healthz",
        "/page.css",
        "/views.css",
        *(f"/{name}.js" for name in PAGE_SCRIPTS),
        "/icon.svg",
    }
    with doors.tcp(token="") as stranger:
        for method, path in every_route(doors):
            status = stranger.request(method, path).status_code
            if method in {"GET", "HEAD"} and path in open_paths:
                assert status == 200, (method, path)
            elif (method, path) == ("POST", "/api/login"):
                assert status == 415, "let in, and asked for JSON"
            else:
                assert status == 401, (method, path)
    assert {("GET", path) for path in open_paths} | {("POST", "/api/login")} == PUBLIC_ROUTES


def test_a_refusal_is_a_problem_document(doors: HttpFixture) -> None:
    """A 401 names its scheme and says what to do, in the form every error has."""
    with doors.tcp(token="") as stranger:
        answer = stranger.get("/api/status")
    assert answer.headers["content-type"] == PROBLEM
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["x-wakeful-exit"] == "2"
    assert answer.json()["code"] == "token-needed"
    assert "wakeful open" in answer.json()["detail"]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_foreign_host_is_refused_everywhere(doors: HttpFixture, host: str) -> None:
    """A name that was made to point here (DNS rebinding) opens no route, not even with the token."""
    shown = host.format(port=doors.port)
    with doors.tcp() as client:
        for method, path in every_route(doors):
            answer = client.request(method, path, headers={"host": shown})
            assert answer.status_code == 403, (method, path)
        assert client.get("/healthz", headers={"host": shown}).json()["code"] == "foreign-host"


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_a_foreign_origin_is_refused_everywhere(doors: HttpFixture, origin: str) -> None:
    """A page of another origin is refused whatever it knows."""
    shown = origin.format(port=doors.port)
    with doors.tcp() as client:
        for method, path in every_route(doors):
            assert client.request(method, path, headers={"origin": shown}).status_code == 403, (method, path)
    assert refused(doors, Authorization=f"Bearer {doors.token}", Origin=shown) == 403


def test_our_own_hosts_and_origin_pass(doors: HttpFixture) -> None:
    """Every name of loopback works, and our own page may ask."""
    with doors.tcp() as client:
        for name in ("localhost", "127.0.0.1", "[::1]"):
            host = f"{name}:{doors.port}"
            answer = client.get("/api/status", headers={"host": host, "origin": f"http://{host}"})
            assert answer.status_code == 200, name


def test_the_socket_has_its_own_names(doors: HttpFixture) -> None:
    """At the socket no token is needed, but a foreign Host is still a confused client."""
    with doors.socket() as client:
        assert client.get("/api/status").status_code == 200
        assert client.get("/api/status", headers={"host": "localhost"}).status_code == 200
        assert client.get("/api/status", headers={"host": "evil.example"}).status_code == 403
        assert client.get("/api/status", headers={"origin": "http://evil.example"}).status_code == 403


def test_two_hosts_are_no_host(doors: HttpFixture) -> None:
    """A header that decides and comes twice is refused: proxies and servers disagree which one counts."""
    host = f"Host: 127.0.0.1:{doors.port}\r\n".encode()
    request = b"GET /healthz HTTP/1.1\r\n" + host + b"Host: evil.example\r\nConnection: close\r\n\r\n"
    assert raw(doors, request).startswith(b"HTTP/1.1 400 ")
    missing = raw(doors, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert missing.startswith(b"HTTP/1.1 403 ")


def test_a_websocket_needs_the_token(doors: HttpFixture) -> None:
    """No token, no feed; a path that is none is none for WebSockets too."""
    assert refused(doors) == 401
    with follow(doors, Authorization=f"Bearer {doors.token}") as feed:
        assert str(feed.recv(timeout=10)).startswith('{"hello":')
    with pytest.raises(InvalidStatus) as caught:
        unix_connect(str(doors.path), "ws://wakeful/api/nothing", proxy=None)
    assert caught.value.response.status_code == 404


def test_a_websocket_of_a_page_needs_cookie_and_origin(doors: HttpFixture) -> None:
    """A cookie alone proves nothing on a WebSocket, which same-origin rules do not cover."""
    with logged_in(doors) as (browser, _):
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    assert refused(doors, Cookie=cookie) == 403
    assert refused(doors, Cookie=cookie, Origin="http://evil.example") == 403
    with follow(doors, Cookie=cookie, Origin=doors.url) as feed:
        assert feed.recv(timeout=10)


def test_a_websocket_that_speaks_is_sent_away(doors: HttpFixture) -> None:
    """The feed takes no orders: not even bytes that are no text reach anything."""
    with unix_connect(str(doors.path), "ws://wakeful/api/ws", proxy=None) as feed:
        feed.recv(timeout=10)
        feed.send(b"\xff\xfe")
        with pytest.raises(ConnectionClosed) as caught:
            feed.recv(timeout=10)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1008


KNOCK = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
door = socket.socket(socket.AF_UNIX)
door.settimeout(10)
door.connect(sys.argv[1])
try:
    door.sendall(b"GET /healthz HTTP/1.1\\r\\nHost: wakeful\\r\\n\\r\\n")
    print(door.recv(1000))
except (ConnectionResetError, BrokenPipeError):
    print(b"")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_uid_is_refused_at_the_socket(caplog: pytest.LogCaptureFixture) -> None:
    """Even where folder and socket were opened to all, another user gets no answer, and it is logged."""
    with tempfile.TemporaryDirectory() as folder, open_http_fixture(Path(folder)) as doors:
        Path(folder).chmod(0o711)
        doors.path.chmod(0o666)
        done = subprocess.run(
            [sys.executable, "-c", KNOCK, str(doors.path)],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    assert done.stdout.strip() == "b''"
    assert "refused uid 65534" in caplog.text


def test_orders_of_a_page_need_the_csrf_value(doors: HttpFixture) -> None:
    """A cookie that a browser adds by itself gives no order; the value only our page knows must come with it."""
    with logged_in(doors) as (browser, csrf):
        assert browser.get("/api/status").status_code == 200
        assert browser.post("/api/logout", json={}).status_code == 403
        wrong = browser.post("/api/logout", json={}, headers={"x-wakeful-csrf": "x" * 43})
        assert wrong.json()["code"] == "csrf-needed"
        kept = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        assert browser.post("/api/logout", json={}, headers=csrf).status_code == 200
        assert not browser.cookies, "the browser was told to forget it"
        assert browser.get("/api/status", headers={"cookie": kept}).json()["code"] == "logged-out"


def test_a_cookie_is_only_for_our_own_page(doors: HttpFixture) -> None:
    """Cookies ignore ports: what a page of another local server embeds from here is refused."""
    with logged_in(doors) as (browser, _):
        for site in ("same-site", "cross-site"):
            assert browser.get("/api/status", headers={"sec-fetch-site": site}).status_code == 403
        assert browser.get("/api/status", headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_some_orders_are_for_the_socket(doors: HttpFixture) -> None:
    """Going down is asked for through the socket only, a login code never by a login."""
    with logged_in(doors) as (browser, csrf), doors.tcp() as client, doors.socket() as owner:
        assert client.post("/api/shutdown", json={}).json()["code"] == "wrong-door"
        answer = browser.post("/api/login-codes", json={}, headers=csrf)
        assert answer.json()["code"] == "wrong-door"
        assert client.post("/api/login-codes", json={}).status_code == 201
        assert owner.post("/api/login-codes", json={}).status_code == 201
        assert not doors.orders
        assert owner.post("/api/shutdown", json={}).status_code == 202
    assert doors.orders == ["shut down"]


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_an_order_is_json(doors: HttpFixture, kind: str | None) -> None:
    """What a foreign form can send is no order."""
    headers = {"content-type": kind} if kind else {}
    with doors.socket() as client:
        answer = client.post("/api/login-codes", content=b"{}", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "not-json")


def test_a_code_is_good_once_and_for_ten_minutes(own_doors: HttpFixture) -> None:
    """A link from the history or from a shoulder opens nothing."""
    logins = own_doors.access.logins
    with own_doors.tcp(token="") as browser:

        def spend(code: str) -> int:
            return browser.post("/api/login", json={"code": code}).status_code

        code, late, unused = (own_doors.call(logins.new_code) for _ in range(3))
        assert len(code) == 22, "128 bits"
        assert (spend(code), spend(code)) == (200, 401)
        own_doors.call(lambda: own_doors.house.clock.advance(599))
        assert spend(unused) == 200
        own_doors.call(lambda: own_doors.house.clock.advance(2))
        assert spend(late) == 401
        codes = [own_doors.call(logins.new_code) for _ in range(33)]
        assert (spend(codes[0]), spend(codes[1])) == (401, 200), "32 codes at most are open"


def test_a_sleeping_host_does_not_keep_a_code_fresh(own_doors: HttpFixture) -> None:
    """Ten minutes are ten minutes of anybody's clock."""
    code = own_doors.call(own_doors.access.logins.new_code)
    own_doors.call(lambda: own_doors.house.clock.suspend(601))
    with own_doors.tcp(token="") as browser:
        assert browser.post("/api/login", json={"code": code}).status_code == 401


def test_a_login_is_a_cookie_no_script_reads(own_doors: HttpFixture) -> None:
    """HttpOnly, SameSite=Strict, seven days; the daemon's port is in its name."""
    with own_doors.tcp(token="") as browser:
        code = own_doors.call(own_doors.access.logins.new_code)
        cookie = browser.post("/api/login", json={"code": code}).headers["set-cookie"]
        name, *attributes = cookie.split("; ")
        assert name.startswith(f"wakeful-{own_doors.port}=")
        assert set(attributes) == {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=604800"}
        assert browser.get("/api/status").status_code == 200
        own_doors.call(lambda: own_doors.house.clock.advance(7 * 86_400))
        assert browser.get("/api/status").json()["code"] == "logged-out"


def test_an_old_login_is_no_guess(own_doors: HttpFixture) -> None:
    """Every tab of a daemon that was restarted asks with one, several times: each gets its answer at once."""
    with own_doors.tcp(token="") as browser:
        code = own_doors.call(own_doors.access.logins.new_code)
        assert browser.post("/api/login", json={"code": code}).status_code == 200
        own_doors.run(own_doors.access.logins.revoke_all())
        began = time.monotonic()
        assert {browser.get("/api/status").json()["code"] for _ in range(8)} == {"logged-out"}
        assert time.monotonic() - began < 5, "the eighth guess alone costs five seconds"


def test_a_login_outlives_its_daemon_and_the_store_has_no_secret(own_doors: HttpFixture) -> None:
    """The next daemon on the same store knows cookie and CSRF value; the store has their digests only."""
    with logged_in(own_doors) as (browser, csrf):
        cookie = next(iter(browser.cookies.values()))
        house = own_doors.house
        stored = own_doors.run(house.store.notes(LOGIN_KIND))
        assert len(stored) == 1
        written = stored[0].key.encode() + stored[0].body
        assert cookie.encode() not in written
        assert csrf["x-wakeful-csrf"].encode() not in written
        own_doors.call(lambda: house.clock.advance(86_400))
        successor = Logins(VirtualClock(house.clock.now().wall), house.store)
        own_doors.run(successor.restore())
        found = successor.find(cookie)
        assert found is not None
        assert found.has_csrf(csrf["x-wakeful-csrf"])
        assert not found.has_csrf(cookie)
        assert successor.find(stored[0].key) is None, "what is stored opens nothing"


def test_an_ended_login_stays_ended_after_a_full_disk(
    own_doors: HttpFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person hears that it was not stored; what they do next ends it for the next daemon, too."""
    logins, store = own_doors.access.logins, own_doors.house.store
    cookies = []
    for _ in range(3):
        code = own_doors.call(logins.new_code)
        cookies.append(own_doors.run(logins.log_in(code)).cookie)

    async def full(_kind: str, _key: str) -> None:
        raise WorldError

    def successor(later: float = 0.0) -> Logins:
        started = Logins(VirtualClock(own_doors.house.clock.now().wall + later), store)
        own_doors.run(started.restore())
        return started

    with monkeypatch.context() as disk:
        disk.setattr(store, "drop_note", full)
        with pytest.raises(WorldError):
            own_doors.run(logins.revoke_all())
        assert not any(logins.find(cookie) for cookie in cookies)
        late = successor(LOGIN_SECONDS_MAX + 1)
        assert not any(late.find(cookie) for cookie in cookies), "it starts with a full disk, too"
    assert own_doors.run(logins.revoke_all()) == 0
    assert not any(successor().find(cookie) for cookie in cookies)


def test_a_stored_login_ends_on_time(own_doors: HttpFixture) -> None:
    """Seven days by the wall clock while no daemon runs; a clock that was set back makes none longer than that."""
    with logged_in(own_doors) as (browser, _):
        cookie, store = next(iter(browser.cookies.values())), own_doors.house.store
        began = own_doors.house.clock.now().wall

        def restored(wall: float) -> tuple[Logins, VirtualClock]:
            clock = VirtualClock(wall)
            logins = Logins(clock, store)
            own_doors.run(logins.restore())
            return logins, clock

        logins, clock = restored(began - 365 * 86_400)
        clock.advance(LOGIN_SECONDS_MAX - 1)
        assert logins.find(cookie) is not None
        clock.advance(1)
        assert logins.find(cookie) is None
        assert restored(began + LOGIN_SECONDS_MAX - 1)[0].find(cookie) is not None
        assert restored(began + LOGIN_SECONDS_MAX)[0].find(cookie) is None
        assert own_doors.run(store.notes(LOGIN_KIND)) == [], "what has ended is not kept"


def test_a_damaged_login_in_the_store_harms_no_other(own_doors: HttpFixture) -> None:
    """Bytes that are no login are left out, and the daemon starts."""
    with logged_in(own_doors) as (browser, _):
        cookie, house = next(iter(browser.cookies.values())), own_doors.house
        for key, body in (("a", b""), ("b", b"\xff"), ("c", b"[1"), ("d", b'{"csrf_digest": 4}')):
            own_doors.run(house.store.save_note(Note(LOGIN_KIND, key, body)))
        successor = Logins(house.clock, house.store)
        own_doors.run(successor.restore())
        assert successor.find(cookie) is not None
        assert len(successor.records()) == 1


def test_logins_are_bounded_and_the_oldest_goes(own_doors: HttpFixture) -> None:
    """64 browsers at most are logged in; the store has no more either."""
    logins, store = own_doors.access.logins, own_doors.house.store

    def open_login() -> str:
        code = own_doors.call(logins.new_code)
        own_doors.call(lambda: own_doors.house.clock.advance(1))
        return own_doors.run(logins.log_in(code)).cookie

    cookies = [open_login() for _ in range(LOGINS_MAX + 1)]
    assert logins.find(cookies[0]) is None
    assert all(logins.find(cookie) is not None for cookie in cookies[1:])
    assert len(own_doors.run(store.notes(LOGIN_KIND))) == LOGINS_MAX


def test_a_login_is_listed_and_ended(own_doors: HttpFixture) -> None:
    """The list says since when and which browser, cut and without secrets; ending one ends no other, here and in the store."""
    with logged_in(own_doors) as (browser, csrf), own_doors.socket() as owner:
        code = own_doors.call(own_doors.access.logins.new_code)
        other = own_doors.tcp(token="")
        key = "sk-ant-api03-" + "a1B2" * 12
        foreign = {"user-agent": f"Firefox {key} " + "x" * 500}
        assert other.post("/api/login", json={"code": code}, headers=foreign).status_code == 200
        first, second = owner.get("/api/logins").json()["logins"]
        assert second["untrusted"].startswith("Firefox")
        assert key not in second["untrusted"]
        assert len(second["untrusted"]) <= 130
        assert browser.post("/api/logins/revoke", json={"id": second["id"]}).json()["code"] == "csrf-needed"
        answer = browser.post("/api/logins/revoke", json={"id": second["id"]}, headers=csrf)
        assert answer.json() == {"revoked": 1}
        assert other.get("/api/status").json()["code"] == "logged-out"
        assert browser.get("/api/status").status_code == 200
        unknown = owner.post("/api/logins/revoke", json={"id": second["id"]})
        assert (unknown.status_code, unknown.json()["code"]) == (404, "login-unknown")
        unused = own_doors.call(own_doors.access.logins.new_code)
        assert owner.post("/api/logins/revoke", json={}).json() == {"revoked": 1}
        assert browser.get("/api/status").json()["code"] == "logged-out"
        assert browser.post("/api/login", json={"code": unused}).status_code == 401, "nor an old link"
        assert own_doors.run(own_doors.house.store.notes(LOGIN_KIND)) == []
        other.close()
        assert first["id"] != second["id"]


def test_an_agent_ends_no_login(own_doors: HttpFixture) -> None:
    """A supervised agent that asks is refused."""
    own_doors.working_for[os.getpid()] = SessionId("claude-x")
    with own_doors.socket() as client:
        assert client.post("/api/logins/revoke", json={}).json()["code"] == "agent-may-not-decide"
    own_doors.working_for.clear()


def test_a_feed_ends_with_its_login(own_doors: HttpFixture) -> None:
    """A page that is logged out hears nothing more through the WebSocket that it had opened."""
    with logged_in(own_doors) as (browser, _):
        name, value = next(iter(browser.cookies.items()))
        origin = f"http://127.0.0.1:{own_doors.port}"
        with follow(own_doors, Cookie=f"{name}={value}", Origin=origin) as feed:
            assert "hello" in feed.recv(timeout=10)
            own_doors.run(own_doors.access.logins.revoke_all())
            own_doors.call(lambda: own_doors.house.start("secret"))
            with pytest.raises(ConnectionClosed):
                feed.recv(timeout=10)


def test_a_waiting_request_ends_with_its_login(own_doors: HttpFixture) -> None:
    """A page that is logged out gets no answer to what it asked before; a logout is answered all the same."""
    own_doors.call(lambda: own_doors.house.start("secret"))
    wait = "/api/sessions/secret/wait?until=stopped&timeout="
    with logged_in(own_doors) as (browser, _), ThreadPoolExecutor(1) as pool:
        assert browser.get(f"{wait}0").status_code == 200
        waiting = pool.submit(browser.get, f"{wait}2")
        time.sleep(0.5)
        assert own_doors.run(own_doors.access.logins.revoke_all()) == 1
        assert waiting.result().status_code == 401
    with logged_in(own_doors) as (browser, csrf):
        assert browser.post("/api/logout", json={}, headers=csrf).status_code == 200


def test_guessing_costs_growing_time_and_only_the_guesser(own_doors: HttpFixture) -> None:
    """Wrong tokens take longer and longer, while the right one is answered at once."""
    with own_doors.tcp(token="wrong") as guesser, own_doors.tcp() as owner, ThreadPoolExecutor(1) as pool:
        seconds = []
        for _ in range(4):
            began = time.monotonic()
            assert guesser.get("/api/status").status_code == 401
            seconds.append(time.monotonic() - began)
        assert seconds[3] >= 0.8
        assert seconds[3] > 2 * seconds[0]
        guess = pool.submit(guesser.get, "/api/status")
        assert owner.get("/api/status").status_code == 200
        assert not guess.done(), "the guess was still waiting when the owner was answered"
        assert guess.result().status_code == 401


def test_there_is_no_cors(doors: HttpFixture) -> None:
    """No answer invites another origin, least of all to a preflight."""
    preflight = {"origin": "http://evil.example", "access-control-request-method": "GET"}
    with doors.tcp() as client:
        answers = [client.options("/api/status", headers=preflight)]
        answers += [
            client.request(method, path) for method, path in every_route(doors) if "shutdown" not in path
        ]
    assert answers[0].status_code == 403
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_every_answer_to_a_browser_is_locked_down(doors: HttpFixture) -> None:
    """Page, data and errors carry the same strict headers, and the page holds no script of its own."""
    with doors.tcp() as client:
        for path in ("/", "/api/status", "/nowhere"):
            headers = client.get(path).headers
            policy = headers["content-security-policy"].split("; ")
            assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cross-origin-opener-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store"
        page = client.get("/").text
    assert page.count("<script") == page.count('<script type="module" src=') == 1
    assert "<style" not in page
    assert "style=" not in page


def test_the_access_log_tells_no_secrets(own_doors: HttpFixture, caplog: pytest.LogCaptureFixture) -> None:
    """Method, path, status, door and time; no query, no token, no second line."""
    caplog.set_level("INFO", "wakeful.access")
    with own_doors.tcp() as client:
        client.get("/api/sessions?project=hunter2")
        client.get("/api/sessions/a%0AFORGED%20GET%20/%20200")
        client.get("/api/sessions/sk-ant-api03-abcdefghijklmnop")
    with own_doors.socket() as owner:
        owner.get("/healthz")
        # A note follows its answer; that of the first request is there when the second is answered.
        owner.get("/healthz")
    own_doors.call(own_doors.app.log.close)
    lines = [record.getMessage() for record in caplog.records if record.name == "wakeful.access"]
    assert " GET /api/sessions 200 tcp " in lines[0]
    assert any(" GET /healthz 200 socket " in line for line in lines)
    text = "\n".join(lines)
    assert not [
        secret for secret in ("hunter2", own_doors.token, "abcdefghijkl", "\nFORGED") if secret in text
    ]


def test_a_flood_does_not_flood_the_access_log(
    own_doors: HttpFixture, caplog: pytest.LogCaptureFixture
) -> None:
    """So many lines a second and a count of the rest; refusals keep places of their own."""
    caplog.set_level("INFO", "wakeful.access")
    log = own_doors.app.log

    def flood() -> None:
        for status in (*[200] * (RECORDS_MAX + 7), *[401] * (RECORDS_MAX + 1)):
            log.add(AccessRecord(0.0, "GET", "/healthz", status, "tcp", 0.001))
        log.close()

    own_doors.call(flood)
    lines = [record.getMessage() for record in caplog.records if record.name == "wakeful.access"]
    assert [sum(f" {status} tcp" in line for line in lines) for status in (200, 401)] == [RECORDS_MAX] * 2
    assert lines[-1] == "and 8 more"


def test_the_access_file_is_the_owners_and_bounded(tmp_path: Path) -> None:
    """Mode 0600, and when it is full a new one begins with two older ones kept."""
    with access_file(tmp_path / "access.log"):
        for _ in range(4 * FILE_BYTES_MAX // 1000):
            logging.getLogger("wakeful.access").info("x" * 1000)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["access.log", "access.log.1", "access.log.2"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert max(file.stat().st_size for file in files) <= FILE_BYTES_MAX


def test_a_bug_is_said_and_not_shown(own_doors: HttpFixture, caplog: pytest.LogCaptureFixture) -> None:
    """A broken invariant answers 500 with the code `log_bug`; the traceback goes to the log alone."""
    own_doors.call(lambda: setattr(own_doors.house.desk, "_registry", None))
    with own_doors.socket() as owner:
        answer = owner.get("/api/sessions")
    assert (answer.status_code, answer.json()["code"]) == (500, "bug")
    assert "Traceback" not in answer.text
    assert "NoneType" not in answer.text
    assert any(record.exc_info for record in caplog.records)


def test_the_socket_file_is_the_owners_alone(doors: HttpFixture) -> None:
    """Mode 0600 in a folder of 0700, and gone when the doors close."""
    found = os.lstat(doors.path)
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600


UNREADABLE = {
    "invalid UTF-8": b'{"code":"\xff\xfe"}',
    "invalid UTF-8 in a key": b'{"\xff":1}',
    "invalid UTF-8 in what is skipped": b'{"other":"\xc3\x28"}',
    "deep": b'{"a":' + b"[" * 100_000,
    "deep and whole": b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "half a character": b'{"code":"\\ud800"}',
    "no JSON": b"\x00\x01",
    "half": b'{"code":',
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in UNREADABLE.items()])
def test_a_body_that_cannot_be_read_is_refused_everywhere(
    own_doors: HttpFixture, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """By every route, also those that take none, with and without a token: a refusal, and no traceback in any log."""
    routes = list(every_route(own_doors))
    assert len(routes) > 50
    with own_doors.socket() as owner, own_doors.tcp(token="") as stranger:
        for method, path in routes:
            answer = owner.request(method, path, content=body, headers={"content-type": "application/json"})
            assert 400 <= answer.status_code < 500, (method, path, answer.status_code)
            assert method == "HEAD" or answer.headers["content-type"] == PROBLEM
        answer = stranger.post("/api/login", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
    assert [each for each in caplog.records if each.exc_info] == []


def test_a_huge_number_is_no_bug_of_ours(own_doors: HttpFixture, caplog: pytest.LogCaptureFixture) -> None:
    """Where it is looked at it is refused; nowhere does it become a traceback."""
    body = b'{"code":' + b"9" * 100_000 + b"}"
    with own_doors.socket() as owner:
        for method, path in every_route(own_doors):
            if method not in {"GET", "HEAD"}:
                answer = owner.request(
                    method, path, content=body, headers={"content-type": "application/json"}
                )
                assert answer.status_code < 500, (method, path)
    assert [each for each in caplog.records if each.exc_info] == []


ODD_PATHS = ("/{}", "{}/", "{}%2f", "/.{}", "/x/..{}", "/%2e%2e{}", "{}//", "/%2F{}")


@pytest.mark.parametrize("spelling", ODD_PATHS)
def test_a_path_has_one_spelling(doors: HttpFixture, spelling: str) -> None:
    """No second one reaches a route from any caller: a guard that knows paths by their names cannot be walked around."""
    for path in sorted({path for _, path in every_route(doors) if path != "/"}):
        request = (
            f"POST {spelling.format(path)} HTTP/1.1\r\nHost: 127.0.0.1:{doors.port}\r\nConnection: close\r\n"
            f"Authorization: Bearer {doors.token}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
        )
        answer = raw(doors, request.encode())
        assert answer.startswith(b"HTTP/1.1 400 "), (path, answer[:300])
        assert b'"code":"path-not-canonical"' in answer
