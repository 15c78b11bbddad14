"""Recorded sessions: the folder `$WAKEFUL_CORPUS` names, or the small hand-made ones beside this file."""

import gzip
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from wakeful.integrations.claude_code.transcript import TranscriptReader
from wakeful.integrations.codex.rollout import RolloutReader
from wakeful.sources.base import LogReader

READERS: Final[Mapping[str, Callable[[], LogReader]]] = {"claude": TranscriptReader, "codex": RolloutReader}
SMALL: Final = Path(__file__).parents[1] / "corpus"
CORPUS: Final = Path(os.environ.get("WAKEFUL_CORPUS", SMALL))


def recordings(folder: Path = CORPUS) -> list[Path]:
    return sorted(path for kind in READERS for path in (folder / kind).glob("*.jsonl*"))


def reader_of(recording: Path) -> LogReader:
    return READERS[recording.parent.name]()


def lines_of(recording: Path) -> list[bytes]:
    content = recording.read_bytes()
    if recording.suffix == ".gz":
        content = gzip.decompress(content)
    return [line for line in content.split(b"\n") if line]
