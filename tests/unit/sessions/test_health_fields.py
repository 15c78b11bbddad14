"""Claims about the writers of health: each trigger changes the fields it names, and nothing else writes any."""

import ast
import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.core.process import ProcessState
from wakeful.judging.events import Failure
from wakeful.judging.findings import Health, State
from wakeful.judging.session_record import HealthView, SessionRecord
from wakeful.sessions.health_fields import WRITERS, HealthTrigger

SOURCE = Path(__file__).parents[3] / "src" / "wakeful"
# When a record was made: every judgement moves them, whatever it was about.
STAMPS = {"judged_at", "updated_at", "valid_until"}
# What follows from the fields a trigger names, by one pure function or for people to read.
DERIVED = {"eligible_for_wake", "ineligibility_reason", "actions", "session_alive", "attention", "pid"}
# Names of health fields that nothing else in Wakeful has.
OWN = set(WRITERS) & set(HealthView.__struct_fields__) - {"state", "health"}

# A file without any of these writes no record; parsing all of them takes seconds.
WRITING = ("SessionRecord(", "build_record(", ".update(", "replace(", "mark_stopped(", "setattr(")


def fields_written_by(*triggers: HealthTrigger) -> frozenset[str]:
    """The fields that these may change together."""
    return frozenset(field for field, writers in WRITERS.items() if writers & set(triggers))


def record_of(house: SupervisorFixture, name: str = "a") -> SessionRecord:
    record = house.registry.sessions[subject(name).id].record
    assert record is not None
    return record


def changed_by(house: SupervisorFixture, trigger: Callable[[], object]) -> set[str]:
    """Which fields of the record differ after it."""
    before = record_of(house)
    house.clock.advance(1.0)
    trigger()
    house.settle()
    after = record_of(house)
    names = SessionRecord.__struct_fields__
    return {name for name in names if getattr(before, name) != getattr(after, name)} - STAMPS


def managed(house: SupervisorFixture) -> None:
    asyncio.run(_adopt(house))


async def _adopt(house: SupervisorFixture) -> None:
    await house.hands.adopt("a")
    house.settle()


def idle_house() -> SupervisorFixture:
    house = SupervisorFixture()
    house.start("a")
    house.finish("a")
    managed(house)
    return house


def test_a_stop_changes_state_and_attachable() -> None:
    """The first trigger, and what follows from it."""
    house = idle_house()
    process = house.registry.sessions[subject("a").id].presence.living_processes[0]
    changed = changed_by(house, lambda: house.end(process.process))
    assert {"state", "attachable"} <= changed
    assert (
        changed
        <= fields_written_by(HealthTrigger.SESSION, HealthTrigger.PRESENCE)
        | {"alive_to", "broken_at"}
        | DERIVED
    )
    assert (record_of(house).state, record_of(house).attachable) == ("stopped", False)


def test_a_death_inside_a_turn_ends_its_prompt() -> None:
    """A stop and a verdict at once: no prompt is active without a process."""
    house = idle_house()
    house.work("a")
    process = house.registry.sessions[subject("a").id].presence.living_processes[0]
    changed = changed_by(house, lambda: house.end(process.process))
    by = fields_written_by(HealthTrigger.SESSION, HealthTrigger.PRESENCE, HealthTrigger.VERDICT)
    assert (
        {"state", "active_prompt", "attachable", "health", "findings", "broken_at"} <= changed <= by | DERIVED
    )
    assert (record_of(house).health, record_of(house).active_prompt) == (Health.DEAD, False)


def test_a_start_and_a_resume_change_state_and_attachable() -> None:
    """A new process under the same conversation."""
    house = idle_house()
    house.end(house.registry.sessions[subject("a").id].presence.living_processes[0].process)
    changed = changed_by(house, lambda: house.start("a"))
    assert {"state", "attachable"} <= changed
    named = fields_written_by(HealthTrigger.SESSION, HealthTrigger.PRESENCE)
    assert changed <= named | {"last_activity_at", "alive_to", "broken_at"} | DERIVED
    assert (record_of(house).state, record_of(house).attachable) == ("idle", True)


