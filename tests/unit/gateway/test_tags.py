"""Tags in answers: read exactly, taken out of what is shown, and text wherever they are quoted or wrong."""

import time

import pytest
from hypothesis import example, given, strategies as st

from wakeful.gateway.rules.tags import CALLS_MAX, ApiCall, FileToSend, read_tags, shown_so_far

POLL = """<telegram-api method="sendPoll" question="Lunch &amp; tea?" options='["a","b"]'/>"""
FILE = '<send-file path="out/report.pdf"/>'


def test_tags_are_taken_out_in_their_order() -> None:
    """Calls and files with their values; a tag on a line of its own takes its line with it."""
    tagged = read_tags(f"Here it is.\n{FILE}\n{POLL}\nBye <send-file path='a b.txt' caption=\"x\" />!")
    assert tagged.text == "Here it is.\nBye !"
    assert tagged.calls == (ApiCall("sendPoll", {"question": "Lunch & tea?", "options": '["a","b"]'}),)
    assert tagged.files == (FileToSend("out/report.pdf"), FileToSend("a b.txt", "x"))


@pytest.mark.parametrize(
    "text",
    [
        "<send-file/>",
        '<send-file path=""/>',
        "<send-file path=report.pdf/>",
        '<send-file path="a">',
        '<send-file path="a" mode="0777"/>',
        '<send-file path="a" path="b"/>',
        '<telegram-api chat_id="1"/>',
        '<telegram-api method="send/../x"/>',
        '<Send-File path="a"/>',
        f"```\n{FILE}\n```",
        f"Use `{FILE}` to send it.",
        f"~~~\n{POLL}\n~~~",
        '< send-file path="a"/>',
    ],
)
def test_whatever_is_not_exactly_a_tag_is_text(text: str) -> None:
    """Malformed, unknown, or quoted in code: shown, never obeyed."""
    tagged = read_tags(text)
    assert (tagged.text, tagged.calls, tagged.files) == (text, (), ())


def test_a_tag_behind_a_closed_block_counts() -> None:
    """Code ends where its fence ends."""
    assert read_tags(f"```\nx\n```\n{FILE}").files == (FileToSend("out/report.pdf"),)


def test_twenty_calls_at_most() -> None:
    """The others are neither made nor shown, and the chat gets their number."""
    tagged = read_tags(f"a{POLL * (CALLS_MAX + 3)}b")
    assert (len(tagged.calls), tagged.left_out, tagged.text) == (CALLS_MAX, 3, "ab")


def test_the_beginning_of_a_tag_is_not_shown() -> None:
    """While it grows no half of it is shown; text that only looked like a tag appears."""
    assert shown_so_far("Here <") == "Here"
    assert shown_so_far("Here <send-fi") == "Here"
    assert shown_so_far('Here <send-file path="a<b') == "Here"
    assert shown_so_far("Here <b") == "Here <b"
    assert shown_so_far("Here <send-file> now") == "Here <send-file> now"
    assert shown_so_far("a < b") == "a < b"


PIECES = st.lists(
    st.sampled_from(
        [FILE, POLL, "<send-file ", "path=", '"', "/>", "`", "```\n", "\n", "text ", " <", "<b>", "x"]
    ),
    max_size=10,
).map("".join)


@given(PIECES)
@example("````<send-file ```\n``")
@example('`<send-file path="a"/>```\n')
def test_what_is_shown_of_a_growing_answer_only_grows(text: str) -> None:
    """Every state begins with the one before, and the last one is within what is shown in the end."""
    shown = ""
    for end in range(len(text) + 1):
        now = shown_so_far(text[:end])
        assert now.startswith(shown)
        shown = now
    assert read_tags(text).text.startswith(shown)


def test_a_flood_of_beginnings_is_read_in_no_time() -> None:
    """A megabyte of what might be tags costs one pass."""
    assert read_tags("<send-file path=" * 60_000).files == ()
    assert read_tags("<send-file path='" * 60_000).files == ()
    assert read_tags("<telegram-api " + "a='b' " * 100_000).calls == ()
    began = time.process_time()
    assert shown_so_far(FILE * 50_000) == ""
    assert time.process_time() - began < 1.5
