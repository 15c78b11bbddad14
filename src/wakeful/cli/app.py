"""The command `wakeful`: the table of its commands, their lazy import, and the exit codes.

A command is imported only when it runs, so that `--help` and mistakes import none of them. Commands return
their exit code or raise; only this module turns either into the exit of the process.
"""

import io
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from wakeful import __version__
from wakeful.cli.output import INTERRUPTED_EXIT_CODE, OutputLost, print_error, print_pending_notes, wants_json
from wakeful.core.errors import WakefulError, WorldError
from wakeful.core.text import plain

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandEntry(NamedTuple):
    """A command in its section of the help: where its code is (`module:attribute`) and one line about it."""

    section: str
    place: str
    summary: str


class LazyGroup(click.Group):
    """Knows its commands by name and summary; imports the one that runs."""

    def __init__(self, *args: Any, entries: Mapping[str, CommandEntry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in self._entries or name.startswith("-"):
            return super().resolve_command(ctx, args)
        close = get_close_matches(name, self._entries, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise click.UsageError(f"No such command {name[:40]!r}.{meant}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """From the table: click itself would import every command."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only shells ask

        named = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self._entries.items()
            if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self._entries.items():
            sections.setdefault(entry.section, []).append((name, entry.summary))
        width = max(map(len, self._entries))
        for section, rows in sections.items():
            with formatter.section(section):
                # One width for all sections, or every section would start its column elsewhere.
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])


# The code that a shell reports for a program ended by SIGPIPE.
PIPE_BROKEN_EXIT_CODE: Final = 141
BUG_EXIT_CODE: Final = 4

COMMANDS: Final = {
    "ls": CommandEntry(
        "See", "wakeful.cli.commands.ls:ls", "Every session: what it does, who needs you first"
    ),
    "status": CommandEntry(
        "See", "wakeful.cli.commands.status:status", "The daemon: mode, doors, eyes, who needs you"
    ),
    "session": CommandEntry(
        "See", "wakeful.cli.commands.session:session", "One session: health, status, why, wait and more"
    ),
    "top": CommandEntry("See", "wakeful.tui.command:top", "The same live in a terminal, with keys"),
    "open": CommandEntry("See", "wakeful.cli.commands.daemon:open_page", "A one-time link to the web page"),
    "doctor": CommandEntry(
        "See", "wakeful.cli.doctor.command:doctor", "Check this machine and say what to do"
    ),
    "demo": CommandEntry(
        "See", "wakeful.cli.commands.daemon:demo", "Scripted agents in a throw-away home, for a minute"
    ),
    "replay": CommandEntry(
        "See", "wakeful.cli.commands.replay:replay", "Judge recorded logs again, with any thresholds"
    ),
    "events": CommandEntry(
        "See", "wakeful.cli.commands.events:events", "Critical events: what went wrong, what was done"
    ),
    "incidents": CommandEntry(
        "See", "wakeful.cli.commands.incidents:incidents", "What is wrong by its cause, many sessions in one"
    ),
    "report": CommandEntry(
        "See",
        "wakeful.cli.commands.report:report",
        "What happened since 22:00: who finished, waits, died; git, cost",
    ),
    "services": CommandEntry(
        "See", "wakeful.cli.commands.services:services", "The hub and what runs in containers and tmux"
    ),
    "mute": CommandEntry(
        "Heal", "wakeful.cli.commands.mute:mute", "No alerts about a session, project or code for a while"
    ),
    "unmute": CommandEntry("Heal", "wakeful.cli.commands.mute:unmute", "Tell about it again"),
    "restore": CommandEntry(
        "Heal", "wakeful.cli.commands.healing:restore", "Bring back what a reboot took along"
    ),
    "pause": CommandEntry(
        "Heal", "wakeful.cli.commands.mute:pause", "Stop everything Wakeful would do by itself"
    ),
    "resume": CommandEntry("Heal", "wakeful.cli.commands.mute:resume", "End a pause"),
    "up": CommandEntry("Run", "wakeful.cli.commands.daemon:up", "Start watching; --detach puts it behind"),
    "down": CommandEntry("Run", "wakeful.cli.commands.daemon:down", "End the daemon; agents go on"),
    "run": CommandEntry(
        "Run", "wakeful.cli.commands.run:run", "Start an agent that Wakeful manages: run -- claude …"
    ),
    "attach": CommandEntry(
        "Run", "wakeful.cli.commands.run:attach", "Go to the terminal of an agent or a session"
    ),
    "agent": CommandEntry(
        "Run", "wakeful.cli.commands.agent:agent", "Agents of the hub: list, start, stop, restart-session"
    ),
    "work": CommandEntry(
        "Run", "wakeful.cli.commands.work:work", "Hand out work: add, list, claim, heartbeat, complete, fail"
    ),
    "recover": CommandEntry(
        "Recover", "wakeful.cli.commands.recover:recover", "Settle what a crash left of a program's journal"
    ),
    "checkpoint": CommandEntry(
        "Recover", "wakeful.cli.commands.checkpoint:checkpoint", "Decide what goes on after a crash"
    ),
    "backlog": CommandEntry(
        "Recover", "wakeful.cli.commands.backlog:backlog", "What is to be done: add, update, list, sync"
    ),
    "gateway": CommandEntry(
        "Chat",
        "wakeful.cli.commands.gateway:gateway",
        "Answer a chat: messages become turns of managed sessions",
    ),
    "alerts": CommandEntry(
        "Chat", "wakeful.cli.commands.alerts:alerts", "test: one message through every channel"
    ),
    "config": CommandEntry(
        "Set up", "wakeful.cli.commands.config:config", "init, show, check, trust, import"
    ),
    "mcp": CommandEntry(
        "Set up", "wakeful.mcp.command:mcp", "A server for agents that speak MCP; read-only by itself"
    ),
    "completion": CommandEntry(
        "Set up", "wakeful.cli.completion:completion", "Let bash, zsh or fish complete words"
    ),
    "hooks": CommandEntry(
        "Set up", "wakeful.cli.commands.hooks:hooks", "install, uninstall: what clients ask is known at once"
    ),
    "autostart": CommandEntry(
        "Set up", "wakeful.cli.commands.autostart:autostart", "install, remove: kept running by systemd"
    ),
}


class NotLinux(WorldError):
    """Wakeful needs Linux; this is {platform}."""

    code = "not-linux"


@click.command(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: wakeful up --detach && wakeful ls",
)
@click.version_option(__version__, message="wakeful %(version)s")
def root() -> None:
    """The truth about every agent session on this machine."""
    if sys.platform != "linux":
        raise NotLinux(platform=sys.platform)


def run() -> int:
    """Run the command of this process's arguments. Every failure becomes one line and an exit code."""
    try:
        _prepare_streams()
        code = _invoke(sys.argv[1:])
        sys.stdout.flush()
        print_pending_notes()
    except KeyboardInterrupt:
        # A person who pressed Ctrl-C knows why; a program that reads JSON does not.
        if wants_json(sys.argv[1:]):
            print_error("interrupted by a signal", INTERRUPTED_EXIT_CODE, "interrupted", retryable=True)
        return INTERRUPTED_EXIT_CODE
    except BrokenPipeError:
        _discard_output()
        return PIPE_BROKEN_EXIT_CODE
    except Exception as problem:  # noqa: BLE001 - the last place where a bug can become one line
        return _report_problem(_output_error() or problem)
    return code


def _prepare_streams() -> None:
    """A terminal that cannot show a character shows a question mark instead. Raises OutputLost."""
    if sys.stderr is None:
        # Closed by the caller, who wants no remarks.
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - it stays open to the end
    if sys.stdout is None:
        raise OutputLost(reason="closed")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _output_error() -> OutputLost | None:
    """The error of standard output, if it takes nothing any more: then that is the cause."""
    if sys.stdout is None:
        return None
    try:
        sys.stdout.flush()
    except OSError as problem:
        _discard_output()
        return OutputLost(reason=problem.strerror)
    return None


def _discard_output() -> None:
    """Python flushes once more at its end and would report an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _invoke(words: list[str]) -> int:
    """As click's own `main`, except for closed pipes: there it exits 1, which is an answer here."""
    if "_WAKEFUL_COMPLETE" in os.environ:
        # A shell completes a word; click answers and exits.
        root.main(prog_name="wakeful")
    try:
        with root.make_context("wakeful", words) as context:
            code = root.invoke(context)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    return int(code or 0)


def _report_problem(problem: Exception) -> int:
    """Print what happened in one line; its exit code."""
    if isinstance(problem, ExceptionGroup):
        # The first of several failures is usually the cause.
        return _report_problem(problem.exceptions[0])
    if isinstance(problem, WakefulError) and problem.exit_code != BUG_EXIT_CODE:
        code, retryable = _code_and_retryable(problem)
        return print_error(str(problem), problem.exit_code, code, retryable=retryable)
    if isinstance(problem, click.ClickException):
        context = getattr(problem, "ctx", None)
        exit_code = problem.exit_code if problem.exit_code != 1 else 2
        if isinstance(problem, click.exceptions.NoArgsIsHelpError):
            problem.show()
            return exit_code
        hint = f" Try '{context.command_path} --help'." if context is not None else ""
        said = plain(problem.format_message())
        return print_error(f"{said}{'' if said.endswith(('.', '?', '!')) else '.'}{hint}", exit_code, "usage")
    if isinstance(problem, OSError) and problem.strerror:
        # The filename of an error may also be the number of a descriptor.
        place = f"{os.fsdecode(problem.filename)}: " if isinstance(problem.filename, str | bytes) else ""
        return print_error(f"{place}{problem.strerror}", WorldError.exit_code, "os-error")
    if os.environ.get("WAKEFUL_DEBUG") == "1":
        import traceback  # noqa: PLC0415 - a tenth of the start time, for debugging only

        traceback.print_exception(problem)
    words = f"this is a bug of ours: {type(problem).__name__}: {problem} (WAKEFUL_DEBUG=1 shows where)"
    return print_error(words, BUG_EXIT_CODE, "bug")


def _code_and_retryable(problem: WakefulError) -> tuple[str, bool]:
    """Its code and whether it may be retried; a refusal of the daemon keeps those of its document."""
    document = problem.facts.get("problem")
    if not isinstance(document, dict) or not isinstance(document.get("code"), str):
        return problem.code, problem.retryable
    return document["code"], document.get("retryable") is True