async def shown_during(house: SupervisorFixture, act: Callable[[], Awaitable[object]]) -> list[State]:
    """The states its record has while an act on it is performed, and after it."""
    seen = []

    def look() -> None:
        house.settle()
        seen.append(record_of(house).state)

    house.driver.before = look
    await act()
    look()
    return seen


def test_a_stop_and_a_resume_are_shown_while_they_last() -> None:
    """`stopping` as long as its agent lives on, `starting` until one is seen; the way there is no state of its own."""
    house = idle_house()
    assert asyncio.run(shown_during(house, lambda: house.hands.stop("a"))) == ["stopping", "idle"]
    house.end(house.registry.sessions[subject("a").id].presence.living_processes[0].process)
    assert record_of(house).state is State.STOPPED
    resumed = asyncio.run(shown_during(house, lambda: house.hands.resume("a", {})))
    assert resumed == ["starting", "idle"]


def test_an_idle_session_whose_way_is_lost_is_detached() -> None:
    """The fourth state: alive, idle, and no way to deliver a prompt; while it works, the state is that."""
    house = idle_house()
    house.driver.lost, house.path_open = True, False
    changed = changed_by(house, lambda: house.supervisor.on_action(subject("a").id))
    named = fields_written_by(HealthTrigger.SESSION, HealthTrigger.PRESENCE)
    assert {"state", "attachable"} <= changed <= named | DERIVED
    record = record_of(house)
    assert (record.state, record.attachable, record.health) == ("detached", False, "healthy")
    assert record.ineligibility_reason == "session_not_attachable"
    assert not next(each for each in record.actions if each.name == "send").allowed
    house.work("a")
    assert record_of(house).state is State.PROMPTING
    house.driver.lost, house.path_open = False, True
    house.finish("a")
    assert record_of(house).state is State.IDLE


def test_waiting_for_idle_ends_where_nobody_can_prompt() -> None:
    """A turn that is over is over, with a way to its agent or without."""
    house = idle_house()
    house.driver.lost, house.path_open = True, False
    house.supervisor.on_action(subject("a").id)
    house.settle()
    ending = asyncio.run(house.registry.wait(subject("a").id, State.IDLE, 5.0))
    assert (record_of(house).state, ending) == ("detached", "reached")


def test_found_sessions_are_never_detached(house: SupervisorFixture) -> None:
    """Wakeful does not prompt them: they are idle."""
    house.driver.lost = True
    house.start("a")
    house.finish("a")
    assert record_of(house).state is State.IDLE


def test_activity_changes_the_prompt_and_its_time() -> None:
    """The second trigger; a degraded session recovers by it."""
    house = idle_house()
    changed = changed_by(house, lambda: house.work("a"))
    assert {"active_prompt", "last_activity_at", "state"} <= changed
    by = fields_written_by(HealthTrigger.ACTIVITY, HealthTrigger.PRESENCE, HealthTrigger.VERDICT)
    assert changed <= by | DERIVED
    house.fail("a")
    assert record_of(house).health is Health.DEGRADED
    assert "health" in changed_by(house, lambda: house.work("a"))
    assert record_of(house).health is Health.HEALTHY


def test_a_touch_of_presence_changes_its_time_alone() -> None:
    """The third trigger: the runtime is proven, and that changes nothing else."""
    house = idle_house()
    process = house.registry.sessions[subject("a").id].presence.living_processes[0]

    def touch() -> None:
        house.supervisor.on_process(subject("a"), process.process, ProcessState.ALIVE, source="a test")

    assert changed_by(house, touch) == fields_written_by(HealthTrigger.PRESENCE) == {"last_presence_at"}


