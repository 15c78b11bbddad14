"""Answers of the Bot API that cannot be decoded whole: the good updates in them are kept, the bad ones can be confirmed."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from wakeful.integrations.telegram import read_answer

BAD = (
    b'{"update_id": 5, "message": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    b'{"update_id": 5, "message": {"date": ' + b"9" * 6000 + b"}}",
    b'{"update_id": 5, "message": oh "no, \\" [" }',
    b'{"update_id": 5, "x": {"a": [1, 2, {"b": ","}]}, "message": nothing}',
)
GOOD = b'{"update_id": %d, "message": {"text": "a ] , } \\" [ {"}}'


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_update_costs_nothing_but_itself(bad: bytes) -> None:
    """It is its number alone; the ones before and behind it are whole."""
    answer = read_answer(b'{"ok": true, "result": [%b]}' % b",".join((GOOD % 4, bad, GOOD % 6)))
    assert [each["update_id"] for each in answer["result"]] == [4, 5, 6]
    assert answer["result"][1] == {"update_id": 5}
    assert answer["result"][2]["message"] == {"text": 'a ] , } " [ {'}


def test_a_cut_off_answer_keeps_what_came() -> None:
    """The number of the one that was cut off is known, if it came."""
    answer = read_answer(b'{"ok": true, "result": [%b, {"update_id": 7, "message": {"te' % (GOOD % 6))
    assert [each["update_id"] for each in answer["result"]] == [6, 7]


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_an_answer_or_malformed(noise: bytes, place: int) -> None:
    """Nothing else is raised, wherever they stand in an answer."""
    whole = b'{"ok": true, "result": [%b,%b]}' % (GOOD % 4, GOOD % 5)
    for payload in (noise, whole[:place] + noise + whole[place:]):
        try:
            read_answer(payload)
        except msgspec.DecodeError:
            continue
