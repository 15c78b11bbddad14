"""Which journals the daemon recovers by itself: one small file for each root, in a folder of Wakeful's own."""

import hashlib
import os
from pathlib import Path
from typing import Final

from wakeful.incidents.whole_lines import open_for_reading
from wakeful.journal.state_file import put_whole

_PATH_BYTES_MAX: Final = 4096


def register_root(folder: Path, root: Path) -> None:
    """Remember a root; twice is once. Raises LogFull or LogUnusable."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = os.fsencode(root)
    put_whole(folder / hashlib.sha256(name).hexdigest()[:32], name)


def registered_roots(folder: Path) -> list[Path]:
    """Every root that was registered and still exists, in an order that stays."""
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    roots = [_root_of(path) for path in files if not path.name.startswith(".")]
    # Not Path.is_dir: it raises for a name that is too long.
    return [root for root in roots if root is not None and os.path.isdir(root)]  # noqa: PTH112


def _root_of(path: Path) -> Path | None:
    try:
        file = open_for_reading(path)
    except OSError:
        return None
    if file is None:
        return None
    try:
        root = os.fsdecode(os.read(file, _PATH_BYTES_MAX))
    finally:
        os.close(file)
    return Path(root) if root.startswith("/") and "\0" not in root else None
