"""Claims about the table of `wakeful top`: order, filter and selection; and that no other command loads Textual."""

import re
from pathlib import Path

from rich.cells import cell_len

from support.supervisor_fixture import SupervisorFixture, add_sample_sessions, subject
from wakeful.judging.session_record import SessionRecord
from wakeful.tui.session_table import SessionListModel, cut_middle

SOURCE = Path(__file__).parents[3] / "src" / "wakeful"


def records(house: SupervisorFixture) -> list[SessionRecord]:
    return [each.record for each in house.registry.sessions.values() if each.record is not None]


def furnished() -> tuple[SupervisorFixture, SessionListModel]:
    house = SupervisorFixture()
    add_sample_sessions(house)
    model = SessionListModel()
    model.replace(records(house), older=2)
    return house, model


def names(board: SessionListModel) -> list[str]:
    return [each.id.removeprefix("claude-") for each in board.rows]


def test_who_needs_a_person_stands_first() -> None:
    """The order of `wakeful ls`; no session is counted twice."""
    _, model = furnished()
    assert names(model) == ["asking", "failed", "killed", "working", "done"]
    assert (model.counts(), model.older) == ("3 need you, 1 running, 1 idle", 2)


def test_a_change_moves_its_row_and_an_old_one_does_not() -> None:
    """News may overtake each other: the newest word about a session counts."""
    house, model = furnished()
    before = house.registry.sessions[subject("working").id].record
    assert before is not None
    house.clock.advance(1.0)
    house.finish("working")
    model.change([each for each in records(house) if each.id == "claude-working"])
    assert names(model)[-2:] == ["working", "done"]
    model.change([before])
    assert [each.state for each in model.rows[-2:]] == ["idle", "idle"]


def test_the_next_one_who_needs_somebody_comes_round_again() -> None:
    """From anywhere the first, from the last the first again; none if no session needs a person."""
    _, model = furnished()
    assert [model.next_needing_person(place) for place in (0, 1, 2, 4)] == [1, 2, 0, 0]
    model.filter("running")
    assert names(model) == ["working"]
    model.filter("prompting")
    assert names(model) == ["working"]
    assert model.next_needing_person(0) is None


def test_every_word_of_the_filter_must_stand_somewhere() -> None:
    """In the id, the project, the state or what it does; counts are of all."""
    _, model = furnished()
    model.filter("BANK  error")
    assert (names(model), model.counts()) == (["failed"], "3 need you, 1 running, 1 idle")
    assert model.row_number(subject("failed").id) == 0
    assert model.row_number(subject("done").id) is None
    model.filter("")
    assert len(names(model)) == 5


def test_a_long_name_keeps_both_ends() -> None:
    """The end tells it from others of its project."""
    assert cut_middle("shop-3f2a", 12) == "shop-3f2a"
    assert cut_middle("a-very-long-project-name-3f2a", 16) == "a-very-l…me-3f2a"
    assert all(cell_len(cut_middle("日本語のプロジェクト-3f2a", cells)) <= cells for cells in range(4, 30))


def test_a_session_that_is_gone_leaves_the_list() -> None:
    _, model = furnished()
    gone = model.rows[1].id
    model.remove(gone)
    model.remove(gone)
    assert names(model) == ["asking", "killed", "working", "done"]
    assert (model.counts(), model.row_number(gone)) == ("2 need you, 1 running, 1 idle", None)


def test_letter_by_letter_is_the_same_as_at_once() -> None:
    """Every letter narrows, every one taken back widens, also over a word's end."""
    _, typed = furnished()
    _, whole = furnished()
    text = "bank err"
    for chars in (*range(len(text) + 1), *reversed(range(len(text)))):
        typed.filter(text[:chars])
        whole.filter("")
        whole.filter(text[:chars])
        assert names(typed) == names(whole)
    assert len(names(typed)) == 5


def test_textual_is_imported_by_this_command_alone() -> None:
    """It takes half a second: no other command and no route may need it."""
    importing = {
        path.relative_to(SOURCE).parts[0]
        for path in SOURCE.rglob("*.py")
        if re.search(r"^\s*(?:from|import) textual", path.read_text(), re.MULTILINE)
    }
    assert importing == {"tui"}
    at_once = [
        path.name
        for path in (SOURCE / "cli").rglob("*.py")
        if re.search(r"^(?:from|import) wakeful\.tui", path.read_text(), re.MULTILINE)
    ]
    assert at_once == []
