"""What a chat sees of an agent's text: no secret wherever it stands, no more than fits, and quickly."""

import time

import pytest
from hypothesis import given, strategies as st

from wakeful.gateway.rules.formatting import PARTS_MAX, units
from wakeful.gateway.rules.shown_text import (
    SHOWN_CHARS_MAX,
    display_text,
    is_long,
    messages_of,
    partial_view,
    text_beginning,
)

SECRET = "Zq8vT3xWm2Lk9Pf4"
SECRETS = (
    f"sk-ant-{SECRET}",
    f"Bearer {SECRET}",
    f"password = {SECRET}",
    f'"api_key": "{SECRET}"',
    f"--token {SECRET}",
    f"700001:{SECRET}{SECRET}",
    f"https://me:{SECRET}@example.org/x",
    f"token\n=\n{SECRET}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n" + f"{SECRET}\n" * 40 + "-----END RSA PRIVATE KEY-----",
)
# A key that is glued to a word is one; a name that is glued to a word is another name.
FILLERS = ("word ", "line\n", "a,b;c,", "x", '{"a":1},')


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("filler", FILLERS)
def test_a_secret_is_found_wherever_it_stands(secret: str, filler: str) -> None:
    """Across every border at which a long text is looked at in pieces, and in what is seen while it grows."""
    is_one_word = filler == "x"
    for before in [0, 19_960, 19_975, 19_985, 19_997, 20_001, 39_990]:
        text = (filler * before)[:before] + " " * (not is_one_word) + secret + " " + filler * 3
        assert SECRET not in display_text(text)
        assert SECRET not in partial_view(text)


@given(st.text(alphabet=st.sampled_from("a😀 \n`é<>/\u200d"), max_size=300), st.integers(1, 400))
def test_what_is_seen_of_a_growing_text_fits_into_a_message(text: str, times: int) -> None:
    """However long it is, and whatever a character takes."""
    assert units(partial_view(text * times)) <= 4096
    assert all(0 < units(part) <= 4096 for part in messages_of(text * times))


@given(st.text(max_size=200))
def test_nothing_that_can_be_read_is_lost(text: str) -> None:
    """Apart from invisible characters and secrets, the text is the same."""
    printable = "".join(char for char in text if char.isascii() and char.isprintable())
    assert display_text(printable) == printable.strip() or "[" in display_text(printable)


@pytest.mark.parametrize(
    "hostile", ["eyJ", "a:", "sk-", "`", "<telegram-api a='", "\x1b[", " ", "-----BEGIN PRIVATE KEY-----"]
)
def test_hostile_text_takes_no_time(hostile: str) -> None:
    """A megabyte of beginnings."""
    text = hostile * (1_000_000 // len(hostile))
    began = time.process_time()
    partial_view(text)
    messages_of(text)
    assert time.process_time() - began < 2.0


def test_a_long_text_says_what_is_missing() -> None:
    """And a text that just fits does not."""
    assert "cut here" not in messages_of("word " * 15_000)[-1]
    assert "cut here" in messages_of("word " * (SHOWN_CHARS_MAX // 5 + 1))[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("word " * 20_000, True),
        ("word " * 15_000, False),
        # Nowhere to part it well: more messages than its length alone says.
        (("x" * 2100 + "\n\n") * 30, True),
        ("🙂" * 10_000, False),
        ("", False),
    ],
)
def test_a_text_is_long_where_twenty_messages_do_not_hold_it(text: str, expected: bool) -> None:
    """Then one message is left of it, which has its beginning and says where the rest is."""
    assert is_long(text) is expected
    assert (len(messages_of(text)) == PARTS_MAX and "cut here" in messages_of(text)[-1]) is expected
    (only,) = messages_of(text_beginning(text, "[note]"))
    assert only.endswith("[note]")
    assert not text or only[:5] == text[:5]


def test_a_text_that_begins_with_nothing_to_read_has_a_note() -> None:
    """Whatever hides in its first pages."""
    assert text_beginning("\u200b\n" * 50_000 + "words", "[note]") == "[note]"
