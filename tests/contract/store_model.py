"""A store as a few Python lists, and a machine that drives a real one beside it and compares after every step."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import structs

from wakeful.core.ids import SessionId, parse_session_id
from wakeful.storage.base import (
    ActionOutcome,
    Bookmark,
    Conclusion,
    Intent,
    SessionRow,
    Store,
    Transition,
)

Change = tuple[SessionId, float, bytes]

# Few ids and times, so that steps meet each other.
SESSIONS = st.sampled_from([parse_session_id(each) for each in ("a", "b", "c")])
TIMES = st.integers(0, 9).map(float)
CHANGES = st.lists(st.tuples(SESSIONS, TIMES, st.binary(max_size=3)), max_size=5)
INTENT_IDS = st.sampled_from(["i1", "i2", "i3"])


class Model:
    """The promises of the port, with nothing in the way of reading them."""

    def __init__(self) -> None:
        self.log: list[Transition] = []
        self.newest: dict[SessionId, SessionRow] = {}
        self.bookmarks: dict[str, Bookmark] = {}
        self.intents: dict[str, Intent] = {}
        self.concluded: set[str] = set()
        self.seq = 0

    def record(self, transitions: Sequence[Transition]) -> int:
        for each in transitions:
            self.seq += 1
            self.log.append(structs.replace(each, seq=self.seq))
            version = self.newest[each.session_id].version + 1 if each.session_id in self.newest else 1
            self.newest[each.session_id] = SessionRow(each.session_id, version, each.record, each.at)
        return self.seq if transitions else 0

    def prune(self, before: float) -> int:
        last_of = {each.session_id: each.seq for each in self.log}
        stays = {last_of[each] for each in self.newest} | {self.seq}
        kept = [each for each in self.log if each.at >= before or each.seq in stays]
        pruned = len(self.log) - len(kept)
        self.log = kept
        return pruned


class StoreMachine(RuleBasedStateMachine):
    """Every step goes to the store and to the model; their answers and what they hold must be equal."""

    def __init__(self, open_store: Callable[[], Awaitable[Store]]) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = Model()

        async def opened() -> Store:
            return await open_store()

        self.store = self.runner.run(opened())

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()

    @rule(changes=CHANGES)
    def record(self, changes: Sequence[Change]) -> None:
        transitions = [
            Transition(id_, at, "idle", "idle", "healthy", "stale", "r", record)
            for id_, at, record in changes
        ]
        answer = self.runner.run(self.store.record(transitions))
        assert answer == self.model.record(transitions)

    @rule(ids=st.lists(SESSIONS, max_size=2))
    def forget(self, ids: Sequence[SessionId]) -> None:
        self.runner.run(self.store.forget(ids))
        for each in ids:
            self.model.newest.pop(each, None)

    @rule(before=TIMES)
    def prune(self, before: float) -> None:
        assert self.runner.run(self.store.prune(before)) == self.model.prune(before)

    @rule(path=st.sampled_from(["/a", "/b"]), offset=st.integers(0, 2**62))
    def bookmark(self, path: str, offset: int) -> None:
        given = Bookmark(path, 1, offset, b"h", 1, b"f")
        self.runner.run(self.store.save_bookmarks([given]))
        self.model.bookmarks[path] = given

    @rule(id_=INTENT_IDS, at=TIMES)
    def intend(self, id_: str, at: float) -> None:
        given = Intent(id_, parse_session_id("a"), "stop", b"{}", at)
        assert self.runner.run(self.store.save_intent(given)) == (id_ not in self.model.intents)
        self.model.intents.setdefault(id_, given)

    @rule(id_=INTENT_IDS)
    def conclude(self, id_: str) -> None:
        expected = id_ in self.model.intents and id_ not in self.model.concluded
        given = Conclusion(id_, ActionOutcome.INEFFECTIVE, "still dead", 1.0)
        assert self.runner.run(self.store.save_conclusion(given)) == expected
        if expected:
            self.model.concluded.add(id_)

    @invariant()
    def holds_the_same(self) -> None:
        run, model = self.runner.run, self.model
        assert run(self.store.transitions()) == model.log
        assert run(self.store.sessions()) == sorted(model.newest.values(), key=lambda row: row.id)
        assert {each.path: each for each in run(self.store.bookmarks())} == model.bookmarks
        still_open = [each for each in model.intents.values() if each.id not in model.concluded]
        assert run(self.store.open_intents()) == still_open


def machine_for(open_store: Callable[[], Awaitable[Store]]) -> type[StoreMachine]:
    """A machine that opens its store by itself, as hypothesis wants it."""

    class Machine(StoreMachine):
        def __init__(self) -> None:
            super().__init__(open_store)

    return Machine
