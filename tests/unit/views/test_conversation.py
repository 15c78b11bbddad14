"""The conversation of a session: texts and calls in the order of the log, redacted and bounded."""

import json
import re
from typing import Any

import pytest

from support import claude_transcripts as claude
from wakeful.integrations.claude_code import transcript
from wakeful.integrations.codex import rollout
from wakeful.judging.events import Speaker
from wakeful.sources.log_source import LogExcerpt
from wakeful.views.conversation import CHARS_MAX, TEXT_CHARS_MAX, conversation_of
from wakeful.views.records import CallEnd, ConversationPart, MessageRecord

THREAD = "0199a1b2-0000-7000-8000-000000000001"


def of_claude(*records: dict[str, Any], limit: int = 100) -> ConversationPart:
    reader, events = transcript.TranscriptReader(), []
    for record in records:
        line = json.dumps(record).encode()
        events += [*transcript.texts_in(line), *reader.read(line)]
    return conversation_of(LogExcerpt(events, "7-100", is_continued=True), limit)


def of_codex(*records: tuple[str, dict[str, Any]]) -> ConversationPart:
    reader, events = rollout.RolloutReader(), []
    for kind, payload in records:
        line = json.dumps(
            {"timestamp": "2026-11-19T10:00:00.000Z", "type": kind, "payload": payload}
        ).encode()
        events += [*rollout.texts_in(line), *reader.read(line)]
    return conversation_of(LogExcerpt(events, "", is_continued=False), 100)


def spoken(found: ConversationPart) -> list[tuple[str, str]]:
    return [(message.by, words(message)) for message in found.messages]


def words(message: MessageRecord) -> str:
    if message.call is None:
        return message.untrusted.text
    return f"{message.call.untrusted.tool} {message.call.end}"


def result(wall: float, call_id: str, text: str, *, is_error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}
    return claude.record("user", wall, "c", message={"role": "user", "content": [block]})


def test_a_turn_of_claude_is_read_in_its_order() -> None:
    found = of_claude(
        claude.prompt(10.0, "c", "build it"),
        claude.call(11.0, "c", "make"),
        result(14.0, "toolu_1", "built 3 files"),
        claude.answer(15.0, "c", "It is built.\n\n    with an indented line"),
    )
    assert spoken(found) == [
        ("person", "build it"),
        ("agent", "Bash ok"),
        ("agent", "It is built.\n\n    with an indented line"),
    ]
    call = found.messages[1].call
    assert call is not None
    assert (call.untrusted.input, call.untrusted.result) == ('{"command": "make"}', '"built 3 files"')
    assert (found.cursor, found.continued) == ("7-100", True)


def test_a_turn_of_codex_is_read_in_its_order() -> None:
    said = [{"type": "output_text", "text": "I look."}]
    output = "Process exited with code 1\nOutput:\nno such file"
    context = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<context>"}]}
    found = of_codex(
        ("session_meta", {"id": THREAD, "cwd": "/home/u/shop"}),
        ("response_item", context),
        ("event_msg", {"type": "user_message", "message": "fix the build"}),
        ("response_item", {"type": "message", "role": "assistant", "content": said}),
        ("event_msg", {"type": "agent_message", "message": "I look."}),
        ("response_item", {"type": "function_call", "name": "shell", "call_id": "a", "arguments": "{}"}),
        ("response_item", {"type": "function_call_output", "call_id": "a", "output": output}),
    )
    assert spoken(found) == [("person", "fix the build"), ("agent", "I look."), ("agent", "shell error")]


def test_codex_items_and_its_own_wake_are_told_apart() -> None:
    asked = [{"type": "text", "text": "go on"}, {"type": "image", "url": "x"}]
    found = of_codex(
        ("event_msg", {"type": "item_completed", "item": {"type": "UserMessage", "content": asked}}),
        ("event_msg", {"type": "user_message", "message": "<heartbeat>now</heartbeat>"}),
    )
    assert [message.by for message in found.messages] == [Speaker.PERSON, Speaker.CLIENT]
    assert found.messages[0].untrusted.text == "go on"


def test_the_end_of_a_call_that_began_earlier_names_the_call() -> None:
    """A viewer that follows a log adds it to the call that it shows."""
    begun = of_claude(claude.call(11.0, "c", "make", "toolu_9"))
    found = of_claude(result(14.0, "toolu_9", "failed", is_error=True))
    (message,) = found.messages
    assert message.call_id == begun.messages[0].call_id
    assert message.call is not None
    assert (message.call.untrusted.tool, message.call.end, message.call.ended_at) == (
        "",
        CallEnd.ERROR,
        "1970-01-01T00:00:14.000Z",
    )


