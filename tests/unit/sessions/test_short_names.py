"""Claims about the short names of sessions."""

from uuid import UUID

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from support.supervisor_claims import record
from support.supervisor_fixture import SupervisorFixture
from wakeful.core.decoding import decode_json
from wakeful.core.errors import AmbiguousSession
from wakeful.core.ids import SessionId
from wakeful.judging.findings import State
from wakeful.judging.session_record import SessionRecord
from wakeful.sessions.feed import SessionChange
from wakeful.sessions.short_names import ShortNames

A, B, C = (f"claude-{each}-0000-4000-8000-00000000000a" for each in ("3f2a91bc", "3f2a7777", "99990000"))
BARE_A, BARE_C = A.removeprefix("claude-"), C.removeprefix("claude-")
TIMED = "codex-019a8f3c-1234-7abc-8000-"


@pytest.fixture
def any_record(house: SupervisorFixture) -> SessionRecord:
    house.start("any")
    return record(house, "any")


def called(
    any_record: SessionRecord,
    session_id: str,
    *,
    project: str = "shop",
    name: str | None = None,
    agent: str | None = None,
    ended_at: str | None = None,
) -> SessionRecord:
    return replace(
        any_record,
        id=SessionId(session_id),
        project=project,
        name=name,
        agent=agent,
        session_alive=ended_at is None,
        state=State.IDLE if ended_at is None else State.STOPPED,
        last_activity_at=ended_at,
    )


def names_of(*records: SessionRecord) -> list[str]:
    """The names after all of them are known."""
    names = ShortNames()
    for each in records:
        names.put(each)
    return [names.put(each) for each in records]


def test_the_name_of_a_run_comes_first_then_the_agent_then_the_project(any_record: SessionRecord) -> None:
    assert names_of(called(any_record, A, name="docs2", agent="fox")) == ["docs2"]
    assert names_of(called(any_record, A, agent="fox")) == ["fox"]
    assert names_of(called(any_record, A)) == ["shop"]


def test_two_sessions_of_a_project_are_told_apart_by_as_few_characters_as_commands_take(
    any_record: SessionRecord,
) -> None:
    """Four are enough, unless both begin so."""
    assert names_of(called(any_record, A), called(any_record, C)) == ["shop-3f2a", "shop-9999"]
    assert names_of(called(any_record, A), called(any_record, B)) == ["shop-3f2a9", "shop-3f2a7"]


def test_ids_that_begin_with_their_time_are_told_apart_by_their_random_end(any_record: SessionRecord) -> None:
    """Two of Codex's that started in one minute share their first eight characters."""
    both = [called(any_record, f"{TIMED}{end}") for end in ("aaaa00000000", "bbbb00000000")]
    assert names_of(*both) == ["shop-aaaa", "shop-bbbb"]


def test_the_one_that_lives_has_the_project_alone(any_record: SessionRecord) -> None:
    ended = called(any_record, B, ended_at="2026-11-19T10:00:00.000Z")
    assert names_of(ended, called(any_record, C)) == ["shop-3f2a", "shop"]


def test_of_ended_ones_the_last_keeps_the_name(any_record: SessionRecord) -> None:
    """A person who heard that `shop` died can type `wakeful resume shop`."""
    early = called(any_record, A, ended_at="2026-11-19T10:00:00.000Z")
    late = called(any_record, C, ended_at="2026-11-19T11:00:00.000Z")
    assert names_of(early, late) == names_of(late, early)[::-1] == ["shop-3f2a", "shop"]


def test_a_name_that_a_person_gave_wins_over_a_project_of_the_same_name(any_record: SessionRecord) -> None:
    assert names_of(called(any_record, A), called(any_record, C, name="shop", project="x")) == [
        "shop-3f2a",
        "shop",
    ]


def test_a_program_that_chose_its_id_is_called_so(any_record: SessionRecord) -> None:
    assert names_of(called(any_record, "nightly-1"), called(any_record, "nightly-2")) == [
        "nightly-1",
        "nightly-2",
    ]


def test_a_short_name_can_be_typed(any_record: SessionRecord) -> None:
    """Neither spaces nor a leading dash, and never empty."""
    shown = names_of(
        called(any_record, A, project="my shop"),
        called(any_record, B, project="-home-u-shop"),
        called(any_record, C, project=""),
    )
    assert shown == ["my-shop", "home-u-shop", C]


IMITATION = "claude-77770000-0000-4000-8000-00000000000e"


