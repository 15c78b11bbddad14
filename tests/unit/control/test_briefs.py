"""Claims about prompts that Wakeful may send to an agent, and about the brief of a resumed one."""

import re

import pytest

from wakeful.control.briefs import CALLS_NAMED_MAX, BriefedCall, brief, prompt_problem


def test_a_brief_names_what_was_cut_off() -> None:
    """Tool, what it was about and when, and that it may have had effects."""
    told = brief([BriefedCall("Bash", 'Bash {"command": "git push"}', 130.0), BriefedCall("Write", "a.py")])
    assert "Bash `git push`, begun 2 min before; Write `a.py`." in told
    assert "Check what is there before you repeat" in told


def test_a_brief_can_be_typed_anywhere() -> None:
    """One line, no control characters, and its first letter answers no question."""
    told = brief([BriefedCall("Bash", "echo '\x1b[2J'\nrm -rf `x`", 1.0)])
    assert told.startswith("W")
    assert told.isprintable()
    assert prompt_problem(told, 10_000) is None


def test_a_brief_keeps_secrets_and_its_length() -> None:
    """Credentials do not come back through it, and of many calls the rest is counted."""
    call = BriefedCall("Bash", "curl -H 'Authorization: Bearer sk-ant-0123456789abcdef'")
    told = brief([call] * (CALLS_NAMED_MAX + 3))
    assert "0123456789abcdef" not in told
    assert "; and 3 more." in told
    assert len(told) < 2000


def test_a_brief_without_calls_says_so() -> None:
    """For an agent that died while it thought, the brief says that nothing is known to have run."""
    assert "No call is known to have been running" in brief([])


@pytest.mark.parametrize("prompt", ["hello", "a\n\tb", "é" * 50, "  x  ", "/compact", "-p", "👩‍💻 ok"])
def test_what_a_person_writes_is_fit(prompt: str) -> None:
    """Words in any script, lines and tabs."""
    assert prompt_problem(prompt, 100) is None


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("x" * 101, "longer"),
        ("é" * 51, "longer"),
        ("a\x1b[31m", "U\\+001B"),
        ("a\rb", "U\\+000D"),
        ("a\0", "U\\+0000"),
        ("a\x7f", "U\\+007F"),
        ("a\x9b31m", "U\\+009B"),
        ("a\ud800", "U\\+D800"),
    ],
)
def test_what_no_person_means_is_refused_and_named(prompt: str, reason: str) -> None:
    """Nothing is stripped silently."""
    unfitness = prompt_problem(prompt, 100)
    assert unfitness is not None
    assert re.search(reason, unfitness)
