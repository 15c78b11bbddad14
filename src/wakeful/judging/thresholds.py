"""The policy: the thresholds of judging. Each can be configured; docs/specs says what they mean."""

from typing import NewType

from msgspec import Struct

Dollars = NewType("Dollars", float)
"""Money; all other floats are seconds."""


class Policy(Struct, frozen=True):
    """Thresholds in awake seconds."""

    # Healthy sessions pause up to 6 minutes, stuck ones 10 and more (22 recorded sessions).
    silence_seconds: float = 600.0
    # session_health_stale_after. Idle sessions only, counted from the last proof of presence.
    stale_seconds: float = 120.0
    # After text, if the log does not say whether more follows. 99.9 % of model waits end within 213 s, half in 3 s.
    settle_seconds: float = 60.0
    # Claude Code ends a Bash call after 120 s unless it declared a timeout; its longest is 600 s.
    tool_seconds: float = 600.0
    tool_grace_seconds: float = 30.0
    # A subagent without a visible log; otherwise its log decides.
    subagent_seconds: float = 3600.0
    # A summary is one long answer of the model; the log has nothing before its end.
    compaction_seconds: float = 600.0
    # A client notices its broken connections some time after the host woke up.
    wake_grace_seconds: float = 60.0
    # Six: no healthy session of the 570 recorded ones had six errors in a row; five occurred once.
    errors_in_a_row_max: int = 5
    # Four: no recorded healthy session repeats the same call with the same result four times in a turn.
    repeats_max: int = 3
    # Three rounds of two to five calls, or three times the same text; two rounds of a pair occur in healthy work.
    cycles_max: int = 2
    # A conversation that is summarised ten times in a row does not fit, however often the client tries.
    compactions_max: int = 9
    # One call with one result six times, only reading in between.
    duplicates_max: int = 5
    # Eight different reading calls of one tool with one answer: in 40 recordings of work there were never more than two.
    alike_results_max: int = 7
    # Six writes of the plan in a row with no item created or done: in 40 recordings never more than one.
    plan_writes_max: int = 5
    # Subagents of one turn: 20 at once, 40 in ten minutes, 5 with one prompt. In 40 recordings 3, 3 and 1 at most.
    spawns_open_max: int = 19
    spawns_max: int = 39
    spawn_repeats_max: int = 4
    # A poll exists to wait. Half an hour without any change is no longer waiting.
    poll_seconds: float = 1800.0
    # Two hours without an end. A gap counts ten minutes at most, and waiting for a person does not count.
    runaway_seconds: float = 7200.0
    # More than ten times the longest turn of nine in ten recorded sessions.
    runaway_calls_max: int = 2000
    runaway_tokens_max: int = 20_000_000
    # Logs state tokens, not money. This limit needs the prices below.
    runaway_cost_usd: Dollars = Dollars(50.0)
    input_usd_per_million: Dollars = Dollars(0.0)
    output_usd_per_million: Dollars = Dollars(0.0)
    # After three prompts in a row that fail the same way, a fourth does not help.
    failures_alike_max: int = 2
    # A client starts in 0.7 to 1.1 s; sixteen at once on two cores took 45 s.
    never_started_seconds: float = 120.0
    # Unknown records, without any known one, before a reader reports a changed format.
    drift_records_min: int = 20
    # Sessions with no live process and no record for this long are folded in lists.
    fold_after_seconds: float = 86_400.0
