"""Whether journaled files are what they were, and where suspects go: to `.tmp/corrupt/`, whole and named.

Nothing is truncated or deleted here; a suspect is moved within its file system, under a name that is free.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from wakeful.core.errors import OperatorError
from wakeful.incidents.whole_lines import explained, sync_folder
from wakeful.journal.recovery_rules import Suspect

_READ_BYTES: Final = 1 << 20
# What is recorded for a file that somebody accepted as it is: it is not compared any more.
ACCEPTED: Final = ""


class OutsideRoot(OperatorError):
    """{path} lies outside the journal's folder {root}, or is one of the journal's own files."""

    code = "outside-root"


def inside(root: Path, path: str | os.PathLike[str]) -> Path:
    """The path below the root, its links followed but for the last. Raises OutsideRoot."""
    given = root / path
    real_root = root.resolve()
    found = given.parent.resolve() / given.name
    own = {".copilot", ".tmp", "gaia.db", "events.ndjson", ""}
    parts = found.relative_to(real_root).parts if found.is_relative_to(real_root) else ("",)
    if given.name in {"", ".", ".."} or not parts or parts[0] in own:
        raise OutsideRoot(path=path, root=root)
    return found


def fingerprint(path: Path) -> str:
    """The SHA-256 of a regular file. Raises OSError."""
    digest = hashlib.sha256()
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(file, "rb") as stream:  # noqa: PTH123 - pathlib cannot refuse links
        while part := stream.read(_READ_BYTES):
            digest.update(part)
    return digest.hexdigest()


def suspects(
    root: Path, corrupt: Path, known: Mapping[str, tuple[str, str]], stamp: str
) -> tuple[Suspect, ...]:
    """Of journaled files (path to step and hash) those that changed, each moved away, and those that are gone."""
    found = []
    for name, (step, expected) in known.items():
        reason = _trouble(root, name, expected)
        if reason is not None:
            moved = move_away(root / name, corrupt, stamp) if reason != "it is gone" else None
            found.append(Suspect(name, step, reason, str(moved.relative_to(root)) if moved else None))
    return tuple(found)


def move_away(path: Path, corrupt: Path, stamp: str) -> Path:
    """Put a suspect into the folder for suspects; where it lies now. Raises LogFull or LogUnusable."""
    with explained(path):
        corrupt.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = 1
        target = corrupt / f"{path.name}-{stamp}"
        while target.exists() or target.is_symlink():
            number += 1
            target = corrupt / f"{path.name}-{stamp}-{number}"
        path.rename(target)
        sync_folder(corrupt)
        sync_folder(path.parent)
    return target


def _trouble(root: Path, name: str, expected: str) -> str | None:
    if expected == ACCEPTED:
        return None
    try:
        found = fingerprint(inside(root, name))
    except FileNotFoundError:
        return "it is gone"
    except OSError as problem:
        return f"it cannot be read: {problem.strerror}"
    return None if found == expected else "its content is not what the step left"
