"""Synthetic Claude Code transcripts, as many and as large as a row needs, written below a throw-away home.

Records come from the scripted agent, so that their shape has one source; sizes follow 26 recorded sessions.
Nothing here measures, and no recorded text is in it.
"""

import os
import random
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from wakeful.testing.scripted_transcript import ScriptedTranscript

# Records of 1,545 recorded calls: 1.3 KB for a call and 10.8 KB for its result on average, ahead of it words of
# 1.1 KB and thoughts of 2.2 KB. Some 800 bytes of each are the record around it.
INPUT_BYTES: Final = 500
RESULT_BYTES: Final = 10_000
TEXT_BYTES: Final = 300
THOUGHT_BYTES: Final = 1_400
CALL_BYTES: Final = 15_400
CALLS_PER_TURN: Final = 6
# Enough different logs that none is always the one in the cache, few enough to be made in a second.
TEMPLATES: Final = 20
# One log in twenty was left inside a turn: its prompt has to be looked for further back.
OPEN_TURN_EVERY: Final = 20
FOLDERS: Final = 200
DAY_SECONDS: Final = 86_400.0

_CONVERSATION: Final = b"00000000-0000-4000-8000-000000000000"
_CWD: Final = b"/home/u/project-000"
_STAMP: Final = re.compile(rb"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_STAMP_PLACE: Final = b"@@@@-@@-@@T@@:@@:@@.@@@Z"
_SEED: Final = 20_270_115


def write_corpus(home: Path, logs: int, bytes_total: int) -> list[Path]:
    """Write so many transcripts of so many bytes together, every one of them used within the last day."""
    rng = random.Random(_SEED)
    templates = [_template(rng, size, index) for index, size in enumerate(_sizes(rng, bytes_total // logs))]
    now = time.clock_gettime(time.CLOCK_REALTIME)
    paths = []
    for index in range(logs):
        cwd = f"/home/u/project-{index % FOLDERS:03d}"
        folder = home / "projects" / cwd.replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{UUID(int=rng.getrandbits(128), version=4)}.jsonl"
        wall = now - rng.uniform(0, 0.8) * DAY_SECONDS
        path.write_bytes(_filled(templates[index % TEMPLATES], path.stem, cwd, wall))
        os.utime(path, (wall, wall))
        paths.append(path)
    return paths


def let_age(paths: Sequence[Path], *, recent_every: int) -> None:
    """Make all but every n-th log two days older, by its file time alone: that is what a scan sees."""
    for index, path in enumerate(paths):
        if index % recent_every:
            wall = path.stat().st_mtime - 2 * DAY_SECONDS
            os.utime(path, (wall, wall))


def next_turn(path: Path) -> None:
    """Append what a client writes when a person prompts it again: a prompt, words, a call."""
    cwd = Path("/home/u/" + path.parent.name.removeprefix("-home-u-"))
    transcript = ScriptedTranscript(path.parents[2], cwd, path.stem)
    rng = random.Random(path.stem)
    transcript.prompt("and now the rest")
    _call(transcript, rng)


def _sizes(rng: random.Random, mean_bytes: int) -> list[int]:
    """Few are long: recorded sizes have a median of three quarters of their mean."""
    raw = [rng.lognormvariate(0, 0.75) for _ in range(TEMPLATES)]
    return [int(each * mean_bytes * TEMPLATES / sum(raw)) for each in raw]


def _template(rng: random.Random, size_bytes: int, index: int) -> bytes:
    """A log of about this size with places left for its conversation and its time."""
    ends_open = index % OPEN_TURN_EVERY == OPEN_TURN_EVERY - 1
    with tempfile.TemporaryDirectory() as folder:
        transcript = ScriptedTranscript(Path(folder), Path(_CWD.decode()), _CONVERSATION.decode())
        for left_bytes, may_stop in _play(transcript, rng, size_bytes, ends_open=ends_open):
            if may_stop and left_bytes < CALL_BYTES / 2:
                break
        return _STAMP.sub(_STAMP_PLACE, transcript.path.read_bytes())


def _play(
    transcript: ScriptedTranscript, rng: random.Random, size_bytes: int, *, ends_open: bool
) -> Iterator[tuple[int, bool]]:
    """Turns without end; how many bytes are left of the size after each step, and whether the log may stop there."""
    left_bytes = size_bytes
    while True:
        transcript.prompt("please " * (TEXT_BYTES // 7))
        for _ in range(max(1, min(CALLS_PER_TURN, left_bytes // CALL_BYTES))):
            call = _call(transcript, rng)
            yield size_bytes - transcript.path.stat().st_size, ends_open
            # The client writes an output twice: for the model and for itself.
            transcript.result(call, "Bash", "line\n" * int(_about(rng, RESULT_BYTES / 2) / 5), is_error=False)
        transcript.end("done " * (TEXT_BYTES // 5))
        transcript.close()
        left_bytes = size_bytes - transcript.path.stat().st_size
        yield left_bytes, not ends_open


def _call(transcript: ScriptedTranscript, rng: random.Random) -> str:
    for mean_bytes in (THOUGHT_BYTES, TEXT_BYTES):
        # Numbered: a text that says one thing over and over would be a model that lost its thread.
        transcript.text("".join(f"I look {number} " for number in range(int(_about(rng, mean_bytes) / 11))))
    return transcript.call("Bash", {"command": "make " * int(_about(rng, INPUT_BYTES) / 5)})


def _about(rng: random.Random, mean: float) -> float:
    return rng.expovariate(1 / mean)


def _filled(template: bytes, conversation: str, cwd: str, wall: float) -> bytes:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(wall)).encode()
    own = template.replace(_CONVERSATION, conversation.encode()).replace(_CWD, cwd.encode())
    return own.replace(_STAMP_PLACE, stamp)
