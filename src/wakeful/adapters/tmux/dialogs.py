"""Which clients in panes show a dialog that no prompt gets past. It looks at screens; it never types.

Claude Code writes its registry file once the dialogs of its start are answered: a client in front of a terminal without
one is starting, and only its screen says what it waits for. Everybody else is known by the registry, and the screen is
looked at only for the words of a dialog that the registry tells of. A pane that showed nothing new since it was looked
at is not looked at again, so that idle sessions cost nothing.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.adapters.claude_code.registry import subject_of
from wakeful.adapters.system import proc
from wakeful.adapters.tmux.claude_dialogs import Shown, dialog_on
from wakeful.adapters.tmux.claude_status import config_folder_of, entry_of
from wakeful.adapters.tmux.failure import TmuxFailed
from wakeful.adapters.tmux.pane import shown
from wakeful.adapters.tmux.panes import DEADLINE_SECONDS, Listing, PaneRow
from wakeful.adapters.tmux.programs import program_of, unwrapped
from wakeful.adapters.tmux.server import TmuxServer
from wakeful.adapters.tmux.terminal import front_group
from wakeful.domain.evidence import DialogKind
from wakeful.domain.ids import SessionId, is_uuid
from wakeful.domain.process import Process, Sight
from wakeful.domain.subject import Subject
from wakeful.ports.eyes import Witness

# The input line or a dialog stood there 0.7 to 2 s after the start; on two busy cores it took up to ten times that.
STARTING_SECONDS_MAX: Final = 20.0
_DIALOG_OPEN: Final = "dialog open"
# These do something else than to hold a conversation in a terminal.
_NO_SESSION: Final = frozenset({"-p", "--print", "-v", "--version", "-h", "--help"})
_COMMANDS: Final = frozenset(
    {
        *("agents", "auth", "auto-mode", "doctor", "gateway", "install", "mcp", "plugin", "plugins"),
        *("project", "setup-token", "ultrareview", "update", "upgrade"),
    }
)
_NAMES_CONVERSATION: Final = ("--session-id", "--resume", "-r")


class _Glance(Struct, frozen=True):
    """What was found in a pane that had last shown something new at `wrote`."""

    wrote: int
    # The client whose screen matters; None if there is none in front of this pane.
    client: Process | None
    # Whether the screen has been read and nothing but news can change what it said.
    read: bool


class Dialogs:
    """Looks at the screens of clients that are starting, or say that a dialog is open."""

    def __init__(
        self,
        witness: Witness,
        held_by: Callable[[Process], Subject | None],
        config_folders: Sequence[Path],
        host: str,
        apart: Sequence[str] = (),
        deadline_seconds: float = DEADLINE_SECONDS,
        starting_seconds: float = STARTING_SECONDS_MAX,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._witness = witness
        self._held_by = held_by
        self._config_folders = frozenset(config_folders)
        self._host = host
        # Who works in these folders was asked something by us, and is no session.
        self._apart = apart
        self._deadline_seconds = deadline_seconds
        self._starting_seconds = starting_seconds
        self._wall = wall
        self._asking: set[Process] = set()
        self._glances: dict[tuple[Path, PaneRow], _Glance] = {}

    async def look(self, listings: Iterable[Listing], anew: Collection[int] = ()) -> bool:
        """Report every dialog, and those that are over; whether a client is starting or asks something.

        The panes with the pids `anew` are looked at even if they show nothing new.
        """
        glances: dict[tuple[Path, PaneRow], _Glance] = {}
        for listing in listings:
            if listing.sight is Sight.UNKNOWN:
                # It gave no answer: what was seen there stays seen.
                glances |= {at: each for at, each in self._glances.items() if at[0] == listing.socket}
                continue
            server = TmuxServer(str(listing.socket), self._deadline_seconds)
            for row, wrote in zip(listing.panes, listing.wrote, strict=True):
                place = listing.socket, row
                if not row.dead:
                    before = None if row.pid in anew else self._glances.get(place)
                    glances[place] = await self._glance(server, row, wrote, before)
        self._glances = glances
        awaited = {each.client for each in glances.values() if each.client is not None}
        # One that is not in front for a while (Ctrl-Z) comes back; one that ended was told by its process.
        self._asking = {each for each in self._asking if each in awaited or proc.sight(each) is Sight.ALIVE}
        return bool(awaited)

    async def _glance(self, server: TmuxServer, row: PaneRow, wrote: int, before: _Glance | None) -> _Glance:
        """Who is in front of this pane and what it shows, looked up only where that may have changed."""
        # tmux tells whole seconds: what is written later in the same one would not be noticed.
        is_over = int(self._wall()) > wrote
        known = before if before is not None and before.wrote == wrote else None
        client = client_in(row.pid) if known is None else known.client
        if client is None or not self._concerns(client):
            return _Glance(wrote if is_over else 0, None, read=True)
        if known is not None and known.read:
            return known
        read = await self._read(client, server, row.pane_id)
        return _Glance(wrote if is_over else 0, client, read=read)

    def _concerns(self, client: Process) -> bool:
        """Whether its screen has to be looked at. One whose registry nobody watches would never become a session."""
        entry = entry_of(client)
        if entry is not None and entry.waiting_for != _DIALOG_OPEN:
            self._over(client)
            return False
        if self._held_by(client) is not None:
            return True
        folder = config_folder_of(client)
        watched = folder is not None and folder.resolve() in self._config_folders
        return watched and proc.cwd(client.pid) not in self._apart

    async def _read(self, client: Process, server: TmuxServer, target: str) -> bool:
        """Report what its screen shows; False if it has to be looked at again though nothing new is shown."""
        try:
            seen = dialog_on(await server.look(target))
        except TmuxFailed:
            # The screen was not seen: what was said of it stays said.
            return False
        if seen is None:
            self._over(client)
        elif seen.kind is not DialogKind.UNKNOWN or self._is_strange(client):
            self._report(client, seen)
        else:
            return entry_of(client) is not None
        return True

    def _is_strange(self, client: Process) -> bool:
        """Whether it should show something known by now. A dialog that its registry tells of has been told."""
        return entry_of(client) is None and proc.age_seconds(client) > self._starting_seconds

    def _report(self, client: Process, seen: Shown) -> None:
        self._asking.add(client)
        subject = self._held_by(client) or _subject(client, self._host)
        self._witness.asked(subject, client, seen.kind, shown(seen.words), cwd=proc.cwd(client.pid))

    def _over(self, client: Process) -> None:
        if client in self._asking:
            self._asking.discard(client)
            self._witness.not_asked(client)


def client_in(pane_pid: int) -> Process | None:
    """The Claude Code in front of this pane's terminal, if it holds a conversation there."""
    leader = front_group(pane_pid)
    if leader is None or leader <= 0:
        return None
    pid = leader if _is_client(leader) else next(filter(_is_client, proc.child_pids(leader)), None)
    return proc.identify_if_seen(pid) if pid is not None else None


def _is_client(pid: int) -> bool:
    """Whether it holds a conversation; a shell that runs a script keeps its programs in its own group."""
    words = unwrapped(proc.command(pid))
    if program_of(words) != "claude":
        return False
    return not _NO_SESSION.intersection(words[1:]) and not _COMMANDS.intersection(words[1:2])


def _subject(client: Process, host: str) -> Subject:
    """The session of the conversation that its command names; else one that stands for the conversation to come."""
    words = unwrapped(proc.command(client.pid))
    for word, following in zip(words, (*words[1:], ""), strict=True):
        name, _, value = word.partition("=")
        conversation = value or following
        if name in _NAMES_CONVERSATION and is_uuid(conversation) and "--fork-session" not in words:
            return subject_of(conversation, host)
    awaited = SessionId(f"claude-start-{client.pid}-{client.started}")
    return Subject(awaited, "claude", host, "claude-code", awaited=True)
