"""The objects that the parts of the watchdog share, and its settings."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.issue_tracker import IssueTracker
from wakeful.judging.thresholds import Policy
from wakeful.judging.user_effect_rules import Lesson
from wakeful.watchdog.callbacks import CALL_SECONDS_MAX, CallbackRunner, Callbacks, ChatSender, EventRecorder
from wakeful.watchdog.judging import QueueJudge
from wakeful.watchdog.notifications import WatchdogNotifier
from wakeful.watchdog.queue import JobQueue

if TYPE_CHECKING:
    # A program without a daemon does not import these.
    from wakeful.healing.situation import SituationBuilder
    from wakeful.sessions.supervisor import Supervisor

# A worker takes the next job at once, so a job that waits this long has none.
STALLED_SECONDS_MAX: Final = 300.0
# Between two jobs of a worker there is a moment without any.
CONFIRM_SECONDS: Final = 2.0


class WatchdogParts(Struct, frozen=True, kw_only=True):
    """The queue, its judge, and the paths to people and to the watched program."""

    jobs: JobQueue
    clock: Clock
    judge: QueueJudge
    callbacks: Callbacks
    calls: CallbackRunner
    chats: ChatSender
    recorder: EventRecorder
    notifier: WatchdogNotifier


class HealingControls(Struct, frozen=True, kw_only=True):
    """The allowed actions and their pace, the lessons about a project's commands, and the issue tracker."""

    rules: Callable[[], HealingRules]
    limiter: RevivalLimiter
    lessons_of: Callable[[str], Sequence[Lesson]] = lambda _project: ()
    tracker: IssueTracker | None = None


class WatchSettings(Struct, frozen=True, kw_only=True):
    """Limits and times. Without `active_projects`, messages that no worker serves are not reported."""

    policy: Policy = Policy()
    active_projects: Collection[str] | None = None
    interval_seconds: float = 300.0
    stalled_seconds: float = STALLED_SECONDS_MAX
    confirm_seconds: float = CONFIRM_SECONDS
    call_seconds: float = CALL_SECONDS_MAX


class CycleObserver:
    """Takes part in every cycle; this one does nothing."""

    def on_running(self, session_ids: Collection[SessionId]) -> None:
        """Called in each cycle with the sessions that have a running job."""

    async def after_cycle(self) -> None:
        """Called last, for work that delays nothing else."""


class QueueSessionsObserver(CycleObserver):
    """Reports to a daemon which sessions the queue runs: its healer leaves them alone, and they count as running."""

    def __init__(self, situations: "SituationBuilder", supervisor: "Supervisor") -> None:
        self._situations = situations
        self._supervisor = supervisor

    def on_running(self, session_ids: Collection[SessionId]) -> None:
        self._situations.set_queue_sessions(session_ids)
        self._supervisor.set_queue_running(session_ids)