def test_age_changes_health_and_may_change_eligibility(house: SupervisorFixture) -> None:
    """The fourth trigger: idle, and not present for `session_health_stale_after`."""
    house.hear("a")
    house.finish("a")
    before = record_of(house)
    house.clock.advance(house.policy.stale_seconds + 1)
    house.supervisor.on_timer()
    house.settle()
    after = record_of(house)
    fields = {name for name in HealthView.__struct_fields__ if getattr(before, name) != getattr(after, name)}
    assert fields == fields_written_by(HealthTrigger.AGE) | {"updated_at"}
    assert after.health is Health.STALE


def test_a_restart_changes_nothing_that_is_still_true() -> None:
    """The fifth trigger: another supervisor over the same evidence gives the same health."""
    house, anew = idle_house(), SupervisorFixture()
    kept = house.supervisor.snapshot(subject("a").id)
    assert kept is not None
    anew.supervisor.restore(subject("a"), kept)
    anew.settle()
    asyncio.run(_take_over(house, anew))
    before, after = (msgspec.structs.asdict(record_of(each)) for each in (house, anew))
    assert {name for name in before if before[name] != after[name]} <= STAMPS | {"last_presence_at"}


async def _take_over(house: SupervisorFixture, anew: SupervisorFixture) -> None:
    for managed in await house.store.managed_sessions():
        await anew.holdings.save(managed)
    anew.settle()


def test_a_verdict_changes_what_was_judged() -> None:
    """The sixth trigger: judge() over evidence that is no activity."""
    house = idle_house()
    changed = changed_by(house, lambda: house.fail("a", "overloaded", Failure.PROVIDER))
    assert {"health", "findings", "broken_at", "last_error"} <= changed
    assert changed <= fields_written_by(HealthTrigger.VERDICT) | DERIVED | {
        "last_activity_at",
        "last_presence_at",
    }


def test_every_field_has_its_writers() -> None:
    """Ten fields; what is not in the table follows from it, or says which session and when."""
    assert set(HealthView.__struct_fields__) - set(WRITERS) == {
        *("schema", "id", "updated_at"),
        *("eligible_for_wake", "ineligibility_reason"),
    }
    assert set(WRITERS) <= set(SessionRecord.__struct_fields__)
    assert all(writers <= set(HealthTrigger) for writers in WRITERS.values())
    assert {trigger for writers in WRITERS.values() for trigger in writers} == set(HealthTrigger)


def test_nothing_else_can_write_a_record() -> None:
    """One function makes records, one judge of sessions shows them, a repair lays one to rest, and they cannot be changed."""
    assert SessionRecord.__struct_config__.frozen
    by: dict[str, set[str]] = {}
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    for path, text in texts.items():
        if not any(word in text for word in WRITING):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and (act := writing_act(node)) is not None:
                by.setdefault(act, set()).add(path.name)
    assert by == {
        "SessionRecord": {"session_record.py"},
        "build_record": {"session_judge.py"},
        "update": {"session_judge.py"},
        "mark_stopped": {"repair.py"},
        "replace": {"session_record.py"},
    }


def writing_act(call: ast.Call) -> str | None:
    """How a call writes a record, if it does."""
    match call.func:
        case ast.Name(id="SessionRecord" | "build_record" | "mark_stopped" as name):
            return name
        case ast.Attribute(value=ast.Name(id="session"), attr="update" as name):
            return name
        case ast.Name(id="replace" as name) | ast.Attribute(attr="replace" as name):
            return name if OWN & {word.arg for word in call.keywords} else None
        case ast.Name(id="setattr" | "force_setattr" as name) | ast.Attribute(attr="force_setattr" as name):
            return name
        case _:
            return None


def test_a_thousand_writes_of_health_change_no_owner() -> None:
    """Health is written and read; leases, hostings and what a session may be woken for stay what they were."""
    house = idle_house()

    async def owners() -> object:
        return [(each.key, each.epoch, each.owner) for each in await house.store.leases()], (
            await house.store.managed_sessions()
        )

    before, eligible = asyncio.run(owners()), record_of(house).eligible_for_wake
    for _ in range(1000):
        house.supervisor.on_growth(subject("a").id)
        house.settle()
    assert asyncio.run(owners()) == before
    assert record_of(house).eligible_for_wake is eligible is True
