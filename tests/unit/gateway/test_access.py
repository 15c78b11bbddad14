"""Access, pairing, permission questions and buttons: no user by default, late and forged presses refused."""

import pytest
from hypothesis import given, strategies as st

from wakeful.gateway.rules.access import (
    PAIRING_SECONDS,
    TRIES_MAX,
    Access,
    Bound,
    PressRefusal,
    Role,
    looks_like_code,
    new_token,
    open_pairing,
    refused,
    stranger_line,
)
from wakeful.gateway.rules.messages import ConversationKey

HERE = ConversationKey("chat:1:thread:main")
BYTES = bytes(range(16))


def test_an_empty_list_is_nobody() -> None:
    """Not even an admin who is on no list."""
    assert Access().role_of(1) is Role.NOBODY
    assert Access(admins=frozenset({1})).role_of(1) is Role.NOBODY


def test_listed_and_paired_users_are_heard() -> None:
    """Admins are those of them who are named as such."""
    access = Access(frozenset({1, 2}), frozenset({2}), frozenset({3}))
    assert [access.role_of(user) for user in (1, 2, 3, 4)] == [Role.USER, Role.ADMIN, Role.USER, Role.NOBODY]


def test_the_log_says_what_would_let_a_stranger_in() -> None:
    """The id and the whole line, with those who are in already."""
    assert stranger_line(7, frozenset({5})).endswith("[gateway] allow = [5, 7]")


def test_a_code_lets_one_user_in_once() -> None:
    """However it is typed; the second time it is nothing."""
    pairing, code = open_pairing(BYTES, 0)
    assert looks_like_code(code)
    used, fits = pairing.tried(f" {code.lower().replace('-', ' ')} ", 1)
    assert (fits, used.is_open(1), used.tried(code, 2)[1]) == (True, False, False)
    assert code not in repr(pairing)


def test_five_wrong_tries_close_it() -> None:
    """The right code comes too late then."""
    pairing, code = open_pairing(BYTES, 0)
    for _ in range(TRIES_MAX):
        pairing, fits = pairing.tried("AAAA-AAAA-AAAAA", 1)
        assert not fits
    assert pairing.tried(code, 1)[1] is False


def test_after_ten_minutes_it_is_closed() -> None:
    """To the second."""
    pairing, code = open_pairing(BYTES, 0)
    assert pairing.tried(code, PAIRING_SECONDS)[1] is False
    assert pairing.tried(code, PAIRING_SECONDS - 1)[1] is True


@given(st.binary(min_size=9, max_size=32), st.binary(min_size=9, max_size=32))
def test_a_code_holds_more_than_60_bits(one: bytes, other: bytes) -> None:
    """Two codes are alike only if their first 65 bits are."""
    same = int.from_bytes(one[:9]) >> 7 == int.from_bytes(other[:9]) >> 7
    assert (open_pairing(one, 0)[1] == open_pairing(other, 0)[1]) is same


@pytest.mark.parametrize("text", ["hello", "please let me in now", "", "A" * 13 + " " * 40])
def test_other_words_of_strangers_cost_no_try(text: str) -> None:
    """Only what has the shape of a code is one."""
    assert not looks_like_code(text)


BOUND = Bound(HERE, Role.USER, "question:q", 100)


@pytest.mark.parametrize(
    ("bound", "place", "role", "now", "expected"),
    [
        (BOUND, HERE, Role.USER, 99, None),
        (BOUND, HERE, Role.ADMIN, 99, None),
        (None, HERE, Role.ADMIN, 1, PressRefusal.FORGED),
        (BOUND, HERE, Role.NOBODY, 1, PressRefusal.FORGED),
        (BOUND, ConversationKey("chat:2:thread:main"), Role.USER, 1, PressRefusal.ELSEWHERE),
        (Bound(HERE, Role.ADMIN, "pause", 100), HERE, Role.USER, 1, PressRefusal.NOT_YOURS),
        (BOUND, HERE, Role.USER, 100, PressRefusal.LATE),
    ],
)
def test_a_press_counts_for_its_place_its_people_and_its_time(
    bound: Bound | None, place: ConversationKey, role: Role, now: float, expected: PressRefusal | None
) -> None:
    """Whatever else a client sends is refused."""
    assert refused(bound, place, role, now) is expected


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_a_token_fits_a_button_and_says_nothing(one: bytes, other: bytes) -> None:
    """22 signs of the 64 Telegram takes; different bytes are different tokens."""
    assert len(new_token(one)) == 22
    assert (new_token(one) == new_token(other)) is (one == other)
