"""Pages that are made from tables say what the tables say."""

import pytest
from bench.reference import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_made_page_is_up_to_date(name: str) -> None:
    """`make docs` was run after the last change of the tables."""
    assert (DOCS / name).read_text() == PAGES[name]()
