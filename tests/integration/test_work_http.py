"""Work and leases over HTTP: real servers on a real socket, and time turned by hand."""

from typing import Any

import httpx
import msgspec
import pytest

from support.supervisor_fixture import HttpFixture
from wakeful.http.routes.work import ConversationHeldProblem
from wakeful.work.service import (
    ClaimedRun,
    LeaseRecord,
    ReleasedLease,
    RenewedLease,
    WorkDetail,
    WorkList,
    WorkRecord,
)

CHAT = "claude-working"


def body_of(answer: httpx.Response, shape: type) -> Any:
    """The body, which must be exactly of the shape that is described."""
    assert answer.is_success, answer.text
    decoded: Any = msgspec.json.decode(answer.content, type=shape)
    assert msgspec.json.encode(decoded) == answer.content
    return decoded


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["code"], answer.headers["x-wakeful-exit"]


def add(owner: httpx.Client, key: str | None = None, **order: Any) -> httpx.Response:
    headers = {"idempotency-key": key} if key is not None else {}
    return owner.post("/api/work", json={"prompt": "mend it", **order}, headers=headers)


def claim(owner: httpx.Client, name: str = "worker", **order: Any) -> Any:
    return body_of(owner.post("/api/work/claim", json={"owner": name, **order}), ClaimedRun).run


def test_a_work_goes_from_asked_to_done(owner: httpx.Client) -> None:
    """Added, listed, claimed, kept, completed: every answer has its described shape."""
    added = body_of(add(owner, project="shop", context="the build is red"), WorkRecord)
    assert (added.state, added.summary) == ("pending", "mend it")
    listed = body_of(owner.get("/api/work?state=pending"), WorkList)
    assert [each.id for each in listed.works] == [added.id]
    run = claim(owner, project="shop")
    assert (run.work_id, run.prompt, run.context, run.epoch) == (added.id, "mend it", "the build is red", 1)
    one = f"/api/work/{added.id}"
    kept = body_of(owner.post(f"{one}/heartbeat", json={"epoch": 1, "ttl_seconds": 120}), RenewedLease)
    assert kept.lease_until > run.lease_until
    done = owner.post(f"{one}/complete", json={"epoch": 1, "result": "green \x1b[2J"})
    assert body_of(done, WorkRecord).state == "done"
    detail = body_of(owner.get(one), WorkDetail)
    assert [(each.state, each.untrusted) for each in detail.history] == [("done", "green \x1b[2J")]


def test_nothing_due_is_the_answer_no(owner: httpx.Client, doors: HttpFixture) -> None:
    """An empty queue is no error: `run` is null and a command would exit 1."""
    add(owner, delay_seconds=60)
    answer = owner.post("/api/work/claim", json={"owner": "worker"})
    assert (answer.status_code, answer.json(), answer.headers["x-wakeful-exit"]) == (200, {"run": None}, "1")
    doors.call(lambda: doors.house.clock.advance(60))
    assert claim(owner) is not None


def test_one_key_makes_one_work(owner: httpx.Client) -> None:
    """The same order with the same key is the same work, also once it is running; other words are refused."""
    first = add(owner, "nightly-1").json()["id"]
    claim(owner)
    again = add(owner, "nightly-1")
    assert (again.json()["id"], again.json()["state"]) == (first, "running")
    assert refusal(add(owner, "nightly-1", prompt="something else")) == (409, "idempotency-key-reused", "2")
    assert add(owner, "nightly-2").json()["id"] != first
    assert refusal(add(owner, "x" * 201)) == (400, "bad-idempotency-key", "2")


def test_a_late_owner_is_told_so(owner: httpx.Client, doors: HttpFixture) -> None:
    """After its lease was taken an owner's every word is refused, and the new one goes on."""
    work_id = add(owner, session_id=CHAT).json()["id"]
    late = claim(owner)
    doors.call(lambda: doors.house.clock.advance(61))
    taken = body_of(owner.post(f"/api/sessions/{CHAT}/claim", json={"owner": "a person"}), LeaseRecord)
    assert taken.epoch == late.epoch + 1
    for act in ("heartbeat", "complete", "fail"):
        answer = owner.post(f"/api/work/{work_id}/{act}", json={"epoch": late.epoch})
        assert refusal(answer) == (409, "lease-lost", "1")
    assert owner.get(f"/api/work/{work_id}").json()["state"] == "running"
    renewed = owner.post(f"/api/sessions/{CHAT}/renew", json={"epoch": taken.epoch})
    assert body_of(renewed, RenewedLease).epoch == taken.epoch


def test_an_ending_said_twice_is_said_once(owner: httpx.Client) -> None:
    """A worker that did not get the answer may ask again; another ending for the same attempt is refused."""
    one = f"/api/work/{add(owner, attempts_max=2).json()['id']}"
    run = claim(owner)
    for _ in range(2):
        failed = owner.post(f"{one}/fail", json={"epoch": run.epoch, "reason": "no network"})
        assert body_of(failed, WorkRecord).state == "pending"
    assert refusal(owner.post(f"{one}/complete", json={"epoch": run.epoch})) == (409, "lease-lost", "1")
    assert owner.get(one).json()["attempts"] == 1


