"""Resilience is proven for both providers, or a test says why one is enough."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from wakeful.integrations.providers import NAMES

# The rules, and the watches that use them; with the real clients both go through the rounds of test_gateway.py.
MODULES = (
    "control/test_login",
    *(f"gateway/test_{name}" for name in ("breaker", "errors", "api", "self_heal", "host_monitor")),
)
# Turns through a whole gateway: all of them are run for each, and none names one.
WHOLE = ("gateway/test_stop_turn", "gateway/test_turn_runner")
ONE_IS_ENOUGH = {
    "test_claudes_status_degrades_and_brings_back": "only its status says that there are no credentials",
    "test_claude_logged_out_and_in_again_after_a_refusal_is_good": "the same",
    "test_codexs_status_alone_never_degrades": "only its status says so where another provider needs no login",
    "test_an_alert_that_did_not_arrive_is_told_later_once": "entered by a status, which is believed of one only",
}


Claim = ast.FunctionDef | ast.AsyncFunctionDef


def source_of(module: str) -> ast.Module:
    return ast.parse((Path(__file__).parents[1] / f"{module}.py").read_text())


def claims_of(module: str) -> Iterator[Claim]:
    for node in source_of(module).body:
        if isinstance(node, Claim) and node.name.startswith("test_"):
            yield node


def named_in(test: Claim) -> set[str]:
    """The providers a test speaks of, alone or as the beginning of a session's name."""
    words = (node.value for node in ast.walk(test) if isinstance(node, ast.Constant))
    return {name for word in words if isinstance(word, str) for name in NAMES if word.startswith(name)}


def is_for_both(test: Claim) -> bool:
    return "provider" in {argument.arg for argument in test.args.args} or named_in(test) >= {
        "claude",
        "codex",
    }


@pytest.mark.parametrize("module", MODULES)
def test_resilience_is_claimed_for_both_providers(module: str) -> None:
    """A test that names one provider names the other one too, is run for each, or is excused with a reason."""
    alone = {each.name for each in claims_of(module) if named_in(each) and not is_for_both(each)}
    assert alone <= ONE_IS_ENOUGH.keys(), sorted(alone - ONE_IS_ENOUGH.keys())


@pytest.mark.parametrize("module", WHOLE)
def test_turns_are_run_for_each_provider(module: str) -> None:
    """By one mark on the whole module, and no claim in it is about one of them alone."""
    marks = [ast.unparse(each) for each in source_of(module).body if isinstance(each, ast.Assign)]
    assert "pytestmark = pytest.mark.usefixtures('provider')" in marks
    assert [each.name for each in claims_of(module) if named_in(each)] == []


def test_no_excuse_outlives_its_test() -> None:
    """A renamed test needs a renamed excuse."""
    assert ONE_IS_ENOUGH.keys() <= {each.name for module in MODULES for each in claims_of(module)}
