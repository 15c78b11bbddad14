"""Many sessions for flood tests: a transcript in a turn for each, and a cheap process each that can die with the rest.

The processes are forks of one script called `claude`, like those of the real client.
"""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from support import claude_transcripts

# Reads conversations and folders, one pair a line; forks and registers a process for each; all end with its input.
_SCRIPT: Final = """#!{python} -SI
import json, os, signal, sys, time
config = sys.argv[1]
os.makedirs(config + "/sessions", exist_ok=True)
children = []
for line in open(sys.argv[2]):
    conversation, cwd = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(1)
    children.append(child)
    with open(f"/proc/{{child}}/stat") as stat:
        started = stat.read().rpartition(")")[2].split()[19]
    entry = dict(pid=child, sessionId=conversation, cwd=cwd, procStart=started, version="2.1.197")
    entry.update(kind="interactive", status="busy", statusUpdatedAt=int(time.time() * 1000))
    with open(f"{{config}}/sessions/{{child}}.json", "w") as file:
        json.dump(entry, file)
os.write(1, b"ready\\n")
os.read(0, 1)
for child in children:
    os.kill(child, signal.SIGKILL)
for child in children:
    os.waitpid(child, 0)
"""


class FloodSessions:
    """Sessions in a turn, each with a live process. `die` ends every process at once."""

    def __init__(self, folder: Path, count: int, cwd_of: Callable[[int], str]) -> None:
        self.config = folder / "claude"
        self.conversations = [str(uuid.UUID(int=number + 1, version=4)) for number in range(count)]
        cwds = [cwd_of(number) for number in range(count)]
        for number, (conversation, cwd) in enumerate(zip(self.conversations, cwds, strict=True)):
            write_turn(self.config, conversation, cwd, project=f"-crowd-{number % 50}")
        self._process = self._start(folder, cwds)

    def _start(self, folder: Path, cwds: Sequence[str]) -> subprocess.Popen[bytes]:
        program, names = folder / "bin" / "claude", folder / "conversations"
        program.parent.mkdir()
        program.write_text(_SCRIPT.format(python=sys.executable))
        program.chmod(0o755)
        pairs = zip(self.conversations, cwds, strict=True)
        names.write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))
        argv = [str(program), str(self.config), str(names)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    def die(self) -> None:
        """Kill every process; a second call does nothing."""
        self._process.communicate(timeout=60)


def write_turn(config: Path, conversation: str, cwd: str, *, project: str) -> Path:
    """A transcript that ends inside a turn that began just now."""
    said = claude_transcripts.prompt(time.time(), conversation) | {"cwd": cwd}
    return claude_transcripts.write(config, conversation, said, project=project)
