"""The lines of a conversation: nothing wider than the terminal, nothing that a terminal obeys."""

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from wakeful.cli.format.conversation import ConversationLayout, conversation_lines, wrap
from wakeful.core.text import has_hidden_characters
from wakeful.judging.events import Speaker
from wakeful.views.records import CallEnd, CallRecord, CallText, MessageRecord, MessageText

AT, LATER = "2027-01-15T08:00:00.000Z", "2027-01-15T08:01:35.000Z"


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


def said(text: str, by: Speaker = Speaker.AGENT, at: str = AT) -> MessageRecord:
    return MessageRecord(at, by, MessageText(text))


def called(end: CallEnd, *, result: str = '"2 failed"', command: str = "make test") -> MessageRecord:
    words = CallText("Bash", f'{{"command": "{command}"}}', result)
    ended = None if end in {CallEnd.OPEN, CallEnd.WAITING} else LATER
    return MessageRecord(AT, Speaker.AGENT, MessageText(""), "c", CallRecord(AT, ended, end, words))


def shown(*messages: MessageRecord, cells: int | None = None, is_alive: bool = True) -> list[str]:
    layout = ConversationLayout("claude", cells, is_alive=is_alive)
    return ["".join(text for text, _ in line)[9:] for line in conversation_lines(messages, layout)][1:]


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (CallEnd.OK, "        ✓ Bash: make test  1m → 2 failed"),
        (CallEnd.ERROR, "        ✗ Bash: make test  1m → 2 failed"),
        (CallEnd.REFUSED, "        ⊘ Bash: make test  refused  1m → 2 failed"),
        (CallEnd.CUT_OFF, "        ✗ Bash: make test  interrupted  1m → 2 failed"),
    ],
)
def test_a_call_is_one_line_with_its_end(end: CallEnd, line: str) -> None:
    assert shown(called(end)) == [line]


def test_an_open_call_says_what_is_known_of_it() -> None:
    assert shown(called(CallEnd.OPEN, result="")) == ["        … Bash: make test  running"]
    assert shown(called(CallEnd.WAITING, result="")) == ["        ◆ Bash: make test  waiting for you"]
    assert shown(called(CallEnd.OPEN, result=""), is_alive=False) == [
        "        ? Bash: make test  result unknown"
    ]


def test_a_day_precedes_its_messages() -> None:
    layout = ConversationLayout("claude")
    messages = [
        said("a"),
        said("b"),
        said("c", at="2027-01-16T08:00:00.000Z"),
        said("d", at="1970-01-01T00:00:00.000Z"),
    ]
    lines = ["".join(text for text, _ in line) for line in conversation_lines(messages, layout)]
    assert lines == [
        "2027-01-15",
        "08:00:00 claude  a",
        "08:00:00 claude  b",
        "2027-01-16",
        "08:00:00 claude  c",
        "--:--:-- claude  d",
    ]


@given(st.text(max_size=300), st.integers(20, 130))
def test_any_text_fits_and_hides_nothing(text: str, cells: int) -> None:
    layout = ConversationLayout("claude", cells)
    call = called(CallEnd.OK, result=text).call
    messages = [said(text), MessageRecord(AT, Speaker.AGENT, MessageText(""), "c", call)]
    for line in conversation_lines(messages, layout):
        joined = "".join(piece for piece, _ in line)
        assert not has_hidden_characters(joined)
        assert "\n" not in joined
        assert cell_len(joined) <= max(cells, 26)


@given(st.text(st.sampled_from("ab 日本é-"), max_size=200), st.integers(12, 60))
def test_wrapping_loses_no_word(text: str, cells: int) -> None:
    assert "".join("".join(wrap(text, cells)).split()) == "".join(text.split())


def test_many_empty_lines_are_one() -> None:
    assert shown(said("a" + "\n" * 50 + "b")) == ["claude  a", " " * 8, "        b"]
