"""Public functions and constants of the watchdog, for any program; no daemon and no configuration needed.

`watchdog_loop()` runs beside a bridge that keeps its sessions and jobs in Redis. The other functions are its
parts, for programs that need only one. No file of a session is ever written.
"""

import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from wakeful.alerts.delivery import Refused
from wakeful.core.clock import Clock
from wakeful.core.errors import BadSessionId, OperatorError
from wakeful.core.ids import parse_session_id
from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.critical_log import CriticalLog
from wakeful.incidents.issue_tracker import BreakingIssueTracker, IssueReport
from wakeful.integrations.github import FileIssueLedger, GhIssueTracker
from wakeful.judging.thresholds import Policy
from wakeful.linux.clock import SystemClock
from wakeful.sources.log_file import LogFile
from wakeful.sources.parsing import plain_record
from wakeful.watchdog.callbacks import CALL_SECONDS_MAX, CallbackRunner, Callbacks
from wakeful.watchdog.healing import FolderGone
from wakeful.watchdog.judging import (
    JudgedAttempt,
    SkipReason,
    fold_attempt_event,
    judge_attempt,
    new_attempt_log,
)
from wakeful.watchdog.loop import Cycle, RedisWatch, connect
from wakeful.watchdog.parts import HealingControls, WatchSettings
from wakeful.watchdog.queue import Job, JobQueue, QueueAttempt, QueuedSession, Work
from wakeful.watchdog.redis_queue import QueueIssueLedger
from wakeful.watchdog.rules import FAILURE_MESSAGE, last_calls
from wakeful.watchdog.tool_logs import ToolLogFiles
from wakeful.watchdog.unfiled_issues import QueueIssueFallback

__all__ = [
    "DURATION_THRESHOLD",
    "ERROR_CASCADE_THRESHOLD",
    "FAILURE_MESSAGE",
    "ISSUE_COOLDOWN",
    "MAX_REVIVALS",
    "SILENCE_THRESHOLD",
    "WATCHDOG_INTERVAL",
    "BadSetting",
    "Cycle",
    "FolderGone",
    "Refused",
    "Work",
    "assess_session_health",
    "attempt_revival",
    "check_all_sessions",
    "create_investigation_issue",
    "read_recent_tool_calls",
    "watchdog_loop",
]

WATCHDOG_INTERVAL: Final = 300
SILENCE_THRESHOLD: Final = 600
ERROR_CASCADE_THRESHOLD: Final = 5
DURATION_THRESHOLD: Final = 7200
MAX_REVIVALS: Final = 1
ISSUE_COOLDOWN: Final = 3600
# A burst, then one every two seconds, as the daemon does.
REVIVAL_INTERVAL_SECONDS: Final = 2.0
REVIVAL_BURST: Final = 10
LOGS_PATH: Final = "logs/sessions"
CRITICAL_EVENTS: Final = "./logs/critical_events.jsonl"
# Some thousand calls; more than any caller needs.
_RECENT_BYTES_MAX: Final = 8 * 1024 * 1024

AnyPath = str | PathLike[str]


class Settings(TypedDict, total=False):
    """The arguments of `watchdog_loop` and its parts, all by name. Callbacks may be plain or async, or left out."""

    redis: str
    logs: AnyPath
    enqueue_job: Callable[[Work], Any] | None
    send_message: Callable[[str, str], Any] | None
    stop_session: Callable[[str], Any] | None
    start_worker: Callable[[str], Any] | None
    alert: Callable[[str], Any] | None
    active_projects: Collection[str] | None
    critical_events: AnyPath
    interval_seconds: float
    silence_seconds: float
    errors_in_a_row_max: int
    runaway_seconds: float
    revive_runaways: bool
    github_repo: str
    github_public: bool
    callback_seconds: float


async def watchdog_loop(**settings: Unpack[Settings]) -> None:
    """Check every active session every `interval_seconds` until cancelled. Raises only BadSetting and BadRedisUrl.

    `redis` is the address ($REDIS_URL, else the local one); `logs` holds `<session_id>/tool_use.jsonl`;
    `enqueue_job(work)` gets a `Work`, and without it the next job is made in Redis; `send_message(chat_id, text)` may
    raise `Refused` when the message surely did not arrive, and only then is it sent again.
    """
    await _build_watch(settings).run()


async def check_all_sessions(**settings: Unpack[Settings]) -> Cycle:
    """One cycle of `watchdog_loop`; returns what it found. Acts as the loop does."""
    watch = _build_watch(settings)
    try:
        return await watch.check()
    finally:
        await watch.close()


