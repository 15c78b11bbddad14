"""The push feed: what one batch says of a session that changed more than once in it."""

import asyncio
from typing import Any

import msgspec
import pytest

from wakeful.core.ids import SessionId
from wakeful.sessions import feed as feed_module
from wakeful.sessions.feed import Feed, FeedSubscriber, SessionChange

AT = "2027-01-15T08:00:00.000Z"


def change(session: str, *, was: tuple[str, str] | None, now: tuple[str, str]) -> SessionChange:
    old_state, old_health = was or (None, None)
    record = msgspec.Raw(msgspec.json.encode({"id": session, "health": now[1]}))
    return SessionChange(SessionId(session), old_state, now[0], old_health, now[1], now[0], AT, record)


def one_batch(*published: SessionChange) -> list[dict[str, Any]]:
    """What a listener gets when these come one after the other."""

    async def scene() -> bytes:
        feed = Feed()
        with feed.subscribe() as listener:
            for each in published:
                feed.publish([each])
            return await anext(listener.batches())

    changes: list[dict[str, Any]] = msgspec.json.decode(asyncio.run(scene()))["changes"]
    return changes


AT_WORK, DEAD = ("prompting", "healthy"), ("stopped", "dead")


def test_a_batch_tells_a_transition_that_was_followed_by_a_refresh() -> None:
    """A death and, a moment later, its orphans are one change: from working to dead."""
    (told,) = one_batch(
        change("a", was=AT_WORK, now=DEAD),
        change("a", was=DEAD, now=DEAD),
    )
    assert (told["old_state"], told["old_health"]) == AT_WORK
    assert (told["state"], told["health"], told["record"]["health"]) == (*DEAD, "dead")


def test_a_new_session_stays_new_within_its_batch() -> None:
    """What was not there before the batch has no former state, however often it changed since."""
    (told,) = one_batch(
        change("a", was=None, now=("idle", "healthy")),
        change("a", was=("idle", "healthy"), now=AT_WORK),
    )
    assert (told["old_state"], told["state"]) == (None, "prompting")


def test_sessions_do_not_share_their_past() -> None:
    """Each keeps what it was itself."""
    told = one_batch(
        change("a", was=AT_WORK, now=DEAD),
        change("b", was=("idle", "healthy"), now=AT_WORK),
    )
    assert [(each["session_id"], each["old_state"]) for each in told] == [("a", "prompting"), ("b", "idle")]


def large(number: int) -> SessionChange:
    record = msgspec.Raw(b'"' + b"x" * 10_000 + b'"')
    return SessionChange(SessionId(f"s{number}"), None, "idle", None, "healthy", "idle", AT, record)


def test_a_large_batch_goes_out_in_pieces() -> None:
    """Whatever is being sent is copied for each listener; all of it arrives, in its order."""

    async def scene() -> list[bytes]:
        feed = Feed()
        with feed.subscribe() as listener:
            feed.publish([large(number) for number in range(20)])
            feed._send()
            pieces = []
            async for piece in listener.batches():
                pieces.append(piece)
                if b'"s19"' in piece:
                    return pieces
        raise AssertionError("the last one did not come")

    pieces = asyncio.run(scene())
    assert max(map(len, pieces)) <= feed_module.MESSAGE_BYTES_MAX + 100
    told = [each["session_id"] for piece in pieces for each in msgspec.json.decode(piece)["changes"]]
    assert told == [f"s{number}" for number in range(20)]


def test_a_listener_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not read is given up, and what waited for it is thrown away."""
    monkeypatch.setattr(feed_module, "QUEUED_BYTES_MAX", 50_000)
    listener = FeedSubscriber()
    for _ in range(6):
        listener.offer((b"x" * 10_000,))
    assert listener.is_dropped
    assert listener._queue.qsize() == 1


def test_a_session_that_is_gone_is_said_at_once_and_not_changed_afterwards() -> None:
    """A change that waits for its batch would bring it back."""

    async def scene() -> list[bytes]:
        feed = Feed()
        with feed.subscribe() as listener:
            feed.publish([change("a", was=None, now=AT_WORK), change("b", was=None, now=AT_WORK)])
            feed.publish_gone(SessionId("a"))
            batches = listener.batches()
            return [await anext(batches), await anext(batches)]

    gone, batch = map(msgspec.json.decode, asyncio.run(scene()))
    assert gone == {"gone": "a"}
    assert [each["session_id"] for each in batch["changes"]] == ["b"]
