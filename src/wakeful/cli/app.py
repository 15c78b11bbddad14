"""The command `wakeful`: the table of its commands, their lazy import, and the exit codes.

A command is imported only when it runs, so that `--help` and mistakes import none of them. Commands return
their exit code or raise; only this module turns either into the exit of the process.
"""

import codecs
import io
import os
import re
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from click.formatting import wrap_text

from wakeful import __version__
from wakeful.cli.output import (
    INTERRUPTED_EXIT_CODE,
    OutputLost,
    is_terminal,
    print_error,
    print_pending_notes,
    wants_json,
)
from wakeful.core.errors import WakefulError, WorldError
from wakeful.core.text import plain

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


HIDDEN: Final = "hidden"


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
        listed = [each for each, entry in self._entries.items() if entry.section != HIDDEN]
        close = (
            [_MEANT[name]]
            if name in _MEANT
            else get_close_matches(name, listed, n=1) or get_close_matches(name, self._entries, n=1)
        )
        meant = f" Did you mean `{ctx.command_path} {close[0]}`?" if close else ""
        raise click.UsageError(f"No such command {name[:40]!r}.{meant}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """From the table: click itself would import every command."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only shells ask

        named = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self._entries.items()
            if name.startswith(incomplete) and entry.section != HIDDEN
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self._entries.items():
            if entry.section != HIDDEN:
                sections.setdefault(entry.section, []).append((name, entry.summary))
        width = max(map(len, self._entries))
        for section, rows in sections.items():
            with formatter.section(section):
                # One width for all sections, or every section would start its column elsewhere.
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])


# Two columns of a terminal of 80.
_NAME_CELLS: Final = 11
_COLUMN_CELLS: Final = 40
_TWO_COLUMNS: Final = ("See", "Act")


