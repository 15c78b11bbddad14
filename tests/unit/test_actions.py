"""Claims about what a record offers: a closed list, each act with its command, and why not where it may not be done."""

from msgspec.structs import replace

from folding import POLICY, at, folded, held
from wakeful.domain import events as e
from wakeful.domain.actions import Action, ActionName, possible_actions
from wakeful.domain.evidence import Presence
from wakeful.domain.ids import ConversationId, SessionId
from wakeful.domain.judge import judge
from wakeful.domain.process import Sight
from wakeful.domain.subject import Subject

FOUND = Subject(SessionId("claude-x"), "claude", "box", "claude-transcripts", ConversationId("x"))
MANAGED = replace(FOUND, managed=True)
PROMPT = e.Prompted(1.0)


def offered(
    subject: Subject, *events: e.Event, now: float = 9.0, presence: Presence | None = None
) -> dict[ActionName, Action]:
    presence = presence if presence is not None else held()
    activity = folded([PROMPT, *events])
    verdict = judge(activity, presence, POLICY, at(now))
    return {each.name: each for each in possible_actions(subject, activity, presence, verdict, verdict.state)}


def gone() -> Presence:
    return held(Sight.DEAD, ended_at=at(8.0))


def test_a_dead_managed_session_may_be_revived() -> None:
    """With the command that does it."""
    revive = offered(MANAGED, presence=gone())[ActionName.REVIVE]
    assert revive.allowed
    assert revive.argv == ("wakeful", "session", "revive", "claude-x")
    assert not revive.reversible


def test_what_a_revival_does_not_help_says_what_does() -> None:
    """A limit needs time, a login a person, a session that is well nothing at all, and a stop is final."""
    limited = offered(MANAGED, e.TurnFailed(2.0, e.Failure.LIMIT, "limit"))[ActionName.REVIVE]
    login = offered(MANAGED, e.TurnFailed(2.0, e.Failure.AUTH, "login"))[ActionName.REVIVE]
    well = offered(MANAGED)[ActionName.REVIVE]
    stopped = gone()
    stopped.stopped = True
    final = offered(MANAGED, presence=stopped)[ActionName.REVIVE]
    assert [(each.allowed, each.reason) for each in (limited, login, well, final)] == [
        (False, "only time helps"),
        (False, "it needs a login"),
        (False, "nothing is wrong with it"),
        (False, "a person stopped it, which is final"),
    ]


def test_nobody_is_offered_what_is_not_theirs_to_act_on() -> None:
    """A found session is handed over first; one of the hub is restarted by its agent."""
    found = offered(FOUND, presence=gone())
    hosted = offered(replace(FOUND, agent="bot"), presence=gone())
    assert ActionName.REVIVE not in found.keys() | hosted.keys()
    assert found[ActionName.ADOPT].allowed
    assert hosted[ActionName.RESTART].argv == ("wakeful", "agent", "restart-session", "bot")


def test_whom_nobody_saw_is_not_revived() -> None:
    """Unknown never authorises anything that cannot be undone."""
    silent = offered(MANAGED, now=9_000.0, presence=Presence())
    assert not silent[ActionName.REVIVE].allowed
