"""One example of every kind of alert, made by the functions that make the real ones. `docs/reference/alerts.md` shows them.

Sessions and times are invented; no word of a message is.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from wakeful.agents.auto_restart import given_up_news
from wakeful.agents.model import AgentRecord, AgentRuntime, AgentState
from wakeful.alerts.digest import digest_text
from wakeful.alerts.model import (
    Alert,
    AlertKind,
    Gist,
    News,
    checkpoint_opened,
    failure_news,
    finished,
    forge_news,
    incident,
    needs_you,
    prefaced,
    question_of,
    refusal_news,
    resolved,
    text_of,
)
from wakeful.alerts.pending import owed
from wakeful.core.clock import Instant, iso
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.leases import Work, WorkId
from wakeful.core.process import Sight
from wakeful.daemon.healing import KEPT_FOR_LATER
from wakeful.healing.disk import disk_news
from wakeful.healing.plan import Decision, Step
from wakeful.healing.trouble import WORKS_AGAIN, Trouble, trouble_text
from wakeful.incidents.critical_event import ActionTaken, Happening
from wakeful.incidents.model import Cause, Fate, Incident, Member, did_words, words_of
from wakeful.journal.alerts import journal_news
from wakeful.journal.recovery_rules import Recovered, Status
from wakeful.journal.recovery_watch import Sighting
from wakeful.judging.activity import Activity
from wakeful.judging.available_actions import Action, ActionName
from wakeful.judging.evidence import Presence, Rung, Subject
from wakeful.judging.findings import Attention, Code, ExpectedWait, Finding, Health, State, Verdict, WaitKind
from wakeful.judging.session_record import SessionRecord, describe
from wakeful.watchdog.notifications import QueueEpisode, lost_news
from wakeful.watchdog.queue_health import NO_WORKER, stalled_news, unrouted_news
from wakeful.work.expiry import lease_news

_WALL: Final = 1_800_000_000.0
_NOW: Final = Instant(0.0, _WALL)
_ID: Final = SessionId("claude-3f2a91bc")
_RESUMED: Final = "resumed its conversation: recovered (its turn began)"


def _record(
    *, managed: bool = True, name: str | None = "api", alive: bool = False, **changes: object
) -> SessionRecord:
    verdict = Verdict(
        state=State.PROMPTING if alive else State.STOPPED,
        health=Health.HEALTHY,
        agent=Sight.ALIVE if alive else Sight.DEAD,
        active_prompt=False,
        attention=Attention.NONE,
        findings=(),
        waits=(),
        alive_to=Rung.HOST,
        broken_at=None,
        next_check_at=None,
    )
    subject = Subject(
        _ID, "claude", "tower", "claude-code", ConversationId("3f2a91bc"), managed=managed, name=name
    )
    shown = replace(verdict, **changes)
    return describe(subject, Activity(cwd="/home/me/shop"), Presence(), shown, _NOW)


def _found(code: Code, summary: str, said: str = "") -> tuple[Finding, ...]:
    return (Finding(code, _NOW, summary, untrusted=(said,) if said else ()),)


def _asking(said: str, *, in_pane: bool) -> str:
    wait = ExpectedWait(WaitKind.PERSON, _NOW, None, "a question is open", said)
    record = _record(alive=True, state=State.WAITING, waits=(wait,))
    if in_pane:
        attach = Action(ActionName.ATTACH, allowed=True, reason="", argv=(), reversible=True)
        record = replace(record, actions=(*record.actions, attach))
    question = question_of(record)
    assert question is not None, "it asks"
    return needs_you(record, question)


_DIED: Final = _found(Code.SESSION_DEAD, "died in the middle of a turn")
_SILENT: Final = _found(Code.SILENT, "silent for 10 min", "Bash make test")


def _trouble(
    findings: tuple[Finding, ...],
    decision: Decision,
    *,
    managed: bool = True,
    alive: bool = False,
    paused_by: str | None = None,
    **known: object,
) -> str:
    trouble = Trouble(
        session_id=_ID,
        work=f"{_ID}@1",
        project="shop",
        code=findings[0].code,
        opened_at=_WALL,
        code_since=_WALL,
    )
    record = _record(managed=managed, alive=alive, findings=findings)
    return trouble_text(replace(trouble, **known), record, decision, mode="mine", paused_by=paused_by)


def _incident(cause: Cause, scope: str, *members: Member, did: str = "") -> Incident:
    inside = tuple(each.id for each in members if each.is_in)
    return Incident(
        id="i-1",
        cause=cause,
        scope=scope,
        opened_at=_WALL,
        updated_at=_WALL,
        resolved_at=None if inside else _WALL,
        sessions=inside,
        summary="died in the middle of a turn",
        did=did,
        affected=len(members),
        members=members,
    )


def _members(names: str, fate: Fate, words: str, *, out: bool = False) -> list[Member]:
    left_at = _WALL if out else None
    return [
        Member(SessionId(f"claude-{name}"), f"{name} (shop)", fate, words, left_at) for name in names.split()
    ]


_SOCKET: Final = "/run/user/1000/wakeful/tmux.sock"
_SERVER: Final = _incident(
    Cause.TMUX_SERVER,
    _SOCKET,
    *_members("api docs web", Fate.REVIVED, _RESUMED, out=True),
    *_members("notes", Fate.LEFT_ALONE, "nothing (it was found, not handed over)"),
)
_OVER: Final = _incident(Cause.SESSION, _ID, *_members("api", Fate.REVIVED, _RESUMED, out=True), did=_RESUMED)
_OUTAGE: Final = _incident(
    Cause.NETWORK, "tower", *_members("api docs", Fate.REVIVED, "told it to go on: recovered", out=True)
)

_QUEUE: Final = "redis://localhost:6379/0"
_STALLED: Final = QueueEpisode(Happening.QUEUE_STALLED, "shop", _WALL)
_UNROUTED: Final = QueueEpisode(Happening.MESSAGE_UNROUTED, "shop", _WALL)
_AGENT: Final = AgentRecord(
    id="bot",
    name="bot",
    runtime=AgentRuntime.TMUX,
    state=AgentState.STALE,
    session_alive=False,
    pid=None,
    container_id=None,
    tmux_session="agent-bot",
    tmux_socket=_SOCKET,
    epoch=2,
    since=iso(_WALL),
    reason="the agent exited to a shell",
    session_id=_ID,
)
_RECOVERED: Final = Recovered(Status.OK, None, "t-1", "publish", (), (), (), None, None, "timeline", ())


def _lease(action: ActionTaken) -> News:
    work = Work(
        id=WorkId("w-1"), prompt="fix the build", project="shop", session_id=_ID, context="", created_at=_WALL
    )
    did = (
        "queued it once more as w-1-again"
        if action is ActionTaken.REVIVAL_ATTEMPTED
        else "gave up: it failed again after it was revived"
    )
    return lease_news(work, "its lease ended", action, did, _WALL)


def _journal(recovered: Recovered | None) -> str:
    root = "/home/me/shop"
    words = f"{root}: stale; pid 41 has the journal and wrote nothing since {iso(_WALL)}"
    if recovered is not None:
        words = f"{root}: its program was cut off: {recovered.status}"
    return text_of(journal_news(Sighting(root, recovered, None if recovered else 41, words), _WALL))


def _digest(count: int) -> str:
    """A message for many alerts, a third of which are about another finding and another project."""
    gists = [
        Gist(f"s{each}", "docs" if each % 3 else "shop", Code.SILENT if each % 3 else Code.LOOP)
        for each in range(count)
    ]
    alerts = [Alert(AlertKind.TROUBLE, each.name, "", gist=each) for each in gists]
    return digest_text([owed(each, "", (), _WALL) for each in alerts])


def trouble_of(code: Code, decision: Decision, *, managed: bool, given_up: bool) -> str:
    """The message about any trouble of a session."""
    return _trouble(_found(code, "a summary"), decision, managed=managed, given_up=given_up)


def incident_of(cause: Cause, fate: Fate, names: str) -> Incident:
    """Any incident with sessions of these names in it."""
    return _incident(cause, "a scope", *_members(names, fate, "some words"))


EXAMPLES: Final[Mapping[str, Callable[[], str]]] = {
    "A question in a terminal": lambda: _asking(
        'permission prompt: Bash {"command": "rm -r build"}', in_pane=True
    ),
    "A question without a terminal": lambda: _asking('Bash {"command": "rm -r build"}', in_pane=False),
    "A turn is finished": lambda: finished(_record(alive=True)),
    "Died, and was brought back": lambda: _trouble(
        _DIED,
        Decision(Step.RESUME, "its conversation can go on"),
        did=f"{_RESUMED}; {WORKS_AGAIN}",
        revival_seen=True,
    ),
    "Died, in a session that was only found": lambda: _trouble(
        _DIED, Decision(Step.NOTIFY, "it was found, not handed over"), managed=False
    ),
    "Died, and its folder is gone": lambda: _trouble(
        _DIED, Decision(Step.NOTIFY, "its working directory is gone")
    ),
    "Died while paused": lambda: prefaced(
        _trouble(_DIED, Decision(Step.NOTIFY, "PAUSED by ada@tower"), paused_by="ada@tower"), "ada@tower"
    ),
    "Cut off inside a call that may have had effects elsewhere": lambda: _trouble(
        _DIED,
        Decision(Step.HOLD, "a call was cut off that may have had effects elsewhere"),
        checkpoint=3,
        did="held it: a call was cut off that may have had effects elsewhere (checkpoint 3)",
    ),
    "Given up": lambda: _trouble(
        _SILENT,
        Decision(Step.GIVE_UP, "it failed again after it was revived"),
        alive=True,
        given_up=True,
        did=f"{_RESUMED}; then gave up: it failed again after it was revived",
    ),
    "A tmux server ended under four sessions": lambda: incident(_SERVER),
    "A login is lost under many": lambda: incident(
        _incident(
            Cause.AUTH,
            "claude",
            *_members("api docs web shop bank", Fate.LEFT_ALONE, "nothing (auth_required needs a person)"),
        )
    ),
    "Many sessions end at once": lambda: incident(
        _incident(
            Cause.MANY_DEATHS,
            "tower",
            *_members("api docs " * 12, Fate.LEFT_ALONE, "nothing (not managed by Wakeful)"),
        )
    ),
    "Many problems at once": lambda: _digest(64),
    "A container engine cannot be asked": lambda: incident(
        _incident(
            Cause.ENGINE,
            "unix:///var/run/docker.sock",
            *(
                replace(each, name="agent bot")
                for each in _members("bot", Fate.UNSEEN, "nothing (the engine does not answer)")
            ),
            did="nothing (the engine does not answer)",
        )
    ),
    "An agent of the hub is given up": lambda: text_of(given_up_news(_AGENT, _WALL)),
    "A work's lease ended, and it was queued once more": lambda: text_of(
        _lease(ActionTaken.REVIVAL_ATTEMPTED)
    ),
    "A work's lease ended, and it is given up": lambda: text_of(_lease(ActionTaken.NONE)),
    "A queue does not move": lambda: text_of(
        stalled_news(_STALLED, "shop: 3 jobs wait for up to 6 min, and none runs", _QUEUE, NO_WORKER)
    ),
    "Nobody serves a project": lambda: text_of(
        unrouted_news(_UNROUTED, "shop: 1 message waits, and nobody serves this project", _QUEUE)
    ),
    "A queue cannot be looked at": lambda: text_of(
        lost_news(_incident(Cause.QUEUE, _QUEUE), "Redis does not answer: connection refused")
    ),
    "The disk is full": lambda: text_of(
        disk_news(_incident(Cause.DISK, "tower"), "512 KiB are left for /home/me/state", "/home/me/state")
    ),
    "Issues cannot be filed": lambda: text_of(
        forge_news("gh is logged out", "tower", _WALL, did=KEPT_FOR_LATER)
    ),
    "A part of Wakeful is down": lambda: text_of(
        failure_news("claude-registry", "OSError: too many open files", "tower", _WALL)
    ),
    "A decision was refused": lambda: text_of(
        refusal_news(
            "claude-3f2a91bc-5d1e-4c55-9c8e-2f6b9f0a7e11",
            "POST /api/sessions/3f2a91bc/revive",
            "agent-may-not-decide",
            "wakeful session revive 3f2a91bc --yes",
            _WALL,
        )
    ),
    "A program's journal was settled": lambda: _journal(_RECOVERED),
    "A program's journal could not be settled": lambda: _journal(
        replace(_RECOVERED, status=Status.REQUIRED_ROLLBACK)
    ),
    "A program is silent": lambda: _journal(None),
    "A program's journal waits for a decision": lambda: checkpoint_opened(
        "shop",
        where="journal /home/me/shop",
        since=iso(_WALL),
        doubt="step publish, attempt 1",
        number=4,
    ),
    "One session is well again": lambda: resolved(words_of(_OVER), iso(_WALL), did=did_words(_OVER)),
    "A session is gone": lambda: resolved(
        words_of(_OVER), iso(_WALL), because="its session is gone, and so is its log", well=False
    ),
    "An incident is over": lambda: resolved(words_of(_OUTAGE), iso(_WALL), did=did_words(_OUTAGE)),
}
