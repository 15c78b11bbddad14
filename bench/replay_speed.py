"""Row "replay": `wakeful replay` over recorded logs, beside jq taking the same fields out of the same files.

CPU seconds, not wall time, each the least of five runs in turn: on a shared machine a neighbour makes either
slower. The recordings `$WAKEFUL_CORPUS` names are repeated up to the size of the run; without them synthetic
transcripts stand in.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import cycle
from math import inf
from pathlib import Path
from typing import Final

import msgspec

from bench.accuracy.recordings import READERS, content_of
from bench.corpus import write_corpus
from bench.crowd import Stage
from bench.figures import Figure

ROW: Final = "replay"
RATIO_MIN: Final = 4.0
RUNS: Final = 5
# Of 40 recorded sessions the mean has 1 MB.
LOG_BYTES: Final = 1_000_000
# Asked for once, as the crowd's room hides the environment of its caller.
_CORPUS: Final = os.environ.get("WAKEFUL_CORPUS")

# The fields the readers name, and no others.
JQ_FIELDS: Final = """
if .payload then
  [.type, .timestamp, (.payload | .type, .id, .cwd, .cli_version, .role, .content, .message, .call_id, .name, .arguments,
    .input, .action, .output, .item, .error, .info, .usage)]
else
  [.type, .subtype, .timestamp, .sessionId, .cwd, .version, .isSidechain, .isMeta, .isCompactSummary,
    .isApiErrorMessage, .error, .message.id, .message.stop_reason, .message.usage,
    (.message.content | if type == "array"
      then map([.type, .id, .name, .input, .text, .tool_use_id, .is_error, .content]) else . end)]
end
"""


def measure(stage: Stage) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as name:
        folder = Path(name)
        logs = _write_logs(folder / "logs", stage.scale.replay_bytes)
        megabytes = sum(path.stat().st_size for path in logs) / 1e6
        jq_seconds, ours_seconds = inf, inf
        for _ in range(RUNS):
            fields = _cpu_seconds(["jq", "-c", JQ_FIELDS, *map(str, logs)], folder / "fields")
            jq_seconds = min(jq_seconds, fields)
            ours_seconds = min(ours_seconds, _cpu_seconds(_replay(folder / "logs"), folder / "told"))
        _check(folder / "told", len(logs))
    measured = (
        f"{megabytes:.0f} MB in {len(logs)} logs, judged: {ours_seconds:.2f} s of CPU; "
        f"{_jq_version()} taking the same fields: {jq_seconds:.2f} s"
    )
    return [Figure(ROW, measured, jq_seconds / ours_seconds, RATIO_MIN, at_least=True)]


def _replay(folder: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "wakeful", "replay", str(folder), "--json"]


def _write_logs(folder: Path, bytes_total: int) -> list[Path]:
    """So many bytes of logs: every recording under a new name, over and over."""
    recorded = _recorded()
    if not recorded:
        return write_corpus(folder, max(1, bytes_total // LOG_BYTES), bytes_total)
    written: list[Path] = []
    left = bytes_total
    for source in cycle(recorded):
        if left <= 0:
            break
        content = content_of(source)
        path = folder / source.parent.name / f"{len(written):04d}-{source.name.removesuffix('.gz')}"
        path.parent.mkdir(parents=True, exist_ok=True)
        left -= path.write_bytes(content)
        written.append(path)
    return written


def _recorded() -> list[Path]:
    if _CORPUS is None:
        return []
    return [path for dialect in READERS for path in sorted(Path(_CORPUS, dialect).glob("*.jsonl*"))]


def _cpu_seconds(argv: Sequence[str], output: Path) -> float:
    """CPU time a command takes, its children included; what it says goes to a file."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with output.open("wb") as words:
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=words, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def _check(told: Path, logs: int) -> None:
    sessions = len(msgspec.json.decode(told.read_bytes())["sessions"])
    assert sessions == logs, f"{sessions} sessions replayed of {logs}"


def _jq_version() -> str:
    return subprocess.run(["jq", "--version"], capture_output=True, text=True, check=True).stdout.strip()
