"""An incident in the words of people: what happened, to how many, what was done, what became of each. Pure.

Names come from outside; whoever shows these words makes them plain.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from wakeful.core.ids import SessionId
from wakeful.incidents.incident import SESSIONS_NAMED_MAX, Cause, Fate, Incident, Member, sentence_of

# Of more than so many, a reader wants to know how many are called what.
COUNTED_MIN: Final = 20
# UUID 7, as Codex makes them: eight characters are a minute.
_TIMED: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7")


def headline(incident: Incident) -> str:
    """What happened; for a session alone, which one and what."""
    if incident.cause is Cause.SESSION:
        name = incident.members[0].name if incident.members else incident.scope
        return f"{name}: {incident.summary}"
    return sentence_of(incident)


def words_of(incident: Incident) -> str:
    """One line: what happened, and to how many unless it is about one session anyway, or about none."""
    if incident.cause is Cause.SESSION or not incident.affected:
        return headline(incident)
    return f"{headline(incident)}: {count_words(incident)}"


def count_words(incident: Incident) -> str:
    """How many are in it, how many are well again, and what became of the others."""
    inside = len(incident.sessions)
    ended = [each for each in incident.members if not each.is_in and not each.is_well]
    well = max(incident.affected - inside - len(ended), 0)
    if not inside and not ended:
        return f"{_sessions(well)}, {'all ' if well > 1 else ''}well again"
    counted = f"{_sessions(inside)} in trouble" if inside else _sessions(incident.affected)
    return ", ".join((counted, *([f"{well} well again"] if well else []), *_endings(ended)))


def _endings(ended: Sequence[Member]) -> Iterator[str]:
    for words, count in Counter(_ending(each) for each in ended).items():
        yield f"{count}: {words}"


def _ending(member: Member) -> str:
    return member.ended or member.words


def named(members: Sequence[Member]) -> str:
    """A few by name, the rest counted; what several are called gets the beginning of its id, what many are its number."""
    names = Counter(each.name for each in members)
    if len(members) > COUNTED_MIN:
        most = names.most_common(SESSIONS_NAMED_MAX)
        more = len(members) - sum(count for _, count in most)
        return ", ".join(f"{name} ({count})" for name, count in most) + (f" and {more} more" if more else "")
    shown = [
        each.name if names[each.name] == 1 else f"{each.name} {short(each.id)}"
        for each in members[:SESSIONS_NAMED_MAX]
    ]
    more = len(members) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def short(session_id: SessionId) -> str:
    """As much of an id as people compare and commands take; one that begins with its time needs more of it."""
    head, _, tail = session_id.partition("-")
    return tail[: 13 if _TIMED.match(tail) else 8] or head


def fate_words(member: Member) -> str:
    """What became of one session."""
    if member.is_in:
        return f"{_STANDINGS[member.fate]}{f': {member.words}' if member.words else ''}"
    if not member.is_well:
        return f"over: {_ending(member)}"
    return f"came back: {member.words}" if member.fate is Fate.REVIVED else "well again"


def did_words(incident: Incident) -> str:
    """What Wakeful did about all of them and what came of it, counted."""
    if len(incident.members) <= 1:
        return incident.did
    return "; ".join(_deeds(incident.members))


def _deeds(members: tuple[Member, ...]) -> Iterator[str]:
    revived = [each for each in members if each.fate is Fate.REVIVED]
    if revived:
        back = sum(each.is_well for each in revived)
        seen = "all came back" if back == len(revived) else f"{back} came back so far"
        yield f"revived {_sessions(len(revived))}, {seen}"
    for fate, verb in _VERBS.items():
        alike = [each for each in members if each.fate is fate and each.is_in]
        if alike:
            yield f"{verb.format(count=_sessions(len(alike)))}: {_reason(alike)}"
    waiting = sum(each.fate is Fate.OPEN and each.is_in for each in members)
    if waiting:
        yield f"{_sessions(waiting)} wait for their turn" if waiting > 1 else "1 session waits for its turn"


def _reason(members: list[Member]) -> str:
    """Of several reasons the commonest."""
    (words, _), *others = Counter(each.words for each in members).most_common()
    said = words.removeprefix("nothing (").removesuffix(")") if words.startswith("nothing (") else words
    return f"{said}, and others" if others else said


def _sessions(count: int) -> str:
    return f"{count} session{'' if count == 1 else 's'}"


_STANDINGS: Final[Mapping[Fate, str]] = {
    Fate.OPEN: "in trouble",
    Fate.UNSEEN: "cannot be seen",
    Fate.LEFT_ALONE: "in trouble, left alone",
    Fate.REVIVED: "not seen well yet",
    Fate.HELD: "waits for your decision",
    Fate.GIVEN_UP: "given up",
    Fate.ENDED: "over",
}
_VERBS: Final[Mapping[Fate, str]] = {
    Fate.UNSEEN: "waits for {count}",
    Fate.HELD: "held {count}",
    Fate.GIVEN_UP: "gave up {count}",
    Fate.LEFT_ALONE: "left {count} alone",
}
