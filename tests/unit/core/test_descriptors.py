"""How the daemon's descriptors are shared: connections never take what watching needs."""

import pytest

from wakeful.core.descriptors import CONNECTIONS_MAX, LISTENERS, RESERVED, shares


@pytest.mark.parametrize("limit", [128, 256, 1024, 4096, 20_000, 2**20])
def test_all_shares_fit_into_the_limit(limit: int) -> None:
    """And at least as many are left for processes as connections have."""
    connections, pidfds = shares(limit)
    assert RESERVED + LISTENERS * connections + pidfds <= limit
    assert pidfds >= LISTENERS * connections > 0


def test_a_crowd_is_bounded_where_there_is_no_limit() -> None:
    """RLIM_INFINITY is below zero, and is no limit."""
    assert shares(-1).connections == CONNECTIONS_MAX
    assert shares(-1).pidfds > 10**9


def test_a_person_gets_in_where_there_is_hardly_anything() -> None:
    """With fewer descriptors than the daemon itself needs, commands still have a few."""
    assert shares(20) == (8, 0)
