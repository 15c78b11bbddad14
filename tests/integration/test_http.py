"""The HTTP door as its clients see it: real servers on a real socket and a real loopback port."""

import asyncio
import os
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, unix_connect

from support.real_clients import wait_for
from support.supervisor_fixture import HttpFixture, SupervisorFixture, open_http_fixture, subject
from wakeful.alerts.mute_pause_model import MuteList
from wakeful.http.errors import ProblemDocument
from wakeful.http.responses import SessionInspection, SessionStatus, SessionWait
from wakeful.http.routes.healing import LostSessionList
from wakeful.judging.explanation import Explanation
from wakeful.judging.session_record import HealthView, SessionRecord
from wakeful.reports.model import Report
from wakeful.sessions.registry import Query
from wakeful.views.incidents import IncidentList
from wakeful.views.records import (
    CallList,
    ConversationPart,
    CriticalEventList,
    EventList,
    Overview,
    SessionList,
)
from wakeful.views.timeline import FleetTimeline

ONE = "/api/sessions/claude-working"
SHAPES: dict[str, type] = {
    "/api/status": Overview,
    "/api/sessions": SessionList,
    "/api/sessions?include_health=true&health=dead": SessionList,
    "/api/sessions?limit=2": SessionList,
    "/api/sessions/self?conversation=working": SessionRecord,
    ONE: SessionRecord,
    f"{ONE}/health": HealthView,
    f"{ONE}/status": SessionStatus,
    f"{ONE}/inspect": SessionInspection,
    f"{ONE}/why": Explanation,
    "/api/sessions/killed/why": Explanation,
    f"{ONE}/events": EventList,
    f"{ONE}/calls": CallList,
    f"{ONE}/messages": ConversationPart,
    f"{ONE}/messages?after=12-0&limit=500": ConversationPart,
    f"{ONE}/wait?until=prompting": SessionWait,
    "/api/sessions/killed/inspect": SessionInspection,
    "/api/sessions/asking/status": SessionStatus,
    "/api/sessions/nobody": ProblemDocument,
    "/api/mutes": MuteList,
    "/api/incidents": IncidentList,
    "/api/incidents?all=true": IncidentList,
    "/api/events": CriticalEventList,
    "/api/lost": LostSessionList,
    "/api/timeline": FleetTimeline,
    "/api/timeline?hours=168": FleetTimeline,
    "/api/timeline?hours=169": ProblemDocument,
    "/api/timeline?days=1": ProblemDocument,
    "/api/report": Report,
    "/api/report?since=22:00&folders=false": Report,
    "/api/report?since=never": ProblemDocument,
}


def following(doors: HttpFixture) -> ClientConnection:
    return unix_connect(str(doors.path), "ws://wakeful/api/ws", proxy=None)


@pytest.mark.parametrize("path", [*SHAPES, "/nowhere", "/api/sessions?limit=0", "/api/openapi.json"])
def test_both_doors_say_the_same(doors: HttpFixture, path: str) -> None:
    """Socket and port answer with the same bytes, status, type and exit code."""
    with doors.socket() as owner, doors.tcp() as client:
        here, there = owner.get(path), client.get(path)
    assert here.content == there.content
    assert here.status_code == there.status_code
    for name in ("content-type", "x-wakeful-exit"):
        assert here.headers.get(name) == there.headers.get(name)


@pytest.mark.parametrize(("path", "shape"), SHAPES.items())
def test_bodies_have_the_shape_that_is_described(owner: httpx.Client, path: str, shape: type) -> None:
    """Decoding a body by its described type and encoding it again gives the same bytes: nothing more or less."""
    body = owner.get(path).content
    assert msgspec.json.encode(msgspec.json.decode(body, type=shape)) == body


def test_a_list_holds_the_same_records(owner: httpx.Client) -> None:
    """A record is the same bytes alone, in a list and in a wait."""
    record = owner.get(ONE).content
    assert record in owner.get("/api/sessions").content
    assert record in owner.get(f"{ONE}/wait?until=prompting").content


