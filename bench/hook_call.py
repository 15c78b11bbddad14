"""Row "hook call": one call of an installed hook, as a client makes it, against `/bin/true` started the same way."""

import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from bench.crowd import Stage
from bench.figures import Figure, milliseconds
from wakeful.hooks.model import command_for

ROW: Final = "hook call"
CALLS_FOR_EACH_START: Final = 20
_INPUT: Final = {"command": "x" * 250}


def measure(stage: Stage) -> list[Figure]:
    calls = stage.scale.starts * CALLS_FOR_EACH_START
    with tempfile.TemporaryDirectory() as folder:
        spool = Path(folder) / "spool"
        spool.mkdir()
        payload = Path(folder) / "payload"
        payload.write_text(json.dumps(_report()))
        # The row before this one wrote much: what the disk still has to do for it is no part of a call.
        os.sync()
        hook = ("/bin/sh", "-c", command_for(str(spool)))
        pairs = [(_seconds(hook, payload), _seconds(("/bin/true",), payload)) for _ in range(calls)]
        written = {each.read_bytes() for each in spool.iterdir()}
        assert written == {payload.read_bytes()}, "every report arrived whole"
    ours, bare = (median(each) for each in zip(*pairs, strict=True))
    measured = (
        f"a report of {len(json.dumps(_report()))} bytes through `/bin/sh` into the spool {milliseconds(ours)}, `/bin/true` "
        f"{milliseconds(bare)} (medians of {calls}, in turns); calls that ask nothing have no hook"
    )
    return [Figure(ROW, measured, ours / bare, 3.0)]


def _report() -> dict[str, object]:
    session = "7e3eb83f-1111-4111-8111-111111111111"
    return {
        "session_id": session,
        "hook_event_name": "PermissionRequest",
        "tool_name": "Bash",
        "tool_input": _INPUT,
    }


def _seconds(command: tuple[str, ...], payload: Path) -> float:
    """From start to end, without anything of Python in between: a client of either kind spawns as lightly."""
    given = os.open(payload, os.O_RDONLY | os.O_CLOEXEC)
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, given, 0)])
    _, status = os.waitpid(pid, 0)
    seconds = time.perf_counter() - began
    os.close(given)
    assert status == 0, "a hook never fails"
    return seconds
