"""Real processes with the name of a client. Wakeful accepts no other process as the owner of a session."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.daemon_process import CommandResult
from support.real_clients import wait_for
from wakeful.linux import proc

# Runs commands as a client runs its tools, and answers with their output.
_TOOL_RUNNER = """
import json, subprocess, sys
for line in sys.stdin:
    asked = json.loads(line)
    done = subprocess.run(asked["argv"], env=asked["environ"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""
# Lives as long as its input is open.
UNTIL_INPUT_ENDS = "import sys; sys.stdin.read()"


def program(folder: Path, source: str = UNTIL_INPUT_ENDS, name: str = "claude") -> list[str]:
    """The words that run this Python source as a script of the client's name."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / name
    script.write_text(source)
    return [sys.executable, str(script)]


@contextmanager
def stand_in(
    folder: Path, *words: str, name: str = "claude", environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A living process that is taken for the client; `words` are its arguments."""
    process = subprocess.Popen(
        [*program(folder, name=name), *words], stdin=subprocess.PIPE, env=environ, start_new_session=True
    )
    try:
        _wait_for_name(process.pid, name)
        yield process
    finally:
        process.kill()
        process.communicate()


class ToolRunner:
    """A client that runs tools on request."""

    def __init__(self, process: subprocess.Popen[str], environ: Mapping[str, str]) -> None:
        self.pid = process.pid
        self._process = process
        self._environ = environ

    def ask(self, argv: Sequence[str], **environ: str) -> CommandResult:
        """What this command says, run as a child of the client; with these variables of its own."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"argv": list(argv), "environ": {**self._environ, **environ}}
        self._process.stdin.write(f"{json.dumps(asked)}\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return CommandResult(subprocess.CompletedProcess(argv, code, out, err))


@contextmanager
def tool_runner(folder: Path, environ: Mapping[str, str], name: str = "claude") -> Iterator[ToolRunner]:
    """A stand-in that runs commands below itself."""
    with subprocess.Popen(
        program(folder, _TOOL_RUNNER, name),
        env=dict(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            _wait_for_name(process.pid, name)
            yield ToolRunner(process, environ)
        finally:
            process.kill()


def _wait_for_name(pid: int, name: str) -> None:
    """A process in the middle of exec shows no arguments for a moment; a client writes its own files only after that."""
    wait_for(lambda: any(Path(word).name == name for word in proc.command(pid)) or None, f"process {name}")
