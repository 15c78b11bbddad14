"""Reads the changes in a working folder from git: commits, changed files, unpushed work.

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
# Switches off everything but reading that a repository, or the shell that started Wakeful, could make git do.
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
    """git in one folder. Each call ends within `seconds_max`; without git it has no output. Raises WorkingDirectoryGone."""

    def __init__(self, folder: str, seconds_max: float) -> None:
        self._folder = folder
        self._seconds_max = seconds_max
        self._filters: tuple[str, ...] = ()

    async def disable_filters(self) -> bool:
        """List the configured filters, so that none of them runs. False: they could not be listed."""
        listed = await self.run("config", "--null", "--name-only", "--get-regexp", r"^filter\.")
        # 1: there are none.
        if listed.exit_code not in {0, 1}:
            return False
        names = {key.removeprefix("filter.").rpartition(".")[0] for key in split_at_nul(listed.output)}
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
        """The environment of helpers, with settings that switch off programs and filters."""
        off = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
        filters = [(f"filter.{name}.{key}", value) for name in self._filters for key, value in off]
        return helper_environ(os.environ) | _ENVIRON | _environ_settings((*_SETTINGS, *filters))


def split_at_nul(output: bytes) -> list[str]:
    return [os.fsdecode(each) for each in output.split(b"\0") if each]


def _environ_settings(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Settings as environment variables, because a filter's name may contain any character."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


# A status of the Linux kernel's tree takes 0.4 s with a warm cache.
GIT_SECONDS_MAX: Final = 5.0
COMMITS_SHOWN_MAX: Final = 5
COMMITS_COUNTED_MAX: Final = 1000
# With more changed files the age of each is not needed.
FILES_DATED_MAX: Final = 2000
NO_GIT: Final = "not in a git repository"
NO_ANSWER: Final = "git did not answer"
FOLDER_MISSING: Final = "its folder is gone"
OTHER_USERS_FOLDER: Final = "git does not read a folder of another user"
# The number of fields before the path, by the kind of a line of `status --porcelain=v2`.
_FIELDS_BEFORE_PATH: Final = {"1": 8, "2": 9, "u": 10, "?": 1}


class GitFolders:
    """Implements reports.service.WorkFolders."""

    def __init__(self, seconds_max: float = GIT_SECONDS_MAX) -> None:
        self._seconds_max = seconds_max

    async def inspect(self, folder: str, since_wall: float) -> GitChanges:
        try:
            git = Git(folder, self._seconds_max)
            top = await git.run("rev-parse", "--show-toplevel")
            if top.exit_code != 0:
                if top.exit_code is None:
                    problem = NO_ANSWER
                else:
                    problem = OTHER_USERS_FOLDER if b"dubious ownership" in top.errors else NO_GIT
                return GitChanges(path_label(folder), problem=problem)
            root = os.fsdecode(top.output.rstrip(b"\n"))
            if not await git.disable_filters():
                return GitChanges(path_label(root), problem=NO_ANSWER)
            return await _inspect_repository(git, root, since_wall)
        except WorkingDirectoryGone:
            return GitChanges(path_label(folder), problem=FOLDER_MISSING)


async def _inspect_repository(git: Git, root: str, since_wall: float) -> GitChanges:
    status = await git.run(
        "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=dirty"
    )
    if status.exit_code != 0:
        return GitChanges(path_label(root), problem=NO_ANSWER)
    lines = split_at_nul(status.output)
    changed = changed_files(lines)
    touched = await asyncio.to_thread(_count_touched, root, changed[:FILES_DATED_MAX], since_wall)
    if "# branch.oid (initial)" in lines:
        return GitChanges(path_label(root), changed_files=len(changed), touched_files=touched)
    commits = await _commits(git, since_wall)
    unpushed_commits, unpushed_files = await _unpushed(git)
    return GitChanges(
        path_label(root),
        commits=len(commits),
        newest_commits=tuple(commits[:COMMITS_SHOWN_MAX]),
        changed_files=len(changed),
        touched_files=touched,
        unpushed_commits=unpushed_commits,
        unpushed_files=unpushed_files,
    )


def changed_files(lines: Sequence[str]) -> list[str]:
    paths = []
    following = iter(lines)
    for line in following:
        count = _FIELDS_BEFORE_PATH.get(line[:1])
        if count is None:
            continue
        paths.append(line.split(" ", count)[-1])
        if line[0] == "2":
            # The old name of a renamed file follows.
            next(following, None)
    return paths


async def _commits(git: Git, since_wall: float) -> list[Commit]:
    """New commits of the current branch, and those that were checked out since then and are still on a branch."""
    commits = await _log(git, since_wall, "HEAD")
    visited = await _log(git, since_wall, "--walk-reflogs", "HEAD")
    missing = visited.keys() - commits.keys()
    if not missing:
        return list(commits.values())
    on_branches = await _log(git, since_wall, "--branches")
    commits |= {each: commit for each, commit in on_branches.items() if each in missing}
    return sorted(commits.values(), key=lambda commit: commit.at, reverse=True)


async def _log(git: Git, since_wall: float, *revisions: str) -> dict[str, Commit]:
    limits = (f"--since=@{int(since_wall)}", f"--max-count={COMMITS_COUNTED_MAX}")
    listed = await git.run("log", *limits, "--format=%H %h %ct %s", "-z", *revisions)
    commits = {}
    for line in split_at_nul(listed.output) if listed.exit_code == 0 else ():
        whole, short, at, *subject = line.split(" ", 3)
        commits[whole] = Commit(short, iso(float(at)), safe(" ".join(subject)))
    return commits


async def _unpushed(git: Git) -> tuple[int, int] | tuple[None, None]:
    """The number of commits that are on no known remote branch, and of the files in them; None without a remote."""
    known = await git.run("for-each-ref", "--count=1", "--format=%(objectname)", "refs/remotes")
    if known.exit_code != 0 or not known.output.strip():
        return None, None
    counted = await git.run("rev-list", "--count", "HEAD", "--not", "--remotes")
    named = await git.run(
        *("log", "--name-only", "--no-renames", "--no-ext-diff", "--format=", "-z"),
        *(f"--max-count={COMMITS_COUNTED_MAX}", "HEAD", "--not", "--remotes"),
    )
    if counted.exit_code != 0 or named.exit_code != 0:
        return None, None
    return int(counted.output), len({each.lstrip("\n") for each in split_at_nul(named.output)} - {""})


def _count_touched(root: str, paths: Sequence[str], since_wall: float) -> int:
    return sum(_changed_at(Path(root, path)) >= since_wall for path in paths)


def _changed_at(path: Path) -> float:
    """The time at which a file was written; for a deleted one, at which its nearest existing folder changed."""
    for place in (path, *path.parents):
        with suppress(OSError):
            return place.lstat().st_mtime
    return 0.0
