"""Activity of a session: the state folded from its log. `folding` fills it; judging reads it. Pure."""

from typing import Final

from msgspec import Struct, field

from wakeful.core.clock import Instant
from wakeful.core.ids import ConversationId
from wakeful.judging import events as e
from wakeful.judging.budget import Spending, SpendingBudget
from wakeful.judging.call_identity import Call
from wakeful.judging.loops import LoopTracker
from wakeful.judging.spawns import Spawns
from wakeful.judging.turn_state import OPEN, TurnPhase

INPUT_BYTES_KEPT_MAX: Final = 2048
# Used for every record; before Python 3.12 each use of an enum's member is a new lookup.
_DONE: Final = frozenset({TurnPhase.ENDED, TurnPhase.PROPOSED, TurnPhase.SETTLING})
_ENDED, _SETTLING = TurnPhase.ENDED, TurnPhase.SETTLING


class OpenCall(Struct, frozen=True, gc=False):
    call: str
    tool: str
    kind: e.CallKind
    since: Instant
    input: bytes
    about: Call
    timeout_seconds: float | None
    enforced: bool
    limit_seconds: float | None = None
    escalated: bool = False
    # A number for the message of the call.
    step: int = 0


class BackgroundTask(Struct, frozen=True, gc=False):
    """A task that goes on after its call returned."""

    tool: str
    since: Instant
    input: bytes


class Activity(Struct, gc=False):
    """Everything folded from one conversation's log. Fields about the turn are cleared when a turn begins."""

    phase: TurnPhase = TurnPhase.UNSEEN
    phase_since: Instant | None = None
    calls: dict[str, OpenCall] = field(default_factory=dict)
    # Results of calls that are not read yet, with the background task that each left.
    early_results: dict[str, str] | None = None
    # The last call that began; later output in the client's stream never reached the log.
    newest_call: str = ""
    asked_about: str | None = None
    asked_at: Instant | None = None
    # The turn proposed a plan: it will end with a question.
    proposed: bool = False
    # The last call never ran: a person refused it, or a parallel call failed.
    refused: bool = False
    compacting_since: Instant | None = None
    # Its texts state whether more follows: a text without that is no end. Of 26 recordings of clients up to
    # 2.1.41 none has such a text, though some state the reason of a call; from 2.1.100 on all do.
    states_stops: bool = False
    # By task. A log that is read from its last turn on lacks the tasks of earlier turns.
    background: dict[str, BackgroundTask] = field(default_factory=dict)

    first_at: Instant | None = None
    last_at: Instant | None = None
    progress_at: Instant | None = None
    # When a call last began or returned; missing in a bookmark of an earlier version.
    call_at: Instant | None = None
    closed: bool = False

    # The question at the end of its last text; the session does not count as waiting for it.
    asks: str = ""

    failure: e.Failure | None = None
    failure_message: str = ""

    errors_in_a_row: int = 0
    errors_since: Instant | None = None
    # The last failed call, and its result.
    failed: Call | None = None
    failed_with: bytes = b""
    failed_step: int = 0
    retries_in_a_row: int = 0
    circles: LoopTracker = field(default_factory=LoopTracker)
    # The subagents that this turn started, if any.
    spawns: Spawns | None = None

    # The end of the newest earlier turn that ended well; missing in a bookmark of an earlier version.
    well_ended_at: Instant | None = None
    # The last prompt of a person. None: not in the part of the log that was read.
    person_at: Instant | None = None
    # These measure runaways: the turn so far, without waits for a person.
    turn_since: Instant | None = None
    active_seconds: float = 0.0
    turn_calls: int = 0
    turn_tokens: int = 0
    turn_output_tokens: int = 0
    # The number of prompts in a row that failed in the same way, over all turns.
    failures_alike: int = 0
    failure_key: int = 0
    limit_until: Instant | None = None

    # The run's budget, if its client reports one; and whether the client has ended its log.
    budget: SpendingBudget | None = None
    log_closed: bool = False

    calls_total: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    known: int = 0
    # Known records that only mark that a turn goes on or is over: no texts, calls or prompts.
    marks: int = 0
    skipped: int = 0
    malformed: int = 0
    drifted: str | None = None

    conversation_id: ConversationId | None = None
    cwd: str | None = None
    version: str | None = None
    pid: int | None = None
    project: str | None = None
    # Empty if unknown.
    permission_mode: str = ""

    @property
    def in_turn(self) -> bool:
        return self.phase in OPEN

    @property
    def asked_tool(self) -> str | None:
        """The tool that the open question is about, without its input."""
        return self.asked_about.partition(" {")[0] if self.asked_about is not None else None

    @property
    def is_out_of_budget(self) -> bool:
        """Whether its client has stopped in this turn because of its budget, which it does not log."""
        return self.budget is not None and self.phase in OPEN and self.budget.spending is Spending.USED_UP

    @property
    def may_be_out_of_budget(self) -> bool:
        """Whether its client ended regularly inside a turn: by its budget, or by a person or a program."""
        is_unclear = self.budget is not None and self.budget.spending is Spending.UNKNOWN
        return is_unclear and self.log_closed and self.phase in OPEN

    @property
    def ended_well(self) -> bool:
        """Whether the agent itself ended its last turn: it was not interrupted, and its last call was not refused."""
        return self.phase in _DONE and not self.refused

    def newest_well_end(self, *, settled: bool) -> Instant | None:
        """The end of the newest turn that ended well. `settled`: nothing more follows the last text."""
        is_over = self.phase is _ENDED or (settled and self.phase is _SETTLING)
        return self.phase_since if is_over and not self.refused else self.well_ended_at