@pytest.mark.parametrize(("name", "code"), [("working", 0), ("done", 0), ("failed", 1), ("killed", 1)])
def test_an_answer_carries_its_exit_code(owner: httpx.Client, name: str, code: int) -> None:
    """A command exits with what the header says: 0 for a healthy session, 1 for one that is not."""
    assert owner.get(f"/api/sessions/{name}/health").headers["x-wakeful-exit"] == str(code)
    assert owner.get("/api/sessions").headers["x-wakeful-exit"] == "0"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "no-such-route"),
        ("GET", "/api/sessions/nobody", 404, "session-not-found"),
        ("GET", "/api/sessions/claude-", 409, "ambiguous-session"),
        ("GET", "/api/sessions/..", 404, "no-such-route"),
        ("GET", "/api/sessions/-rf", 400, "bad-session-id"),
        ("GET", f"/api/sessions/{'x' * 5000}", 400, "bad-session-id"),
        ("GET", "/api/sessions/a%00b", 400, "bad-session-id"),
        ("GET", "/api/sessions/a%0Ab", 400, "bad-session-id"),
        ("GET", "/api/sessions/a%2Fb%2F..%2Fc", 400, "path-not-canonical"),
        ("GET", "/api/sessions/self", 404, "not-a-session"),
        ("GET", "/api/sessions?limit=0", 400, "bad-request"),
        ("GET", "/api/sessions?limit=many", 400, "bad-request"),
        ("GET", "/api/sessions?health=splendid", 400, "bad-request"),
        ("GET", "/api/sessions?cursor=../x", 400, "bad-session-id"),
        ("GET", f"{ONE}/wait?until=starting", 400, "bad-request"),
        ("GET", f"{ONE}/wait?timeout=3601", 400, "bad-request"),
        ("GET", f"{ONE}/events?after=9223372036854775808", 400, "bad-request"),
        ("DELETE", ONE, 405, "method-not-allowed"),
        ("GET", "/api/ws", 405, "method-not-allowed"),
        ("POST", "/api/login", 400, "bad-request"),
        ("POST", f"{ONE}/wrong", 400, "bad-request"),
        ("GET", f"{ONE}/wrong", 405, "method-not-allowed"),
    ],
)
def test_errors_are_problem_documents(
    owner: httpx.Client, method: str, path: str, status: int, code: str
) -> None:
    """Every mistake has its status, its stable code and a sentence; none has a traceback."""
    answer = owner.request(method, path, json={"cod": 1})
    problem = msgspec.json.decode(answer.content, type=ProblemDocument)
    assert (answer.status_code, problem.status, problem.code) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-wakeful-exit"] == "2"
    assert problem.type.endswith(code)
    assert len(problem.detail) < 300


@pytest.mark.parametrize("asked", ["state=splendid", "all=perhaps"])
def test_a_wrong_parameter_is_named_as_it_was_asked(owner: httpx.Client, asked: str) -> None:
    """Not by what it is called inside."""
    problem = msgspec.json.decode(owner.get(f"/api/sessions?{asked}").content, type=ProblemDocument)
    assert f"not valid: {asked.partition('=')[0]}: " in problem.detail


def test_a_validation_says_which_parameter(owner: httpx.Client) -> None:
    """The message names what is wrong and does not repeat the URL."""
    detail = owner.get("/api/sessions?limit=0&project=hunter2").json()["detail"]
    assert "limit" in detail
    assert "hunter2" not in detail


def test_the_description_covers_every_route(doors: HttpFixture, owner: httpx.Client) -> None:
    """Every route but the page's files and the WebSocket is described, with a schema and its errors."""
    document = owner.get("/api/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    routes: Any = doors.app._app
    wanted = {
        (re.sub(r":\w+}", "}", route.path), route.method.lower())
        for route in routes.routes
        if route.path.startswith(("/api", "/healthz", "/readyz", "/metrics")) and route.path != "/api/ws"
    }
    described = {(path, method) for path, item in document["paths"].items() for method in item}
    assert described == wanted
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)


