"""Digests: when many alerts become one message, and its text. Pure.

Each kind of alert has its own budget, so that many problems never delay a question. Resolved alerts have one,
too.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from wakeful.alerts.model import AlertKind, format_time, join_lines
from wakeful.alerts.pending import AlertPhase, PendingAlert
from wakeful.core.clock import iso

# The most messages of a kind in a row; then one more per interval.
MESSAGES_MAX: Final = 20
REFILL_SECONDS: Final = 180.0
# The first digest of a flood gathers this long, each further one twice as long, up to a limit.
DIGEST_SECONDS: Final = 10.0
DIGEST_SECONDS_MAX: Final = 600.0
# A question waits no longer than this for others.
QUESTION_DIGEST_SECONDS_MAX: Final = 40.0
# A flood is over when no alert of its kind came for this long.
FLOOD_OVER_SECONDS: Final = 600.0
NAMED_MAX: Final = 5

OVER: Final = "over"


def kind_of(alert: PendingAlert) -> str:
    return OVER if alert.phase is AlertPhase.OVER else str(alert.alert.kind)


class MessageBudget:
    """The budget of one kind of message in one channel. Times are of the clock that stops during suspend."""

    def __init__(self, gather_seconds_max: float = DIGEST_SECONDS_MAX) -> None:
        self._gather_seconds_max = gather_seconds_max
        self._tokens = float(MESSAGES_MAX)
        self._refilled_at = 0.0
        self._gathering_since: float | None = None
        self._digests = 0
        self._digested_at = 0.0

    def wait_seconds(self, ready: int, awake: float) -> tuple[bool, float]:
        """Whether the ready alerts become a digest, and how long it still gathers; zero for single messages."""
        gained = (awake - self._refilled_at) / REFILL_SECONDS
        self._tokens, self._refilled_at = min(self._tokens + gained, float(MESSAGES_MAX)), awake
        if self._digests and awake - self._digested_at > FLOOD_OVER_SECONDS:
            self._digests = 0
        if self._gathering_since is None and ready <= self._tokens:
            return False, 0.0
        if self._gathering_since is None:
            self._gathering_since = awake
        gather_seconds = min(DIGEST_SECONDS * 2.0 ** min(self._digests, 10), self._gather_seconds_max)
        return True, max(self._gathering_since + gather_seconds - awake, 0.0)

    def on_sent(self, awake: float, *, digest: bool) -> None:
        self._tokens = max(self._tokens - 1.0, 0.0)
        if digest:
            self._gathering_since = None
            self._digests, self._digested_at = self._digests + 1, awake


def new_budgets() -> dict[str, MessageBudget]:
    """One for each kind, in the order in which they are served."""
    return {
        AlertKind.NEEDS_YOU: MessageBudget(QUESTION_DIGEST_SECONDS_MAX),
        AlertKind.TROUBLE: MessageBudget(),
        OVER: MessageBudget(),
        AlertKind.FINISHED: MessageBudget(),
    }


def digest_text(episodes: Sequence[PendingAlert]) -> str:
    """The number of alerts, their projects and kinds, the first few names, and the command that lists all."""
    kind = kind_of(episodes[0])
    count = sum(each.alert.stands_for or 1 for each in episodes)
    entries = [each.alert.gist for each in episodes if each.alert.gist is not None]
    named = [each for each in episodes if not each.alert.stands_for][:NAMED_MAX]
    return join_lines(
        _HEADS[kind].format(count=f"{count:,}"),
        _count_line("Projects", (each.project for each in entries)),
        _count_line("What", (each.what for each in entries)),
        f"First: {'; '.join(_short_name(each) for each in named)}",
        f"Since: {format_time(iso(min(each.owed_at for each in episodes)))}",
        f"→ {_COMMANDS[kind]}",
    )


def overflow_text(count: int) -> str:
    """The text about alerts that did not fit into the outbox."""
    return join_lines(f"{count:,} more alerts, counted here only", "→ wakeful incidents")


def _short_name(alert: PendingAlert) -> str:
    """The name of its digest entry, or the beginning of its text."""
    if alert.alert.gist is not None:
        return alert.alert.gist.name
    text = (alert.ending if alert.phase is AlertPhase.OVER else None) or alert.alert.text
    return text.partition("\n")[0][:60]


def _count_line(title: str, values: Iterable[str]) -> str:
    counts = Counter(value for value in values if value)
    shown = ", ".join(f"{value[:40]} {count}" for value, count in counts.most_common(NAMED_MAX))
    more = len(counts) - NAMED_MAX
    return f"{title}: {shown}{f' and {more} more' if more > 0 else ''}" if counts else ""


_HEADS: Final = {
    AlertKind.NEEDS_YOU: "{count} questions need you",
    AlertKind.TROUBLE: "{count} problems at once",
    AlertKind.FINISHED: "{count} sessions finished",
    OVER: "{count} problems resolved",
}
_COMMANDS: Final = {
    AlertKind.NEEDS_YOU: "wakeful ls",
    AlertKind.TROUBLE: "wakeful incidents",
    AlertKind.FINISHED: "wakeful ls",
    OVER: "wakeful incidents --all",
}
