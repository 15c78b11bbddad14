"""The figures as a page. Pure: what was measured goes in, Markdown comes out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from bench.accuracy.explained import explanation
from bench.accuracy.measure import EVENTS_LATE_MAX, SECONDS_LATE_MAX, Episode, Recall

OURS: Final = "Wakeful"
RECALL_MIN: Final = 0.98
NEVER: Final = frozenset({"loop", "error_cascade", "runaway", "poisoned_conversation"})
"""Codes that no healthy recording may show at all."""

SHOWN_MAX: Final = 12
"""Misses of one kind that are named."""

STATED: Final = frozenset({"auth_required", "turn_failed", "usage_limited"})
"""What the client itself wrote into its log: repeated by us, not concluded."""

_TO_REACH: Final = (
    f"To reach: {RECALL_MIN} of each kind, within {EVENTS_LATE_MAX} events of the rule's documented minimum (the 4th equal"
    f" call, the 3rd round of a cycle, the 8th search, the 6th plan, the 20th agent, the 6th error) or {SECONDS_LATE_MAX:.0f} s of its threshold."
)
_NOT_COVERED: Final = """\
## What these figures do not say

- The recordings ended in a commit. How often agents go wrong in ways that were not planted is not measured.
- Planted faults are clean, and due where our own documented rules say: a recall of 1 says that nothing around them in real
  sessions hides them, not that every real loop looks like one of these.
- Codex opens a turn some milliseconds before it asks the model. No hang is planted there: such a log looks like a command
  that a person typed with `!`, and is never called silent.
- Faults are planted into the readers' events, not into bytes; readers are tested elsewhere (`tests/fuzz`).
- Permission dialogs of these recordings left no mark in their logs, so a call that waited for a person looks like a
  call that runs. With hooks installed, or with a client that reports its status, it does not.
- The process is alive throughout but for planted deaths. A tool's own processes, tmux and containers are not part of it.
- Only work is repeated: calls whose tool or command waits (sleep, wait, poll, watch) are left out, for they are judged by
  unchanged time.
- Not planted: other ways to run away, `poisoned_conversation`, `never_started`, `usage_limited`, `auth_required`, `twin_processes`,
  `reader_drift`, the same words over and over, a poll that never changes. The labelled cases and unit tests cover those.
- The peers' rules are written again from what they publish (`bench/accuracy/peers.py`). A flag of theirs counts as found
  whatever the fault was and however late within an hour; flags before a declared timeout has passed do not count.
