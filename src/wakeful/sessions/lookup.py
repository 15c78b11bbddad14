"""Finds sessions by what people call them. Pure.

The first of these that fits decides: the whole id of a client's session; the short name that lists show, and the id of
another log; the name of a run or agent; the tmux session, the start of the conversation id, and the project; then any
part of these. Several that fit are all returned: agents choose projects, tmux sessions and the ids of logs, and none
of them can stand for a session that is called so by another rule beside it.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from wakeful.core.ids import PROVIDER_PREFIXES, SessionId, is_clients_id

# Fewer characters of an id fit by chance.
PREFIX_CHARS_MIN: Final = 4


class MatchKind(StrEnum):
    """Which rule found a session. Only `PART` may find one that was not meant."""

    ID = "id"
    NAME = "name"
    TMUX = "tmux"
    PREFIX = "prefix"
    PROJECT = "project"
    PART = "part"
    NONE = "none"


class SessionNames(NamedTuple):
    """What one session is called."""

    id: SessionId
    short_name: str
    name: str | None
    agent: str | None
    tmux: str | None
    project: str
    alive: bool


class SessionMatches(NamedTuple):
    """The sessions that fit a text, living ones first."""

    match: MatchKind
    ids: tuple[SessionId, ...]


def match_sessions(text: str, sessions: Sequence[SessionNames]) -> SessionMatches:
    """The sessions that `text` stands for."""
    for rules in _RULES:
        fits = {kind: [each for each in sessions if fits_text(each, text)] for kind, fits_text in rules}
        fits = {kind: _only_living(kind, found) for kind, found in fits.items() if found}
        if fits:
            chosen = {each.id: each for found in fits.values() for each in found}.values()
            ordered = sorted(chosen, key=lambda each: (not each.alive, each.id))
            return SessionMatches(next(iter(fits)), tuple(each.id for each in ordered))
    return SessionMatches(MatchKind.NONE, ())


def _only_living(kind: MatchKind, fits: list[SessionNames]) -> list[SessionNames]:
    """A name, project or part of one means the session that lives, where one does."""
    if kind in {MatchKind.ID, MatchKind.PREFIX}:
        return fits
    return [each for each in fits if each.alive] or fits


def _is_clients_id(each: SessionNames, text: str) -> bool:
    return is_clients_id(each.id) and text in {each.id, each.id.removeprefix(_provider_prefix(each.id))}


def _is_id(each: SessionNames, text: str) -> bool:
    return each.id == text


def _is_short_name(each: SessionNames, text: str) -> bool:
    return each.short_name == text


def _is_name(each: SessionNames, text: str) -> bool:
    return text in (each.name, each.agent)


def _is_tmux(each: SessionNames, text: str) -> bool:
    return each.tmux == text


def _starts_id(each: SessionNames, text: str) -> bool:
    return len(text) >= PREFIX_CHARS_MIN and _starts_short_id(each, text)


def _is_project(each: SessionNames, text: str) -> bool:
    return each.project == text


def _starts_short_id(each: SessionNames, text: str) -> bool:
    return each.id.startswith(text) or each.id.removeprefix(_provider_prefix(each.id)).startswith(text)


def _has_part(each: SessionNames, text: str) -> bool:
    folded = text.casefold()
    # A few letters are in most ids.
    ids = (each.id,) if len(text) >= PREFIX_CHARS_MIN else ()
    names = (each.short_name, each.name, each.agent, each.tmux, each.project, *ids)
    return any(folded in known.casefold() for known in names if known)


def _provider_prefix(session_id: str) -> str:
    return next((each for each in PROVIDER_PREFIXES if session_id.startswith(each)), "")


_Rules = tuple[tuple[MatchKind, Callable[[SessionNames, str], bool]], ...]

_RULES: Final[tuple[_Rules, ...]] = (
    ((MatchKind.ID, _is_clients_id),),
    # What lists show stands for the session that they show so.
    ((MatchKind.ID, _is_id), (MatchKind.NAME, _is_short_name)),
    ((MatchKind.NAME, _is_name),),
    ((MatchKind.TMUX, _is_tmux), (MatchKind.PREFIX, _starts_id), (MatchKind.PROJECT, _is_project)),
    ((MatchKind.PREFIX, _starts_short_id),),
    ((MatchKind.PART, _has_part),),
)
