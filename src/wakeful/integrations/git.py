"""Reads from git what changed in a working folder: commits, changed files, unpushed work.

It writes nothing there and runs no program of the repository. An agent may write to the folder, and a
repository's configuration can name programs: hooks, a file system monitor, filters, a signature checker,
transports. All of them are switched off here; filters have free names, so they are listed first.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from wakeful.core.clock import iso
from wakeful.core.errors import ClientMissing, WorkingDirectoryGone
from wakeful.core.labels import path_label
from wakeful.judging.session_record import safe
from wakeful.linux.child_environment import helper_environ
from wakeful.linux.launch import find_program
from wakeful.linux.run_command import CommandResult, run_command
from wakeful.reports.model import Commit, GitChanges

_NO_OUTPUT: Final = CommandResult(None, b"", b"")
# Whatever a repository, or the shell that started us, could make git do beside reading.
_SETTINGS: Final = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", ""),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
_ENVIRON: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_FLUSH": "0",
    "LC_ALL": "C",
}
# Repositories have a handful; a thousand would not fit into an environment.
FILTERS_MAX: Final = 200


class Git:
    """git in one folder. Every answer comes within `seconds_max`; without git there is none. Raises FolderGone."""

    def __init__(self, folder: str, seconds_max: float) -> None:
        self._folder = folder
        self._seconds_max = seconds_max
        self._filters: tuple[str, ...] | None = ()

    async def disable_filters(self) -> bool:
        """Learn which filters are configured, so that none of them runs. False: that could not be learned."""
        said = await self.run("config", "--null", "--name-only", "--get-regexp", r"^filter\.")
        # 1: there are none.
        if said.exit_code not in {0, 1}:
            return False
        names = {key.removeprefix("filter.").rpartition(".")[0] for key in split_at_nul(said.output)}
        self._filters = tuple(sorted(names))
        return len(names) <= FILTERS_MAX

    async def run(self, *arguments: str) -> CommandResult:
        try:
            program = find_program("git", cwd=self._folder, path=os.environ.get("PATH", os.defpath))
            return await run_command(
                (program, "--no-pager", *arguments),
                self._seconds_max,
                environ=self._environ(),
                with_children=True,
                cwd=self._folder,
            )
        except (ClientMissing, OSError):
            return _NO_OUTPUT

    def _environ(self) -> dict[str, str]:
        """Ours, without anything that points git elsewhere."""
        return (
            helper_environ(os.environ)
            | _ENVIRON
            | _environ_settings((*_SETTINGS, *_filter_overrides(self._filters or ())))
        )


def split_at_nul(output: bytes) -> list[str]:
    """What stands between the zero bytes."""
    return [os.fsdecode(each) for each in output.split(b"\0") if each]


def _filter_overrides(filters: Sequence[str]) -> list[tuple[str, str]]:
    off = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    return [(f"filter.{name}.{key}", value) for name in filters for key, value in off]


def _environ_settings(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """As git reads them from its environment: there a name may hold any character."""
    counted = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        counted |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return counted


# A status of the Linux kernel's tree takes 0.4 s with a warm cache.
GIT_SECONDS_MAX: Final = 5.0
COMMITS_SHOWN_MAX: Final = 5
COMMITS_COUNTED_MAX: Final = 1000
# Of more changed files nobody needs to know the age of each.
FILES_DATED_MAX: Final = 2000
NO_GIT: Final = "not in a git repository"
NO_ANSWER: Final = "git did not answer"
FOLDER_MISSING: Final = "its folder is gone"
OTHER_USERS_FOLDER: Final = "git does not look into a folder of another user"
# How many words stand before the path, by the kind of a line of `status --porcelain=v2`.
_FIELDS_BEFORE_PATH: Final = {"1": 8, "2": 9, "u": 10, "?": 1}


class GitFolders:
    """Looks at folders of this host."""

    def __init__(self, seconds_max: float = GIT_SECONDS_MAX) -> None:
        self._seconds_max = seconds_max

    async def inspect(self, folder: str, since_wall: float) -> GitChanges:
        """As the port says it."""
        try:
            return await self._inspect(folder, since_wall)
        except WorkingDirectoryGone:
            return GitChanges(path_label(folder), problem=FOLDER_MISSING)

    async def _inspect(self, folder: str, since_wall: float) -> GitChanges:
        git = Git(folder, self._seconds_max)
        top = await git.run("rev-parse", "--show-toplevel")
        if top.exit_code != 0:
            return GitChanges(path_label(folder), problem=_problem(top))
        root = os.fsdecode(top.output.rstrip(b"\n"))
        if not await git.disable_filters():
            return GitChanges(path_label(root), problem=NO_ANSWER)
        return await _inspect_repository(git, root, since_wall)


async def _inspect_repository(git: Git, root: str, since_wall: float) -> GitChanges:
    said = await git.run(
        "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=dirty"
    )
    if said.exit_code != 0:
        return GitChanges(path_label(root), problem=NO_ANSWER)
    lines = split_at_nul(said.output)
    changed = changed_files(lines)
    touched = await asyncio.to_thread(_count_touched, root, changed[:FILES_DATED_MAX], since_wall)
    if "# branch.oid (initial)" in lines:
        return GitChanges(path_label(root), changed_files=len(changed), touched_files=touched)
    commits = await _commits(git, since_wall)
    unpushed = await _unpushed(git)
    return GitChanges(
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
        count = _FIELDS_BEFORE_PATH.get(line[:1])
        if count is None:
            continue
        paths.append(line.split(" ", count)[-1])
        if line[0] == "2":
            # What a file was called before stands behind it.
            next(following, None)
    return paths


def _problem(said: CommandResult) -> str:
    if said.exit_code is None:
        return NO_ANSWER
    return OTHER_USERS_FOLDER if b"dubious ownership" in said.errors else NO_GIT


async def _commits(git: Git, since_wall: float) -> list[Commit]:
    """Those that are checked out, and those that were in this folder since and that a branch still has."""
    here = await _reflog_commits(git, since_wall, "HEAD")
    visited = await _reflog_commits(git, since_wall, "--walk-reflogs", "HEAD")
    elsewhere = visited.keys() - here.keys()
    if not elsewhere:
        return list(here.values())
    kept = await _reflog_commits(git, since_wall, "--branches")
    here |= {each: commit for each, commit in kept.items() if each in elsewhere}
    return sorted(here.values(), key=lambda commit: commit.at, reverse=True)


async def _reflog_commits(git: Git, since_wall: float, *revisions: str) -> dict[str, Commit]:
    said = await git.run(
        "log",
        f"--since=@{int(since_wall)}",
        f"--max-count={COMMITS_COUNTED_MAX}",
        "--format=%H %h %ct %s",
        "-z",
        *revisions,
    )
    lines = (each.partition(" ") for each in split_at_nul(said.output)) if said.exit_code == 0 else ()
    return {whole: _commit(rest) for whole, _, rest in lines}


def _commit(line: str) -> Commit:
    short, at, *subject = line.split(" ", 2)
    return Commit(short, iso(float(at)), safe(" ".join(subject)))


async def _unpushed(git: Git) -> tuple[int, int] | None:
    """Commits that no remote is known to have, and the files in them; None where there is no remote."""
    known = await git.run("for-each-ref", "--count=1", "--format=%(objectname)", "refs/remotes")
    if known.exit_code != 0 or not known.output.strip():
        return None
    counted = await git.run("rev-list", "--count", "HEAD", "--not", "--remotes")
    named = await git.run(
        *("log", "--name-only", "--no-renames", "--no-ext-diff", "--format=", "-z"),
        *(f"--max-count={COMMITS_COUNTED_MAX}", "HEAD", "--not", "--remotes"),
    )
    if counted.exit_code != 0 or named.exit_code != 0:
        return None
    return int(counted.output), len({each.lstrip("\n") for each in split_at_nul(named.output)} - {""})


def _count_touched(root: str, paths: Sequence[str], since_wall: float) -> int:
    return sum(_changed_at(Path(root, path)) >= since_wall for path in paths)


def _changed_at(path: Path) -> float:
    """When a file was written; when it was deleted, as far as the folder it was in knows."""
    for place in (path, *path.parents):
        with suppress(OSError):
            return place.lstat().st_mtime
    return 0.0
