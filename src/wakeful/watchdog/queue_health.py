"""Detects problems of a whole queue: jobs that wait while none runs, and messages for unserved projects.

Each is reported once per episode, by the watchdog that notices it first, and again only after it was over.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final

from wakeful.alerts.model import AlertBody
from wakeful.core.errors import WorldError
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.text import plain
from wakeful.incidents.critical_event import ActionTaken, CriticalEventKind
from wakeful.incidents.issue_tracker import FilingResult, IssueReport
from wakeful.judging.wording import format_length
from wakeful.watchdog.callbacks import CALL_SECONDS_MAX, CallbackOutcome, CallbackResult
from wakeful.watchdog.notifications import EVENTS_COMMAND, QueueEpisode
from wakeful.watchdog.parts import WatchdogParts, WatchSettings
from wakeful.watchdog.queue import Job, QueueSnapshot, claimed

# Issue, worker, alert and event, each within its deadline.
CLAIM_SECONDS: Final = 4 * CALL_SECONDS_MAX
NO_WORKER: Final = "no action: no start_worker configured"
_STALLED: Final = "stalled:"
_UNROUTED: Final = "unrouted:"
_WORKER: Final = "worker:"

log = logging.getLogger("wakeful.watchdog")


class QueueWatch:
    """Checks the pending jobs of a snapshot."""

    def __init__(self, parts: WatchdogParts, settings: WatchSettings) -> None:
        self._jobs = parts.jobs
        self._clock = parts.clock
        self._callback_runner = parts.calls
        self._recorder = parts.recorder
        self._notifier = parts.notifier
        self._start_worker = parts.callbacks.start_worker
        active = settings.active_projects
        self._active_projects = None if active is None else frozenset(active)
        self._stalled_seconds = settings.stalled_seconds
        self._confirm_seconds = settings.confirm_seconds

    async def check(self, snapshot: QueueSnapshot, episodes: Mapping[str, str]) -> None:
        """Report new problems, and forget those that are over."""
        stalled = self._stalled_jobs(snapshot)
        if stalled.keys() - {name.removeprefix(_STALLED) for name in episodes if name.startswith(_STALLED)}:
            await self._clock.sleep(self._confirm_seconds)
            again = self._stalled_jobs(await self._jobs.snapshot())
            stalled = {project: again[project] for project in stalled if project in again}
        unrouted = _by_project(job for job in snapshot.pending if not self._serves(job.project_key))
        for project, waiting in stalled.items():
            await self._report_once(
                _STALLED + project, waiting, partial(self._report_stalled, waiting=waiting)
            )
        for project, waiting in unrouted.items():
            await self._report_once(
                _UNROUTED + project, waiting, partial(self._report_unrouted, waiting=waiting)
            )
        await self._end_episodes(
            episodes, {_STALLED + each for each in stalled} | {_UNROUTED + each for each in unrouted}
        )

    def _stalled_jobs(self, snapshot: QueueSnapshot) -> dict[str, list[Job]]:
        """Pending jobs of projects where one has waited too long and none runs, without unserved projects."""
        oldest = self._clock.now().wall - self._stalled_seconds
        idle = [job for job in snapshot.pending if job.project_key not in snapshot.running_projects]
        served = [job for job in idle if self._serves(job.project_key)]
        late = {job.project_key for job in served if job.created_at is not None and job.created_at < oldest}
        return _by_project(job for job in served if job.project_key in late)

    def _serves(self, project: str) -> bool:
        return self._active_projects is None or project in self._active_projects

    async def _report_once(
        self, name: str, waiting: list[Job], report: Callable[[QueueEpisode], Awaitable[None]]
    ) -> None:
        """Report an episode once among all watchdogs: it is marked only after everything was sent."""
        if await self._is_reported(name):
            return
        async with claimed(self._jobs, f"queue:{name}", CLAIM_SECONDS) as has_claim:
            if has_claim and not await self._is_reported(name):
                since = self._clock.now().wall - self._waited_seconds(waiting)
                episode = _parse_episode(name, "", since)
                await report(episode)
                fault_point("queue.stalled_told")
                await self._jobs.set_episode(name, f"{episode.since:.3f}")

    async def _is_reported(self, name: str) -> bool:
        return name in await self._jobs.episodes()

    async def _report_stalled(self, episode: QueueEpisode, waiting: list[Job]) -> None:
        project, waited_seconds = episode.project_key, self._waited_seconds(waiting)
        jobs = "1 job waits" if len(waiting) == 1 else f"{len(waiting)} jobs wait"
        words = f"{project}: {jobs} for up to {format_length(waited_seconds)}, and none runs"
        session_id = SessionId(waiting[0].session_id or waiting[0].job_id)
        filing = await self._recorder.file(
            IssueReport(project, session_id, CriticalEventKind.QUEUE_STALLED, words, waited_seconds)
        )
        fault_point("queue.stalled_filed")
        started = await self._start_worker_once(project)
        fault_point("queue.stalled_started")
        did = NO_WORKER if started.outcome is CallbackOutcome.ABSENT else started.words
        alerted = await self._notify(episode, stalled_alert_body(episode, words, self._jobs.address, did))
        outcome = f"{did}; {alerted}"
        if started.outcome is CallbackOutcome.DONE:
            outcome = f"unverified: {outcome}"
        await self._write_event(CriticalEventKind.QUEUE_STALLED, project, waiting, filing, outcome)

    async def _start_worker_once(self, project: str) -> CallbackResult:
        """Ask for a worker once for as long as the queue stalls, even over restarts."""
        if self._start_worker is not None and not await self._jobs.begin_episode(_WORKER + project, "called"):
            return CallbackResult(CallbackOutcome.LATE, "start_worker was called before")
        return await self._callback_runner.call("start_worker", self._start_worker, project)

    async def _report_unrouted(self, episode: QueueEpisode, waiting: list[Job]) -> None:
        project = episode.project_key
        messages = "1 message waits" if len(waiting) == 1 else f"{len(waiting)} messages wait"
        words = f"{project}: {messages}, and no worker serves this project"
        alerted = await self._notify(episode, unrouted_alert_body(episode, words, self._jobs.address))
        await self._write_event(
            CriticalEventKind.MESSAGE_UNROUTED, project, waiting, FilingResult(None, "not filed"), alerted
        )

    async def _notify(self, episode: QueueEpisode, body: AlertBody) -> str:
        """The result of the alert; a failure there stops nothing."""
        try:
            return await self._notifier.notify_queue(episode, body)
        except WorldError as problem:
            return f"alert not sent: {problem}"

    async def _write_event(
        self, kind: CriticalEventKind, project: str, waiting: list[Job], filing: FilingResult, outcome: str
    ) -> None:
        waited_seconds = int(self._waited_seconds(waiting))
        details = {"pending": len(waiting), "waited_seconds": waited_seconds, "outcome": outcome}
        session_id = waiting[0].session_id or waiting[0].job_id
        await self._recorder.record_event(
            kind, session_id, project, kind, ActionTaken.NONE, filing.url, details, owed=True
        )
        log.warning("watchdog: %s %s: %s", kind, plain(project, 100), plain(outcome, 300))

    def _waited_seconds(self, waiting: list[Job]) -> float:
        now = self._clock.now().wall
        return max(now - (job.created_at if job.created_at is not None else now) for job in waiting)

    async def _end_episodes(self, episodes: Mapping[str, str], lasting: Collection[str]) -> None:
        over = [name for name in episodes if name.startswith((_STALLED, _UNROUTED)) and name not in lasting]
        ended = [name for name in over if await self._jobs.end_episode(name)]
        for name in episodes:
            if name.startswith(_WORKER) and _STALLED + name.removeprefix(_WORKER) not in lasting:
                await self._jobs.end_episode(name)
        now = self._clock.now().wall
        try:
            await self._notifier.resolve_queues(
                {_parse_episode(name, "", now).key for name in lasting},
                [_parse_episode(name, episodes[name], now) for name in ended],
            )
        except WorldError as problem:
            log.warning("watchdog: alert that a queue moves again not sent: %s", problem)


def stalled_alert_body(episode: QueueEpisode, words: str, place: str, did: str) -> AlertBody:
    return _alert_body(episode, words, place, did, "it waits until a worker of this project runs")


def unrouted_alert_body(episode: QueueEpisode, words: str, place: str) -> AlertBody:
    return _alert_body(
        episode,
        words,
        place,
        "no action: no worker serves this project; start one",
        "messages stay unanswered",
    )


def _alert_body(episode: QueueEpisode, words: str, place: str, did: str, otherwise: str) -> AlertBody:
    return AlertBody(
        what=f"{words} ({episode.kind})",
        where=f"project {episode.project_key}, in {place}",
        since=episode.since,
        did=did,
        otherwise=otherwise,
        command=EVENTS_COMMAND,
    )


def _parse_episode(name: str, since: str, now: float) -> QueueEpisode:
    """An episode of the queue; another version may have stored no time, then it began `now`."""
    prefix, _, project = name.partition(":")
    kind = CriticalEventKind.QUEUE_STALLED if f"{prefix}:" == _STALLED else CriticalEventKind.MESSAGE_UNROUTED
    try:
        return QueueEpisode(kind, project, float(since))
    except ValueError:
        return QueueEpisode(kind, project, now)


def _by_project(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in sorted(jobs, key=lambda each: each.created_at or 0.0):
        found.setdefault(job.project_key, []).append(job)
    return found