class RootGroup(LazyGroup):
    """Its help fits on one screen: everyday commands with a summary, the names of the others."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"Usage: {ctx.command_path} [COMMAND] [NAME] ...\n\n{_ROOT_TEXT}\n\n")
        self.format_commands(ctx, formatter)
        formatter.write(f"`{ctx.command_path} COMMAND --help` explains a command.\n{self.epilog}\n")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        sections: dict[str, list[str]] = {}
        for name, entry in self._entries.items():
            sections.setdefault(entry.section, []).append(name)
        columns = [
            [title, *(f"  {name:{_NAME_CELLS}}{_lead_of(self._entries[name])}" for name in sections[title])]
            for title in _TWO_COLUMNS
        ]
        if formatter.width >= 2 * _COLUMN_CELLS - 2:
            rows = zip_longest(*columns, fillvalue="")
            formatter.write("".join(f"{left:{_COLUMN_CELLS}}{right}".rstrip() + "\n" for left, right in rows))
        else:
            formatter.write("\n".join(line for column in columns for line in column) + "\n")
        formatter.write("\n")
        for title, names in sections.items():
            if title not in {*_TWO_COLUMNS, HIDDEN}:
                indent = f"{title:9}"
                formatter.write(wrap_text("  ".join(names), formatter.width, indent, " " * 9) + "\n")


def _lead_of(entry: CommandEntry) -> str:
    """The first clause of its summary."""
    return re.split("[;:,] ", entry.summary, maxsplit=1)[0]


# The code that a shell reports for a program ended by SIGPIPE.
PIPE_BROKEN_EXIT_CODE: Final = 141
BUG_EXIT_CODE: Final = 4
_ROOT_TEXT: Final = """\
Watch the AI agents on this machine. Without a command: top, or ls in a pipe.
NAME is a session: its name, agent, tmux session, project, id, or a part of it."""

_C: Final = "wakeful.cli.commands"
COMMANDS: Final = {
    "ls": CommandEntry("See", f"{_C}.ls:ls", "List sessions; those that need you first"),
    "top": CommandEntry("See", "wakeful.tui.command:top", "Live view with keys; in the terminal"),
    "why": CommandEntry("See", f"{_C}.session:short_why", "Explain a session's state; what to do"),
    "logs": CommandEntry("See", f"{_C}.logs:logs", "Show a conversation; -f follows it"),
    "report": CommandEntry("See", f"{_C}.report:report", "What finished or failed; commits, tokens and cost"),
    "incidents": CommandEntry("See", f"{_C}.incidents:incidents", "Problems grouped by cause"),
    "events": CommandEntry("See", f"{_C}.events:events", "Critical events; what was done about them"),
    "status": CommandEntry("See", f"{_C}.status:status", "Daemon status: mode, listeners, log sources"),
    "open": CommandEntry("See", f"{_C}.daemon:open_page", "Link to the web page; works once"),
    "doctor": CommandEntry(
        "See", "wakeful.cli.doctor.command:doctor", "Check this machine; show what to fix"
    ),
    "demo": CommandEntry("See", f"{_C}.daemon:demo", "Six scripted agents; in a temporary home"),
    "run": CommandEntry("Act", f"{_C}.run:run", "Start an agent: run -- claude"),
    "attach": CommandEntry("Act", f"{_C}.run:attach", "Open a session's terminal; or an agent's"),
    "send": CommandEntry("Act", f"{_C}.session_control:send", "Send a prompt"),
    "answer": CommandEntry("Act", f"{_C}.session_control:answer", "Allow or deny a question"),
    "interrupt": CommandEntry("Act", f"{_C}.session_control:interrupt", "Interrupt the running turn"),
    "stop": CommandEntry("Act", f"{_C}.lifecycle:stop", "Stop a session or agent"),
    "resume": CommandEntry("Act", f"{_C}.lifecycle:resume", "Resume what is down; --all after a reboot"),
    "adopt": CommandEntry(
        "Act", f"{_C}.session_control:adopt", "Let Wakeful act on it; on a session you started"
    ),
    "release": CommandEntry("Act", f"{_C}.session_control:release", "Only watch it again"),
    "mute": CommandEntry("Quiet", f"{_C}.mute:mute", "Send no alerts about a session or project for a while"),
    "unmute": CommandEntry("Quiet", f"{_C}.mute:unmute", "Send alerts again"),
    "pause": CommandEntry("Quiet", f"{_C}.mute:pause", "Stop all automatic actions"),
    "unpause": CommandEntry("Quiet", f"{_C}.mute:unpause", "End the pause"),
    "up": CommandEntry("Daemon", f"{_C}.daemon:up", "Start the daemon (--detach: in the background)"),
    "down": CommandEntry("Daemon", f"{_C}.daemon:down", "Stop the daemon; agents keep running"),
    "config": CommandEntry("Daemon", f"{_C}.config:config", "Create, show, check, trust, import"),
    "setup": CommandEntry(
        "Daemon", "wakeful.cli.setup.command:setup", "Set up hooks, alerts, autostart and completion"
    ),
    "hooks": CommandEntry("Daemon", f"{_C}.hooks:hooks", "Client hooks for instant permission alerts"),
    "alerts": CommandEntry("Daemon", f"{_C}.alerts:alerts", "Test the alert channels"),
    "autostart": CommandEntry("Daemon", f"{_C}.autostart:autostart", "Start with systemd"),
    "completion": CommandEntry(
        "Daemon", "wakeful.cli.completion:completion", "Completion for bash, zsh and fish"
    ),
    "mcp": CommandEntry("Daemon", "wakeful.mcp.command:mcp", "MCP server for agents (read-only by default)"),
    "agent": CommandEntry("Systems", f"{_C}.agent:agent", "Declared agents in containers and tmux"),
    "gateway": CommandEntry("Systems", f"{_C}.gateway:gateway", "Chat with agents through Telegram"),
    "work": CommandEntry("Systems", f"{_C}.work:work", "Task queue for workers"),
    "checkpoint": CommandEntry(
        "Systems", f"{_C}.checkpoint:checkpoint", "Decide what is repeated after a crash"
    ),
    "recover": CommandEntry("Systems", f"{_C}.recover:recover", "Recover a journal after a crash"),
    "backlog": CommandEntry("Systems", f"{_C}.backlog:backlog", "Open items of a journaled project"),
    "session": CommandEntry("Systems", f"{_C}.session:session", "Everything about one session, for scripts"),
    "replay": CommandEntry("Systems", f"{_C}.replay:replay", "Judge recorded logs with any thresholds"),
    # Earlier names. They keep working and are not listed.
    "restore": CommandEntry(
        HIDDEN, f"{_C}.healing:restore", "Resume what a reboot ended; now `resume --all`"
    ),
    "services": CommandEntry(
        HIDDEN, f"{_C}.services:services", "The hub and its containers; now `agent list`"
    ),
    # What people type first.
    "list": CommandEntry(HIDDEN, f"{_C}.ls:ls", "Same as `ls`"),
    "ps": CommandEntry(HIDDEN, f"{_C}.ls:ls", "Same as `ls`"),
    "watch": CommandEntry(HIDDEN, "wakeful.tui.command:top", "Same as `top`"),
    "kill": CommandEntry(HIDDEN, f"{_C}.lifecycle:stop", "Same as `stop`"),
    "help": CommandEntry(HIDDEN, f"{_C}.about:help_", "Same as `--help`"),
    "version": CommandEntry(HIDDEN, f"{_C}.about:version", "Same as `--version`"),
}
# Words of other tools, with the command that does it here.
_MEANT: Final = {
    "end": "stop",
    "start": "run",
    "prompt": "send",
    "say": "send",
    "explain": "why",
    "log": "logs",
    "tail": "logs",
    "messages": "logs",
    "health": "why",
    "revive": "resume",
    "continue": "resume",
    "restart": "resume",
    "task": "work",
    "web": "open",
}


class NotLinux(WorldError):
    """Wakeful needs Linux; this is {platform}."""

    code = "not-linux"


@click.command(
    cls=RootGroup,
    entries=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: wakeful up --detach && wakeful ls",
)
@click.version_option(__version__, "-V", "--version", message="wakeful %(version)s")
@click.pass_context
def root(context: click.Context) -> int:
    """Watch the AI agents on this machine."""
    if sys.platform != "linux":
        raise NotLinux(platform=sys.platform)
    return 0 if context.invoked_subcommand is not None else _invoke([_default_command()])


def _default_command() -> str:
    return "top" if is_terminal() else "ls"


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
    """A terminal that cannot show a character shows an ASCII one instead. Raises OutputLost."""
    codecs.register_error(_STAND_IN, _stand_in)
    if sys.stderr is None:
        # Closed by the caller, who wants no remarks.
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - it stays open to the end
    if sys.stdout is None:
        raise OutputLost(reason="closed")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_ascii = stream.isatty() and _has_ascii_locale(
                *(os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG"))
            )
            stream.reconfigure(encoding="ascii" if is_ascii else None, errors=_STAND_IN)


_STAND_IN: Final = "wakeful-stand-in"
_ASCII_LOCALES: Final = ("C", "POSIX")
# Each is one cell wide, so that columns stay aligned.
_ASCII_OF: Final = str.maketrans("◆✗✓●○◌·…→│─—━↵↑↓↻⊘▁▂▃▄▅▆▇█░▒µμ", "!x+*o.-~>|--=<^v@/___---##.:uu")


def _stand_in(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    shown = problem.object[problem.start : problem.end].translate(_ASCII_OF)
    return "".join(char if char.isascii() else "?" for char in shown), problem.end


def _has_ascii_locale(lc_all: str, lc_ctype: str, lang: str) -> bool:
    """Whether a person chose the C locale. Python itself then writes UTF-8, and sets LC_CTYPE."""
    if lc_all:
        return lc_all in _ASCII_LOCALES
    return lang in _ASCII_LOCALES and (lc_ctype or lang) in {*_ASCII_LOCALES, "C.UTF-8"}


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
    if isinstance(problem, UnicodeEncodeError) and (wrong := _argument_that_is_no_text()) is not None:
        return print_error(f"An argument is not UTF-8 text: {wrong}", click.UsageError.exit_code, "usage")
    if os.environ.get("WAKEFUL_DEBUG") == "1":
        import traceback  # noqa: PLC0415 - a tenth of the start time, for debugging only

        traceback.print_exception(problem)
    words = f"this is a bug in Wakeful: {type(problem).__name__}: {problem} (WAKEFUL_DEBUG=1 shows where)"
    return print_error(words, BUG_EXIT_CODE, "bug")


def _argument_that_is_no_text() -> str | None:
    """An argument of other bytes than UTF-8: no request can have it, although it may be the path of a file."""
    wrong = (each for each in sys.argv[1:] if any("\udc80" <= char <= "\udcff" for char in each))
    return next((plain(repr(os.fsencode(each)), 60) for each in wrong), None)


def _code_and_retryable(problem: WakefulError) -> tuple[str, bool]:
    """Its code and whether it may be retried; a refusal of the daemon keeps those of its document."""
    document = problem.facts.get("problem")
    if not isinstance(document, dict) or not isinstance(document.get("code"), str):
        return problem.code, problem.retryable
    return document["code"], document.get("retryable") is True
