"""Claims about the words for people of states and health."""

import json
import re
from importlib.resources import files

import pytest

from wakeful.judging.findings import Health, State
from wakeful.judging.state_words import (
    HEALTH_WORDS,
    STATE_WORDS,
    health_text,
    state_column_text,
    state_health_text,
    state_text,
)


def test_every_state_and_health_has_a_word() -> None:
    assert (set(STATE_WORDS), set(HEALTH_WORDS)) == (set(State), set(Health))


def test_people_read_plain_words() -> None:
    assert state_health_text(State.PROMPTING, Health.DEGRADED) == "running, stuck"
    assert state_health_text("waiting", "healthy") == "waiting for you, healthy"
    assert {health_text(each) for each in Health} == {"healthy", "stuck", "dead", "unknown"}
    assert state_column_text("waiting") == "waiting"


def test_a_word_of_a_newer_daemon_is_shown_as_it_is() -> None:
    assert (state_text("napping"), health_text("odd")) == ("napping", "odd")


@pytest.mark.parametrize(("name", "words"), [("STATE_WORDS", STATE_WORDS), ("HEALTH_WORDS", HEALTH_WORDS)])
def test_the_page_has_the_same_words(name: str, words: dict[str, str]) -> None:
    """`rows.js` is a copy: nothing is built for the page."""
    script = files("wakeful.web").joinpath("rows.js").read_text()
    found = re.search(rf"const {name} = {{([^}}]*)}}", script)
    assert found is not None
    body = re.sub(r"(\w+):", r'"\1":', found[1]).rstrip().rstrip(",")
    assert json.loads(f"{{{body}}}") == dict(words)
