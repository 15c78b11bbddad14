"""Redaction looks for a hint before it tries a pattern: a hint that is wrong would let a secret pass."""

import re

import pytest
from hypothesis import given, settings, strategies as st

from wakeful.domain.redact import _PATTERNS


@pytest.mark.parametrize(("hints", "pattern"), [(hints, pattern) for hints, pattern, _ in _PATTERNS])
@settings(max_examples=30)
@given(data=st.data())
def test_whatever_a_pattern_matches_holds_one_of_its_hints(
    hints: tuple[str, ...], pattern: re.Pattern[str], data: st.DataObject
) -> None:
    """No secret can be missed because its pattern was skipped."""
    ascii_only = st.characters(max_codepoint=127)
    secret = data.draw(st.from_regex(pattern, fullmatch=True, alphabet=ascii_only))
    assert any(hint in secret.lower() for hint in hints)
