"""Whatever arrives in place of an update: it is read or ignored by its number, and can be kept."""

import json
from typing import Any

import msgspec
from hypothesis import given, settings, strategies as st

from wakeful.gateway.rules.messages import Update
from wakeful.gateway.telegram import number_of, read_update

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
USER = st.fixed_dictionaries(
    {"id": ANYTHING | st.integers(1, 9)}, optional={"first_name": ANYTHING, "is_bot": ANYTHING}
)
CHAT = st.fixed_dictionaries({"id": ANYTHING | st.integers(-9, 9)}, optional={"type": ANYTHING})
MESSAGE = st.fixed_dictionaries(
    {"message_id": st.integers(1, 9) | ANYTHING, "chat": CHAT | ANYTHING, "from": USER | ANYTHING},
    optional={
        "text": st.text(st.characters(), max_size=20) | ANYTHING,
        "caption": ANYTHING,
        "date": st.integers(0, 2**31) | ANYTHING,
        "message_thread_id": st.integers(0, 9) | ANYTHING,
        "is_topic_message": st.booleans() | ANYTHING,
        "reply_to_message": st.fixed_dictionaries({"from": USER, "text": st.text()}) | ANYTHING,
        "photo": ANYTHING,
    },
)
PRESS = st.fixed_dictionaries(
    {"id": st.text(max_size=9) | ANYTHING, "from": USER, "message": MESSAGE | ANYTHING},
    optional={"data": ANYTHING | st.text()},
)
UPDATE = st.fixed_dictionaries(
    {"update_id": st.integers(0, 2**31) | ANYTHING},
    optional={"message": MESSAGE | ANYTHING, "edited_message": MESSAGE, "callback_query": PRESS | ANYTHING},
)


@settings(max_examples=150, deadline=None)
@given(UPDATE | ANYTHING)
def test_any_update_is_read_or_ignored_and_can_be_kept(raw: Any) -> None:
    """No shape of it raises, and what was read of it comes back from the store as it was."""
    number = number_of(raw)
    if number is None:
        return
    update = read_update(raw, number, 1.0)
    assert update.update_id == number
    assert msgspec.json.decode(msgspec.json.encode(update), type=Update) == update


def test_half_a_character_costs_nothing_but_itself() -> None:
    """JSON can hold one, and no store can."""
    raw = json.loads(
        '{"message": {"message_id": 1, "chat": {"id": 1}, "from": {"id": 1}, "text": "half \\ud83d"}}'
    )
    update = read_update(raw, 1, 1.0)
    assert b"half ?" in msgspec.json.encode(update)
