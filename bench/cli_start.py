"""Row "CLI start": `wakeful session health ID --json` at a running daemon, against an interpreter that does nothing."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.crowd import Stage
from bench.figures import Figure, milliseconds
from bench.peers import PYTHON_PASS

ROW: Final = "CLI start"


def measure(stage: Stage) -> list[Figure]:
    stage.crowd.daemon.rest()
    session_id = f"claude-{stage.crowd.logs[0].stem}"
    command = [str(Path(sys.executable).with_name("wakeful")), "session", "health", session_id, "--json"]
    answer = subprocess.run(command, check=True, capture_output=True).stdout
    assert session_id.encode() in answer, "the command answers"
    pairs = [(_seconds(command), _seconds(PYTHON_PASS)) for _ in range(stage.scale.starts)]
    ours, bare = (median(each) for each in zip(*pairs, strict=True))
    measured = (
        f"`wakeful session health ID --json` {milliseconds(ours)}, `python -c pass` {milliseconds(bare)} "
        f"(medians of {len(pairs)}, in turns)"
    )
    return [Figure(ROW, measured, ours / bare, 2.0)]


def _seconds(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