async def attempt_revival(session: object, *, approved: bool = False, **settings: Unpack[Settings]) -> str:
    """Treat one session as the loop would; returns `revive`, `hold`, `give_up`, `notify` or `nothing`.

    `session` is its id, or anything that has one. `approved`: a person allows a held session to go on. Raises
    FolderGone if its working directory is missing.
    """
    session_id = session if isinstance(session, str) else _attempt_of(session).session.session_id
    watch = _build_watch(settings)
    try:
        found = [
            each for each in (await watch.jobs.snapshot()).watched if each.session.session_id == session_id
        ]
        is_there = bool(found) and found[0].job is not None
        choice = await watch.healer.heal(found[0], approved=approved) if is_there else None
    finally:
        await watch.close()
    return str(choice.action) if choice is not None else "nothing"


def assess_session_health(
    session: object, *, logs: AnyPath = LOGS_PATH, policy: Policy | None = None, clock: Clock | None = None
) -> dict[str, Any]:
    """Health of one session: `healthy` (None if unknown), `issues` as reasons of critical events, `severity`.

    `session` is a mapping or an object with `session_id` and, if known, `last_activity`, `started_at` and
    `project_key`.
    """
    case = _judge_session(session, Path(logs), policy, clock)
    if isinstance(case, SkipReason):
        return {"healthy": None, "issues": [str(case)], "severity": "unknown"}
    issues = [case.reason(finding) for finding in case.verdict.findings]
    return {
        "healthy": None if case.is_unknown else case.is_healthy,
        "issues": issues,
        "severity": "critical" if len(issues) > 1 else "warning" if issues else "none",
    }


def read_recent_tool_calls(
    session_id: str, limit: int = 50, *, logs: AnyPath = LOGS_PATH
) -> list[dict[str, Any]]:
    """The newest entries of a session's tool log, oldest first; none if there is no log or no such session."""
    try:
        name = parse_session_id(session_id)
    except BadSessionId:
        return []
    root = os.path.realpath(logs)
    lines = LogFile(f"{root}/{name}/tool_use.jsonl", root).last_lines(_RECENT_BYTES_MAX)
    entries = (plain_record(line) for line in lines)
    newest_first = [entry for entry in entries if entry is not None][: max(0, limit)]
    return newest_first[::-1]


async def create_investigation_issue(
    session: object,
    reason: str,
    *,
    github_repo: str | None = None,
    github_public: bool = False,
    logs: AnyPath = LOGS_PATH,
    critical_events: AnyPath = CRITICAL_EVENTS,
) -> str | None:
    """File a report about a session through `gh`, or find its project's open issue; returns the address or None."""
    case = _judge_session(session, Path(logs), None, None)
    attempt = case.watched if isinstance(case, JudgedAttempt) else _attempt_of(session)
    began_at, now = attempt.began_at, SystemClock().now().wall
    ledger = FileIssueLedger(Path(critical_events).with_name("watchdog_issues.jsonl"))
    tracker = GhIssueTracker(ledger, repo=_repository(github_repo), public=github_public)
    findings = case.verdict.findings if isinstance(case, JudgedAttempt) else ()
    report = IssueReport(
        project=attempt.session.project_key,
        session_id=attempt.session.session_id,
        reason=reason,
        summary="; ".join(each.summary for each in findings),
        duration_seconds=max(0.0, now - began_at) if began_at is not None else 0.0,
        calls=last_calls(case.log) if isinstance(case, JudgedAttempt) else (),
    )
    return (await tracker.file(report)).url


class BadSetting(OperatorError):
    """Invalid watchdog setting {name}: {reason}."""

    code = "bad-setting"


_CALLBACKS: Final = ("enqueue_job", "send_message", "stop_session", "start_worker", "alert")
_NUMBERS: Final = (
    "interval_seconds",
    "silence_seconds",
    "errors_in_a_row_max",
    "runaway_seconds",
    "callback_seconds",
)
_PATHS: Final = ("logs", "critical_events")


