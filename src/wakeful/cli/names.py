"""Finds the session that a person means: by name, agent, tmux session, id, project, or a part of one.

Several sessions that fit are a numbered choice on a terminal and an error with the list elsewhere. A session
that only a part of the text found is acted on only after a person said yes.
"""

from collections.abc import Callable, Sequence
from typing import Final

from wakeful.cli.commands.ls import whole_list
from wakeful.cli.format.sessions import match_lines, sort_key_of
from wakeful.cli.output import confirm, is_terminal, print_line, print_note, read_choice
from wakeful.cli.read import DaemonReader, read
from wakeful.client.client import decode_body, own_daemon
from wakeful.client.errors import DaemonAway, DaemonRefused, RequestRefused
from wakeful.core.errors import AmbiguousSession, BadSessionId, OperatorError, SessionNotFound, WakefulError
from wakeful.core.ids import SESSION_ID_CHARS_MAX, SessionId, is_clients_id, is_uuid, parse_session_id
from wakeful.judging.available_actions import ActionName
from wakeful.judging.session_record import SessionRecord
from wakeful.views.records import SessionMatchList

# The rule of the daemon that may find a session that was not meant.
_BY_PART: Final = "part"


class SeveralMatches(OperatorError):
    """{shown!r} matches {count} sessions. Name one of them:\n{candidates}"""

    code = "ambiguous-session"


class NoSuchName(BadSessionId):
    """No session {shown!r}. List them with `wakeful ls --all`."""


class PartOfName(OperatorError):
    """{shown!r} is only part of a name. Give the whole name:\n{candidates}"""

    code = "part-of-a-name"


class NothingAttachable(OperatorError):
    """No live session has a terminal to attach to. Start one: wakeful run -- claude"""

    code = "nothing-attachable"
    exit_code = 1


class AttachNameNeeded(OperatorError):
    """Name a session. {count} can be attached to:\n{candidates}"""

    code = "name-needed"


class NothingChosen(OperatorError):
    """Nothing was chosen, so nothing was done."""

    code = "nothing-chosen"
    exit_code = 1


def with_session(text: str, command: Callable[[SessionId], int], *, acting: bool) -> int:
    """Run `command` with the session that `text` names; its exit code.

    The daemon takes ids, their beginnings and names itself, so only other texts cost a further request. Before an
    order a text is looked up, unless it is the id of a client: the id of a log may be the name of another session.
    """
    if acting and not is_clients_id(text) and not is_uuid(text):
        found = _look_up(text, acting=acting)
        if found is not None:
            return command(found)
    try:
        return command(parse_session_id(text))
    except (BadSessionId, SessionNotFound, AmbiguousSession, RequestRefused) as error:
        if not _is_unknown(error):
            raise
        try:
            found = _look_up(text, acting=acting)
        except DaemonAway:
            if isinstance(error, RequestRefused):
                raise
            # None ran before either: this process looked for itself.
            found = None
        if found is None:
            if isinstance(error, BadSessionId) and _is_name(text):
                raise NoSuchName(shown=text) from error
            raise error  # noqa: TRY201 - not that of the look-up
    return command(found)


def find_session(text: str, *, acting: bool) -> SessionId:
    """The id of the session that `text` names. `acting`: a part of a name needs a person's yes.

    Raises SessionNotFound, SeveralMatches, PartOfName, NothingChosen, BadSessionId, DaemonAway.
    """
    found = _look_up(text, acting=acting)
    if found is None:
        try:
            raise SessionNotFound(shown=parse_session_id(text))
        except BadSessionId as error:
            raise (NoSuchName(shown=text) if _is_name(text) else error) from None
    return found


def choose_attachable() -> SessionId:
    """The live session that a person chooses, or the only one. Raises NothingAttachable, AttachNameNeeded, NothingChosen."""
    listed = whole_list(DaemonReader(own_daemon()), {}).sessions
    live = sorted((each for each in listed if _is_attachable(each)), key=sort_key_of)
    if not live:
        raise NothingAttachable
    lines = match_lines(live)
    if not is_terminal():
        raise AttachNameNeeded(count=len(live), candidates="\n".join(lines))
    return live[0].id if len(live) == 1 else _chosen(live, lines)


def _is_attachable(record: SessionRecord) -> bool:
    return record.session_alive and any(
        each.name is ActionName.ATTACH and each.allowed for each in record.actions
    )


def _is_name(text: str) -> bool:
    return text.isprintable() and bool(text.strip()) and len(text) <= SESSION_ID_CHARS_MAX


def _is_unknown(error: WakefulError) -> bool:
    """Whether the daemon, or this process without one, knows no single session of this id or name."""
    reason = error.reason if isinstance(error, RequestRefused) else error.code
    return reason in {BadSessionId.code, SessionNotFound.code, AmbiguousSession.code}


def _look_up(text: str, *, acting: bool) -> SessionId | None:
    """None for a text that names nothing, and where the daemon is too old to find names. Raises DaemonAway."""
    if not _is_name(text):
        return None
    try:
        # Only the daemon acts; without one, reading commands look at the machine themselves.
        if acting:
            answer = DaemonReader(own_daemon()).find(text)
        else:
            answer = read(lambda reader: reader.find(text), is_answer=False)
    except DaemonRefused:
        # An older one.
        return None
    found = decode_body(answer.body, SessionMatchList)
    if not found.sessions:
        return None
    if len(found.sessions) > 1:
        return _choose(text, found)
    only = found.sessions[0]
    if acting and found.match == _BY_PART:
        _confirm(text, only)
    return only.id


def _choose(text: str, found: SessionMatchList) -> SessionId:
    lines = match_lines(found.sessions)
    if not is_terminal():
        raise SeveralMatches(shown=text, count=found.total, candidates="\n".join(lines))
    if found.total > len(lines):
        print_note(f"{found.total - len(lines)} more match: give more of the name")
    return _chosen(found.sessions, lines)


def _chosen(sessions: Sequence[SessionRecord], lines: Sequence[str]) -> SessionId:
    for number, line in enumerate(lines, start=1):
        print_line(f"{number:>3}  {line}")
    typed = read_choice(f"Which one? 1-{len(sessions)}: ")
    if typed.isdecimal() and 1 <= int(typed) <= len(sessions):
        return sessions[int(typed) - 1].id
    raise NothingChosen


def _confirm(text: str, only: SessionRecord) -> None:
    (line,) = match_lines([only])
    if not is_terminal():
        raise PartOfName(shown=text, candidates=line)
    if not confirm(f"{line}\nThis one?"):
        raise NothingChosen
