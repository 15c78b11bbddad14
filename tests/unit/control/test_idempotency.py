"""Claims about acts that are asked for by a key: asked twice, done once, also across the end of a daemon."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from support.control_helpers import now
from support.supervisor_fixture import SupervisorFixture
from wakeful.control.driver import ActionResult, StartRequest
from wakeful.control.gate import ActionRecord
from wakeful.control.idempotency import RETENTION_SECONDS, IdempotentController, KeyInUse
from wakeful.control.start import RunRequest
from wakeful.core.errors import ClientMissing, KeyUsed
from wakeful.core.leases import conversation_id_for, prompt_id_for
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.storage.base import ActionOutcome, Note
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock

T = TypeVar("T")
REQUEST = RunRequest(
    argv=("claude",), cwd="/home/me/shop", environ={"PATH": "/bin"}, terminal=False, prompt="hello"
)


class Cut(BaseException):
    """The daemon ends here."""


def once_of(house: SupervisorFixture) -> IdempotentController:
    return IdempotentController(house.hands, house.store, house.clock, None, house.watch)


@pytest.fixture
def house() -> SupervisorFixture:
    house = SupervisorFixture(store=YieldingStore())
    house.start("a")
    now(house.hands.adopt("a"))
    return house


@pytest.fixture
def once(house: SupervisorFixture) -> IdempotentController:
    return once_of(house)


def delivered(house: SupervisorFixture) -> list[str]:
    return [act for act, _ in house.driver.asked if act.startswith("deliver")]


def cut_off(house: SupervisorFixture, work: Coroutine[Any, Any, ActionRecord]) -> None:
    """Do it, with a daemon that ends as soon as the driver has acted."""
    do = house.driver._do

    def ends(act: str, to: ManagedSession | StartRequest) -> ActionResult:
        do(act, to)
        raise Cut

    house.driver._do = ends  # type: ignore[method-assign]
    with pytest.raises(Cut):
        now(work)
    house.driver._do = do  # type: ignore[method-assign]


def test_the_same_key_delivers_once(house: SupervisorFixture, once: IdempotentController) -> None:
    """A repeated request gets the first answer, byte for byte."""
    first = now(once.deliver("a", "go on", None, "k1"))
    again = now(once.deliver("a", "go on", None, "k1"))
    assert first.outcome is ActionOutcome.CONFIRMED
    assert again == first
    assert delivered(house) == ["deliver go on"]


async def test_two_who_ask_at_once_wait_for_one(house: SupervisorFixture, once: IdempotentController) -> None:
    """The second is answered by what the first did."""
    first, second = await asyncio.gather(*(once.deliver("a", "go on", None, "k1") for _ in range(2)))
    assert first == second
    assert delivered(house) == ["deliver go on"]


def test_another_key_is_another_order(house: SupervisorFixture, once: IdempotentController) -> None:
    """The same words may be meant twice."""
    now(once.deliver("a", "go on", None, "k1"))
    now(once.deliver("a", "go on", None, "k2"))
    assert len(delivered(house)) == 2


def test_a_key_is_for_one_order(house: SupervisorFixture, once: IdempotentController) -> None:
    """Another prompt under a used key is refused, and nothing is delivered."""
    now(once.deliver("a", "go on", None, "k1"))
    with pytest.raises(KeyUsed):
        now(once.deliver("a", "something else", None, "k1"))
    assert delivered(house) == ["deliver go on"]


def test_what_was_declined_may_be_asked_again(house: SupervisorFixture, once: IdempotentController) -> None:
    """It has not happened, so the key is free for it to happen."""
    house.driver.outcome = ActionOutcome.DECLINED
    assert now(once.deliver("a", "go on", None, "k1")).outcome is ActionOutcome.DECLINED
    house.driver.outcome = ActionOutcome.CONFIRMED
    assert now(once.deliver("a", "go on", None, "k1")).outcome is ActionOutcome.CONFIRMED


def test_an_error_leaves_the_key_free(house: SupervisorFixture, once: IdempotentController) -> None:
    """A driver that raises has done nothing."""
    house.driver.problem = ClientMissing(program="claude")
    with pytest.raises(ClientMissing):
        now(once.deliver("a", "go on", None, "k1"))
    house.driver.problem = None
    assert now(once.deliver("a", "go on", None, "k1")).outcome is ActionOutcome.CONFIRMED


def test_a_prompt_cut_off_by_the_daemons_end_is_not_repeated(
    house: SupervisorFixture, once: IdempotentController
) -> None:
    """With a client that cannot tell what it has, the next daemon answers unknown."""
    cut_off(house, once.deliver("a", "go on", None, "k1"))
    record = now(once_of(house).deliver("a", "go on", None, "k1"))
    assert record.outcome is ActionOutcome.UNVERIFIED
    assert delivered(house) == ["deliver go on"]


def test_a_client_that_can_tell_is_asked(
    house: SupervisorFixture, once: IdempotentController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the prompt with the id of its key, and decides by that whether it has it."""
    given: list[tuple[str, bool]] = []

    async def deliver_once(
        _hosting: ManagedSession, _prompt: str, prompt_id: str, *, again: bool, environ: object
    ) -> ActionResult:
        assert environ is None
        given.append((prompt_id, again))
        return ActionResult(ActionOutcome.CONFIRMED, "it has it")

    cut_off(house, once.deliver("a", "go on", None, "k1"))
    monkeypatch.setattr(house.driver, "deliver_once", deliver_once, raising=False)
    monkeypatch.setattr(house.driver, "has_prompt", lambda *_: False, raising=False)
    assert now(once_of(house).deliver("a", "go on", None, "k1")).outcome is ActionOutcome.CONFIRMED
    assert given == [(str(prompt_id_for("k1")), True)]


