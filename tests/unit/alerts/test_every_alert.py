"""Claims about every alert: a problem has all six parts within eight lines, and no alert escapes a mute.

A new kind of alert is missing in SITES and in the documentation's examples until it is added there.
"""

import ast
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from bench.alert_examples import EXAMPLES, incident_of, trouble_of

import wakeful
from wakeful.alerts.model import (
    LINES_MAX,
    AlertBody,
    AlertCode,
    Topic,
    format_alert,
    incident_text,
    late_text,
    with_pause_line,
)
from wakeful.alerts.mute_pause_model import CODES, Mute, MuteKind
from wakeful.healing.plan import HealingDecision, HealingStep
from wakeful.incidents.model import Cause, MemberStatus
from wakeful.judging.findings import FindingCode

HEADS = ["Where", "Since", "Action", "Until you act"]
# Every place where an alert is made, and how many are made there.
SITES = {
    "healing/notifier.py": 1,
    "alerts/notifier.py": 1,
    "healing/disk.py": 1,
    "alerts/failed_parts.py": 1,
    "alerts/refused_decisions.py": 1,
    "checkpoints/service.py": 1,
    "alerts/attention.py": 2,
    "work/expiry.py": 1,
    "watchdog/notifications.py": 3,
    "agents/stale_alerts.py": 1,
    "journal/alerts.py": 1,
    "daemon/healing.py": 1,
}
# They ask about mutes with the session's record before they owe anything.
ASK_FIRST = {"healing/notifier.py": 1, "alerts/attention.py": 2}
# Of the calls of `raise_alert`, the argument that says what mutes it.
TOPIC_ARGUMENT = 2
# Questions, finished turns and ends: no problems, and shorter.
CALM = {
    "A question in a terminal",
    "A question without a terminal",
    "A turn is finished",
    "A session recovered",
    "A session is gone",
    "An incident is resolved",
    # One message for many alerts, each of which says them.
    "Many problems at once",
}


def calls(name: str) -> dict[str, list[ast.Call]]:
    """Where a class or a method is called, by module."""
    root = Path(wakeful.__file__).parent
    found: dict[str, list[ast.Call]] = {}
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and name in (
                getattr(node.func, "id", ""),
                getattr(node.func, "attr", ""),
            ):
                found.setdefault(str(path.relative_to(root)), []).append(node)
    return found


def complete(text: str) -> bool:
    """Whether it says what, where, since when, what was done, what comes of doing nothing, and one command."""
    *_, what, where, since, did, otherwise, command = text.splitlines()
    said = [line.partition(": ") for line in (where, since, did, otherwise)]
    return (
        len(text.splitlines()) < LINES_MAX
        and bool(what)
        and ["Action" if head == "No action" else head for head, _, _ in said] == HEADS
        and all(rest for _, _, rest in said)
        and command.startswith("→ ")
    )


def test_alerts_are_made_where_the_table_says() -> None:
    """Each carries the topic it can be muted by, unless its sender checks mutes itself."""
    made = calls("raise_alert")
    assert {module: len(found) for module, found in made.items()} == SITES
    for module, found in made.items():
        topics = [each.args[TOPIC_ARGUMENT] for each in found]
        bare = [each for each in topics if isinstance(each, ast.Constant) and each.value is None]
        assert len(bare) == ASK_FIRST.get(module, 0), module


def test_only_the_notifier_makes_alerts() -> None:
    """The outbox makes one itself: that there was no room for more."""
    assert {module: len(found) for module, found in calls("Alert").items()} == {
        "alerts/notifier.py": 1,
        "alerts/outbox.py": 1,
    }


def test_every_news_names_its_command() -> None:
    """Only a program without a daemon strikes it out."""
    for module, found in calls("News").items():
        assert all(any(word.arg == "command" for word in each.keywords) for each in found), module


@pytest.mark.parametrize("title", [each for each in EXAMPLES if each not in CALM])
def test_an_example_of_trouble_says_all_six_things(title: str) -> None:
    """Each in its line; a pause comes first and the whole is read at a glance."""
    text = EXAMPLES[title]()
    assert complete(text)
    if title != "Died while paused":
        assert len(with_pause_line(late_text(text, 0.0), "ada@tower").splitlines()) <= LINES_MAX


@pytest.mark.parametrize(("code", "step"), [*product(FindingCode, HealingStep)])
def test_any_trouble_of_a_session_is_complete(code: FindingCode, step: HealingStep) -> None:
    """Whatever was found and whatever is done about it."""
    for given_up, managed in product((False, True), repeat=2):
        text = trouble_of(code, HealingDecision(step, "a reason"), managed=managed, given_up=given_up)
        assert complete(text)


def test_what_is_only_put_off_is_not_said_to_stay() -> None:
    """The limiter releases by itself, and postponed sessions get their turn then."""
    braked = HealingDecision(HealingStep.NOTIFY, "too many revivals failed lately", 600.0)
    text = trouble_of(FindingCode.SESSION_DEAD, braked, managed=True, given_up=False)
    assert "Until you act: Wakeful checks again in 10 min" in text


@pytest.mark.parametrize(("cause", "fate"), [*product(Cause, MemberStatus)])
def test_any_incident_is_complete(cause: Cause, fate: MemberStatus) -> None:
    """Whatever it is about, whatever became of those in it, with one in it and with many."""
    for names in ("api", "api docs web"):
        assert complete(incident_text(incident_of(cause, fate, names)))


def test_news_without_words_are_no_news() -> None:
    """An empty line would be left out without notice."""
    said: dict[str, Any] = {"what": "a", "where": "b", "since": 0.0, "did": "c", "otherwise": "d"}
    assert complete(format_alert(AlertBody(**said, command="e")))
    for name in ("what", "where", "did", "otherwise"):
        with pytest.raises(AssertionError):
            AlertBody(**said | {name: " "})


@pytest.mark.parametrize("matter", AlertCode)
def test_what_is_no_finding_can_be_muted_too(matter: AlertCode) -> None:
    """A program's journal, a checkpoint, a work, an issue that could not be filed: by its code, whatever its project."""
    assert matter in CODES
    mute = Mute(MuteKind.CODE, matter, 10.0, "ada")
    assert mute.covers(None, None, Topic((matter,)).codes)
