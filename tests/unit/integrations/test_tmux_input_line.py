"""Claims about texts that were being typed when Wakeful ended: which one is meant, and what proves that it was taken."""

import json
import os
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from support.control_helpers import now
from support.supervisor_fixture import BOOT, SupervisorFixture, subject
from wakeful.control.driver import ActionResult, TypedText
from wakeful.control.gate import ActionIntent, ActionKind, reconcile
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import INTENT_VARIABLE, PaneAddress
from wakeful.core.process import Process
from wakeful.integrations.tmux.driver import TmuxDriver
from wakeful.integrations.tmux.input_line import ClaudeInput, InputLineState, InputReader, PlainInput
from wakeful.integrations.tmux.prompt_in_log import has_prompt
from wakeful.integrations.tmux.screen import Screen
from wakeful.integrations.tmux.server import TmuxFailed
from wakeful.integrations.tmux.typed_notes import (
    NOTES_BYTES_MAX,
    NOTES_MAX,
    TypedNote,
    TypedNotes,
    TypingStage,
)
from wakeful.storage.base import ActionOutcome, Intent
from wakeful.testing.virtual_clock import VirtualClock

T = TypeVar("T")
A = subject("a").id
SENT = ActionResult(ActionOutcome.CONFIRMED, "sent")
REMOVED = ActionResult(ActionOutcome.INEFFECTIVE, "removed")
RULE = "─" * 40
ANGLE = "\u276f"


def left_open(house: SupervisorFixture, act: ActionKind, at: float) -> None:
    """As a daemon leaves it that is killed in the middle of this act."""
    house.start("a")
    managed = now(house.hands.adopt("a"))
    intent = ActionIntent(managed if act is not ActionKind.DELIVER else None, prompt_chars=24)
    now(house.store.save_intent(Intent("i1", A, act, msgspec.json.encode(intent), at)))


def settled(house: SupervisorFixture, *typed: TypedText) -> ActionResult:
    (result,) = now(reconcile(house.store, house.gate, house.holdings, house.world, typed))
    return result


def test_a_text_from_before_the_prompt_says_nothing_of_it(house: SupervisorFixture) -> None:
    """The note of an earlier prompt is left behind: that it was sent does not make the new one sent."""
    left_open(house, ActionKind.DELIVER, at=100.0)
    assert settled(house, TypedText(A, 99.0, "the one before", SENT)).outcome is ActionOutcome.UNVERIFIED


def test_the_newest_text_of_the_prompt_counts(house: SupervisorFixture) -> None:
    """One in the input line of another pane was typed before."""
    left_open(house, ActionKind.DELIVER, at=100.0)
    texts = (TypedText(A, 102.0, "x", SENT), TypedText(A, 101.0, "x", REMOVED))
    assert settled(house, *texts).outcome is ActionOutcome.CONFIRMED
    assert house.holdings.get(A).note == ""


def test_a_command_that_was_removed_from_a_shell_started_nothing(house: SupervisorFixture) -> None:
    """It is known that it never ran."""
    left_open(house, ActionKind.RESUME, at=100.0)
    assert settled(house, TypedText(A, 101.0, "claude --resume", REMOVED, is_command=True)) == REMOVED


def test_a_command_that_ran_is_not_the_prompt_that_was_to_follow_it(house: SupervisorFixture) -> None:
    """Killed before the prompt was typed: the agent runs without it."""
    left_open(house, ActionKind.RESUME, at=100.0)
    process = house.holdings.get(A).process
    assert process is not None
    house.world.marks[INTENT_VARIABLE, "i1"] = [process]
    result = settled(house, TypedText(A, 101.0, "claude --resume", SENT, is_command=True))
    assert (result.outcome, "not typed" in result.words) == (ActionOutcome.UNVERIFIED, True)
    assert "Send it again" in house.holdings.get(A).note


def line(**fields: object) -> bytes:
    return json.dumps({"timestamp": "2027-01-15T08:00:05.000Z", **fields}).encode()


CLAUDE = line(type="user", message={"role": "user", "content": "do  this\nnow"})
BLOCKS = line(type="user", message={"role": "user", "content": [{"type": "text", "text": "do this now"}]})
QUEUED = line(type="queue-operation", operation="enqueue", content="do this now")
TAKEN_OUT = line(type="queue-operation", operation="remove", content="do this now")
CODEX = line(type="event_msg", payload={"type": "user_message", "message": "do this now"})
ANSWER = line(type="assistant", message={"role": "assistant", "content": "do this now"})
RESULT = line(type="user", message={"content": [{"type": "tool_result", "content": "do this now"}]})


@pytest.mark.parametrize(
    ("record", "is_proof"),
    [
        (CLAUDE, True),
        (BLOCKS, True),
        (QUEUED, True),
        (CODEX, True),
        (TAKEN_OUT, False),
        (ANSWER, False),
        (RESULT, False),
        (b'{"torn', False),
    ],
)
def test_only_a_prompt_in_the_log_proves_that_it_was_taken(record: bytes, *, is_proof: bool) -> None:
    """Blanks do not count, who said it does."""
    assert has_prompt([b"{}", record], " do this now", 1799999999.0) is is_proof


