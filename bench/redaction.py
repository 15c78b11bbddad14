"""How many words of recorded sessions are redacted, none of which is a secret: `python -m bench.redaction [FOLDER]`.

Every text of every record is redacted as a whole. Without a folder the one that WAKEFUL_CORPUS names is read, else the
small recordings of tests/corpus.
"""

import argparse
import gzip
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from wakeful.core.decoding import decode_json
from wakeful.core.redaction import REDACTED_CHARS_MAX, redact
from wakeful.core.text import without_hidden

SMALL: Final = Path(__file__).parents[1] / "tests" / "corpus"
# Opaque to all but the provider, and never shown.
_OPAQUE: Final = frozenset({"signature", "encrypted_content", "data", "base64"})


class Count(Struct):
    """What a redactor did to all texts."""

    words: int = 0
    redacted: int = 0
    seconds: float = 0.0
    chars: int = 0
    examples: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        return self.redacted / max(1, self.words)


def texts(folder: Path) -> Iterator[str]:
    """Every text of every record, cut as sinks cut it."""
    for path in sorted(folder.rglob("*.jsonl*")):
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for line in lines:
                yield from _leaves(decode_json(line))


def count(folder: Path) -> Count:
    counted = Count()
    for text in texts(folder):
        # As it reads: colours are taken out by every sink.
        before = without_hidden(text, "")[:REDACTED_CHARS_MAX]
        began = time.process_time()
        after = redact(before)
        counted.seconds += time.process_time() - began
        counted.chars += len(before)
        counted.words += len(before.split())
        if after != before:
            gone = Counter(before.split()) - Counter(after.split())
            counted.redacted += gone.total()
            counted.examples.update(gone)
    return counted


def corpus() -> Path:
    named = os.environ.get("WAKEFUL_CORPUS")
    return Path(named) if named else SMALL


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name not in _OPAQUE:
                yield from _leaves(each)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.redaction", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=corpus())
    parser.add_argument("--examples", type=int, default=0, help="Show this many redacted words.")
    arguments = parser.parse_args()
    found = count(arguments.folder)
    speed = found.chars / 1e6 / max(found.seconds, 1e-9)
    print(f"{found.redacted:,} of {found.words:,} words redacted ({found.share:.4%}), {speed:.1f} MB/s")
    for word, times in found.examples.most_common(arguments.examples):
        print(f"  {times:5} {word[:150]}")


if __name__ == "__main__":
    main()
