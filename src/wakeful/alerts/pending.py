"""One alert in the outbox: which channels still need it, and when it is over. Pure and immutable.

A cooldown begins when a channel took the message, not when it was tried. A message that a channel may have
taken counts as taken: a lost answer does not repeat the alert through that channel.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.model import Alert, AlertKind, held_back

# Nobody wants to hear of last week; what is still going on by then is worth a second word.
KEPT_SECONDS_MAX: Final = 7 * 86_400.0
# From here on a text says that it is late.
LATE_SECONDS: Final = 600.0
BACKOFF_SECONDS: Final = 10.0
BACKOFF_SECONDS_MAX: Final = 600.0


class Phase(StrEnum):
    """`ending`: it is over, but some channel is still speaking; what is owed then depends on how that ends."""

    TELLING = "telling"
    ENDING = "ending"
    OVER = "over"


class Owed(Struct, frozen=True):
    """One episode. `pending` channels have not taken its words yet, `took` have; once over, its words are the end's."""

    alert: Alert
    owner: str
    owed_at: float
    due_at: float
    pending: tuple[str, ...]
    took: tuple[str, ...] = ()
    # To a chat: written before the words leave, so that after a crash nobody says them again.
    begun: tuple[str, ...] = ()
    told_at: float | None = None
    phase: Phase = Phase.TELLING
    ending: str | None = None

    @property
    def is_telling(self) -> bool:
        """Whether somebody may be told now; while an end waits for a channel, nobody is."""
        return self.phase is not Phase.ENDING and bool(self.pending)


def owed(alert: Alert, owner: str, channels: Sequence[str], now: float) -> Owed:
    """A new episode, to be told at once."""
    return Owed(alert, owner, now, now, tuple(channels))


def again(
    known: Owed, alert: Alert, channels: Sequence[str], now: float, cooldown_seconds: float
) -> Owed | None:
    """The same episode is reported once more: None if there is nothing to tell.

    Nothing is told of what somebody was told already and which is not over. What comes back within its cooldown is
    told at the end of that, if it lasts so long. Of words that nobody has heard yet the newest count.
    """
    if known.phase is Phase.TELLING:
        return replace(known, alert=alert) if known.pending and not known.took else None
    if known.phase is Phase.ENDING:
        return None
    due_at = now if known.told_at is None else max(now, known.told_at + cooldown_seconds)
    return replace(owed(alert, known.owner, channels, now), due_at=due_at, told_at=known.told_at)


def is_same_telling(episode: Owed, sent: Owed) -> bool:
    """Whether what was sent is what is owed still; meanwhile it may have ended and come back."""
    return episode.owed_at == sent.owed_at and (episode.phase is Phase.OVER) == (sent.phase is Phase.OVER)


def taken(episode: Owed, channel: str, now: float) -> Owed:
    """A channel took the words, or may have."""
    pending = tuple(each for each in episode.pending if each != channel)
    begun = tuple(each for each in episode.begun if each != channel)
    if episode.phase is Phase.OVER:
        return replace(episode, pending=pending)
    first = not episode.took
    return replace(
        episode,
        pending=pending,
        begun=begun,
        took=(*episode.took, channel),
        told_at=now if first else episode.told_at,
    )


def ended(episode: Owed, text: str | None) -> Owed:
    """It is over: those who heard of it are owed `text`, nobody else is owed anything any more."""
    return replace(
        episode,
        phase=Phase.OVER,
        ending=text,
        pending=episode.took if text is not None else (),
        due_at=episode.owed_at,
    )


def recalled(episode: Owed, channels: Sequence[str]) -> Owed:
    """As it stands after a restart, with the channels there are now."""
    # Begun and not known to have ended: it may have arrived.
    pending = [each for each in episode.pending if each not in episode.begun]
    took = (*episode.took, *episode.begun)
    present = tuple(each for each in pending if each in channels)
    if pending and not present and not took:
        # Every channel it was meant for is gone; it goes through those that took their place.
        present = tuple(channels)
    known = replace(episode, pending=present, took=took, begun=())
    return ended(known, known.ending) if known.phase is Phase.ENDING else known


def is_done(episode: Owed, now: float, cooldown_seconds: float) -> bool:
    """Whether it can be forgotten: nothing is owed, and nothing that comes back would have to wait."""
    if now - episode.owed_at > KEPT_SECONDS_MAX:
        return True
    if episode.pending or episode.phase is Phase.ENDING:
        return False
    if episode.alert.ends_by_itself:
        return True
    if episode.phase is Phase.TELLING:
        return False
    if episode.told_at is None or episode.alert.kind is not AlertKind.TROUBLE:
        return True
    return not 0 <= now - episode.told_at < cooldown_seconds


def wait_seconds(episode: Owed, now: float, cooldown_seconds: float) -> float:
    """How long nobody is to be told yet. A wait longer than any cooldown comes from a clock that was set: none."""
    seconds = episode.due_at - now
    return seconds if 0.0 < seconds <= cooldown_seconds else 0.0


def words(episode: Owed, now: float) -> str:
    """What is to be said of it now."""
    text = episode.ending if episode.phase is Phase.OVER else episode.alert.text
    assert text is not None, "an end without words is owed to nobody"
    late = now - max(episode.owed_at, episode.due_at) > LATE_SECONDS
    return held_back(text, episode.owed_at) if late and episode.phase is Phase.TELLING else text


def backoff_seconds(failures: int) -> float:
    """How long a channel is left alone after so many failures in a row."""
    return min(BACKOFF_SECONDS * 2.0 ** (min(failures, 20) - 1), BACKOFF_SECONDS_MAX) if failures else 0.0
