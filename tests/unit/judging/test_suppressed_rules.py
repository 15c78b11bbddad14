"""Rules held back: each with what holds it, as `why` lists them, and gone once the rule speaks."""

from collections.abc import Sequence

import pytest

from support.judging_helpers import POLICY, at, codes, folded, held, told
from wakeful.core.clock import Instant, Sleep
from wakeful.judging import events as e
from wakeful.judging.evidence import ClientStatus, RuntimeState
from wakeful.judging.findings import FindingCode, WaitKind
from wakeful.judging.judge import detector_input, judge
from wakeful.judging.suppressed_rules import SuppressedRule, suppressed_rules

PROMPT = e.Prompted(1.0)
AFTER_A_NIGHT = Instant(70.0, 30_070.0)


def held_at(
    events: Sequence[e.Event], now: float | Instant, presence: RuntimeState | None = None
) -> dict[FindingCode, SuppressedRule]:
    """Every rule held back at `now`, by its code."""
    activity, presence = folded(events), presence or held()
    moment = now if isinstance(now, Instant) else at(now)
    verdict = judge(activity, presence, POLICY, moment)
    facts = detector_input(activity, presence, POLICY, moment)
    return {each.code: each for each in suppressed_rules(facts, frozenset(codes(verdict)))}


def polled(command: bytes, rounds: int) -> list[e.Event]:
    events: list[e.Event] = [PROMPT]
    for number in range(rounds):
        made = 10.0 + 20.0 * number
        events += [
            e.CallStarted(made, f"{number}", "Bash", input=command),
            e.CallEnded(made + 1.0, f"{number}", result=b'"same"'),
        ]
    return events


def failed(failure: e.Failure, words: str = "no") -> list[e.Event]:
    return [
        event
        for number in range(4)
        for event in (e.Prompted(10.0 * number), e.TurnFailed(10.0 * number + 1.0, failure, words))
    ]


SLEPT = held()
SLEPT.slept = Sleep(at(40.0), Instant(41.0, 30_041.0))


@pytest.mark.parametrize(
    ("code", "events", "now", "presence", "by"),
    [
        (
            FindingCode.SILENT,
            [PROMPT, e.CallStarted(2.0, "a", "Bash", timeout_seconds=1800.0)],
            842.0,
            None,
            "tool",
        ),
        (FindingCode.SILENT, [PROMPT, e.QuestionAsked(2.0, "Bash")], 842.0, None, "person"),
        (FindingCode.SILENT, [PROMPT], AFTER_A_NIGHT, SLEPT, "sleep"),
        (
            FindingCode.TOOL_WEDGED,
            [PROMPT, e.CallStarted(2.0, "a", "Bash", timeout_seconds=30.0)],
            90.0,
            None,
            "tool",
        ),
        (
            FindingCode.TOOL_WEDGED,
            [PROMPT, e.CallStarted(2.0, "a", "Edit", enforced=True), e.QuestionAsked(3.0, "Edit")],
            700.0,
            None,
            "person",
        ),
        (FindingCode.LOOP, polled(b'{"command":"sleep 9; cat log"}', 6), 130.0, None, "poll"),
        (FindingCode.ERROR_CASCADE, [PROMPT, *[e.RequestRetried(2.0)] * 6], 30.0, None, "retry"),
        (FindingCode.POISONED_CONVERSATION, failed(e.Failure.AUTH), 60.0, None, "login"),
        (FindingCode.POISONED_CONVERSATION, failed(e.Failure.LIMIT), 60.0, None, "limit"),
        (FindingCode.POISONED_CONVERSATION, failed(e.Failure.PROVIDER), 60.0, None, "outage"),
        (
            FindingCode.POISONED_CONVERSATION,
            failed(e.Failure.UNKNOWN, "Unable to connect to API (ECONNREFUSED)"),
            60.0,
            None,
            "outage",
        ),
        (
            FindingCode.NEVER_STARTED,
            [],
            130.0,
            told(ClientStatus.WAITING, 1.0, "trust this folder"),
            "person",
        ),
        (
            FindingCode.RUNAWAY,
            [PROMPT, e.QuestionAsked(2.0, "Bash"), e.QuestionAnswered(9000.0)],
            9001.0,
            None,
            "pauses",
        ),
    ],
    ids=lambda value: value if isinstance(value, FindingCode | str) else "",
)
def test_a_rule_is_held_back_by_what_its_detector_waits_for(
    code: FindingCode, events: list[e.Event], now: float | Instant, presence: RuntimeState | None, by: str
) -> None:
    """One rule and one reason each, with words for a person."""
    found = held_at(events, now, presence)[code]
    assert found.by == by
    assert found.evidence


def test_a_rule_that_speaks_is_not_held_back() -> None:
    """The waits are over: the same sessions are accused, and nothing is left to be held back."""
    poll = polled(b'{"command":"sleep 9; cat log"}', 100)
    assert FindingCode.LOOP not in held_at(poll, 2001.0)
    assert FindingCode.SILENT not in held_at([PROMPT], 700.0)
    assert FindingCode.ERROR_CASCADE not in held_at([PROMPT, *[e.RequestRetried(2.0)] * 6], 700.0)
    assert FindingCode.POISONED_CONVERSATION not in held_at(failed(e.Failure.REQUEST), 60.0)


def test_nothing_is_held_back_in_a_session_at_work() -> None:
    """A rule that would not speak anyway is none that is held back."""
    assert held_at([PROMPT, e.CallStarted(2.0, "a", "Bash", timeout_seconds=120.0)], 60.0) == {}
    assert held_at([PROMPT, e.TurnEnded(5.0)], 9999.0) == {}
    assert held_at([PROMPT, e.RequestRetried(2.0)], 30.0) == {}


def test_a_poll_inside_a_cycle_holds_the_loop_back_until_its_time() -> None:
    """A cycle of a build and a poll: said with the moment at which it becomes a loop."""
    events: list[e.Event] = [PROMPT]
    for number, command in enumerate([b'{"command":"make"}', b'{"command":"sleep 9; cat log"}'] * 4):
        made = 10.0 + 20.0 * number
        events += [
            e.CallStarted(made, f"{number}", "Bash", input=command),
            e.CallEnded(made + 1.0, f"{number}", result=b'"same"'),
        ]
    found = held_at(events, 200.0)[FindingCode.LOOP]
    assert (found.by, found.until) == ("poll", at(10.0 + POLICY.poll_seconds))


def test_a_wait_that_holds_a_rule_is_told_with_its_call() -> None:
    """The call is untrusted text and is kept apart from Wakeful's."""
    events = [PROMPT, e.CallStarted(2.0, "a", "Bash", input=b'{"command":"make"}', timeout_seconds=1800.0)]
    found = held_at(events, 842.0)[FindingCode.SILENT]
    assert (found.by, found.until, found.untrusted) == (WaitKind.TOOL, at(1832.0), 'Bash {"command":"make"}')