def test_the_same_words_from_an_earlier_time_prove_nothing() -> None:
    """Who sends a text twice may have been cut off the second time."""
    after = 4102444800.0
    assert not has_prompt([CLAUDE, CODEX], "do this now", after)
    assert not has_prompt([CLAUDE], "do this now, please", 0.0)


PANE = PaneAddress("/run/none.sock", "%1", "a")
NOTE = TypedNote(A, PANE, Process(1, 1, BOOT), "PlainInput", "words", "> ", at=1.0)


def test_a_note_that_never_took_its_place_is_not_read(tmp_path: Path) -> None:
    """Killed while it noted that Enter comes next: the older note is what was acted on, and the only one."""
    notes = TypedNotes(str(tmp_path))
    notes.save(replace(NOTE, stage=TypingStage.PASTED))
    (path,) = tmp_path.iterdir()
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.write_bytes(msgspec.json.encode(replace(NOTE, stage=TypingStage.ENTER)))
    assert [each.stage for each in notes.all()] == [TypingStage.PASTED]
    assert list(tmp_path.iterdir()) == [path]


def written(folder: Path, number: int, text: str = "words") -> None:
    """A note for a pane of its own, one second younger than the one before."""
    TypedNotes(str(folder)).save(
        replace(NOTE, pane=replace(PANE, target=f"%{number}"), text=text, at=float(number))
    )
    newest = max(folder.iterdir(), key=lambda each: each.stat().st_ctime_ns)
    os.utime(newest, (number, number))


def test_only_the_newest_notes_are_read(tmp_path: Path) -> None:
    """Any program of this user can write more of them than a daemon ever leaves behind."""
    for number in range(NOTES_MAX + 20):
        written(tmp_path, number)
    assert [each.at for each in TypedNotes(str(tmp_path)).all()] == [
        float(number) for number in range(NOTES_MAX + 19, 19, -1)
    ]
    assert len(list(tmp_path.iterdir())) == NOTES_MAX


def test_notes_are_read_up_to_so_many_bytes(tmp_path: Path) -> None:
    """A note may be long; many long ones are not kept in memory together."""
    for number in range(6):
        written(tmp_path, number, "x" * (NOTES_BYTES_MAX // 5))
    assert [each.at for each in TypedNotes(str(tmp_path)).all()] == [5.0, 4.0, 3.0, 2.0]


def test_a_folder_in_the_place_of_a_note_stops_nothing(tmp_path: Path) -> None:
    """It cannot be removed as a file, and nothing can be noted there."""
    TypedNotes(str(tmp_path)).save(NOTE)
    (path,) = tmp_path.iterdir()
    path.unlink()
    path.mkdir()
    assert TypedNotes(str(tmp_path)).all() == []
    with pytest.raises(TmuxFailed, match="Is a directory"):
        TypedNotes(str(tmp_path)).save(NOTE)


def test_a_note_of_another_version_stops_nothing(tmp_path: Path) -> None:
    """A reader that is not known here is unknown, and the daemon comes up."""
    TypedNotes(str(tmp_path)).save(replace(NOTE, reader="NoLongerThere"))
    driver = TmuxDriver(str(tmp_path / "tmux.sock"), str(tmp_path), VirtualClock())
    (text,) = now(driver.recover_typed())
    assert (text.session_id, text.seen.outcome) == (A, ActionOutcome.UNVERIFIED)
    assert now(driver.recover_typed()) == []


def test_what_was_seen_is_known_after_a_second_crash(tmp_path: Path) -> None:
    """The note goes once the outcome is written down, not before."""
    TypedNotes(str(tmp_path)).save(replace(NOTE, stage=TypingStage.TAKEN))
    driver = TmuxDriver(str(tmp_path / "tmux.sock"), str(tmp_path), VirtualClock())
    for _ in range(2):
        (text,) = now(driver.recover_typed())
        assert text.seen.outcome is ActionOutcome.CONFIRMED
    driver.forget_typed(SessionId("another"))
    driver.forget_typed(A)
    assert now(driver.recover_typed()) == []


def screen(*rows: str, column: int, row: int) -> Screen:
    facts = f"10 0 0 0 0 80 {column} {row} /dev/pts/1\n"
    return Screen.parse(facts.encode() + "\n".join(rows).encode())


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", InputLineState.EMPTY),
        ("the who", InputLineState.PART),
        ("the whole text", InputLineState.WHOLE),
        ("the whole text and mine", InputLineState.OTHER),
        ("mine", InputLineState.OTHER),
    ],
)
@pytest.mark.parametrize("reader", [ClaudeInput(), PlainInput()])
def test_what_stands_in_an_input_line_is_compared_with_the_text(
    reader: InputReader, typed: str, expected: InputLineState
) -> None:
    """Its beginning is distinguished from the whole: once Enter is the next key, only the whole can be
    Wakeful's text."""
    shown = (
        screen(RULE, f"{ANGLE} {typed}", RULE, column=2 + len(typed), row=1)
        if isinstance(reader, ClaudeInput)
        else screen(f"> {typed}", column=2 + len(typed), row=0)
    )
    assert reader.input_state(shown, "> ", "the whole text") is expected