def _build_watch(settings: Settings) -> RedisWatch:
    """Raises BadSetting: a misspelt callback would silently never be called."""
    for name, value in settings.items():
        if name not in Settings.__annotations__:
            raise BadSetting(name=name, reason=f"unknown; known are {', '.join(Settings.__annotations__)}")
        if name in _CALLBACKS and value is not None and not callable(value):
            raise BadSetting(name=name, reason="give a function, or leave it out")
        if name in _NUMBERS and not (isinstance(value, int | float) and 0 < value < inf):
            raise BadSetting(name=name, reason="give a number above 0")
        if name in _PATHS and not isinstance(value, str | PathLike):
            raise BadSetting(name=name, reason="give a path")
    if not isinstance(settings.get("redis"), str | None):
        raise BadSetting(name="redis", reason="give an address such as redis://127.0.0.1:6379/0")
    if isinstance(settings.get("active_projects"), str):
        raise BadSetting(name="active_projects", reason="give a list of projects")
    jobs = connect(settings.get("redis") or os.environ.get("REDIS_URL") or "redis://127.0.0.1:6379/0")
    rules = HealingRules(revive_runaways=settings.get("revive_runaways", True))
    clock = SystemClock()
    tracker = _build_issue_tracker(settings, jobs, clock)
    return RedisWatch(
        jobs=jobs,
        logs=Path(settings.get("logs", LOGS_PATH)),
        clock=clock,
        callbacks=_build_callbacks(settings),
        controls=HealingControls(
            rules=lambda: rules,
            limiter=RevivalLimiter(clock, REVIVAL_INTERVAL_SECONDS, REVIVAL_BURST),
            tracker=tracker,
        ),
        settings=WatchSettings(
            policy=_build_policy(settings),
            active_projects=settings.get("active_projects"),
            interval_seconds=settings.get("interval_seconds", WATCHDOG_INTERVAL),
            call_seconds=settings.get("callback_seconds", CALL_SECONDS_MAX),
        ),
        observer=tracker,
    )


def _build_issue_tracker(settings: Settings, jobs: JobQueue, clock: Clock) -> QueueIssueFallback | None:
    """None without a repository."""
    repo = _repository(settings.get("github_repo"))
    if not repo:
        return None
    calls = CallbackRunner(clock, settings.get("callback_seconds", CALL_SECONDS_MAX))
    tracker = GhIssueTracker(QueueIssueLedger(jobs), repo=repo, public=settings.get("github_public", False))
    notify = partial(calls.call, "alert", settings.get("alert"))
    return QueueIssueFallback(BreakingIssueTracker(tracker, clock), jobs, clock, notify)


def _build_callbacks(settings: Settings) -> Callbacks:
    return Callbacks(
        enqueue_job=settings.get("enqueue_job"),
        send_message=settings.get("send_message"),
        stop_session=settings.get("stop_session"),
        start_worker=settings.get("start_worker"),
        alert=settings.get("alert"),
        write=CriticalLog(Path(settings.get("critical_events", CRITICAL_EVENTS))).append,
    )


def _build_policy(settings: Settings) -> Policy:
    return Policy(
        silence_seconds=settings.get("silence_seconds", SILENCE_THRESHOLD),
        errors_in_a_row_max=settings.get("errors_in_a_row_max", ERROR_CASCADE_THRESHOLD),
        runaway_seconds=settings.get("runaway_seconds", DURATION_THRESHOLD),
    )


def _repository(given: str | None) -> str:
    """The given one, else the one that Wakeful or `gh` takes from the environment."""
    return given or os.environ.get("WAKEFUL_GITHUB__REPO") or os.environ.get("GH_REPO") or ""


def _judge_session(
    session: object, logs: Path, policy: Policy | None, clock: Clock | None
) -> JudgedAttempt | SkipReason:
    attempt = _attempt_of(session)
    clock = clock if clock is not None else SystemClock()
    session_id = attempt.session.session_id
    reading = ToolLogFiles(logs).read([session_id]).get(session_id)
    log = new_attempt_log(attempt, clock)
    for event in reading.events if reading is not None else ():
        fold_attempt_event(log, event, attempt, clock)
    return judge_attempt(attempt, log, clock, policy if policy is not None else Policy())


def _attempt_of(session: object) -> QueueAttempt:
    """A session as the caller describes it, who asserts that it runs. Raises BadSessionId."""

    def field(name: str) -> Any:
        return session.get(name) if isinstance(session, Mapping) else getattr(session, name, None)

    session_id = parse_session_id(str(field("session_id")))
    project_key = str(field("project_key") or session_id)
    known = QueuedSession(
        key="",
        session_id=session_id,
        project_key=project_key,
        started_at=_seconds(field("started_at")),
        last_activity=_seconds(field("last_activity")),
        tool_call_count=int(_seconds(field("tool_call_count")) or 0),
    )
    return QueueAttempt(known, Job(key="", job_id="", project_key=project_key))


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
