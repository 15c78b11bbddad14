"""ScriptedAgent: a real process that looks like Claude Code from outside and plays a script.

For tests of programs that watch agents: registry file, transcript, screen, tool processes and their orphans are
real. It calls no model and runs no command of the script: a tool is a `sleep` of its length. It ends only
processes that it started or that have its conversation in their environment.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, Self
from uuid import uuid4

from wakeful.core.errors import OperatorError, OwnError
from wakeful.testing.scripted_transcript import (
    FAILURES,
    VERSION,
    ScriptedRegistryFile,
    ScriptedTranscript,
    registry_path,
    transcript_path,
)

Step = Mapping[str, Any]
"""One thing to do, named by its verb; VERBS lists the verbs with their further keys."""

_CALL: Final = frozenset({"tool", "input", "seconds", "result", "is_error"})
VERBS: Final[Mapping[str, frozenset[str]]] = {
    # In order of precedence: a step that asks may also name the tool it asks about.
    "ask": _CALL,
    "tool": _CALL,
    "prompt": frozenset(),
    "text": frozenset(),
    "end": frozenset(),
    "fail": frozenset(),
    "hang": frozenset(),
    "wait": frozenset(),
    "loop": frozenset({"times"}),
    "killed": frozenset(),
    "exit": frozenset(),
}


class BadStep(OperatorError):
    """This is not a step for the scripted agent: {why}."""

    code = "bad-step"


def check(steps: object) -> Sequence[Step]:
    """Returns the same steps. Raises BadStep if they cannot be played."""
    if not isinstance(steps, (list, tuple)):
        raise BadStep(why=f"a script is a list, not {steps!r:.80}")
    for step in steps:
        verb = _verb(step)
        unknown = step.keys() - VERBS[verb] - {verb}
        if unknown:
            raise BadStep(why=f"{verb!r} does not take {', '.join(sorted(unknown))}")
        if verb == "fail" and step["fail"] not in FAILURES:
            raise BadStep(why=f"{step['fail']!r} is none of {', '.join(FAILURES)}")
        if verb == "loop":
            check(step["loop"])
    return steps


def _verb(step: object) -> str:
    verb = next((verb for verb in VERBS if isinstance(step, dict) and verb in step), None)
    if verb is None:
        raise BadStep(why=f"{step!r:.80} has none of {', '.join(VERBS)}")
    return verb


class ScriptedScreen:
    def __init__(self, cwd: Path, conversation: str) -> None:
        self._coloured = sys.stdout.isatty()
        self._print("2", f"✻ scripted agent, plays Claude Code {VERSION} · {cwd.name} · {conversation[:8]}\n")

    def prompt(self, text: str) -> None:
        self._print("1", f"> {text}\n")

    def text(self, text: str) -> None:
        self._print("0", f"● {text}\n")

    def call(self, tool: str, given: Mapping[str, Any]) -> None:
        shown = next((str(value) for value in given.values()), "")
        self._print("32", f"● {tool}({shown:.60})")

    def result(self, text: str, *, is_error: bool = False) -> None:
        first = text.partition("\n")[0] or "(No output)"
        self._print("31" if is_error else "2", f"  ⎿  {first:.60}\n")

    def question(self) -> None:
        self._print("33", "  Do you want to proceed?\n  > 1. Yes\n    2. No")

    def aside(self, text: str) -> None:
        self._print("2", f"✻ {text}\n")

    def _print(self, style: str, text: str) -> None:
        sys.stdout.write(f"\x1b[{style}m{text}\x1b[0m\n" if self._coloured else f"{text}\n")
        sys.stdout.flush()


class ScriptPlayer:
    def __init__(self, home: Path, cwd: Path, conversation: str) -> None:
        self._conversation = conversation
        self._transcript = ScriptedTranscript(home, cwd, conversation)
        self._registry = ScriptedRegistryFile(home, cwd, conversation)
        self._screen = ScriptedScreen(cwd, conversation)
        self._call: str | None = None
        self._tool_pid: int | None = None
        self._in_turn = False
        self._registry.write_status("idle")

    def play(self, steps: Sequence[Step]) -> None:
        """Play the steps in order. Returns unless one of them waits for ever or exits."""
        for step in steps:
            _STEP_PLAYERS[_verb(step)](self, step)

    def stay(self) -> NoReturn:
        """Wait for ever after the end of the script, as the client waits for a prompt."""
        while True:
            signal.pause()

    def interrupt(self) -> None:
        """On Ctrl-C: end the tool and interrupt the turn."""
        if self._tool_pid is not None:
            # A child that was not waited for: no other process can have its pid.
            os.killpg(self._tool_pid, signal.SIGKILL)
            os.waitpid(self._tool_pid, 0)
        if self._in_turn:
            self._transcript.interrupt(self._call)
            self._screen.result("Interrupted · What should Claude do instead?", is_error=True)

    def leave(self) -> None:
        """At every exit but a kill: write the last record and remove the registry file. A running tool stays."""
        self._transcript.close()
        self._registry.remove()

    def prompt(self, step: Step) -> None:
        self._in_turn = True
        self._transcript.prompt(step["prompt"])
        self._registry.write_status("busy")
        self._screen.prompt(step["prompt"])

    def text(self, step: Step) -> None:
        self._transcript.text(step["text"])
        self._screen.text(step["text"])

    def tool(self, step: Step) -> None:
        self._open_call(step)
        self._run_call(step)

    def ask(self, step: Step) -> None:
        """Ask before the tool runs; without a tool, ask only. At the end of stdin wait for ever."""
        if "tool" in step:
            self._open_call(step)
        self._registry.write_status("waiting", step["ask"])
        self._screen.question()
        if not sys.stdin.readline():
            self.stay()
        self._registry.write_status("busy")
        if "tool" in step:
            self._run_call(step)

    def end(self, step: Step) -> None:
        text = step["end"] if isinstance(step["end"], str) else "Done."
        self._transcript.end(text)
        self._screen.text(text)
        self._turn_over()

    def fail(self, step: Step) -> None:
        self._transcript.fail(step["fail"])
        self._screen.result(FAILURES[step["fail"]][1], is_error=True)
        self._turn_over()

    def hang(self, _step: Step) -> NoReturn:
        self._screen.aside("Pondering… (the model does not answer)")
        self.stay()

    def wait(self, step: Step) -> None:
        time.sleep(step["wait"])

    def loop(self, step: Step) -> None:
        """Play the inner steps for ever, or `times` times."""
        played = 0
        while played != step.get("times"):
            self.play(step["loop"])
            played += 1

    def killed(self, step: Step) -> None:
        """In so many seconds this process gets `kill -9`, whatever it is doing then."""
        signal.signal(signal.SIGALRM, lambda _number, _frame: signal.raise_signal(signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, step["killed"])

    def exit(self, step: Step) -> NoReturn:
        code = step["exit"]
        raise SystemExit(code if type(code) is int else 0)

    def _open_call(self, step: Step) -> None:
        tool, given = step["tool"], step.get("input", {})
        self._call = self._transcript.call(tool, given)
        self._screen.call(tool, given)

    def _run_call(self, step: Step) -> None:
        assert self._call is not None, "a call is opened before it runs"
        seconds, result = step.get("seconds", 0), step.get("result", "")
        is_error = step.get("is_error", False)
        if step["tool"] == "Bash":
            self._run_process(step.get("input", {}).get("command", ""), seconds)
        else:
            time.sleep(seconds)
        self._transcript.result(self._call, step["tool"], result, is_error=is_error)
        self._screen.result(result, is_error=is_error)
        self._call = None

    def _run_process(self, command: str, seconds: float) -> None:
        """Only Bash is a process: in its own session, marked by its environment, its argv names the command."""
        environ = os.environ | {
            "CLAUDECODE": "1",
            "CLAUDE_CODE_SESSION_ID": self._conversation,
            "CLAUDE_CODE_CHILD_SESSION": "1",
            "CLAUDE_CODE_ENTRYPOINT": "cli",
        }
        quiet = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        quiet += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
        # A multi-call binary takes its name from the part after the last slash.
        argv = [f"{command}/sleep", str(seconds)]
        self._tool_pid = os.posix_spawnp("sleep", argv, environ, file_actions=quiet, setsid=True)
        os.waitpid(self._tool_pid, 0)
        self._tool_pid = None

    def _turn_over(self) -> None:
        self._in_turn = False
        self._registry.write_status("idle")


_STEP_PLAYERS: Final[Mapping[str, Callable[[ScriptPlayer, Step], None]]] = {
    verb: getattr(ScriptPlayer, verb) for verb in VERBS
}


def _exit_by_signal(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


__all__ = ["BadStep", "NotInTime", "RunningAgent", "ScriptedAgent", "Step"]

PATIENCE_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.005
# Variables by which clients and Wakeful find their folders and their parents: the fake must not inherit them.
_REMOVED_VARIABLES: Final = ("CLAUDE", "CODEX_", "WAKEFUL_", "TMUX")
# A folder that runs as a program: its name must be that of Claude Code's program.
_PROGRAM: Final = Path(__file__).parent / "claude"
_NEEDED: Final = frozenset({"--home", "--cwd", "--script"})
_USAGE: Final = (
    "usage: python -m wakeful.testing.scripted_agent --home DIR --cwd DIR --script JSON [--conversation UUID]"
)


class NotInTime(OwnError):
    """The scripted agent showed no {what} within {seconds} s."""

    code = "not-in-time"


class ScriptedAgent:
    """An agent that can be started: `home` replaces `~/.claude`, `cwd` is its project."""

    def __init__(self, home: Path, cwd: Path, *, conversation: str | None = None) -> None:
        self.home = home
        self.cwd = cwd
        self.conversation = conversation or str(uuid4())

    def argv(self, *steps: Step) -> list[str]:
        """The command that plays these steps. Raises BadStep."""
        script = json.dumps(check(steps))
        places = ["--home", str(self.home), "--cwd", str(self.cwd), "--conversation", self.conversation]
        return [sys.executable, str(_PROGRAM), *places, "--script", script]

    def start(self, *steps: Step, environ: Mapping[str, str] | None = None) -> "RunningAgent":
        """Start it; use the result in `with`, or `close()` it. Raises BadStep."""
        self.cwd.mkdir(parents=True, exist_ok=True)
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(_REMOVED_VARIABLES)
        }
        process = subprocess.Popen(
            self.argv(*steps),
            cwd=self.cwd,
            env=inherited if environ is None else environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # A Ctrl-C in the caller's terminal must not reach it.
            start_new_session=True,
        )
        return RunningAgent(self, process)


class RunningAgent:
    """A started agent. Closing it ends the process and every tool that it left behind."""

    def __init__(self, agent: ScriptedAgent, process: subprocess.Popen[bytes]) -> None:
        self.conversation = agent.conversation
        self.session_id = f"claude-{agent.conversation}"
        self.process = process
        self.pid = process.pid
        self.transcript = transcript_path(agent.home, agent.cwd, agent.conversation)
        self.registry = registry_path(agent.home, process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def lines(self) -> list[bytes]:
        """The transcript's complete lines so far."""
        try:
            return self.transcript.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []

    def entry(self) -> dict[str, Any] | None:
        """The registry file's content; None while there is none or it is being written."""
        try:
            return dict(json.loads(self.registry.read_bytes()))
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def tools(self) -> list[int]:
        """The pids of its living tools, orphans included."""
        return [pid for pid, _ in _tool_processes(self.conversation)]

    def wait_until_line(self, number: int, timeout_seconds: float = PATIENCE_SECONDS) -> bytes:
        """The transcript's line with this number, counted from 1. Raises NotInTime."""
        self._wait(lambda: len(self.lines()) >= number, f"line {number}", timeout_seconds)
        return self.lines()[number - 1]

    def wait_for_status(self, status: str, timeout_seconds: float = PATIENCE_SECONDS) -> None:
        """Return once the registry file says busy, idle or waiting. Raises NotInTime."""
        self._wait(
            lambda: (self.entry() or {}).get("status") == status, f"status {status!r}", timeout_seconds
        )

    def wait_for_tool(self, timeout_seconds: float = PATIENCE_SECONDS) -> int:
        """The pid of a running tool. Raises NotInTime."""
        self._wait(lambda: bool(self.tools()), "tool process", timeout_seconds)
        return self.tools()[0]

    def answer(self, line: str = "yes") -> None:
        assert self.process.stdin is not None, "started with a pipe"
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def kill(self) -> None:
        """`kill -9`, and wait until it is dead: registry file and running tools stay, as with the real client."""
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        """End it and all of its tools. May be called twice."""
        self.kill()
        terminate_tools(self.conversation)
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()

    def _wait(self, reached: Callable[[], bool], what: str, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not reached():
            if time.monotonic() > deadline:
                raise NotInTime(what=what, seconds=timeout_seconds)
            time.sleep(_POLL_SECONDS)


def terminate_tools(conversation: str) -> None:
    """End every process that has this conversation in its environment, and wait until it is gone."""
    for pid, started in _tool_processes(conversation):
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            # Only the pidfd pins the pid: check again that it is still the process that was found.
            if (pid, started) in _tool_processes(conversation):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                select.select([pidfd], [], [], PATIENCE_SECONDS)
        finally:
            os.close(pidfd)


def _tool_processes(conversation: str) -> list[tuple[int, int]]:
    """Pid and start time of the tools; costs a pass over /proc and 30 ms of imports that the agent does not need."""
    from wakeful.linux import proc  # noqa: PLC0415 - see above

    found = proc.processes_with_variable("CLAUDE_CODE_SESSION_ID", conversation, os.getuid())
    return [(process.pid, process.started) for process in found]


def main(arguments: list[str]) -> int:
    """Play the script from the command line; returns 2 if it is not valid."""
    try:
        given = _options(arguments)
        steps = check(json.loads(given["--script"]))
    except (ValueError, BadStep) as problem:
        sys.stderr.write(f"{_USAGE}\n{problem}\n")
        return 2
    home, cwd = Path(given["--home"]).absolute(), Path(given["--cwd"]).absolute()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _exit_by_signal)
    player = ScriptPlayer(home, cwd, given.get("--conversation") or str(uuid4()))
    try:
        player.play(steps)
        player.stay()
    except KeyboardInterrupt:
        # Claude Code exits with 0 here, too.
        player.interrupt()
        return 0
    finally:
        player.leave()


def _options(arguments: list[str]) -> dict[str, str]:
    """Names and values. Raises ValueError. argparse would double the start time."""
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    if not _NEEDED <= given.keys() <= _NEEDED | {"--conversation"}:
        raise ValueError(f"given: {', '.join(given) or 'nothing'}")
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
