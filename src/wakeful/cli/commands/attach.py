"""`wakeful attach` for agents of the hub: goes to the agent's terminal, or shows the menu for a stale agent.

For an agent in tmux the command becomes tmux. For one in a container it lends its terminal to the engine's
client and waits; closing the terminal does not end the process in the container, so this command ends it if
the client was cut off. It prints nothing then, because the terminal may be gone.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import PurePath
from types import FrameType
from typing import Final
from uuid import uuid4

from msgspec import Struct

from wakeful.agents.model import AgentRecord, AgentRuntime, AgentState, BadAgentName, parse_agent_name
from wakeful.cli.commands import agent as agent_asking
from wakeful.cli.commands.agent import show_record, stale_menu_lines
from wakeful.cli.output import is_terminal, print_line, read_choice
from wakeful.cli.terminal import NeedsTerminal, TmuxMissing, has_terminal, show_pane
from wakeful.client.client import decode_body, own_daemon
from wakeful.client.errors import RequestRefused
from wakeful.control.briefs import container_attach
from wakeful.core.errors import OperatorError, WakefulError
from wakeful.core.managed_session import PaneAddress
from wakeful.linux.child_environment import helper_environ
from wakeful.views.records import AttachCommand

LEAVE_SECONDS_MAX: Final = 10.0
# A closed terminal, and a polite request to end.
_END_SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM)


@contextmanager
def _forward_end_signals(visitor: "subprocess.Popen[bytes]") -> Iterator[list[int]]:
    """A signal that ends this command ends the visitor first, and is recorded; interrupts are left to the visitor."""
    endings: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        endings.append(number)
        visitor.terminate()

    before = {number: signal.signal(number, note) for number in _END_SIGNALS}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield endings
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_PROGRAMS: Final = {"claude": "Claude Code", "codex": "Codex"}


class NotAnAgent(OperatorError):
    """{detail}"""

    code = "agent-not-found"


class AgentOrSessionNotFound(OperatorError):
    """No agent or session {shown!r}.{meant} List them with `wakeful agent list` and `wakeful ls --all`."""

    code = "nobody-there"


class NothingToAttach(OperatorError):
    """Agent '{name}' is {state}{why}. {advice}"""

    code = "nothing-to-attach"
    exit_code = 1


class StaleAgentChoiceNeeded(OperatorError):
    """Agent '{name}' is stale ({reason}). Choose an action and run one of:\n  wakeful attach {name} --restart\n  wakeful attach {name} --teardown"""

    code = "undecided"


class RestartOrTeardown(OperatorError):
    """Use either --restart or --teardown."""

    code = "one-of-two"


class AgentNameNeeded(OperatorError):
    """--restart and --teardown need the name of an agent."""

    code = "agent-name-needed"


class AttachOptions(Struct, frozen=True):
    """The answers of a script, so that no question is asked."""

    restart: bool = False
    teardown: bool = False
    yes: bool = False


def attach_agent(text: str, wish: AttachOptions) -> int:
    """Go to an agent's terminal, or do what the options or the menu say. Raises NotAnAgent."""
    if wish.restart and wish.teardown:
        raise RestartOrTeardown
    record = _fetch_agent(text)
    if wish.teardown:
        return show_record(agent_asking.post_stop(record.name, yes=wish.yes), as_json=False)
    if record.state is AgentState.RUNNING and wish.restart and not is_terminal():
        return _print_attach_command(record)
    if record.state is not AgentState.STALE:
        return _attach(record)
    if wish.restart:
        return _restart(record.name)
    if not is_terminal():
        raise StaleAgentChoiceNeeded(name=record.name, reason=record.reason)
    return _show_stale_menu(record)


def not_found_error(text: str) -> WakefulError:
    """The error for a name of no agent and of no session: it names the nearest agent."""
    close = get_close_matches(text, [each.name for each in agent_asking.fetch_records()], n=1)
    return AgentOrSessionNotFound(shown=text, meant=f" Did you mean {close[0]!r}?" if close else "")


def _fetch_agent(text: str) -> AgentRecord:
    try:
        return agent_asking.record_of(parse_agent_name(text))
    except BadAgentName as problem:
        raise NotAnAgent(detail=str(problem)) from problem
    except RequestRefused as refused:
        if refused.reason != NotAnAgent.code:
            raise
        raise NotAnAgent(detail=str(refused)) from refused


def _show_stale_menu(record: AgentRecord) -> int:
    for line in stale_menu_lines(record, _program_name(record.name)):
        print_line(line)
    while True:
        match read_choice("Choice: "):
            case "r" | "restart":
                return _restart(record.name)
            case "t" | "teardown":
                return show_record(agent_asking.post_stop(record.name, yes=False), as_json=False)
            case "c" | "cancel" | "":
                return 0
            case _:
                print_line("Type R, T or C.")


def _restart(name: str) -> int:
    """Restart its session, then go there, if there is a terminal to go with."""
    code = show_record(agent_asking.post_action(name, "restart-session"), as_json=False)
    record = agent_asking.record_of(name)
    if code or is_terminal():
        return code or _attach(record)
    return _print_attach_command(record)


def _print_attach_command(record: AgentRecord) -> int:
    """For a script: it runs already; the line shows a person how to attach."""
    print_line(f"attach to it in a terminal: wakeful attach {record.name}")
    return 0


def _attach(record: AgentRecord) -> int:
    # Alive but not ready: a person has to answer what it shows.
    is_there = record.state in (AgentState.STARTING, AgentState.ERROR) and record.pid is not None
    if record.state is not AgentState.RUNNING and not is_there:
        why = f" ({record.reason})" if record.reason and record.state is not AgentState.STOPPED else ""
        raise NothingToAttach(name=record.name, state=record.state, why=why, advice=_advice(record))
    if record.runtime is AgentRuntime.TMUX and record.tmux_socket and record.tmux_session:
        session = record.tmux_session
        return show_pane(PaneAddress(record.tmux_socket, f"={session}:", session), record.name)
    if not has_terminal():
        raise NeedsTerminal(command=f"wakeful attach {record.name}")
    visit = container_attach(_fetch_attach_command(record.name).argv, uuid4().hex)
    try:
        visitor = subprocess.Popen(visit.argv, env=helper_environ(os.environ))
    except FileNotFoundError as error:
        raise TmuxMissing(program=visit.argv[0]) from error
    with _forward_end_signals(visitor) as endings:
        code = visitor.wait()
    if endings:
        # Best effort: no terminal is left to report to, and the client ends with the container anyway.
        with subprocess.Popen(
            visit.leave,
            env=helper_environ(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as leaving:
            try:
                leaving.wait(LEAVE_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                leaving.kill()
    return code if code >= 0 else 128 - code


def _advice(record: AgentRecord) -> str:
    if record.state in (AgentState.STOPPED, AgentState.ERROR):
        return f"Start it with: wakeful agent start {record.name}"
    if record.state is AgentState.UNKNOWN:
        return f"`wakeful agent stop {record.name}` removes its remains."
    return "Try again in a moment."


def _program_name(name: str) -> str:
    """What will be launched, as its maker calls it."""
    program = PurePath(_fetch_attach_command(name).program).name
    return _PROGRAMS.get(program, program)


def _fetch_attach_command(name: str) -> AttachCommand:
    return decode_body(own_daemon().get(f"/api/agents/{name}/attach").body, AttachCommand)
