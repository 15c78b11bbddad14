"""What every store promises, whatever it is made of. An engine joins with a class and one fixture:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self) -> OpenStore: ...   # each call opens a new, empty store

Nothing here knows an engine; what only one of them can show belongs to its own test file.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec import structs

from contract.store_model import machine_for
from wakeful.core.ids import ConversationId, SessionId, parse_session_id
from wakeful.core.managed_session import ManagedSession, PaneAddress
from wakeful.core.process import Process
from wakeful.storage.base import (
    ActionOutcome,
    Bookmark,
    Conclusion,
    FinishedTurns,
    Intent,
    Note,
    StateChange,
    Store,
    StoreClosed,
    Transition,
    TransitionCount,
)

OpenStore = Callable[[], Awaitable[Store]]

A = parse_session_id("claude-a")
B = parse_session_id("codex-b")


def change(
    session_id: SessionId = A, *, at: float = 1.0, record: bytes = b"{}", reason: str = "seen"
) -> Transition:
    return Transition(session_id, at, "idle", "prompting", "unknown", "healthy", reason, record)


# Its record is no bytes: no store can take it, so the whole call has to fail.
SPOILED = change(record=cast("bytes", object()))


def intent(id_: str = "i1", at: float = 1.0) -> Intent:
    return Intent(id_, A, "stop", b'{"pid":1}', at)


def conclusion(id_: str = "i1", outcome: ActionOutcome = ActionOutcome.CONFIRMED) -> Conclusion:
    return Conclusion(id_, outcome, "seen alive", 2.0)


def bookmark(path: str = "/logs/a.jsonl", *, offset: int = 0, inode: int = 7) -> Bookmark:
    return Bookmark(path, inode, offset, b"head", 1, b"folded")


def hosting(session_id: SessionId = A, *, epoch: int = 1) -> ManagedSession:
    return ManagedSession(
        session_id=session_id,
        conversation_id=ConversationId("a"),
        driver="claude",
        cwd="/home/u/project",
        argv=("claude", "--model", "x"),
        epoch=epoch,
        since=1.5,
        process=Process(7, 70, "boot"),
        pane=PaneAddress("/run/tmux", "%3", "work"),
    )


class StoreContract:
    @pytest.fixture
    def open_store(self) -> OpenStore:
        raise AssertionError("an engine says here how to open an empty store")

    @pytest.fixture
    async def store(self, open_store: OpenStore) -> AsyncIterator[Store]:
        store = await open_store()
        yield store
        await store.close()

    async def test_a_new_store_is_empty(self, store: Store) -> None:
        """Nothing is there that was not stored."""
        assert await store.sessions() == []
        assert await store.transitions() == []
        assert await store.bookmarks() == []
        assert await store.open_intents() == []

    async def test_a_record_is_read_back_whole(self, store: Store) -> None:
        """What was recorded comes back equal, with the sequence numbers the store gave."""
        first, second = change(A, at=1.5, reason="näïve ☃ 🐙"), change(B, at=2.5, record=b"\x00\xff" * 600)
        last = await store.record([first, second])
        stored = await store.transitions()
        assert [each.seq for each in stored] == [last - 1, last]
        assert [(each.session_id, each.at, each.reason, each.record) for each in stored] == [
            (A, 1.5, "näïve ☃ 🐙", b"{}"),
            (B, 2.5, "seen", b"\x00\xff" * 600),
        ]

    async def test_every_field_of_a_transition_keeps_its_place(self, store: Store) -> None:
        """No two fields are exchanged between writing and reading."""
        given_ = Transition(A, 4.0, "os", "ns", "oh", "nh", "why", b"r")
        seq = await store.record([given_])
        assert await store.transitions() == [Transition(A, 4.0, "os", "ns", "oh", "nh", "why", b"r", seq)]

    async def test_recording_nothing_gives_zero(self, store: Store) -> None:
        """Empty calls are allowed and leave nothing."""
        assert await store.record([]) == 0
        await store.forget([])
        await store.save_bookmarks([])
        assert await store.transitions() == []

    async def test_a_session_shows_its_newest_record(self, store: Store) -> None:
        """Version grows by one with every transition, also with several in one call; the newest record wins."""
        await store.record([change(A, record=b"1"), change(A, record=b"2"), change(B, record=b"b")])
        await store.record([change(A, at=9.0, record=b"3")])
        rows = await store.sessions()
        assert [(row.id, row.version, row.record, row.updated_at) for row in rows] == [
            (A, 3, b"3", 9.0),
            (B, 1, b"b", 1.0),
        ]

    async def test_a_record_that_fails_leaves_nothing(self, store: Store) -> None:
        """Transitions and sessions are stored all or nothing, and numbers go on as if it never was."""
        before = await store.record([change(A)])
        with pytest.raises(Exception, match=r".+"):
            await store.record([change(A, record=b"half"), change(B), SPOILED])
        assert [(row.id, row.version, row.record) for row in await store.sessions()] == [(A, 1, b"{}")]
        assert await store.record([change(A)]) == before + 1

    async def test_a_failing_caller_takes_no_neighbour_with_it(self, store: Store) -> None:
        """Of callers stored together only the one that cannot be stored gets an error."""
        calls: list[Awaitable[int]] = [store.record([change(A, record=b"%d" % each)]) for each in range(20)]
        calls.insert(10, store.record([change(B), SPOILED]))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [index for index, each in enumerate(answers) if isinstance(each, BaseException)] == [10]
        assert [each.record for each in await store.transitions()] == [b"%d" % each for each in range(20)]

    async def test_every_concurrent_caller_gets_its_own_answer(self, store: Store) -> None:
        """The number a caller gets is that of its own last transition, and readers need not wait."""
        calls = [store.record([change(A), change(B, record=b"%d" % each)]) for each in range(100)]
        *seqs, _ = await asyncio.gather(*calls, store.sessions())
        stored = {each.seq: each.record for each in await store.transitions(B)}
        assert stored == {seq: b"%d" % each for each, seq in enumerate(seqs)}

    async def test_what_was_stored_is_readable_at_once(self, store: Store) -> None:
        """A read that begins after a write returned sees it."""
        for count in range(1, 30):
            seq = await store.record([change(A)])
            assert (await store.sessions())[0].version == count
            assert len(await store.transitions(after=seq - 1)) == 1

    async def test_a_cancelled_caller_disturbs_nobody(self, store: Store) -> None:
        """Giving up on an answer neither breaks the store nor loses what others asked for."""
        given_up = asyncio.ensure_future(store.record([change(A)]))
        other = asyncio.ensure_future(store.record([change(B)]))
        await asyncio.sleep(0)
        given_up.cancel()
        assert await other in {1, 2}
        assert B in {row.id for row in await store.sessions()}

    async def test_transitions_are_paged(self, store: Store) -> None:
        """Pages joined by their last number give every transition once, oldest first."""
        await store.record([change((A, B)[each % 2], record=b"%d" % each) for each in range(25)])
        seen: list[bytes] = []
        after = 0
        while page := await store.transitions(after=after, limit=4):
            assert len(page) <= 4
            seen += [each.record for each in page]
            after = page[-1].seq
        assert seen == [b"%d" % each for each in range(25)]
        assert await store.transitions(limit=0) == []

    async def test_transitions_of_one_session_are_paged(self, store: Store) -> None:
        """A session's pages hold its own transitions only."""
        await store.record([change((A, B)[each % 2], record=b"%d" % each) for each in range(10)])
        first = await store.transitions(B, limit=3)
        rest = await store.transitions(B, after=first[-1].seq)
        assert [each.record for each in first + rest] == [b"1", b"3", b"5", b"7", b"9"]
        assert await store.transitions(parse_session_id("nobody")) == []

    async def test_moves_are_counted_since_a_time(self, store: Store) -> None:
        """By session and standings, from that moment on; what was forgotten since still counts as happened."""
        back = Transition(A, 9.0, "prompting", "idle", "healthy", "dead", "seen", b"{}")
        await store.record([change(A, at=1.0), change(A, at=2.0), change(A, at=3.0), change(B, at=3.0), back])
        await store.forget([B])
        assert sorted(await store.transition_counts(2.0), key=lambda each: (each.session_id, each.state)) == [
            TransitionCount(A, "prompting", "idle", "healthy", "dead", 1),
            TransitionCount(A, "idle", "prompting", "unknown", "healthy", 2),
            TransitionCount(B, "idle", "prompting", "unknown", "healthy", 1),
        ]
        assert await store.transition_counts(9.5) == []

    async def test_changes_are_listed_without_their_records(self, store: Store) -> None:
        """Those since a time, oldest first; of too many, the newest."""
        await store.record([change(A, at=1.0), change(B, at=2.0), change(A, at=4.0), change(B, at=3.0)])
        found = await store.state_changes(2.0, 10)
        assert [(each.session_id, each.at) for each in found] == [(B, 2.0), (B, 3.0), (A, 4.0)]
        assert found[0] == StateChange(B, 2.0, "idle", "unknown", "prompting", "healthy", "seen")
        assert await store.state_changes(2.0, 2) == found[1:]
        assert await store.state_changes(9.0, 2) == []

    async def test_turns_that_ended_well_are_counted_since_a_time(self, store: Store) -> None:
        """Once each, however many transitions tell of the same one; a transition that knows of none counts for none."""
        ends = ((A, 2.0, 1.5), (A, 3.0, 2.5), (A, 4.0, 2.5), (A, 5.0, 4.5), (A, 6.0, None), (B, 6.0, 1.0))
        await store.record(
            [structs.replace(change(each, at=at), turn_ended_at=end) for each, at, end in ends]
        )
        assert await store.finished_turns(2.0) == [FinishedTurns(A, 2, 4.5)]
        by_session = {each.session_id: each.count for each in await store.finished_turns(0.0)}
        assert by_session == {A: 3, B: 1}
        assert [each.turn_ended_at for each in await store.transitions(B)] == [1.0]

    async def test_changes_that_were_left_out_stay_counted(self, store: Store) -> None:
        """How many were not stored before a transition is stored with it."""
        await store.record([change(A), structs.replace(change(A), left_out=7)])
        assert [each.left_out for each in await store.transitions()] == [0, 7]

    async def test_a_forgotten_session_leaves_its_transitions(self, store: Store) -> None:
        """Forgetting drops the session only; when it returns it begins at version 1."""
        await store.record([change(A), change(A), change(B)])
        await store.forget([A, parse_session_id("never-seen")])
        assert [row.id for row in await store.sessions()] == [B]
        assert len(await store.transitions(A)) == 2
        await store.record([change(A, record=b"back")])
        assert [(row.version, row.record) for row in await store.sessions() if row.id == A] == [(1, b"back")]

    async def test_retention_takes_what_is_old(self, store: Store) -> None:
        """Transitions from before the time go, those of the time itself stay, and the count is returned."""
        await store.record([change(A, at=float(each)) for each in range(10)])
        assert await store.prune(7.0) == 7
        assert [each.at for each in await store.transitions()] == [7.0, 8.0, 9.0]
        assert await store.prune(7.0) == 0

    async def test_retention_takes_however_many_there_are(self, store: Store) -> None:
        """What is done in slices is done to the end."""
        await store.record([change(A, at=float(each)) for each in range(4500)])
        assert await store.prune(4400.0) == 4400
        assert (await store.transitions())[0].at == 4400.0

    async def test_retention_never_takes_a_living_session_s_record(self, store: Store) -> None:
        """The newest record of a session stays however old it is; that of a forgotten one goes."""
        await store.record(
            [change(A, at=1.0, record=b"old"), change(A, at=2.0, record=b"newest"), change(B, at=3.0)]
        )
        await store.record([change(parse_session_id("c"), at=99.0)])
        await store.forget([B])
        assert await store.prune(50.0) == 2
        assert [each.record for each in await store.transitions(A)] == [b"newest"]
        assert [(row.version, row.record) for row in await store.sessions() if row.id == A] == [
            (2, b"newest")
        ]
        assert await store.transitions(B) == []

    async def test_sequence_numbers_never_return(self, store: Store) -> None:
        """A reader's place stays valid when retention took everything it could."""
        last = await store.record([change(A), change(A)])
        await store.forget([A])
        await store.prune(1e12)
        assert await store.record([change(A)]) == last + 1

    async def test_a_bookmark_is_replaced_by_path(self, store: Store) -> None:
        """One bookmark per path, the last one given, all fields of it."""
        await store.save_bookmarks([bookmark("/a", offset=1), bookmark("/b", offset=2)])
        await store.save_bookmarks([bookmark("/a", offset=3, inode=8)])
        assert sorted(await store.bookmarks(), key=lambda each: each.path) == [
            bookmark("/a", offset=3, inode=8),
            bookmark("/b", offset=2),
        ]

    async def test_a_bookmark_holds_any_path_and_inode(self, store: Store) -> None:
        """File names need not be UTF-8, inode numbers fill 64 bits."""
        odd = bookmark("/logs/\udcff\udcfe\n.jsonl", inode=2**64 - 1, offset=2**40)
        await store.save_bookmarks([odd])
        assert await store.bookmarks() == [odd]

    async def test_an_intent_is_made_once(self, store: Store) -> None:
        """A second intent with the same id is refused, whatever it says, and the first one stays."""
        first = intent("i1")
        assert await store.save_intent(first) is True
        assert await store.save_intent(first) is False
        assert await store.save_intent(intent("i1", at=5.0)) is False
        assert await store.open_intents() == [first]

    async def test_an_intent_is_concluded_once(self, store: Store) -> None:
        """The first outcome stands; an unknown intent has none."""
        await store.save_intent(intent("i1"))
        said = conclusion("i1")
        assert await store.save_conclusion(conclusion("unknown")) is False
        assert await store.save_conclusion(said) is True
        assert await store.save_conclusion(said) is False
        assert await store.save_conclusion(conclusion("i1", ActionOutcome.DECLINED)) is False
        assert await store.open_intents() == []
        assert await store.save_intent(intent("i1")) is False

    async def test_open_intents_come_in_the_order_they_were_made(self, store: Store) -> None:
        """The order is that of making, not of the wall clock, which may be set back."""
        for id_, at in (("i1", 30.0), ("i2", 20.0), ("i3", 10.0)):
            await store.save_intent(intent(id_, at))
        await store.save_conclusion(conclusion("i2"))
        assert await store.open_intents() == [intent("i1", 30.0), intent("i3", 10.0)]

    async def test_of_many_equal_intents_one_wins(self, store: Store) -> None:
        """However many ask at once, one of them may act and one of them says what came of it."""
        assert sum(await asyncio.gather(*(store.save_intent(intent()) for _ in range(20)))) == 1
        assert sum(await asyncio.gather(*(store.save_conclusion(conclusion()) for _ in range(20)))) == 1

    async def test_closing_finishes_what_was_begun(self, store: Store) -> None:
        """A call from before the store closed gets a true answer."""
        asked = [asyncio.ensure_future(store.record([change(A)])) for _ in range(50)]
        reading = asyncio.ensure_future(store.open_intents())
        await asyncio.sleep(0)
        await store.close()
        assert [await each for each in asked] == list(range(1, 51))
        assert await reading == []

    async def test_the_newest_hosting_of_a_session_counts(self, store: Store) -> None:
        """Where a session lives is replaced whole, and sessions come ordered by id."""
        await store.save_managed_session(hosting(B))
        await store.save_managed_session(hosting(A, epoch=1))
        await store.save_managed_session(hosting(A, epoch=2))
        assert await store.managed_sessions() == [hosting(A, epoch=2), hosting(B)]

    async def test_an_unhosted_session_is_gone(self, store: Store) -> None:
        """Forgetting says whether there was anything to forget."""
        await store.save_managed_session(hosting())
        assert await store.drop_managed_session(A)
        assert not await store.drop_managed_session(A)
        assert await store.managed_sessions() == []

    async def test_a_closed_store_refuses_everything(self, store: Store) -> None:
        """After close every operation says so; closing twice, or at once from two sides, is closing once."""
        await asyncio.gather(store.close(), store.close())
        await store.close()
        refused: list[Callable[[], Awaitable[Any]]] = [
            lambda: store.record([change()]),
            store.sessions,
            store.transitions,
            lambda: store.forget([A]),
            lambda: store.prune(1.0),
            lambda: store.save_bookmarks([bookmark()]),
            store.bookmarks,
            lambda: store.save_intent(intent()),
            lambda: store.save_conclusion(conclusion()),
            store.open_intents,
            lambda: store.save_managed_session(hosting()),
            lambda: store.drop_managed_session(A),
            store.managed_sessions,
        ]
        for operation in refused:
            with pytest.raises(StoreClosed):
                await operation()

    def test_a_store_behaves_like_a_few_lists(self, open_store: OpenStore) -> None:
        """Any sequence of operations gives the answers of a trivial model and leaves what it holds."""
        modest = settings(max_examples=30, stateful_step_count=25, deadline=None)
        run_state_machine_as_test(machine_for(open_store), settings=modest)

    async def test_the_newest_note_of_a_key_counts(self, store: Store) -> None:
        """Notes are kept by kind and key, listed by key, and one kind does not see another."""
        await store.save_note(Note("mute", "b", b"1"))
        await store.save_note(Note("mute", "a", b"1"))
        await store.save_note(Note("mute", "b", b"2"))
        await store.save_note(Note("pause", "a", b"3"))
        assert await store.notes("mute") == [Note("mute", "a", b"1"), Note("mute", "b", b"2")]
        assert await store.note("mute", "b") == Note("mute", "b", b"2")
        assert await store.note("pause", "b") is None

    async def test_a_new_note_never_replaces_one(self, store: Store) -> None:
        """Of two calls that open the same incident one returns that it was there already."""
        first = Note("incident", "a", b"1")
        assert await store.save_new_note(first)
        assert not await store.save_new_note(first)
        assert not await store.save_new_note(Note("incident", "a", b"2"))
        assert await store.notes("incident") == [first]

    async def test_new_notes_are_kept_together(self, store: Store) -> None:
        """Those that are there stay as they are, and the others come."""
        await store.save_note(Note("update", "2", b"old"))
        await store.save_new_notes([Note("update", str(each), b"new") for each in (1, 2, 3)])
        await store.save_new_notes([])
        assert [note.body for note in await store.notes("update")] == [b"new", b"old", b"new"]

    async def test_a_dropped_note_is_gone(self, store: Store) -> None:
        """Dropping says whether there was something to drop."""
        await store.save_note(Note("mute", "a", b"1"))
        assert await store.drop_note("mute", "a")
        assert not await store.drop_note("mute", "a")
        assert await store.notes("mute") == []

    async def test_a_budget_is_spent_so_often_and_no_more(self, store: Store) -> None:
        """The note that says on what is kept with the spending, and not without it."""
        assert await store.spend_budget("work", Note("revival", "1", b""), times_max=1, window_seconds=60)
        assert not await store.spend_budget("work", Note("revival", "2", b""), times_max=1, window_seconds=60)
        assert await store.spend_budget("other", Note("revival", "3", b""), times_max=1, window_seconds=60)
        assert [note.key for note in await store.notes("revival")] == ["1", "3"]

    async def test_what_was_given_back_can_be_spent_again(self, store: Store) -> None:
        """An act that was skipped costs nothing, and is given back once."""
        note = Note("revival", "1", b"")
        await store.spend_budget("work", note, times_max=1, window_seconds=60)
        assert await store.refund_budget("work", note)
        assert not await store.refund_budget("work", note)
        assert await store.notes("revival") == []
        assert await store.spend_budget("work", note, times_max=1, window_seconds=60)
        assert not await store.spend_budget("work", note, times_max=1, window_seconds=60)