def test_the_description_is_whole(owner: httpx.Client) -> None:
    """Every reference leads somewhere, and a session's schema has exactly the record's fields."""
    text = owner.get("/api/openapi.json").text
    document = msgspec.json.decode(text)
    schemas = document["components"]["schemas"]
    for name in text.split('"#/components/schemas/')[1:]:
        assert name.partition('"')[0] in schemas
    assert list(schemas["SessionRecord"]["properties"]) == list(SessionRecord.__struct_fields__)
    answer = document["paths"]["/api/sessions/{session_id}/inspect"]["get"]["responses"]
    assert answer["200"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/SessionInspection"
    }
    assert "application/problem+json" in answer["404"]["content"]


def test_head_is_get_without_the_body(owner: httpx.Client) -> None:
    """HEAD has the headers of GET and nothing after them."""
    head, got = owner.head(ONE), owner.get(ONE)
    assert head.content == b""
    assert head.headers["content-length"] == got.headers["content-length"] == str(len(got.content))


def test_changes_arrive_in_batches(doors: HttpFixture, owner: httpx.Client) -> None:
    """First the overview, then what changed together together, with the records every other door shows."""
    with following(doors) as feed:
        hello = msgspec.json.decode(feed.recv(timeout=10))
        assert msgspec.json.encode(hello["hello"]) == owner.get("/api/status").content

        def stir() -> None:
            doors.house.finish("working")
            doors.house.finish("asking")
            doors.house.work("asking")

        doors.call(stir)
        changes = msgspec.json.decode(feed.recv(timeout=10))["changes"]
        assert {change["session_id"] for change in changes} == {"claude-working", "claude-asking"}
        latest = {change["session_id"]: change for change in changes}
        assert latest["claude-asking"]["state"] == "prompting", "the newest of one batch is told"
        assert (
            msgspec.json.encode(latest["claude-asking"]["record"])
            == owner.get("/api/sessions/asking").content
        )


def test_every_follower_is_told(doors: HttpFixture) -> None:
    """A change reaches all who listen; one who left is not missed."""
    with ExitStack() as stack:
        followers = [stack.enter_context(following(doors)) for _ in range(20)]
        for follower in followers:
            follower.recv(timeout=10)
        followers.pop().close()
        doors.call(lambda: doors.house.finish("working"))
        for follower in followers:
            assert '"claude-working"' in str(follower.recv(timeout=10))


def after(turns: int, act: Callable[[], None]) -> None:
    """Do this so many turns of the loop from now."""
    if turns == 0:
        act()
    else:
        asyncio.get_running_loop().call_soon(after, turns - 1, act)


