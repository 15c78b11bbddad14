"""Claims about which sessions a text stands for."""

import pytest
from hypothesis import given, strategies as st

from wakeful.core.ids import SessionId
from wakeful.sessions.lookup import MatchKind, SessionNames, match_sessions

A = "3f2a91bc-0000-4000-8000-00000000000a"
B = "3f2a7777-0000-4000-8000-00000000000b"


def named(
    session_id: str,
    *,
    name: str | None = None,
    agent: str | None = None,
    tmux: str | None = None,
    project: str = "shop",
    alive: bool = True,
    short_name: str = "",
) -> SessionNames:
    return SessionNames(SessionId(session_id), short_name, name, agent, tmux, project, alive)


KNOWN = [
    named(f"claude-{A}", name="docs2", project="docs"),
    named(f"codex-{B}", tmux="api", project="shop"),
    named("nightly-1", project="builds"),
    named("claude-99990000-0000-4000-8000-00000000000c", agent="fox", project="woods", alive=False),
]


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("docs2", MatchKind.NAME, KNOWN[0].id),
        ("fox", MatchKind.NAME, KNOWN[3].id),
        ("api", MatchKind.TMUX, KNOWN[1].id),
        (A, MatchKind.ID, KNOWN[0].id),
        (f"claude-{A}", MatchKind.ID, KNOWN[0].id),
        ("3f2a9", MatchKind.PREFIX, KNOWN[0].id),
        ("codex-3f", MatchKind.PREFIX, KNOWN[1].id),
        ("nightly-1", MatchKind.ID, KNOWN[2].id),
        ("shop", MatchKind.PROJECT, KNOWN[1].id),
        ("99", MatchKind.PREFIX, KNOWN[3].id),
        ("UILD", MatchKind.PART, KNOWN[2].id),
    ],
)
def test_the_first_rule_that_fits_decides(text: str, kind: MatchKind, found: SessionId) -> None:
    assert match_sessions(text, KNOWN) == (kind, (found,))


def test_several_that_fit_are_all_named_and_the_living_first() -> None:
    """The start of an id is never narrowed to the living one: the person may mean the other."""
    both = [named(f"claude-{A}", alive=False), named(f"codex-{B}")]
    assert match_sessions("3f2a", both) == (MatchKind.PREFIX, (both[1].id, both[0].id))


def test_what_lists_show_means_that_session() -> None:
    """Also where another session of the project lives, or a tmux session has the same name."""
    both = [named("a", short_name="shop"), named("b", short_name="shop-3f2a"), named("c", tmux="shop")]
    assert match_sessions("shop", both) == (MatchKind.NAME, ("a",))
    assert match_sessions("shop-3f2a", both) == (MatchKind.NAME, ("b",))


def test_a_project_means_its_living_session() -> None:
    assert match_sessions("shop", [named("a", alive=False), named("b")]) == (MatchKind.PROJECT, ("b",))
    assert match_sessions("shop", [named("a"), named("b")]).ids == ("a", "b")


def test_a_name_is_found_before_a_project_of_the_same_name() -> None:
    assert match_sessions("shop", [named("a"), named("b", name="shop", project="x")]).ids == ("b",)


def test_no_name_that_an_agent_chose_hides_another_session() -> None:
    """Neither the id of a log, nor a tmux session, nor an id that begins so: all of them are returned."""
    honest = named(f"claude-{A}", short_name="shop")
    log = named("shop", short_name="events:shop", project="x")
    assert set(match_sessions("shop", [honest, log]).ids) == {honest.id, "shop"}
    two = [named(f"claude-{A}", project="feed"), named("b", project="feed")]
    others = [named("claude-feedface-0000-4000-8000-00000000000a"), named("c", tmux="feed")]
    assert set(match_sessions("feed", [*two, *others]).ids) == {each.id for each in (*two, *others)}


def test_no_log_is_called_by_the_whole_id_of_a_client() -> None:
    log = named(A, project="x")
    assert match_sessions(A, [log, named(f"claude-{A}")]) == (MatchKind.ID, (f"claude-{A}",))


def test_nothing_fits() -> None:
    assert match_sessions("nowhere", KNOWN) == (MatchKind.NONE, ())


@given(st.text(min_size=1, max_size=20))
def test_whatever_is_typed_finds_only_sessions_that_have_it(text: str) -> None:
    """Each session found has the text in one of its names."""
    for session_id in match_sessions(text, KNOWN).ids:
        (each,) = [known for known in KNOWN if known.id == session_id]
        names = [name for name in (each.name, each.agent, each.tmux, each.project, each.id) if name]
        assert any(text.casefold() in name.casefold() for name in names)