"""


class Measured(Struct, frozen=True):
    """All of one run. Keys of the mappings are the watchers, ours first."""

    headline: str
    recordings: Mapping[str, int]
    faults: Mapping[str, Sequence[Recall]]
    healthy: Mapping[str, Sequence[Recall]]
    episodes: Mapping[str, Sequence[Episode]]


def missed(measured: Measured) -> list[str]:
    """Everything that falls short of what issue 3 asks for, one line each."""
    lines = [
        f"{each.kind}: recall {each.share:.3f}, in time {each.share_in_time:.3f}"
        for each in measured.faults[OURS]
        if each.share_in_time < RECALL_MIN
    ]
    lines += [f"{each.kind}: {each.share:.1%} accused" for each in measured.healthy[OURS] if each.share > 0]
    lines += [
        f"{each.recording}: {each.code}, {each.why}" for each in measured.episodes[OURS] if each.code in NEVER
    ]
    return lines


def page(measured: Measured) -> str:
    recorded = sum(measured.recordings.values())
    parts = [
        "<!-- Made by `make accuracy`; do not edit. -->",
        "# Accuracy",
        "",
        measured.headline,
        "",
        "## Planted faults: share found",
        "",
        _TO_REACH,
        "",
        *_fault_rows(measured),
        "",
        "## Healthy waits planted the same way: share accused",
        "",
        *_rows("must stay quiet", measured.healthy),
        "",
        f"## False alarms in {recorded} recordings nothing was planted into",
        "",
        *_alarm_rows(measured, recorded),
        "",
        *_told(measured.episodes[OURS]),
        "",
        *_misses(measured),
        _NOT_COVERED.rstrip(),
        "",
    ]
    return "\n".join(parts)


def _header(first: str, names: Iterable[str]) -> list[str]:
    cells = [first, *names]
    return [f"| {' | '.join(cells)} |", "|---" * len(cells) + "|"]


def _rows(first: str, table: Mapping[str, Sequence[Recall]]) -> list[str]:
    lines = _header(f"{first} (planted)", table)
    for row in zip(*table.values(), strict=True):
        shares = " | ".join(f"{each.share:.1%}" for each in row)
        lines.append(f"| {row[0].kind} ({len(row[0].outcomes)}) | {shares} |")
    return lines


def _fault_rows(measured: Measured) -> list[str]:
    lines = _header("fault (planted)", [f"{OURS} | in time | late: median, max", *list(measured.faults)[1:]])
    lines[1] += "---|---|"
    for ours, *peers in zip(*measured.faults.values(), strict=True):
        unit = "events" if ours.outcomes[0].planted.due_at is None else "s"
        late = f"{ours.late_median:.3g}, {ours.late_max:.3g} {unit}"
        cells = [
            f"{ours.share:.3f}",
            f"{ours.share_in_time:.3f}",
            late,
            *(f"{each.share:.3f}" for each in peers),
        ]
        lines.append(f"| {ours.kind} ({len(ours.outcomes)}) | {' | '.join(cells)} |")
    return [*lines, *_guesses(measured)]


def _guesses(measured: Measured) -> list[str]:
    """How many calls that never come back are reported as questions: nothing in those logs distinguishes the two."""
    told = [f"{each.guessed} of {each.kind}" for each in measured.faults[OURS] if each.guessed]
    words = "told as waiting, because the call probably asks for permission and the mode is one that asks"
    return ["", f"Of these, {words}: {', '.join(told)}."] if told else []


def _alarm_rows(measured: Measured, recorded: int) -> list[str]:
    lines = _header("", measured.episodes)
    alarms = {
        name: [each for each in told if each.code not in STATED] for name, told in measured.episodes.items()
    }
    sessions = [len({each.recording for each in told}) for told in alarms.values()]
    lines.append(f"| sessions accused | {' | '.join(f'{count / recorded:.1%}' for count in sessions)} |")
    lines.append(f"| episodes | {' | '.join(str(len(told)) for told in alarms.values())} |")
    return lines


def _told(episodes: Sequence[Episode]) -> list[str]:
    """Every episode of Wakeful by code, with what was pending and how long it went on."""
    lines = []
    for code in sorted(NEVER | {each.code for each in episodes}):
        told = [each for each in episodes if each.code == code]
        stated = ", as the log itself says" if code in STATED else ""
        lines.append(f"- `{code}`: {len(told)} in {len({each.recording for each in told})} sessions{stated}")
        lines += [line for each in told for line in _told_once(each)]
    return lines


def _told_once(each: Episode) -> list[str]:
    """One episode, and what the recording itself shows of that time."""
    minutes = (each.to_at - each.from_at) / 60
    story = explanation(each.recording, each.from_at, each.to_at)
    return [
        f"  - {each.recording[:8]}: {each.why}; went on for {minutes:.0f} min",
        f"    - In the recording: {story or 'not read yet.'}",
    ]


def _misses(measured: Measured) -> list[str]:
    """What went wrong, a few of each kind by name."""
    lines: list[str] = []
    for each in (*measured.faults[OURS], *measured.healthy[OURS]):
        wrong = [outcome for outcome in each.outcomes if not outcome.right]
        lines += [f"- {each.kind}, {outcome.planted.name}: {outcome.why}" for outcome in wrong[:SHOWN_MAX]]
        if len(wrong) > SHOWN_MAX:
            lines.append(f"- {each.kind}: {len(wrong) - SHOWN_MAX} more")
    return ["## Every miss", "", *lines, ""] if lines else []