def test_a_start_by_a_key_is_known_by_it(house: SupervisorFixture, once: IdempotentController) -> None:
    """The conversation and its first prompt carry ids that follow from the key, and it is started once."""
    first = now(once.run(REQUEST, "k1"))
    assert now(once.run(REQUEST, "k1")) == first
    assert first.session_id == f"claude-{conversation_id_for('k1')}"
    ((_, order),) = [each for each in house.driver.asked if each[0] == "start"]
    assert isinstance(order, StartRequest)
    assert order.prompt_id == str(prompt_id_for("k1"))


def test_a_start_cut_off_by_the_daemons_end_is_not_repeated(
    house: SupervisorFixture, once: IdempotentController
) -> None:
    """Nothing says that it did not happen."""
    cut_off(house, once.run(REQUEST, "k1"))
    record = now(once_of(house).run(REQUEST, "k1"))
    assert record.outcome is ActionOutcome.UNVERIFIED
    assert [act for act, _ in house.driver.asked] == ["start"]


def test_keys_are_forgotten_after_a_day(house: SupervisorFixture, once: IdempotentController) -> None:
    """The store does not fill with old keys."""
    now(once.deliver("a", "go on", None, "k1"))
    house.clock.advance(RETENTION_SECONDS - 1)
    now(once.forget_old())
    assert len(now(house.store.notes("deed"))) == 1
    house.clock.advance(2)
    now(once.forget_old())
    assert now(house.store.notes("deed")) == []


def test_a_start_is_known_again_in_another_environment(
    house: SupervisorFixture, once: IdempotentController
) -> None:
    """A repeated request may come from another shell: it is still the same request."""
    first = now(once.run(REQUEST, "k9"))
    elsewhere = replace(REQUEST, environ={"PATH": "/usr/bin", "SHLVL": "2"})
    assert now(once.run(elsewhere, "k9")) == first
    assert [act for act, _ in house.driver.asked].count("start") == 1


ONE, TWO = Process(1, 1, "boot", "one"), Process(2, 1, "boot", "two")


class ShortWait(VirtualClock):
    """Each sleep is over at once, and its time has passed."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.advance(seconds)


class YieldingStore(MemoryStore):
    """Each operation on a note lets the other daemon run first, as a store in a file does."""

    async def note(self, kind: str, key: str) -> Note | None:
        found = await super().note(kind, key)
        await asyncio.sleep(0)
        return found

    async def save_new_note(self, note: Note) -> bool:
        await asyncio.sleep(0)
        return await super().save_new_note(note)

    async def save_note(self, note: Note) -> None:
        await asyncio.sleep(0)
        await super().save_note(note)


def daemons(
    house: SupervisorFixture, state: ProcessState
) -> tuple[IdempotentController, IdempotentController]:
    """Two daemons on one store; each sees the other in this state."""
    clock = ShortWait()
    one, two = (
        IdempotentController(house.hands, house.store, clock, daemon, lambda _: state)
        for daemon in (ONE, TWO)
    )
    return one, two


async def test_one_key_through_two_daemons_delivers_once(house: SupervisorFixture) -> None:
    """The key is stored with compare-and-set; the second daemon waits for the answer of the first."""
    first, second = await asyncio.gather(
        *(each.deliver("a", "go on", None, "k1") for each in daemons(house, ProcessState.ALIVE))
    )
    assert first == second
    assert delivered(house) == ["deliver go on"]


@pytest.mark.parametrize("state", [ProcessState.ALIVE, ProcessState.UNKNOWN])
async def test_a_request_of_a_daemon_that_may_live_is_not_taken_over(
    house: SupervisorFixture, state: ProcessState
) -> None:
    """Nothing is known of a daemon of another machine: the answer says so, and nothing is done."""
    one, two = daemons(house, state)
    assert await one._claim("k1", "asked") is True
    with pytest.raises(KeyInUse, match="same key"):
        await two._claim("k1", "asked")


async def test_of_two_that_see_a_daemon_dead_one_follows_it(house: SupervisorFixture) -> None:
    """The other one finds a daemon that lives, and waits for its answer."""

    def state_of(process: Process) -> ProcessState:
        return ProcessState.DEAD if process == ONE else ProcessState.ALIVE

    crashed, second, third = (
        IdempotentController(house.hands, house.store, ShortWait(), daemon, state_of)
        for daemon in (ONE, TWO, Process(3, 1, "boot", "one"))
    )
    assert await crashed._claim("k1", "asked") is True
    assert await second._claim("k1", "asked") is False
    with pytest.raises(KeyInUse):
        await third._claim("k1", "asked")