def test_what_the_client_wrote_is_no_text_of_a_person() -> None:
    caveat = {**claude.prompt(11.0, "c", "Caveat: the messages below"), "isMeta": True}
    typed = "<command-message>review is running</command-message>\n<command-name>/review</command-name>"
    found = of_claude(
        caveat,
        claude.prompt(12.0, "c", typed),
        claude.prompt(13.0, "c", "<bash-input>git status</bash-input>"),
        claude.prompt(14.0, "c", "<bash-stdout>clean</bash-stdout>"),
        claude.prompt(15.0, "c", "[Request interrupted by user]"),
    )
    assert spoken(found) == [
        ("person", "/review"),
        ("person", "! git status"),
        ("client", "The turn was interrupted."),
    ]


def test_texts_are_redacted_printable_and_bounded() -> None:
    key = "sk-ant-api03-" + "A7b" * 30
    found = of_claude(
        claude.prompt(10.0, "c", f"use {key}"),
        claude.answer(11.0, "c", "\x1b[31mred\x1b[0m\x07 \u202eback\r\nnext"),
        claude.answer(12.0, "c", "x" * (TEXT_CHARS_MAX + 50)),
    )
    first, second, third = (message.untrusted.text for message in found.messages)
    assert key not in first
    assert "[key]" in first
    assert "\x1b" not in second
    assert "\u202e" not in second
    assert second.splitlines()[-1] == "next"
    assert len(third) == TEXT_CHARS_MAX + 1
    assert third.endswith("…")


def test_the_id_of_a_call_is_none_that_an_agent_chose() -> None:
    """Models and programs write ids of any text, also secrets, controls and a megabyte."""
    chosen = f"sk-ant-api03-{'A7b' * 30} \x1b[31m \ud800 {'x' * 1_000_000}"
    found = of_claude(claude.call(11.0, "c", "make", chosen), result(12.0, "other", "done"))
    ids = [message.call_id for message in found.messages]
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in ids)
    assert len(set(ids)) == 2


def test_only_what_is_shown_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An excerpt has thousands of texts and calls; a person sees some of them, and their beginnings."""
    redacted: list[str] = []

    def redact(text: str, chars_max: int = 0) -> str:
        redacted.append(text)
        return text[: chars_max or len(text)]

    for module in ("wakeful.views.conversation", "wakeful.judging.session_record"):
        monkeypatch.setattr(f"{module}.redact", redact)
    texts = [claude.prompt(float(each), "c", f"number {each}") for each in range(1, 400)]
    calls = [claude.call(500.0 + each, "c", f"run {each}", f"toolu_{each}") for each in range(400)]
    assert len(of_claude(*texts, *calls, limit=5).messages) == 5
    assert len(redacted) <= 5 * 3
    assert len(of_claude(*texts, limit=5).messages) == 5
    assert len(redacted) <= 5 * 3 + 5


def test_only_the_newest_are_given() -> None:
    found = of_claude(*(claude.prompt(float(each), "c", f"number {each}") for each in range(1, 9)), limit=2)
    assert spoken(found) == [("person", "number 7"), ("person", "number 8")]


def test_a_session_without_a_log_has_no_conversation() -> None:
    assert conversation_of(None, 10) == ConversationPart((), "", continued=False)


def test_lines_that_cannot_be_read_have_no_texts() -> None:
    for line in (b"", b"{", b'{"type":"user","text"', b'\xff"text"', b'{"type": 3, "text": 1}'):
        assert list(transcript.texts_in(line)) == []
        assert list(rollout.texts_in(line)) == []


def test_an_answer_has_a_bounded_number_of_characters() -> None:
    """The newest texts, and then no gap is denied: what was left out lies before them."""
    said = [claude.prompt(float(number), "c", f"{number} {'x' * TEXT_CHARS_MAX}") for number in range(500)]
    found = of_claude(*said, limit=500)
    assert len(found.messages) == CHARS_MAX // TEXT_CHARS_MAX
    assert words(found.messages[-1]).startswith("499 ")
    assert not found.continued
    calls = [claude.call(float(number), "c", "x" * 100_000, f"toolu_{number}") for number in range(500)]
    assert len(of_claude(*calls, limit=500).messages) == CHARS_MAX // TEXT_CHARS_MAX
    assert of_claude(*said[:3]).continued
