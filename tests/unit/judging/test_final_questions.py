"""A turn that ends with a question is idle, and the question is seen wherever idle is."""

import json
from typing import Any

import pytest

from support.judging_helpers import POLICY, at, folded, held
from wakeful.cli.format.sessions import activity_text
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.process import ProcessState
from wakeful.integrations.claude_code.transcript import TranscriptReader
from wakeful.integrations.codex.rollout import RolloutReader
from wakeful.judging import events as e
from wakeful.judging.evidence import RuntimeState, SessionIdentity
from wakeful.judging.explanation import explain
from wakeful.judging.findings import Attention, State
from wakeful.judging.judge import judge
from wakeful.judging.questions import QUESTION_CHARS_MAX, question_in
from wakeful.judging.session_record import SessionRecord, build_record
from wakeful.replay.cases import read_case

SUBJECT = SessionIdentity(SessionId("claude-x"), "claude", "box", "claude-transcripts", ConversationId("x"))
ENDED = e.TurnEnded(20.0, words=1, asks=b"Shall I push it?")


def shown(*events: e.Event, presence: RuntimeState | None = None) -> tuple[SessionRecord, str]:
    """The record a minute later, and the sentence of `why`."""
    activity, presence, now = folded([e.Prompted(1.0), *events]), presence or held(), at(80.0)
    verdict = judge(activity, presence, POLICY, now)
    record = build_record(SUBJECT, activity, presence, verdict, now)
    return record, explain(record, activity, presence, verdict, POLICY, now).sentence


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("All done. Shall I push it?", "Shall I push it?"),
        ("I see two ways:\n\n- a\n- b\n\n**Which one do you want?**\n", "Which one do you want?"),
        ("Done!\nWant me to (also) mend `x.py`?", "Want me to (also) mend `x.py`?"),
        ("Which one\uff1f", "Which one\uff1f"),
        ('He asked "why?"', 'He asked "why?'),
        ("Shall I? I will wait.", ""),
        ("Done.", ""),
        ("", ""),
        ("x" * 999 + "?", "x" * (QUESTION_CHARS_MAX - 1) + "?"),
    ],
)
def test_the_question_is_the_last_sentence(text: str, question: str) -> None:
    """Without what emphasises it; a question in the middle was answered by what follows."""
    assert question_in(text) == question


def transcript(text: str, stop: str | None) -> list[e.Event]:
    message: dict[str, Any] = {"id": "m", "content": [{"type": "text", "text": text}], "stop_reason": stop}
    record = {"type": "assistant", "timestamp": "2026-01-05T09:00:00Z", "message": message}
    return [*TranscriptReader().read(json.dumps(record, ensure_ascii=False).encode())]


def test_every_reader_tells_the_question() -> None:
    """Claude Code by its last text, Codex by the end of its task, cases by what was said."""
    for stop in ("end_turn", None):
        told = transcript("Done. Shall I push it?", stop)[-1]
        assert isinstance(told, e.TurnEnded | e.TextWritten)
        assert told.asks == b"Shall I push it?"
    payload = {"type": "task_complete", "turn_id": "t", "last_agent_message": "Done. Shall I push it?"}
    line = {"timestamp": "2026-01-05T09:00:00Z", "type": "event_msg", "payload": payload}
    (ended,) = RolloutReader().read(json.dumps(line).encode())
    assert isinstance(ended, e.TurnEnded)
    assert ended.asks == b"Shall I push it?"
    case = b'{"id":"x","now":9,"events":[{"t":1,"user":"go"},{"t":2,"text":"Done. Shall I push it?"}]}'
    spoke = read_case(case, "here").events[-1]
    assert isinstance(spoke, e.TextWritten)
    assert spoke.asks == b"Shall I push it?"


def test_a_question_at_the_end_of_a_turn_is_shown_beside_idle() -> None:
    """In the record under `untrusted`, in the list and in `why`; the state stays idle, not waiting."""
    record, sentence = shown(ENDED)
    assert (record.state, record.attention, record.expected_waits) == (State.IDLE, Attention.NONE, ())
    assert record.asks is not None
    assert record.asks.untrusted == "Shall I push it?"
    assert activity_text(record) == "asks: Shall I push it?"
    assert sentence == "finished 1 min ago, asks: `Shall I push it?`, ready for a prompt"


@pytest.mark.parametrize(
    "after",
    [
        [e.Prompted(30.0)],
        [e.Prompted(30.0), e.TurnEnded(40.0, words=2)],
        [e.Prompted(30.0), e.TurnInterrupted(40.0)],
        [e.CallStarted(30.0, "c", "Bash")],
        # Ends without words of their own: as many turns as it may, a schema that was filled.
        [e.Prompted(30.0), e.TurnEnded(40.0, by_mark=True)],
        [e.CallStarted(30.0, "c", "Bash"), e.CallEnded(31.0, "c"), e.TurnEnded(40.0)],
    ],
)
def test_a_question_is_over_with_the_next_prompt_or_call(after: list[e.Event]) -> None:
    """Whatever the next turn ends with."""
    record, sentence = shown(ENDED, *after)
    assert record.asks is None
    assert "asks" not in sentence


def test_a_stopped_session_asks_nobody() -> None:
    """Its process is gone: no answer would arrive."""
    assert shown(ENDED, presence=held(ProcessState.DEAD))[0].asks is None


def test_what_closes_the_books_of_a_turn_does_not_take_its_question_away() -> None:
    """A mark of its end has no words of its own."""
    record, _ = shown(ENDED, e.TurnEnded(21.0, by_mark=True))
    assert record.asks is not None
