"""The short name of every session, the same in lists, the page, alerts and `wakeful top`. Pure.

It is the name of a run or agent, else the project. Where several sessions would have the same one, the only one
that lives keeps it, or the one that was active last if none lives; the others get the first characters of their
id behind it. `lookup` finds a session by its short name.
"""

from bisect import bisect_left, insort
from typing import Final, NamedTuple

from wakeful.core.ids import PROVIDER_PREFIXES, SessionId, common_prefix_chars, is_uuid
from wakeful.judging.findings import State
from wakeful.judging.session_record import SessionRecord

# Commands accept this many characters of an id.
KEY_CHARS_MIN: Final = 4
# The place of the version in a UUID. Version 7 begins with the time, which sessions of one minute share; its last
# group is random.
_VERSION_AT: Final = 14
_RANDOM_GROUP_AT: Final = 24


class _Member(NamedTuple):
    """What decides the short name of one session."""

    base: str
    key: str
    is_named: bool
    lives: bool
    last_activity: str


class ShortNames:
    """The short names of all known sessions; a change of one session may rename others of its group."""

    def __init__(self) -> None:
        self._members: dict[SessionId, _Member] = {}
        self._groups: dict[str, _Group] = {}
        self._shown: dict[SessionId, str] = {}
        self._renamed: dict[SessionId, str] = {}

    def put(self, record: SessionRecord) -> str:
        """The short name of a session with this record."""
        member, known = _member(record), self._members.get(record.id)
        if member == known:
            return self._shown[record.id]
        if known is not None and known.base != member.base:
            self.remove(record.id)
        self._members[record.id] = member
        group = self._groups.setdefault(member.base, _Group())
        self._update(group, group.put(record.id, member))
        self._renamed.pop(record.id, None)
        return self._shown[record.id]

    def remove(self, session_id: SessionId) -> None:
        """Forget a session."""
        member = self._members.pop(session_id, None)
        if member is None:
            return
        del self._shown[session_id]
        self._renamed.pop(session_id, None)
        group = self._groups[member.base]
        self._update(group, group.remove(session_id, member))
        if not group.members:
            del self._groups[member.base]

    def take_renamed(self) -> dict[SessionId, str]:
        """The new short names of sessions that others renamed since the last call."""
        renamed, self._renamed = self._renamed, {}
        return renamed

    def _update(self, group: "_Group", affected: set[SessionId]) -> None:
        for each in affected & group.members.keys():
            shown = group.name_of(each)
            if self._shown.get(each) != shown:
                self._shown[each] = self._renamed[each] = shown


class _Group:
    """The sessions of one name or project, and the one of them that needs no characters of its id."""

    def __init__(self) -> None:
        self.members: dict[SessionId, _Member] = {}
        self._living: set[SessionId] = set()
        self._living_named: set[SessionId] = set()
        self._keys: list[tuple[str, SessionId]] = []
        self._first: SessionId | None = None

    def put(self, session_id: SessionId, member: _Member) -> set[SessionId]:
        """Add or change a member; the members whose name may differ now."""
        if session_id not in self.members:
            insort(self._keys, (member.key, session_id))
        self.members[session_id] = member
        for group, belongs in (
            (self._living, member.lives),
            (self._living_named, member.lives and member.is_named),
        ):
            (group.add if belongs else group.discard)(session_id)
        affected = {session_id, *self._neighbours(session_id, member)}
        return affected | self._choose_first(session_id)

    def remove(self, session_id: SessionId, member: _Member) -> set[SessionId]:
        affected = set(self._neighbours(session_id, member))
        self._keys.remove((member.key, session_id))
        del self.members[session_id]
        self._living.discard(session_id)
        self._living_named.discard(session_id)
        return affected | self._choose_first(session_id)

    def name_of(self, session_id: SessionId) -> str:
        member = self.members[session_id]
        if session_id == self._first:
            return member.base
        if not _is_client(session_id):
            # A program chose this id: it is a name.
            return session_id
        neighbours = [self.members[each].key for each in self._neighbours(session_id, member)]
        shared = max((common_prefix_chars(member.key, each) for each in neighbours), default=0)
        return f"{member.base}-{member.key[: max(KEY_CHARS_MIN, shared + 1)]}"

    def _neighbours(self, session_id: SessionId, member: _Member) -> list[SessionId]:
        """Those before and behind it in the order of the keys."""
        at = bisect_left(self._keys, (member.key, session_id))
        return [each for _, each in (*self._keys[max(0, at - 1) : at], *self._keys[at + 1 : at + 2])]

    def _choose_first(self, changed: SessionId) -> set[SessionId]:
        """Choose again after a change of one member; those who gained or lost the bare name."""
        before, self._first = self._first, self._only_living() if self._living else self._last_active(changed)
        return {each for each in (before, self._first) if each is not None and before != self._first}

    def _only_living(self) -> SessionId | None:
        """The one living member; of several, the only one whose own name it is."""
        candidates = self._living_named or self._living
        return next(iter(candidates)) if len(candidates) == 1 else None

    def _last_active(self, changed: SessionId) -> SessionId | None:
        """Only the changed one can have overtaken a member that was first before and is known still."""
        first = self._first
        if first in self.members and first != changed and first not in self._living:
            candidates = {each for each in (first, changed) if each in self.members}
        else:
            candidates = set(self.members)
        return max(candidates, key=lambda each: (self.members[each].last_activity, each), default=None)


def _member(record: SessionRecord) -> _Member:
    own = record.name or record.agent
    # A space or a leading dash could not be typed without quotes.
    base = "-".join((own or record.project).split()).lstrip("-") or record.id
    lives = record.session_alive or record.state is not State.STOPPED
    return _Member(
        base, _key(record.id), own is not None, lives, "" if lives else record.last_activity_at or ""
    )


def _is_client(session_id: SessionId) -> bool:
    return session_id.startswith(PROVIDER_PREFIXES)


def _key(session_id: SessionId) -> str:
    """The part of an id whose beginning tells it from others."""
    prefix = next((each for each in PROVIDER_PREFIXES if session_id.startswith(each)), "")
    bare = session_id.removeprefix(prefix)
    return bare[_RANDOM_GROUP_AT:] if is_uuid(bare) and bare[_VERSION_AT] == "7" else bare
