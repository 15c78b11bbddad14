"""`wakeful.toml` of a working directory: whether a person trusts it, and who may say so."""

import os
from pathlib import Path
from typing import Final

from wakeful.config_reading import Document, read_file
from wakeful.domain.decoding import decode_json
from wakeful.domain.errors import OperatorError, WorldError
from wakeful.domain.hosting import AGENT_VARIABLE, SESSION_VARIABLE
from wakeful.places import Places
from wakeful.trusting import TrustBook

NAME: Final = "wakeful.toml"


class AgentMayNotTrust(OperatorError):
    """This asks from inside the session {session}. What to trust is a person's decision: run the command outside of it."""

    code = "agent-may-not-trust"
    exit_code = 1


def found_here() -> Document | None:
    """The working directory's configuration, if there is one. Never through a symlink. Raises ConfigError."""
    try:
        path = Path.cwd() / NAME
    except FileNotFoundError:
        # The working directory itself was removed.
        return None
    if not os.path.lexists(path):
        return None
    return Document(str(path), read_file(str(path), follow_symlink=False))


def is_trusted(document: Document, places: Places) -> bool:
    """Raises TrustDamaged."""
    return TrustBook(places.trusted).is_trusted(document.path, document.content)


def trust(document: Document, places: Places) -> None:
    """Remember this very content at this very path. Raises TrustDamaged."""
    TrustBook(places.trusted).trust(document.path, document.content)


def refuse_agents(places: Places) -> None:
    """Let a person pass. Raises AgentMayNotTrust for a process of a session, which the daemon knows; or its marks do."""
    from wakeful.domain.record import SessionRecord  # noqa: PLC0415 - most commands trust nothing
    from wakeful.interfaces.cli.asking import DaemonDesk  # noqa: PLC0415
    from wakeful.interfaces.cli.client import Client  # noqa: PLC0415
    from wakeful.interfaces.cli.session import ancestor_pids, own_conversations  # noqa: PLC0415

    marked = os.environ.get(SESSION_VARIABLE) or os.environ.get(AGENT_VARIABLE)
    if marked:
        raise AgentMayNotTrust(session=marked)
    try:
        answer = DaemonDesk(Client(places)).of_caller(own_conversations(), list(ancestor_pids()))
    except (OperatorError, WorldError):
        # The daemon knows no session of it; or none answers, and then only the marks tell.
        return
    raise AgentMayNotTrust(session=decode_json(answer.body, SessionRecord).id)
