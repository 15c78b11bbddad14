"""The short name of every session, the same in lists, the page, alerts and `wakeful top`. Pure.

It is the name of a run or agent, else the project. Where several sessions would have the same one, the one that a
person named so keeps it, else the only one that lives, or the one that was active last if none lives; the others get
the first characters of their id behind it. `lookup` finds a session by its short name.

Agents choose the projects and programs the ids of their logs, so a name may look like one made for another session. A
client's session comes before a log that any program may write; two clients are both called by their whole ids then.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Final, NamedTuple

from wakeful.core.ids import PROVIDER_PREFIXES, SessionId, common_prefix_chars, is_clients_id, is_uuid
from wakeful.judging.findings import State
from wakeful.judging.session_record import SessionRecord

# A UUID with dashes.
_ID_CHARS: Final = 36

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
    provider: str
    is_named: bool
    is_client: bool
    lives: bool
    last_activity: str

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """What a person named comes first, what any program may have written last."""
        return self.is_named, self.is_named or self.is_client, self.lives


class ShortNames:
    """The short names of all known sessions; a change of one session may rename others of its group."""

    def __init__(self) -> None:
        self._members: dict[SessionId, _Member] = {}
        self._groups: dict[str, _Group] = {}
        # The name by each session's own group, and the sessions by that name: one of another group may have the same.
        self._wanted: dict[SessionId, str] = {}
        self._claims: dict[str, set[SessionId]] = {}
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
        # Its rank decides who of several is called so, also where its name stays.
        self._settle((self._wanted[record.id], *_ids_of(record.id)))
        self._renamed.pop(record.id, None)
        return self._shown[record.id]

    def remove(self, session_id: SessionId) -> None:
        """Forget a session."""
        member = self._members.pop(session_id, None)
        if member is None:
            return
        wanted = self._wanted.pop(session_id)
        self._drop_claim(wanted, session_id)
        del self._shown[session_id]
        self._renamed.pop(session_id, None)
        group = self._groups[member.base]
        self._update(group, group.remove(session_id, member))
        self._settle([wanted, *_ids_of(session_id)])
        if not group.members:
            del self._groups[member.base]

    def shown_as(self, name: str) -> SessionId | None:
        """The session that lists show so."""
        return next((each for each in self._claims.get(name, ()) if self._shown[each] == name), None)

    def called(self, name: str) -> list[SessionId]:
        """The sessions whose run, agent or project is called so."""
        group = self._groups.get(name)
        return sorted(group.members) if group is not None else []

    def take_renamed(self) -> dict[SessionId, str]:
        """The new short names of sessions that others renamed since the last call."""
        renamed, self._renamed = self._renamed, {}
        return renamed

    def _update(self, group: "_Group", affected: set[SessionId]) -> None:
        changed: list[str] = []
        for each in affected & group.members.keys():
            wanted, before = group.name_of(each), self._wanted.get(each)
            if wanted == before:
                continue
            if before is not None:
                self._drop_claim(before, each)
                changed.append(before)
            self._wanted[each] = wanted
            self._claims.setdefault(wanted, set()).add(each)
            changed.append(wanted)
        self._settle(changed)

    def _drop_claim(self, name: str, session_id: SessionId) -> None:
        self._claims[name].discard(session_id)
        if not self._claims[name]:
            del self._claims[name]

    def _settle(self, names: Iterable[str]) -> None:
        """Give each of these names to one session that wants it, or to none."""
        for name in names:
            claimants = self._claims.get(name)
            if not claimants:
                continue
            owner = self._owner(name, claimants)
            for each in claimants:
                shown = name if each == owner else self._whole_name(each)
                if self._shown.get(each) != shown:
                    self._shown[each] = self._renamed[each] = shown

    def _owner(self, name: str, claimants: set[SessionId]) -> SessionId | None:
        # Most names are too short for an id.
        is_id = len(name) >= _ID_CHARS and (is_clients_id(name) or is_uuid(name))
        for prefix in ("", *PROVIDER_PREFIXES) if is_id else ():
            # The whole id of another one, or its conversation's.
            if prefix + name in self._members:
                return SessionId(prefix + name)
        if len(claimants) < 2:
            return next(iter(claimants), None)
        ranks = {each: self._members[each].rank[:2] for each in claimants}
        best = [each for each in claimants if ranks[each] == max(ranks.values())]
        return best[0] if len(best) == 1 else None

    def _whole_name(self, session_id: SessionId) -> str:
        """A name that no other session can have: no project, run or agent has a colon in its name."""
        member = self._members[session_id]
        return session_id if member.is_client else f"{member.provider}:{session_id}"


class _Group:
    """The sessions of one name or project, and the one of them that needs no characters of its id."""

    def __init__(self) -> None:
        self.members: dict[SessionId, _Member] = {}
        self._ranks: dict[tuple[bool, bool, bool], set[SessionId]] = {}
        self._keys: list[tuple[str, SessionId]] = []
        self._first: SessionId | None = None

    def put(self, session_id: SessionId, member: _Member) -> set[SessionId]:
        """Add or change a member; the members whose name may differ now."""
        if session_id not in self.members:
            insort(self._keys, (member.key, session_id))
        else:
            self._leave_rank(session_id)
        self.members[session_id] = member
        self._ranks.setdefault(member.rank, set()).add(session_id)
        affected = {session_id, *self._neighbours(session_id, member)}
        return affected | self._choose_first(session_id)

    def remove(self, session_id: SessionId, member: _Member) -> set[SessionId]:
        affected = set(self._neighbours(session_id, member))
        self._keys.remove((member.key, session_id))
        self._leave_rank(session_id)
        del self.members[session_id]
        return affected | self._choose_first(session_id)

    def name_of(self, session_id: SessionId) -> str:
        member = self.members[session_id]
        if session_id == self._first:
            return member.base
        if not member.is_client:
            # A program chose this id: it is a name.
            return session_id
        neighbours = [self.members[each].key for each in self._neighbours(session_id, member)]
        shared = max((common_prefix_chars(member.key, each) for each in neighbours), default=0)
        return f"{member.base}-{member.key[: max(KEY_CHARS_MIN, shared + 1)]}"

    def _neighbours(self, session_id: SessionId, member: _Member) -> list[SessionId]:
        """Those before and behind it in the order of the keys."""
        at = bisect_left(self._keys, (member.key, session_id))
        return [each for _, each in (*self._keys[max(0, at - 1) : at], *self._keys[at + 1 : at + 2])]

    def _leave_rank(self, session_id: SessionId) -> None:
        rank = self.members[session_id].rank
        self._ranks[rank].discard(session_id)
        if not self._ranks[rank]:
            del self._ranks[rank]

    def _choose_first(self, changed: SessionId) -> set[SessionId]:
        """Choose again after a change of one member; those who gained or lost the bare name."""
        before, self._first = self._first, self._best(changed)
        return {each for each in (before, self._first) if each is not None and before != self._first}

    def _best(self, changed: SessionId) -> SessionId | None:
        """Of those with the highest rank: the only one that lives, or the one that was active last."""
        if not self._ranks:
            return None
        rank = max(self._ranks)
        candidates, (_, _, live) = self._ranks[rank], rank
        if live:
            return next(iter(candidates)) if len(candidates) == 1 else None
        if self._first in candidates and self._first != changed:
            # Only the changed one can have overtaken it.
            candidates = candidates & {self._first, changed}
        return max(candidates, key=lambda each: (self.members[each].last_activity, each))


def _member(record: SessionRecord) -> _Member:
    own = record.name or record.agent
    # A space or a leading dash could not be typed without quotes.
    base = "-".join((own or record.project).split()).lstrip("-") or record.id
    lives = record.session_alive or record.state is not State.STOPPED
    return _Member(
        base,
        _key(record.id),
        record.provider,
        own is not None,
        is_clients_id(record.id),
        lives,
        "" if lives else record.last_activity_at or "",
    )


def _ids_of(session_id: SessionId) -> tuple[str, ...]:
    """The whole id, and that of a client's conversation."""
    prefix = next((each for each in PROVIDER_PREFIXES if session_id.startswith(each)), "")
    return session_id, session_id.removeprefix(prefix)


def _key(session_id: SessionId) -> str:
    """The part of an id whose beginning tells it from others."""
    prefix = next((each for each in PROVIDER_PREFIXES if session_id.startswith(each)), "")
    bare = session_id.removeprefix(prefix)
    return bare[_RANDOM_GROUP_AT:] if is_uuid(bare) and bare[_VERSION_AT] == "7" else bare