def test_a_held_conversation_names_its_owner(owner: httpx.Client) -> None:
    """The refusal says who has it since when, in words and in members; by every spelling of the id."""
    holder = {"pid": 7, "started": 8, "boot_id": "b"}
    order = {"owner": "night\x1b[2Jly", "holder": holder}
    lease = body_of(owner.post(f"/api/sessions/{CHAT}/claim", json=order), LeaseRecord)
    assert (lease.session_id, lease.holder.pid) == (CHAT, 7)
    for spelling in (CHAT, "working", "claude-work"):
        answer = owner.post(f"/api/sessions/{spelling}/claim", json={"owner": "other"})
        assert refusal(answer) == (409, "conversation-held", "1")
        problem = msgspec.json.decode(answer.content, type=ConversationHeldProblem)
        assert (problem.owner, problem.since) == ("nightly", lease.since)
        assert f"claimed by nightly since {lease.since}" in problem.detail
    given = owner.post("/api/sessions/working/yield", json={"epoch": lease.epoch})
    assert body_of(given, ReleasedLease).session_id == CHAT
    again = owner.post(f"/api/sessions/{CHAT}/yield", json={"epoch": lease.epoch})
    assert refusal(again) == (409, "lease-lost", "1")


def test_work_for_a_conversation_waits_for_it(owner: httpx.Client) -> None:
    """While a tool holds the conversation no run of it is handed out."""
    add(owner, session_id="working")
    lease = owner.post(f"/api/sessions/{CHAT}/claim", json={"owner": "a tool"}).json()
    assert claim(owner) is None
    owner.post(f"/api/sessions/{CHAT}/yield", json={"epoch": lease["epoch"]})
    assert claim(owner).session_id == CHAT


@pytest.mark.parametrize(
    ("path", "order", "said"),
    [
        ("/api/work", {}, (400, "bad-request")),
        ("/api/work", {"prompt": ""}, (400, "bad-request")),
        ("/api/work", {"prompt": " \n"}, (400, "empty-prompt")),
        ("/api/work", {"prompt": "x" * 1_000_001}, (400, "bad-request")),
        ("/api/work", {"prompt": "x", "prompts": 1}, (400, "bad-request")),
        ("/api/work", {"prompt": "x", "attempts_max": 0}, (400, "bad-request")),
        ("/api/work", {"prompt": "x", "session_id": "nobody"}, (404, "session-not-found")),
        ("/api/work", {"prompt": "x", "session_id": "../x"}, (400, "bad-session-id")),
        ("/api/work/claim", {"owner": " "}, (400, "bad-request")),
        ("/api/work/claim", {"owner": "a", "ttl_seconds": 0}, (400, "bad-request")),
        ("/api/work/claim", {"owner": "a", "ttl_seconds": 1e9}, (400, "bad-request")),
        ("/api/work/w-1/complete", {"epoch": 1}, (404, "work-not-found")),
        ("/api/work/w-1/heartbeat", {"epoch": 1}, (404, "work-not-found")),
        ("/api/work/w-1/fail", {"epoch": 10**30}, (400, "bad-request")),
        ("/api/work/-w/fail", {"epoch": 1}, (400, "bad-work-id")),
        ("/api/sessions/nobody/claim", {"owner": "a"}, (404, "session-not-found")),
        ("/api/sessions/claude-/claim", {"owner": "a"}, (409, "ambiguous-session")),
    ],
)
def test_bad_orders_are_refused(
    owner: httpx.Client, path: str, order: dict[str, Any], said: tuple[int, str]
) -> None:
    """Each mistake has its own stable code, and nothing is kept."""
    assert refusal(owner.post(path, json=order))[:2] == said
    assert owner.get("/api/work").json() == {"works": [], "next_cursor": None, "paused": None}


def test_a_prompt_of_a_megabyte_is_kept_whole(owner: httpx.Client) -> None:
    """The largest prompt comes back byte by byte, and lists stay small."""
    prompt = "x" * 1_000_000
    work_id = add(owner, prompt=prompt).json()["id"]
    assert owner.get(f"/api/work/{work_id}").json()["prompt"] == prompt
    assert len(owner.get("/api/work").content) < 2000


def test_lists_show_no_secrets(owner: httpx.Client) -> None:
    """A key in a prompt reaches the worker, and no list."""
    add(owner, prompt="use ghp_0123456789abcdefghijABCDEFGHIJ456789")
    assert "ghp_" not in owner.get("/api/work").text
    assert "ghp_" in claim(owner).prompt


def test_a_list_is_paged(owner: httpx.Client) -> None:
    """Pages joined by their cursors give every work once."""
    ids = [add(owner).json()["id"] for _ in range(5)]
    seen: list[str] = []
    cursor: int | None = 0
    while cursor is not None:
        page = owner.get(f"/api/work?limit=2&after={cursor}").json()
        seen += [each["id"] for each in page["works"]]
        cursor = page["next_cursor"]
    assert seen == ids