def test_no_project_looks_like_the_short_name_of_another_session(any_record: SessionRecord) -> None:
    """An agent makes a folder of that name and works there: a person's order would reach it."""
    honest = called(any_record, A), called(any_record, C)
    assert names_of(*honest, called(any_record, IMITATION, project="shop-3f2a")) == [
        A,
        "shop-9999",
        IMITATION,
    ]
    # Not even as long as a whole id, and the other one lives no more.
    assert names_of(called(any_record, A, ended_at="x"), called(any_record, IMITATION, project=A)) == [
        "shop",
        IMITATION,
    ]


def test_a_name_that_a_person_gave_is_taken_by_no_session_that_lives(any_record: SessionRecord) -> None:
    """`wakeful resume docs2` means the run that ended."""
    run = called(any_record, A, name="docs2", ended_at="2026-11-19T10:00:00.000Z")
    assert names_of(run, called(any_record, C, project="docs2")) == ["docs2", "docs2-9999"]
    both = run, called(any_record, C, project="x", name="shop")
    assert names_of(*both, called(any_record, B, project="docs2-3f2a"))[:2] == ["docs2", "shop"]


def test_a_log_that_any_program_may_write_takes_no_name_of_a_clients_session(
    any_record: SessionRecord,
) -> None:
    ended = called(any_record, A, ended_at="2026-11-19T10:00:00.000Z")
    assert names_of(ended, called(any_record, "nightly-1")) == ["shop", "nightly-1"]
    log = replace(called(any_record, "shop", project="x"), provider="events")
    other = called(any_record, "x1", project="x")
    assert names_of(called(any_record, A), log, other) == ["shop", "events:shop", "x1"]


_RECORDS = st.lists(
    st.tuples(
        # Few different beginnings, so that many collide; logs that any program may write.
        st.one_of(
            st.integers(0, 7).map(lambda each: f"claude-{UUID(int=(each * 0x1111 << 112) + (each % 3))}"),
            st.sampled_from(("shop", "docs", "shop-1111", "docs-shop", "claude-x")),
        ),
        # Some look like the name or the id of another session.
        st.sampled_from(
            ("shop", "docs", "shop-1111", "shop-0000", f"claude-{UUID(int=0)}", str(UUID(int=0)))
        ),
        st.sampled_from((None, None, "shop", "fox", "shop-1111")),
        st.sampled_from((None, "2026-11-19T10:00:00.000Z", "2026-11-19T11:00:00.000Z")),
        st.booleans(),
    ),
    max_size=30,
)


@given(_RECORDS)
def test_names_are_different_and_do_not_depend_on_the_order_of_changes(
    steps: list[tuple[str, str, str | None, str | None, bool]],
) -> None:
    """Every rename is reported, and the names are those that a fresh start would give."""
    house = SupervisorFixture()
    house.start("any")
    any_record = record(house, "any")
    names, known, shown = ShortNames(), dict[SessionId, SessionRecord](), dict[SessionId, str]()
    for text, project, name, ended_at, removed in steps:
        session_id = SessionId(text)
        if removed:
            names.remove(session_id)
            known.pop(session_id, None)
            shown.pop(session_id, None)
        else:
            known[session_id] = called(any_record, session_id, project=project, name=name, ended_at=ended_at)
            shown[session_id] = names.put(known[session_id])
        shown.update(names.take_renamed())
    assert len(set(shown.values())) == len(shown)
    assert list(map(shown.get, known)) == names_of(*known.values())


def test_a_second_session_of_a_project_renames_the_first(
    house: SupervisorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record says so at once, and the feed tells those who watch."""
    published = list[SessionChange]()
    house.start(BARE_A)
    assert record(house, BARE_A).short_name == "shop"
    monkeypatch.setattr(house, "on_judged", lambda _transitions, changes: published.extend(changes))
    house.start(BARE_C)
    assert [record(house, each).short_name for each in (BARE_A, BARE_C)] == ["shop-3f2a", "shop-9999"]
    told = {each.session_id: decode_json(each.record, SessionRecord).short_name for each in published}
    assert told == {A: "shop-3f2a", C: "shop-9999"}


def test_the_start_of_an_id_is_no_name_of_another_session(house: SupervisorFixture) -> None:
    """Of 256 sessions one begins with `fe`: an order to the project of that name reached it."""
    feed = "feed0000-0000-4000-8000-00000000000a"
    for conversation, project in ((BARE_A, "fe"), (feed, "shop")):
        house.start(conversation, project=project)
    assert house.registry.resolve("fe") == A
    assert house.registry.resolve("fee") == f"claude-{feed}"
    house.start(BARE_C, project="fe")
    with pytest.raises(AmbiguousSession):
        house.registry.resolve("fe")


def test_a_forgotten_session_gives_its_name_back(house: SupervisorFixture) -> None:
    process = house.start(BARE_A)
    house.start(BARE_C)
    house.forget(BARE_A, process)
    house.settle()
    assert record(house, BARE_C).short_name == "shop"
