"""Digests: when many alerts become one message, and its text. Pure.

Each kind of alert has its own budget, so that many problems never delay a question. Resolved alerts have one,
too.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from wakeful.alerts.model import AlertKind, lines_of, moment
from wakeful.alerts.pending import Owed, Phase
from wakeful.core.clock import iso

# So many messages of a kind in a row, then one more for each of these intervals.
MESSAGES_MAX: Final = 20
REFILL_SECONDS: Final = 180.0
# A digest gathers this long; each further one in a flood twice as long, up to a limit.
GATHER_SECONDS: Final = 10.0
GATHER_SECONDS_MAX: Final = 600.0
# A question waits no longer than this for others.
ASKED_SECONDS_MAX: Final = 40.0
# A flood is over when none of its kind came for so long.
CALM_SECONDS: Final = 600.0
NAMED_MAX: Final = 5

OVER: Final = "over"


def kind_of(episode: Owed) -> str:
    """Which budget pays for its message."""
    return OVER if episode.phase is Phase.OVER else str(episode.alert.kind)


class Budget:
    """Messages of one kind through one channel. Times are of the clock that does not run while the host sleeps."""

    def __init__(self, gather_seconds_max: float = GATHER_SECONDS_MAX) -> None:
        self._gather_seconds_max = gather_seconds_max
        self._left = float(MESSAGES_MAX)
        self._counted_at = 0.0
        self._gathering_since: float | None = None
        self._digests = 0
        self._digested_at = 0.0

    def wait_seconds(self, ready: int, awake: float) -> tuple[bool, float]:
        """Whether what is ready goes as a digest, and how long it is gathered yet; zero for single messages."""
        self._refill(awake)
        if self._gathering_since is None and ready <= self._left:
            return False, 0.0
        if self._gathering_since is None:
            self._gathering_since = awake
        gather_seconds = min(GATHER_SECONDS * 2.0 ** min(self._digests, 10), self._gather_seconds_max)
        return True, max(self._gathering_since + gather_seconds - awake, 0.0)

    def sent(self, awake: float, *, digest: bool) -> None:
        """A message has left."""
        self._left = max(self._left - 1.0, 0.0)
        if digest:
            self._gathering_since = None
            self._digests, self._digested_at = self._digests + 1, awake

    def _refill(self, awake: float) -> None:
        gained = (awake - self._counted_at) / REFILL_SECONDS
        self._left, self._counted_at = min(self._left + gained, float(MESSAGES_MAX)), awake
        if self._digests and awake - self._digested_at > CALM_SECONDS:
            self._digests = 0


def new_budgets() -> dict[str, Budget]:
    """One for each kind, in the order in which they are served."""
    asked = AlertKind.NEEDS_YOU
    return {asked: Budget(ASKED_SECONDS_MAX)} | {
        kind: Budget() for kind in (AlertKind.TROUBLE, OVER, AlertKind.FINISHED)
    }


def digest_text(episodes: Sequence[Owed]) -> str:
    """How many, of which projects and kinds, the first few by name, and where to see all of them."""
    kind = kind_of(episodes[0])
    count = sum(each.alert.stands_for or 1 for each in episodes)
    gists = [each.alert.gist for each in episodes if each.alert.gist is not None]
    named = [each for each in episodes if not each.alert.stands_for][:NAMED_MAX]
    return lines_of(
        _HEADS[kind].format(count=f"{count:,}"),
        _counted("Projects", (each.project for each in gists)),
        _counted("What", (each.what for each in gists)),
        f"First: {'; '.join(_first(each) for each in named)}",
        f"Since: {moment(iso(min(each.owed_at for each in episodes)))}",
        f"→ {_COMMANDS[kind]}",
    )


def more(count: int) -> str:
    """The alerts for which the outbox had no room."""
    return lines_of(f"{count:,} more alerts, which are only counted here", "→ wakeful incidents")


def _first(episode: Owed) -> str:
    """A few words of one alert: its name, or the first line of its text."""
    gist = episode.alert.gist
    text = (episode.ending if episode.phase is Phase.OVER else None) or episode.alert.text
    return gist.name if gist is not None else text.partition("\n")[0][:60]


def _counted(title: str, words: Iterable[str]) -> str:
    counts = Counter(word for word in words if word)
    shown = ", ".join(f"{word[:40]} {count}" for word, count in counts.most_common(NAMED_MAX))
    more = len(counts) - NAMED_MAX
    return f"{title}: {shown}{f' and {more} more' if more > 0 else ''}" if counts else ""


_HEADS: Final = {
    AlertKind.NEEDS_YOU: "{count} questions need you",
    AlertKind.TROUBLE: "{count} problems at once",
    AlertKind.FINISHED: "{count} sessions finished",
    OVER: "{count} problems are over",
}
_COMMANDS: Final = {
    AlertKind.NEEDS_YOU: "wakeful ls",
    AlertKind.TROUBLE: "wakeful incidents",
    AlertKind.FINISHED: "wakeful ls",
    OVER: "wakeful incidents --all",
}