def test_leaving_is_no_bug(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Followers vanish while they receive, politely or not, or stay until the end: nothing is logged."""
    opening = (
        b"GET /api/ws HTTP/1.1\r\nHost: wakeful\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with open_http_fixture(tmp_path) as doors, ExitStack() as stack:
        rude = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(30)]
        for each in rude:
            each.connect(str(doors.path))
            each.sendall(opening)
        for follower in [stack.enter_context(following(doors)) for _ in range(5)]:
            follower.recv(timeout=10)
            doors.call(partial(doors.house.finish, "working"))
            follower.close()

        def vanish() -> None:
            """All hang up at once, and the feed gives each of them up a little later than the one before."""
            for each in rude:
                each.close()
            for turns, listener in enumerate(doors.house.feed._subscribers):
                after(turns % 8, listener.drop)

        doors.call(vanish)
        doors.stop()
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR", "CRITICAL"}]


def test_paging_while_sessions_come_and_go(tmp_path: Path) -> None:
    """A session that stays is listed exactly once; one that goes does not hide its neighbour."""
    house = SupervisorFixture()
    names = [f"{number:04d}" for number in range(300)]
    processes = {name: house.start(name) for name in names}
    with open_http_fixture(tmp_path, house) as doors, doors.socket() as owner:
        seen: list[str] = []
        cursor: str | None = ""
        step = 0
        while cursor is not None:
            params = {"limit": "7", **({"cursor": cursor} if cursor else {})}
            page = owner.get("/api/sessions", params=params).json()
            seen += [record["id"] for record in page["sessions"]]
            cursor = page["next_cursor"]
            step += 1
            gone, come = f"{(step * 5) % 300:04d}", f"{(step * 7) % 300:04d}-new"
            doors.call(partial(_leave, house, gone, processes))
            doors.call(partial(house.start, come))
    stayed = {subject(name).id for name in processes}
    assert len(seen) == len(set(seen))
    assert stayed <= set(seen)
    assert seen == sorted(seen)
    assert 0 < len(stayed) < 300


def _leave(house: SupervisorFixture, name: str, processes: dict[str, Any]) -> None:
    process = processes.pop(name, None)
    if process is not None:
        house.forget(name, process)


def test_a_long_list_arrives_whole(tmp_path: Path) -> None:
    """Megabytes in one answer, many pieces on the wire, the same bytes at both doors."""
    house = SupervisorFixture()
    for number in range(1500):
        house.start(f"{number:04d}", project="p" * (number % 90))
    with open_http_fixture(tmp_path, house) as doors, doors.socket() as owner, doors.tcp() as client:
        here, there = owner.get("/api/sessions"), client.get("/api/sessions")
        assert here.content == there.content == doors.call(lambda: house.desk.sessions(Query())).body
    assert len(here.content) > 1_500_000
    assert len(here.json()["sessions"]) == 1500


def test_filters_and_folding(doors: HttpFixture, owner: httpx.Client) -> None:
    """A list is narrowed by health, state and project; old ones are counted until asked for."""

    def ids(**params: str) -> list[str]:
        return [each["id"] for each in owner.get("/api/sessions", params=params).json()["sessions"]]

    assert ids(health="dead") == ["claude-killed"]
    assert ids(state="waiting") == ["claude-asking"]
    assert ids(project="bank") == ["claude-asking", "claude-failed"]
    assert ids(project="bank", health="degraded") == ["claude-failed"]
    doors.call(lambda: doors.house.clock.advance(2 * 86_400))
    assert "claude-killed" not in ids()
    assert owner.get("/api/sessions").json()["older"] == 1
    assert "claude-killed" in ids(all="true")


@pytest.mark.parametrize(
    ("act", "ending", "code"),
    [("finish", "reached", 0), ("ask", "needs_person", 6), ("end", "died", 1), (None, "timeout", 3)],
)
def test_waiting_ends_by_push(doors: HttpFixture, act: str | None, ending: str, code: int) -> None:
    """The answer comes with the change, and says which of the four it was."""
    process = doors.call(lambda: doors.house.start("watched"))
    doors.call(lambda: doors.house.work("watched"))
    acts = {
        "finish": partial(doors.house.finish, "watched"),
        "ask": partial(doors.house.ask, "watched"),
        "end": partial(doors.house.end, process),
    }
    with doors.socket() as owner, ThreadPoolExecutor(1) as pool:
        timeout = "20" if act else "0.1"
        waiting = pool.submit(owner.get, f"/api/sessions/watched/wait?until=idle&timeout={timeout}")
        if act:
            wait_for(
                lambda: doors.call(lambda: doors.house.registry._known.waiters) or None, "somebody who waits"
            )
            doors.call(acts[act])
        answer = waiting.result(20)
    assert answer.json()["ending"] == ending
    assert answer.headers["x-wakeful-exit"] == str(code)


def test_who_left_after_its_turn_did_not_die(doors: HttpFixture) -> None:
    """A client that waits for more gets its answer at once, and a true one."""
    process = doors.call(lambda: doors.house.start("watched"))
    for act in (doors.house.work, doors.house.finish):
        doors.call(partial(act, "watched"))
    doors.call(lambda: doors.house.end(process))
    with doors.socket() as owner:
        answer = owner.get("/api/sessions/watched/wait?until=idle&timeout=20")
    assert (answer.json()["ending"], answer.headers["x-wakeful-exit"]) == ("stopped", "1")


def test_a_session_finds_itself(tmp_path: Path) -> None:
    """At the socket the kernel says who asks: the caller's session is that of its nearest known ancestor."""
    house = SupervisorFixture()
    house.start("mine", pid=os.getpid())
    house.start("other")
    with open_http_fixture(tmp_path, house) as doors, doors.socket() as owner, doors.tcp() as client:
        assert owner.get("/api/sessions/self").json()["id"] == "claude-mine"
        assert client.get("/api/sessions/self").status_code == 404
        assert client.get(f"/api/sessions/self?pid={os.getpid()}").json()["id"] == "claude-mine"
        assert owner.get("/api/sessions/self?conversation=other").json()["id"] == "claude-other"
    lineage = open_http_fixture(tmp_path, house, ancestors=lambda pid: [pid + 1, os.getpid()])
    with lineage as doors, doors.tcp() as client:
        assert client.get("/api/sessions/self?pid=12345").json()["id"] == "claude-mine"


def test_going_down_tells_whoever_waits(tmp_path: Path) -> None:
    """A long poll is answered 503, a WebSocket closed, the socket's file removed; none of it takes long."""
    with ThreadPoolExecutor(1) as pool, open_http_fixture(tmp_path) as doors, doors.socket() as owner:
        with following(doors) as feed:
            waiting = pool.submit(owner.get, f"{ONE}/wait?until=stopped&timeout=3600")
            wait_for(
                lambda: doors.call(lambda: doors.house.registry._known.waiters) or None, "somebody who waits"
            )
            began = time.monotonic()
            doors.stop()
            assert time.monotonic() - began < 5
            answer = waiting.result(5)
        assert (answer.status_code, answer.json()["code"]) == (503, "going-down")
        assert feed.close_code == 1012
    assert not (tmp_path / "wakeful.sock").exists()


def test_open_doors_cost_nothing(doors: HttpFixture) -> None:
    """Without a request nothing runs: the loop is not even woken."""
    with doors.socket() as owner:
        owner.get("/healthz")
    # What the last client left behind ends with it; uvicorn's own tick would always be waiting for its next time.
    # Looked at often in a row: between two of its times a tick is nowhere to be seen for an instant.
    wait_for(
        lambda: not any(doors.call(timers) for _ in range(100)) or None,
        "loop that waits for no time to pass",
        10,
    )


def timers() -> list[asyncio.TimerHandle]:
    """What the loop that calls this would be woken for although nothing happens."""
    loop: Any = asyncio.get_running_loop()
    return [timer for timer in loop._scheduled if not timer.cancelled()]


def test_unknown_query_parameters_are_refused_everywhere(owner: httpx.Client) -> None:
    """Every route of the description, whatever its method: 400 with a stable code and the parameters it knows."""
    paths = owner.get("/api/openapi.json").json()["paths"]
    asked = [(path, method) for path, methods in paths.items() for method in methods]
    assert len(asked) > 30
    for path, method in asked:
        target = re.sub(r"{[^}]+}", "1", path)
        answer = owner.request(method, target, params={"limti": "3"}, json={} if method == "post" else None)
        assert (path, answer.status_code, answer.json()["code"]) == (path, 400, "unknown-parameter")
    told = owner.get("/api/sessions?helth=dead").json()
    assert told["detail"].endswith("Known: all, include_health, health, state, project, limit, cursor.")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("=x", "unknown-parameter"),
        ("project=%ff", "bad-request"),
        ("%ed%a0%80=1", "bad-request"),
        ("limti&limti", "unknown-parameter"),
        ("LIMIT=1", "unknown-parameter"),
        ("health=dead&health=healthy", "repeated-parameter"),
        ("limit=zz&limit=1", "repeated-parameter"),
    ],
)
def test_odd_query_parameters_are_refused(owner: httpx.Client, query: str, code: str) -> None:
    """An empty name, other letters, and one that is given twice: no value is silently dropped."""
    answer = owner.get(f"/api/sessions?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_a_parameter_with_many_values_may_be_repeated(owner: httpx.Client) -> None:
    """A caller has several conversations and processes."""
    answer = owner.get("/api/sessions/self?pid=1&pid=2")
    assert answer.json().get("code") not in ("repeated-parameter", "unknown-parameter")


def test_the_websocket_takes_no_parameters(doors: HttpFixture) -> None:
    """A filter that does not exist is refused instead of answered with everything."""
    with (
        pytest.raises(InvalidStatus) as refused,
        unix_connect(str(doors.path), "ws://wakeful/api/ws?session=1", proxy=None),
    ):
        pass
    answer = refused.value.response
    assert (answer.status_code, msgspec.json.decode(answer.body)["code"]) == (400, "unknown-parameter")


@pytest.mark.parametrize(
    ("path", "allow"),
    {"/api/sessions": "GET, OPTIONS, POST", f"{ONE}/stop": "OPTIONS, POST", "/api/ws": "websocket"}.items(),
)
def test_a_wrong_method_is_told_the_right_ones(owner: httpx.Client, path: str, allow: str) -> None:
    """405 names what the path takes, and OPTIONS, with a query or without, names the same."""
    refused = owner.put(path, json={})
    assert (refused.status_code, refused.headers["allow"]) == (405, allow)
    asked = owner.request("OPTIONS", f"{path}?x=1", json={})
    assert (asked.status_code, asked.headers["allow"]) == (405 if path == "/api/ws" else 204, allow)


@pytest.mark.parametrize("path", ["/api/sessions/{}", "/api/sessions/{session_id}", "/api/checkpoints/one"])
def test_the_tables_own_spelling_is_no_path(owner: httpx.Client, path: str) -> None:
    """What stands for an id in the table is no id, and a word is no number."""
    answer = owner.get(path)
    assert (answer.status_code, answer.json()["code"]) in ((400, "bad-session-id"), (404, "no-such-route"))


def test_every_wrong_parameter_is_named_at_once(owner: httpx.Client) -> None:
    """A mistake that is corrected has no second one behind it."""
    detail = owner.get("/api/sessions?limit=0&state=asleep&all=maybe").json()["detail"]
    assert detail.endswith(
        "all: Expected `bool`, got `str`; state: Invalid enum value 'asleep'; limit: Expected `int` >= 1"
    )


@pytest.mark.parametrize(
    ("body", "words"),
    {
        b"": "its body is missing; an empty one is {}",
        b"[]": "data: Expected `object`, got `array`",
        b'{"by": 3}': "by: Expected `str`, got `int`",
        b'{"why": ""}': "data: Object contains unknown field `why`",
        b'{"by": 1e999}': "its body or parameters do not have the right shape",
    }.items(),
)
def test_a_wrong_body_is_told_what_is_wrong(owner: httpx.Client, body: bytes, words: str) -> None:
    """The member that is wrong, and never its value."""
    answer = owner.post("/api/pause", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["detail"]) == (400, f"The request is not valid: {words}")


def test_a_number_may_be_written_as_text(tmp_path: Path) -> None:
    """Programs in a shell write everything as text, and a body may be left out where nothing has to be said."""
    headers = {"content-type": "application/json"}
    with open_http_fixture(tmp_path) as doors, doors.socket(headers=headers) as owner:
        mute = b'{"kind": "project", "value": "x", "for_seconds": "60"}'
        assert owner.post("/api/mutes", content=mute).status_code == 201
        for body in (b"", b"null", b"{}"):
            assert owner.post(f"{ONE}/adopt", content=body).json().get("code") != "bad-request"


def test_there_is_one_websocket(doors: HttpFixture) -> None:
    """Every other path is refused with a problem document before it is opened."""
    for path in ("/api/status", "/nowhere"):
        with pytest.raises(InvalidStatus) as caught:
            unix_connect(str(doors.path), f"ws://wakeful{path}", proxy=None).close()
        answer = caught.value.response
        assert (answer.status_code, msgspec.json.decode(answer.body)["code"]) == (404, "no-such-route")
