"""A session that was merely found, as it is kept once a person hands it over: where it is shown, and how it goes on."""

from collections.abc import Callable

from wakeful.control.resuming import CannotResume
from wakeful.core.managed_session import Hosting, PaneAddress
from wakeful.core.process import Process, Sight
from wakeful.judging.evidence import Pane
from wakeful.sessions.session import Watched


def adopted(
    watched: Watched,
    process: Process | None,
    program: str | None,
    command: Callable[[Process], tuple[str, ...]],
    *,
    epoch: int,
    since: float,
) -> Hosting:
    """Its hosting under a new claim. `program` continues its conversation. Raises CannotResume."""
    subject, pane = watched.subject, watched.presence.pane
    cwd = watched.activity.cwd or watched.presence.cwd
    conversation = watched.activity.conversation_id or subject.conversation_id
    if program is None or cwd is None or conversation is None:
        raise CannotResume(shown=subject.id, reason="only Claude Code and Codex sessions can be handed over")
    in_pane = pane is not None and pane.sight is Sight.ALIVE
    return Hosting(
        session_id=subject.id,
        conversation_id=conversation,
        driver="tmux" if in_pane else program,
        cwd=cwd,
        # Its own flags are worth keeping where a person sees it; without a terminal they were for one run.
        argv=command(process) if process is not None and in_pane else (program,),
        epoch=epoch,
        since=since,
        process=process,
        pane=address_of(pane) if pane is not None and in_pane else None,
        adopted=True,
        name=subject.name,
    )


def address_of(pane: Pane) -> PaneAddress:
    """Where a pane is found again."""
    return PaneAddress(pane.socket, pane.target, pane.session, pane.process, pane.server)
