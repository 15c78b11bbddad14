"""Files that only their owner may read, made anew or not at all."""

import os
from pathlib import Path

from wakeful.integrations.tmux.failure import TmuxFailed


def write_private(folder: str, name: str, content: bytes, mode: int = 0o600) -> str:
    """Write a new file in a folder of its owner's alone; its path. Raises TmuxFailed."""
    path = f"{folder}/{name}"
    try:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path, "xb", opener=lambda at, flags: os.open(at, flags | os.O_NOFOLLOW, mode)) as file:
            file.write(content)
    except OSError as problem:
        raise TmuxFailed(reason=f"{path} cannot be written: {problem.strerror}") from problem
    return path


def discard(path: str) -> None:
    """Remove a file that may be gone already."""
    Path(path).unlink(missing_ok=True)


def exists(path: str) -> bool:
    """Whether the file is there still."""
    return Path(path).exists()
