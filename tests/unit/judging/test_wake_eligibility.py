"""Claims about who may be woken: one reason for every combination of facts, by one order of precedence."""

from itertools import product

from wakeful.judging.findings import Health
from wakeful.judging.wake_eligibility import (
    RULES,
    IneligibilityReason,
    PolicyState,
    Reachability,
    WakeFacts,
    ineligibility,
)

FLAGS = (False, True)
READY = WakeFacts(reach=Reachability(ours=True, path_open=True), health=Health.HEALTHY)


def every_combination() -> list[WakeFacts]:
    """Each fact with each of its values, all of them together."""
    return [
        WakeFacts(
            found=found,
            reach=Reachability(ours, path_open, enabled),
            policy=policy,
            health=health,
            active_prompt=active,
            waking=waking,
            quiet=quiet,
            cooling=cooling,
            cycle_spent=spent,
            raced=raced,
            failed=failed,
        )
        for found, ours, path_open, enabled, active, waking, quiet, cooling, spent, raced, failed in product(
            FLAGS, repeat=11
        )
        for policy in PolicyState
        for health in Health
    ]


def by_hand(facts: WakeFacts) -> str | None:
    """The documented order written out once more, as a person would read it aloud."""
    if not facts.found:
        return "session_not_found"
    if not facts.reach.ours:
        return "session_not_attachable"
    if facts.policy == "disabled" or not facts.reach.enabled:
        return "heartbeat_disabled"
    if facts.policy == "invalid":
        return "heartbeat_invalid"
    if facts.policy == "missing":
        return "heartbeat_no_policy"
    if facts.health != "healthy":
        return "session_unhealthy"
    if facts.active_prompt:
        return "session_prompt_active"
    if not facts.reach.path_open:
        return "session_not_attachable"
    passing = {
        "wake_coalesced": facts.waking,
        "quiet_window": facts.quiet,
        "cooldown_active": facts.cooling,
        "heartbeat_rate_limited": facts.cycle_spent,
        "session_prompt_active_race": facts.raced,
        "synthetic_prompt_failed": facts.failed,
    }
    return next((reason for reason, holds in passing.items() if holds), None)


def test_the_whole_truth_table() -> None:
    """All 40,960 combinations of facts have the answer of the documented order, and every reason is given by some."""
    table = {facts: ineligibility(facts) for facts in every_combination()}
    assert len(table) == 2**11 * 4 * 5
    assert [facts for facts, reason in table.items() if reason != by_hand(facts)] == []
    assert set(table.values()) == {None, *IneligibilityReason}


def test_the_reasons_are_the_closed_thirteen() -> None:
    """Thirteen, closed, by their names."""
    assert len(IneligibilityReason) == 13
    assert {rule.reason for rule in RULES} == set(IneligibilityReason)
    assert len({rule.text for rule in RULES}) == len(RULES), "each refusal names its rule"


def test_one_combination_alone_is_eligible() -> None:
    """Found, managed, reachable, healthy, idle, with a policy in force and no refusing rule."""
    assert [facts for facts in every_combination() if ineligibility(facts) is None] == [READY]
