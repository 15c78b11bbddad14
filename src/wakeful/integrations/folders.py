"""What was done in a working folder, as git sees it: commits, changed files, what was not pushed. It only looks."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from wakeful.core.errors import FolderGone
from wakeful.core.labels import path_label
from wakeful.core.moment import iso
from wakeful.integrations.asking import Git, words
from wakeful.judging.session_record import safe
from wakeful.linux.inquiry import Answer
from wakeful.reports.model import Commit, Folder

# A status of the Linux kernel's tree takes 0.4 s with a warm cache.
GIT_SECONDS_MAX: Final = 5.0
COMMITS_SHOWN_MAX: Final = 5
COMMITS_COUNTED_MAX: Final = 1000
# Of more changed files nobody needs to know the age of each.
FILES_DATED_MAX: Final = 2000
NO_GIT: Final = "not in a git repository"
NO_ANSWER: Final = "git did not answer"
GONE: Final = "its folder is gone"
FOREIGN: Final = "git does not look into a folder of another user"
# How many words stand before the path, by the kind of a line of `status --porcelain=v2`.
_WORDS_BEFORE: Final = {"1": 8, "2": 9, "u": 10, "?": 1}


class GitFolders:
    """Looks at folders of this host."""

    def __init__(self, seconds_max: float = GIT_SECONDS_MAX) -> None:
        self._seconds_max = seconds_max

    async def look(self, folder: str, since_wall: float) -> Folder:
        """As the port says it."""
        try:
            return await self._look(folder, since_wall)
        except FolderGone:
            return Folder(path_label(folder), problem=GONE)

    async def _look(self, folder: str, since_wall: float) -> Folder:
        git = Git(folder, self._seconds_max)
        top = await git.ask("rev-parse", "--show-toplevel")
        if top.exit_code != 0:
            return Folder(path_label(folder), problem=_problem(top))
        root = os.fsdecode(top.output.rstrip(b"\n"))
        if not await git.disarm():
            return Folder(path_label(root), problem=NO_ANSWER)
        return await _looked(git, root, since_wall)


async def _looked(git: Git, root: str, since_wall: float) -> Folder:
    said = await git.ask(
        "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=dirty"
    )
    if said.exit_code != 0:
        return Folder(path_label(root), problem=NO_ANSWER)
    lines = words(said.output)
    changed = changed_files(lines)
    touched = await asyncio.to_thread(_touched, root, changed[:FILES_DATED_MAX], since_wall)
    if "# branch.oid (initial)" in lines:
        return Folder(path_label(root), changed_files=len(changed), touched_files=touched)
    commits = await _commits(git, since_wall)
    unpushed = await _unpushed(git)
    return Folder(
        path_label(root),
        commits=len(commits),
        newest_commits=tuple(commits[:COMMITS_SHOWN_MAX]),
        changed_files=len(changed),
        touched_files=touched,
        unpushed_commits=unpushed[0] if unpushed is not None else None,
        unpushed_files=unpushed[1] if unpushed is not None else None,
    )


def changed_files(lines: Sequence[str]) -> list[str]:
    """The paths in what `status --porcelain=v2 -z` said."""
    paths = []
    following = iter(lines)
    for line in following:
        count = _WORDS_BEFORE.get(line[:1])
        if count is None:
            continue
        paths.append(line.split(" ", count)[-1])
        if line[0] == "2":
            # What a file was called before stands behind it.
            next(following, None)
    return paths


def _problem(said: Answer) -> str:
    if said.exit_code is None:
        return NO_ANSWER
    return FOREIGN if b"dubious ownership" in said.errors else NO_GIT


async def _commits(git: Git, since_wall: float) -> list[Commit]:
    """Those that are checked out, and those that were in this folder since and that a branch still has."""
    here = await _logged(git, since_wall, "HEAD")
    visited = await _logged(git, since_wall, "--walk-reflogs", "HEAD")
    elsewhere = visited.keys() - here.keys()
    if not elsewhere:
        return list(here.values())
    kept = await _logged(git, since_wall, "--branches")
    here |= {each: commit for each, commit in kept.items() if each in elsewhere}
    return sorted(here.values(), key=lambda commit: commit.at, reverse=True)


async def _logged(git: Git, since_wall: float, *revisions: str) -> dict[str, Commit]:
    said = await git.ask(
        "log",
        f"--since=@{int(since_wall)}",
        f"--max-count={COMMITS_COUNTED_MAX}",
        "--format=%H %h %ct %s",
        "-z",
        *revisions,
    )
    lines = (each.partition(" ") for each in words(said.output)) if said.exit_code == 0 else ()
    return {whole: _commit(rest) for whole, _, rest in lines}


def _commit(line: str) -> Commit:
    short, at, *subject = line.split(" ", 2)
    return Commit(short, iso(float(at)), safe(" ".join(subject)))


async def _unpushed(git: Git) -> tuple[int, int] | None:
    """Commits that no remote is known to have, and the files in them; None where there is no remote."""
    known = await git.ask("for-each-ref", "--count=1", "--format=%(objectname)", "refs/remotes")
    if known.exit_code != 0 or not known.output.strip():
        return None
    counted = await git.ask("rev-list", "--count", "HEAD", "--not", "--remotes")
    named = await git.ask(
        *("log", "--name-only", "--no-renames", "--no-ext-diff", "--format=", "-z"),
        *(f"--max-count={COMMITS_COUNTED_MAX}", "HEAD", "--not", "--remotes"),
    )
    if counted.exit_code != 0 or named.exit_code != 0:
        return None
    return int(counted.output), len({each.lstrip("\n") for each in words(named.output)} - {""})


def _touched(root: str, paths: Sequence[str], since_wall: float) -> int:
    return sum(_changed_at(Path(root, path)) >= since_wall for path in paths)


def _changed_at(path: Path) -> float:
    """When a file was written; when it was deleted, as far as the folder it was in knows."""
    for place in (path, *path.parents):
        with suppress(OSError):
            return place.lstat().st_mtime
    return 0.0
