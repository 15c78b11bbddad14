"""One example of every kind of alert, made by the functions that make the real ones. `docs/reference/alerts.md` shows them.

Sessions and times are invented; no word of a message is.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from wakeful.agents.model import AgentRecord, AgentRuntime, AgentState
from wakeful.agents.stale_alerts import given_up_alert, left_stale_alert
from wakeful.alerts.digest import digest_text
from wakeful.alerts.model import (
    Alert,
    AlertBody,
    AlertKind,
    DigestEntry,
    checkpoint_text,
    failed_part_alert,
    finished_text,
    format_alert,
    incident_text,
    issue_tracker_alert,
    needs_you_text,
    question_of,
    refused_decision_alert,
    resolved_text,
    with_pause_line,
)
from wakeful.alerts.pending import new_pending_alert
from wakeful.core.clock import Instant, iso
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.leases import WorkId, WorkItem
from wakeful.core.process import ProcessState
from wakeful.daemon.healing import SAVED_FOR_LATER
from wakeful.healing.case import WORKS_AGAIN, HealingCase, case_alert_text
from wakeful.healing.disk import disk_alert
from wakeful.healing.plan import HealingDecision, HealingStep
from wakeful.incidents.critical_event import ActionTaken, CriticalEventKind
from wakeful.incidents.model import Cause, Incident, Member, MemberStatus, actions_text, summary_of
from wakeful.journal.alerts import journal_alert_body
from wakeful.journal.recovery_rules import RecoveryResult, RecoveryStatus
from wakeful.journal.recovery_watch import JournalWatchReport
from wakeful.judging.activity import Activity
from wakeful.judging.available_actions import ActionName, AvailableAction
from wakeful.judging.evidence import LivenessLevel, RuntimeState, SessionIdentity
from wakeful.judging.findings import (
    Attention,
    ExpectedWait,
    Finding,
    FindingCode,
    Health,
    State,
    Verdict,
    WaitKind,
)
from wakeful.judging.session_record import SessionRecord, build_record
from wakeful.watchdog.notifications import QueueEpisode, unreachable_alert_body
from wakeful.watchdog.queue_health import NO_WORKER, stalled_alert_body, unrouted_alert_body
from wakeful.work.expiry import lease_alert

_WALL: Final = 1_800_000_000.0
_NOW: Final = Instant(0.0, _WALL)
_ID: Final = SessionId("claude-3f2a91bc")
_RESUMED: Final = "resumed its conversation (its turn began)"


def _record(
    *, managed: bool = True, name: str | None = "api", alive: bool = False, **changes: object
) -> SessionRecord:
    verdict = Verdict(
        state=State.PROMPTING if alive else State.STOPPED,
        health=Health.HEALTHY,
        agent=ProcessState.ALIVE if alive else ProcessState.DEAD,
        active_prompt=False,
        attention=Attention.NONE,
        findings=(),
        waits=(),
        alive_to=LivenessLevel.HOST,
        broken_at=None,
        next_check_at=None,
    )
    identity = SessionIdentity(
        _ID, "claude", "tower", "claude-code", ConversationId("3f2a91bc"), managed=managed, name=name
    )
    shown = replace(verdict, **changes)
    return build_record(identity, Activity(cwd="/home/me/shop"), RuntimeState(), shown, _NOW)


def _found(code: FindingCode, summary: str, said: str = "") -> tuple[Finding, ...]:
    return (Finding(code, _NOW, summary, untrusted=(said,) if said else ()),)


def _asking(said: str, *, in_pane: bool) -> str:
    wait = ExpectedWait(WaitKind.PERSON, _NOW, None, "a question is open", said)
    record = _record(alive=True, state=State.WAITING, waits=(wait,))
    if in_pane:
        attach = AvailableAction(ActionName.ATTACH, allowed=True, reason="", argv=(), reversible=True)
        record = replace(record, actions=(*record.actions, attach))
    question = question_of(record)
    assert question is not None, "it asks"
    return needs_you_text(record, question)


_DIED: Final = _found(FindingCode.SESSION_DEAD, "died in the middle of a turn")
_SILENT: Final = _found(FindingCode.SILENT, "silent for 10 min", "Bash make test")


def _trouble(
    findings: tuple[Finding, ...],
    decision: HealingDecision,
    *,
    managed: bool = True,
    alive: bool = False,
    paused_by: str | None = None,
    **known: object,
) -> str:
    case = HealingCase(
        session_id=_ID,
        work=f"{_ID}@1",
        project="shop",
        code=findings[0].code,
        opened_at=_WALL,
        code_since=_WALL,
    )
    record = _record(managed=managed, alive=alive, findings=findings)
    return case_alert_text(replace(case, **known), record, decision, mode="mine", paused_by=paused_by)


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


def _members(names: str, status: MemberStatus, words: str, *, out: bool = False) -> list[Member]:
    left_at = _WALL if out else None
    return [
        Member(SessionId(f"claude-{name}"), f"{name} (shop)", status, words, left_at)
        for name in names.split()
    ]


_SOCKET: Final = "/run/user/1000/wakeful/tmux.sock"
_SERVER: Final = _incident(
    Cause.TMUX_SERVER,
    _SOCKET,
    *_members("api docs web", MemberStatus.REVIVED, _RESUMED, out=True),
    *_members("notes", MemberStatus.LEFT_ALONE, "no action: not managed by Wakeful"),
)
_OVER: Final = _incident(
    Cause.SESSION, _ID, *_members("api", MemberStatus.REVIVED, _RESUMED, out=True), did=_RESUMED
)
_OUTAGE: Final = _incident(
    Cause.NETWORK,
    "tower",
    *_members("api docs", MemberStatus.REVIVED, "sent a prompt to continue", out=True),
)

_QUEUE: Final = "redis://localhost:6379/0"
_STALLED: Final = QueueEpisode(CriticalEventKind.QUEUE_STALLED, "shop", _WALL)
_UNROUTED: Final = QueueEpisode(CriticalEventKind.MESSAGE_UNROUTED, "shop", _WALL)
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
_RECOVERED: Final = RecoveryResult(
    RecoveryStatus.OK, None, "t-1", "publish", (), (), (), None, None, "timeline", ()
)


def _lease(action: ActionTaken) -> AlertBody:
    work = WorkItem(
        id=WorkId("w-1"), prompt="fix the build", project="shop", session_id=_ID, context="", created_at=_WALL
    )
    did = (
        "queued it again as w-1-again"
        if action is ActionTaken.REVIVAL_ATTEMPTED
        else "gave up: it failed again after it was resumed"
    )
    return lease_alert(work, "its lease ended", action, did, _WALL)


def _journal(recovered: RecoveryResult | None) -> str:
    root = "/home/me/shop"
    words = f"{root}: stale; pid 41 runs the journal and has written nothing since {iso(_WALL)}"
    if recovered is not None:
        words = f"{root}: program interrupted: {recovered.status.text}"
    return format_alert(
        journal_alert_body(JournalWatchReport(root, recovered, None if recovered else 41, words), _WALL)
    )


def _digest(count: int) -> str:
    """A message for many alerts, a third of which are about another finding and another project."""
    gists = [
        DigestEntry(
            f"s{each}", "docs" if each % 3 else "shop", FindingCode.SILENT if each % 3 else FindingCode.LOOP
        )
        for each in range(count)
    ]
    alerts = [Alert(AlertKind.TROUBLE, each.name, "", gist=each) for each in gists]
    return digest_text([new_pending_alert(each, "", (), _WALL) for each in alerts])


def trouble_of(code: FindingCode, decision: HealingDecision, *, managed: bool, given_up: bool) -> str:
    """The message about any trouble of a session."""
    return _trouble(_found(code, "a summary"), decision, managed=managed, given_up=given_up)


def incident_of(cause: Cause, status: MemberStatus, names: str) -> Incident:
    """Any incident with sessions of these names in it."""
    return _incident(cause, "a scope", *_members(names, status, "some words"))


EXAMPLES: Final[Mapping[str, Callable[[], str]]] = {
    "A question in a terminal": lambda: _asking(
        'permission prompt: Bash {"command": "rm -r build"}', in_pane=True
    ),
    "A question without a terminal": lambda: _asking('Bash {"command": "rm -r build"}', in_pane=False),
    "A turn is finished": lambda: finished_text(_record(alive=True)),
    "Died and was resumed": lambda: _trouble(
        _DIED,
        HealingDecision(HealingStep.RESUME, "its conversation can continue"),
        did=f"{_RESUMED}; {WORKS_AGAIN}",
        revival_seen=True,
    ),
    "Died, not managed": lambda: _trouble(
        _DIED, HealingDecision(HealingStep.NOTIFY, "not managed by Wakeful"), managed=False
    ),
    "Died, folder gone": lambda: _trouble(
        _DIED, HealingDecision(HealingStep.NOTIFY, "its working directory is gone")
    ),
    "Died while paused": lambda: with_pause_line(
        _trouble(_DIED, HealingDecision(HealingStep.NOTIFY, "PAUSED by ada@tower"), paused_by="ada@tower"),
        "ada@tower",
    ),
    "Interrupted during a call that may have had effects elsewhere": lambda: _trouble(
        _DIED,
        HealingDecision(HealingStep.HOLD, "an interrupted call may have had effects elsewhere"),
        checkpoint=3,
        did="no action: an interrupted call may have had effects elsewhere (checkpoint 3)",
    ),
    "Given up": lambda: _trouble(
        _SILENT,
        HealingDecision(HealingStep.GIVE_UP, "it failed again after it was resumed"),
        alive=True,
        given_up=True,
        did=f"{_RESUMED}; then gave up: it failed again after it was resumed",
    ),
    "A tmux server with four sessions ended": lambda: incident_text(_SERVER),
    "Many sessions lost their login": lambda: incident_text(
        _incident(
            Cause.AUTH,
            "claude",
            *_members(
                "api docs web shop bank", MemberStatus.LEFT_ALONE, "no action: auth_required needs a person"
            ),
        )
    ),
    "Many sessions end at once": lambda: incident_text(
        _incident(
            Cause.MANY_DEATHS,
            "tower",
            *_members("api docs " * 12, MemberStatus.LEFT_ALONE, "no action: not managed by Wakeful"),
        )
    ),
    "Many problems at once": lambda: _digest(64),
    "A container engine does not answer": lambda: incident_text(
        _incident(
            Cause.ENGINE,
            "unix:///var/run/docker.sock",
            *(
                replace(each, name="agent bot")
                for each in _members("bot", MemberStatus.UNSEEN, "no action: the engine does not answer")
            ),
            did="no action: the engine does not answer",
        )
    ),
    "Wakeful gave up on an agent": lambda: format_alert(given_up_alert(_AGENT, _WALL)),
    "An agent that nothing restarts": lambda: format_alert(
        left_stale_alert(replace(_AGENT, session_id=None), _WALL, "restart is manual")
    ),
    "The lease of a task ended; queued again": lambda: format_alert(_lease(ActionTaken.REVIVAL_ATTEMPTED)),
    "The lease of a task ended; given up": lambda: format_alert(_lease(ActionTaken.NONE)),
    "A queue does not move": lambda: format_alert(
        stalled_alert_body(_STALLED, "shop: 3 jobs wait for up to 6 min, and none runs", _QUEUE, NO_WORKER)
    ),
    "No worker serves a project": lambda: format_alert(
        unrouted_alert_body(_UNROUTED, "shop: 1 message waits, and no worker serves this project", _QUEUE)
    ),
    "A queue is unreachable": lambda: format_alert(
        unreachable_alert_body(_incident(Cause.QUEUE, _QUEUE), "Redis does not answer: connection refused")
    ),
    "The disk is full": lambda: format_alert(
        disk_alert(_incident(Cause.DISK, "tower"), "512 KiB are left for /home/me/state", "/home/me/state")
    ),
    "Issues cannot be filed": lambda: format_alert(
        issue_tracker_alert("gh is logged out", "tower", _WALL, did=SAVED_FOR_LATER)
    ),
    "Part of Wakeful is down": lambda: format_alert(
        failed_part_alert("claude-registry", "OSError: too many open files", "tower", _WALL)
    ),
    "A decision was refused": lambda: format_alert(
        refused_decision_alert(
            "claude-3f2a91bc-5d1e-4c55-9c8e-2f6b9f0a7e11",
            "POST /api/sessions/3f2a91bc/revive",
            "agent-may-not-decide",
            "wakeful session revive 3f2a91bc --yes",
            _WALL,
        )
    ),
    "A journal was recovered": lambda: _journal(_RECOVERED),
    "A journal needs a rollback": lambda: _journal(
        replace(_RECOVERED, status=RecoveryStatus.REQUIRED_ROLLBACK)
    ),
    "A program is silent": lambda: _journal(None),
    "A journal needs your decision": lambda: checkpoint_text(
        "shop",
        where="journal /home/me/shop",
        since=iso(_WALL),
        doubt="step publish, attempt 1",
        number=4,
    ),
    "A session recovered": lambda: resolved_text(summary_of(_OVER), iso(_WALL), did=actions_text(_OVER)),
    "A session is gone": lambda: resolved_text(
        summary_of(_OVER), iso(_WALL), because="its session is gone, and so is its log", well=False
    ),
    "An incident is resolved": lambda: resolved_text(
        summary_of(_OUTAGE), iso(_WALL), did=actions_text(_OUTAGE)
    ),
}
