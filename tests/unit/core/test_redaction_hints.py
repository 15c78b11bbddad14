"""Redaction looks for a hint before it tries a pattern: a hint that is wrong would let a secret pass."""

import re

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from wakeful.core.redaction import FORMATS
from wakeful.core.secret_formats import Format

_LONG_WORD = re.compile(r"[A-Za-z0-9_-]{16}")


@pytest.mark.parametrize("format_", FORMATS, ids=lambda each: each.name)
@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_a_pattern_matches_holds_one_of_its_hints(format_: Format, data: st.DataObject) -> None:
    """No secret can be missed because its pattern was skipped, nor because its text has no long word."""
    ascii_only = st.characters(max_codepoint=127)
    pattern = re.compile(format_.pattern, re.IGNORECASE | re.DOTALL)
    secret = data.draw(st.from_regex(pattern, alphabet=ascii_only))
    found = pattern.search(secret)
    assume(found is not None)
    assert found is not None
    assert any(hint in found[0].lower() for hint in format_.hints)
    assert not format_.long or _LONG_WORD.search(found[0]) is not None
