"""Recognizes clients in panes: their processes, configuration folders, sessions and start dialogs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.core.ids import SessionId, is_uuid
from wakeful.core.process import Process
from wakeful.integrations.claude_code.registry import config_folder_of, identity_of as claude_subject
from wakeful.integrations.codex.rollout_source import identity_of as codex_subject
from wakeful.integrations.tmux import claude_dialogs, codex_dialogs
from wakeful.integrations.tmux.programs import (
    CLAUDE_OPTIONS,
    CODEX_OPTIONS,
    OptionArity,
    first_word,
    program_of,
    without_interpreter,
)
from wakeful.integrations.tmux.screen import Screen, front_group
from wakeful.integrations.tmux.start_screens import StartDialog
from wakeful.judging.evidence import DialogKind, SessionIdentity
from wakeful.judging.resume_command import project_folder
from wakeful.linux import proc


class _Program(Struct, frozen=True):
    """How one client is known. `others`: its commands that hold no conversation in a terminal."""

    options: Mapping[str, OptionArity]
    others: frozenset[str]
    # These do something else than to hold a conversation in a terminal.
    no_session: frozenset[str]
    # The variable that names its folder, and where that is without it.
    folder: tuple[str, str]
    dialog_on: Callable[[Screen], StartDialog | None]
    subject_of: Callable[[str, str], SessionIdentity]
    source: str
    # The words that are followed by the id of a conversation.
    naming: tuple[str, ...]
    # Whether the client itself says when its start is over.
    tells: bool
    # Whether the client finds the conversation that its command resumes.
    is_there: Callable[["PaneClient", str], bool]


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
        dialog_on=claude_dialogs.dialog_on,
        subject_of=claude_subject,
        source="claude-code",
        naming=("--session-id", "--resume", "-r"),
        tells=True,
        is_there=_is_in_its_folder,
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
        dialog_on=codex_dialogs.dialog_on,
        subject_of=codex_subject,
        source="codex",
        naming=("resume",),
        tells=False,
        is_there=lambda _client, _conversation: True,
    ),
}


class PaneClient(Struct, frozen=True):
    """A client in front of a pane's terminal that holds a conversation there, or is about to."""

    program: str
    process: Process

    @property
    def reports_status(self) -> bool:
        return _PROGRAMS[self.program].tells

    @property
    def folder(self) -> Path | None:
        """Where it keeps its things; None if its environment cannot be read."""
        return config_folder_of(self.process, *_PROGRAMS[self.program].folder)

    def dialog_on(self, screen: Screen) -> StartDialog | None:
        return _PROGRAMS[self.program].dialog_on(screen)

    def identity(self, host: str) -> SessionIdentity:
        """The session of the conversation that its command names; else one that stands for the conversation to come."""
        program = _PROGRAMS[self.program]
        words = without_interpreter(proc.command(self.process.pid))
        for word, following in zip(words, (*words[1:], ""), strict=True):
            name, _, value = word.partition("=")
            conversation = value or following
            if name not in program.naming or not is_uuid(conversation) or "--fork-session" in words:
                continue
            if name == "--session-id" or program.is_there(self, conversation):
                return program.subject_of(conversation, host)
        awaited = SessionId(f"{self.program}-start-{self.process.pid}-{self.process.started}")
        return SessionIdentity(awaited, self.program, host, program.source, awaited=True)


def client_in(pane_pid: int) -> PaneClient | None:
    """The client in front of this pane's terminal, if it holds a conversation there."""
    leader = front_group(pane_pid)
    if leader is None or leader <= 0:
        return None
    # A shell that runs a script keeps its programs in its own group.
    for pid in (leader, *proc.child_pids(leader)):
        program = client_started_by(proc.command(pid))
        process = proc.identify_or_none(pid) if program is not None else None
        if program is not None and process is not None:
            return PaneClient(program, process)
    return None


def client_started_by(command: Sequence[str]) -> str | None:
    """The client that this command starts, if it holds a conversation in its terminal."""
    words = without_interpreter(command)
    known = _PROGRAMS.get(name := program_of(words))
    if known is None or known.no_session.intersection(_before_prompt(words[1:])):
        return None
    return None if first_word(words[1:], known.options) in known.others else name


def dialog_of(command: Sequence[str], screen: Screen) -> StartDialog | None:
    """What the client of this command shows; None if it shows an input line, or if the command starts no client."""
    client = client_started_by(command)
    return None if client is None else _PROGRAMS[client].dialog_on(screen)


def blocking_dialog_text(agent: str, command: Sequence[str], screen: Screen) -> str | None:
    """Which known dialog the agent's client waits at, and what to do; None if it shows none."""
    dialog = dialog_of(command, screen)
    if dialog is None or dialog.kind is DialogKind.UNKNOWN:
        return None
    return f"a dialog of its client is open ({dialog.kind}): `wakeful attach {agent}` and answer it"


def _before_prompt(words: Sequence[str]) -> Sequence[str]:
    return words[: words.index("--")] if "--" in words else words
