"""Recognizes clients in panes: their processes, configuration folders, sessions and start dialogs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.core.ids import SessionId, is_uuid
from wakeful.core.process import Process
from wakeful.integrations.claude_code.registry import config_folder_of, identity_of as claude_identity
from wakeful.integrations.codex.rollout_source import identity_of as codex_identity
from wakeful.integrations.tmux.programs import (
    CLAUDE_OPTIONS,
    CODEX_OPTIONS,
    OptionArity,
    first_word,
    program_of,
    without_interpreter,
)
from wakeful.integrations.tmux.screen import Screen, front_group
from wakeful.integrations.tmux.start_screens import StartDialog, claude_dialog_on, codex_dialog_on
from wakeful.judging.evidence import DialogKind, SessionIdentity
from wakeful.judging.resume_command import project_folder
from wakeful.linux import proc

UNKNOWN_SCREEN: Final = "its client shows neither an input line nor a dialog that Wakeful knows"


class _Program(Struct, frozen=True):
    """One client. `others`, `no_session`: commands and options without a conversation in a terminal."""

    options: Mapping[str, OptionArity]
    others: frozenset[str]
    no_session: frozenset[str]
    # The variable for its folder, and the default below HOME.
    folder: tuple[str, str]
    dialog_on: Callable[[Screen], StartDialog | None]
    identity_of: Callable[[str, str], SessionIdentity]
    source: str
    # The arguments that the id of a conversation follows.
    naming: tuple[str, ...]
    # The client itself reports the end of its start.
    reports_status: bool
    # Whether the client finds the conversation that its command resumes.
    has_conversation: Callable[["PaneClient", str], bool]


def _is_in_its_folder(client: "PaneClient", conversation: str) -> bool:
    """Claude Code finds a conversation only in the folder in which it was begun."""
    folder, cwd = client.folder, proc.cwd(client.process.pid)
    if folder is None or cwd is None:
        return True
    return (folder / "projects" / project_folder(cwd) / f"{conversation}.jsonl").exists()


_PROGRAMS: Final[Mapping[str, _Program]] = {
    "claude": _Program(
        options=CLAUDE_OPTIONS,
        others=frozenset(
            {
                *("agents", "auth", "auto-mode", "doctor", "gateway", "install", "mcp", "plugin", "plugins"),
                *("project", "setup-token", "ultrareview", "update", "upgrade"),
            }
        ),
        no_session=frozenset({"-p", "--print", "-v", "--version", "-h", "--help"}),
        folder=("CLAUDE_CONFIG_DIR", ".claude"),
        dialog_on=claude_dialog_on,
        identity_of=claude_identity,
        source="claude-code",
        naming=("--session-id", "--resume", "-r"),
        reports_status=True,
        has_conversation=_is_in_its_folder,
    ),
    "codex": _Program(
        options=CODEX_OPTIONS,
        others=frozenset(
            {
                *("exec", "e", "review", "login", "logout", "mcp", "mcp-server", "app-server", "plugin"),
                *("remote-control", "completion", "sandbox", "execpolicy", "debug", "apply", "a", "cloud"),
                *("responses-api-proxy", "stdio-to-uds", "features", "doctor", "update", "help"),
            }
        ),
        no_session=frozenset({"-V", "--version", "-h", "--help"}),
        folder=("CODEX_HOME", ".codex"),
        dialog_on=codex_dialog_on,
        identity_of=codex_identity,
        source="codex",
        naming=("resume",),
        reports_status=False,
        has_conversation=lambda _client, _conversation: True,
    ),
}


class PaneClient(Struct, frozen=True):
    """A client in front of a pane's terminal that holds a conversation there, or is about to."""

    program: str
    process: Process

    @property
    def reports_status(self) -> bool:
        return _PROGRAMS[self.program].reports_status

    @property
    def folder(self) -> Path | None:
        """Its configuration folder; None if its environment cannot be read."""
        return config_folder_of(self.process, *_PROGRAMS[self.program].folder)

    def dialog_on(self, screen: Screen) -> StartDialog | None:
        return _PROGRAMS[self.program].dialog_on(screen)

    def identity(self, host: str) -> SessionIdentity:
        """The session of the conversation that its command names; else a session for the conversation to come."""
        program = _PROGRAMS[self.program]
        argv = without_interpreter(proc.command(self.process.pid))
        for word, following in zip(argv, (*argv[1:], ""), strict=True):
            name, _, value = word.partition("=")
            conversation = value or following
            if name not in program.naming or not is_uuid(conversation) or "--fork-session" in argv:
                continue
            if name == "--session-id" or program.has_conversation(self, conversation):
                return program.identity_of(conversation, host)
        awaited = SessionId(f"{self.program}-start-{self.process.pid}-{self.process.started}")
        return SessionIdentity(awaited, self.program, host, program.source, awaited=True)


def client_in(pane_pid: int) -> PaneClient | None:
    """The client in front of this pane's terminal, if it holds a conversation there."""
    leader = front_group(pane_pid)
    if leader is None or leader <= 0:
        return None
    # A shell that runs a script has its programs in its own group.
    for pid in (leader, *proc.child_pids(leader)):
        program = client_started_by(proc.command(pid))
        process = proc.identify_or_none(pid) if program is not None else None
        if program is not None and process is not None:
            return PaneClient(program, process)
    return None


def client_started_by(command: Sequence[str]) -> str | None:
    """The client that this command starts, if it holds a conversation in its terminal."""
    argv = without_interpreter(command)
    known = _PROGRAMS.get(name := program_of(argv))
    before_prompt = argv[1 : argv.index("--")] if "--" in argv[1:] else argv[1:]
    if known is None or known.no_session.intersection(before_prompt):
        return None
    return None if first_word(argv[1:], known.options) in known.others else name


def dialog_of(command: Sequence[str], screen: Screen) -> StartDialog | None:
    """The dialog of the client of this command; None if it shows an input line, or if the command starts no client."""
    client = client_started_by(command)
    return None if client is None else _PROGRAMS[client].dialog_on(screen)


def blocking_dialog_text(agent: str, command: Sequence[str], screen: Screen) -> str | None:
    """The known dialog of the agent's client, and what to do; None if it shows none."""
    dialog = dialog_of(command, screen)
    if dialog is None or dialog.kind is DialogKind.UNKNOWN:
        return None
    return f"a dialog of its client is open ({dialog.kind}): `wakeful attach {agent}` and answer it"
