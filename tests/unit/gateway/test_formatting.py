"""Long answers in messages: no part too long, nothing lost, code blocks whole, and a growing text never changes its mind."""

import re

import pytest
from hypothesis import given, strategies as st

from wakeful.gateway.rules.formatting import UNITS_MAX, Fence, Growing, code_spans, open_at_end, split, units

# Small enough that short texts have many parts.
SMALL = 80
TEXTS = st.lists(
    st.sampled_from(
        [
            "word ",
            "words and more. ",
            "\n",
            "\n\n",
            "```\n",
            "```py\n",
            "~~~\n",
            "`",
            "é",
            "👩‍👩‍👧",
            "🙂" * 30,
            "x" * 90,
            "a\u0301",
        ]
    )
    | st.text(max_size=20),
    max_size=40,
).map("".join)


def visible(text: str) -> str:
    """What a reader reads: no spaces, no fences."""
    return re.sub(r"[`~\s]+", "", text)


def test_what_fits_is_one_message_as_it_is() -> None:
    """4,096 units are one message, one more is two; an emoji is two units."""
    assert split("x" * UNITS_MAX) == ("x" * UNITS_MAX,)
    assert [units(part) for part in split("🙂" * 2048)] == [4096]
    assert len(split("x" * (UNITS_MAX + 1))) == 2
    assert split("  \n ") == ()


def test_it_is_parted_at_the_best_place_of_the_second_half() -> None:
    """Paragraph before line before sentence before word."""
    filler = "w" * 60
    for place in ("\n\n", "\n", ". ", " "):
        text = filler + place + "tail " * 5 + "end"
        first, second = split(text, SMALL)[0], split(text, SMALL)[1]
        assert first.startswith(filler + place.strip()), place
        if place != " ":
            assert (first, second) == (filler + place.strip(), "tail tail tail tail tail end")


def test_a_code_block_is_closed_and_opened_again() -> None:
    """Each message shows its code as code, in its language."""
    code = "\n".join(f"line_{number} = {number}" for number in range(20))
    parts = split(f"Look:\n```python\n{code}\n```\nThat is all.", SMALL)
    assert len(parts) > 3
    assert all(open_at_end(part) is None for part in parts)
    assert all(part.startswith("```python\n") for part in parts[1:-1])
    assert "".join(parts).count("line_13 = 13") == 1


def test_letters_are_not_torn() -> None:
    """Nowhere to part: cut between what a reader takes for characters."""
    family = "👩‍👩‍👧"
    parts = split(family * 40, SMALL)
    assert all(part.startswith("👩") and part.endswith("👧") for part in parts)
    assert all(not part.startswith("\u0301") for part in split("a\u0301" * 200, SMALL))


@given(TEXTS)
def test_no_part_is_too_long_or_empty_and_nothing_readable_is_lost(text: str) -> None:
    """For any text, whatever is in it."""
    parts = split(text, SMALL)
    assert all(units(part) <= SMALL for part in parts)
    assert all(part.strip() for part in parts)
    if "```" not in text and "~~~" not in text:
        assert visible("".join(parts)) == visible(text)


@given(TEXTS, st.integers(1, 30))
def test_a_growing_text_has_the_parts_of_the_whole(text: str, step: int) -> None:
    """However it arrives; what was final once stays."""
    growing = Growing(SMALL)
    for start in range(0, len(text), step):
        before = list(growing.final)
        growing.add(text[start : start + step])
        assert growing.final[: len(before)] == before
        assert all(units(part) <= SMALL for part in growing.parts)
    assert growing.parts == split(text, SMALL)


def test_a_megabyte_is_parted_in_no_time() -> None:
    """One pass over the text."""
    assert len(split("lorem ipsum dolor " * 60_000)) < 300


@pytest.mark.parametrize(
    ("text", "still_open"),
    [
        ("```\na\n```", None),
        ("```py\na", Fence("```", "py")),
        ("````\n```\n", Fence("````")),
        ("~~~\n```\n~~~", None),
        ("a ``` b", None),
        ("``` a ` b", None),
        ("    ```", None),
    ],
)
def test_blocks_are_commonmarks(text: str, still_open: Fence | None) -> None:
    """Closed by as many of the same mark, opened at the beginning of a line only."""
    assert open_at_end(text) == still_open


def test_inline_code_is_code() -> None:
    """Between as many backticks as it began with."""
    text = "a `b` c ``d ` e`` f"
    assert [text[start:end] for start, end in code_spans(text)] == ["`b`", "``d ` e``"]
