"""Claims about looking at real repositories: what is counted, and that nothing of them is written or run."""

import asyncio
import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from wakeful.integrations.git import GitFolders
from wakeful.reports.model import GitChanges

NOW = time.clock_gettime(time.CLOCK_REALTIME)
LONG_AGO = 1_700_000_000
_MARKER = "was-run"


class Repository:
    """A repository of a test, independent of this machine's configuration."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str, at: int = LONG_AGO) -> str:
        date = f"{at} +0000"
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            **{
                f"GIT_{role}_{part}": "t@example.org"
                for role in ("AUTHOR", "COMMITTER")
                for part in ("NAME", "EMAIL")
            },
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        done = subprocess.run(
            ["git", *words], cwd=self.path, env=environ, capture_output=True, text=True, check=True
        )
        return done.stdout

    def commit(self, name: str, text: str = "x", at: int = LONG_AGO) -> None:
        (self.path / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", f"add {name}", at=at)

    def sign(self) -> None:
        """Give the newest commit what looks like a signature."""
        text = self.git("cat-file", "commit", "HEAD")
        signed = self.path / ".git" / "signed"
        mark = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n"
        signed.write_text(text.replace("\n\n", f"\n{mark}\n", 1))
        self.git("update-ref", "HEAD", self.git("hash-object", "-t", "commit", "-w", str(signed)).strip())

    def look(self, since_wall: float = NOW - 3600) -> GitChanges:
        return asyncio.run(GitFolders().inspect(str(self.path), since_wall))

    def program(self, name: str) -> tuple[Path, Path]:
        """A program that leaves a file behind when it is run, and that file."""
        marker, program = self.path.parent / f"{name}-{_MARKER}", self.path.parent / name
        program.write_text(f"#!/bin/sh\ntouch '{marker}'\ncat\n")
        program.chmod(0o755)
        return program, marker


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_commits_and_files_since_then_are_counted(repository: Repository) -> None:
    """An old commit and an old change are there and count as old; new ones count as new, however they are called."""
    repository.commit("old")
    (repository.path / "left over").write_text("x")
    os.utime(repository.path / "left over", (LONG_AGO, LONG_AGO))
    found = repository.look()
    assert (found.commits, found.changed_files, found.touched_files) == (0, 1, 0)
    assert found.is_unchanged
    repository.commit("new", at=int(NOW))
    (repository.path / "näme\nwith a line").write_text("x")
    (repository.path / "old").unlink()
    found = repository.look()
    assert (found.commits, found.changed_files, found.touched_files) == (1, 2, 2)
    assert [each.untrusted for each in found.newest_commits] == ["add new"]
    assert not found.is_unchanged


def test_a_commit_on_a_branch_that_was_left_counts(repository: Repository, tmp_path: Path) -> None:
    """Made here and no longer checked out still counts as made; made in another worktree, or undone, does not."""
    repository.commit("old")
    repository.git("checkout", "-q", "-b", "feature")
    repository.commit("new", at=int(NOW))
    repository.commit("undone", at=int(NOW))
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git("checkout", "-q", "main")
    repository.git("branch", "other")
    repository.git("worktree", "add", "-q", str(tmp_path / "beside"), "other")
    found = repository.look()
    assert [each.untrusted for each in found.newest_commits] == ["add new"]
    assert not found.is_unchanged
    beside = asyncio.run(GitFolders().inspect(str(tmp_path / "beside"), NOW - 3600))
    assert (beside.commits, beside.is_unchanged) == (0, True)


def test_what_no_remote_has_is_not_pushed(repository: Repository, tmp_path: Path) -> None:
    """Commits and their files since the last push; nothing where there is no remote."""
    repository.commit("one")
    assert repository.look().unpushed_commits is None
    repository.git("init", "-q", "--bare", str(tmp_path / "remote"))
    repository.git("remote", "add", "origin", str(tmp_path / "remote"))
    repository.git("push", "-q", "origin", "main")
    assert (repository.look().unpushed_commits, repository.look().unpushed_files) == (0, 0)
    repository.commit("two")
    repository.commit("two", "changed")
    found = repository.look()
    assert (found.unpushed_commits, found.unpushed_files) == (2, 1)


def test_a_renamed_file_is_one_change(repository: Repository) -> None:
    """git names the old path behind the new one."""
    repository.commit("one", "a text that is long enough\n" * 20)
    repository.git("mv", "one", "two")
    assert repository.look().changed_files == 1


def test_a_repository_without_a_commit_has_files(repository: Repository) -> None:
    """There is no HEAD to ask about."""
    (repository.path / "first").write_text("x")
    found = repository.look()
    assert (found.problem, found.commits, found.touched_files) == ("", 0, 1)


def test_what_is_no_repository_says_so(tmp_path: Path) -> None:
    """Neither a plain folder nor one that is gone is an error."""
    look = GitFolders().inspect
    assert asyncio.run(look(str(tmp_path), 0.0)).problem == "not in a git repository"
    assert asyncio.run(look(str(tmp_path / "gone"), 0.0)).problem == "its folder is gone"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
def test_a_repository_of_another_user_is_said_to_be_one(repository: Repository) -> None:
    """git refuses it; that is no reason to call it none."""
    repository.commit("one")
    for path in (repository.path, *repository.path.rglob("*")):
        os.chown(path, 12345, 12345)
    assert repository.look().problem == "git does not read a folder of another user"


def test_nothing_a_repository_configures_is_run(repository: Repository) -> None:
    """Monitors, hooks, filters and signature checkers are programs that the configuration's author chose."""
    repository.commit("one", at=int(NOW))
    repository.sign()
    (repository.path / ".gitattributes").write_text("* filter=odd=name\n* diff=odd\n")
    markers = []
    settings = (
        "core.fsmonitor",
        "filter.odd=name.clean",
        "filter.odd=name.process",
        "gpg.program",
        "diff.external",
    )
    for number, key in enumerate(settings):
        program, marker = repository.program(f"program{number}")
        repository.git("config", key, str(program))
        markers.append(marker)
    hook, marker = repository.program("post-index-change")
    hook.rename(repository.path / ".git/hooks/post-index-change")
    markers.append(marker)
    repository.git("config", "log.showSignature", "true")
    repository.git("config", "filter.odd=name.required", "true")
    # Same size, other content: only reading it through its filter would tell.
    (repository.path / "one").write_text("y")
    found = repository.look()
    assert (found.problem, found.commits) == ("", 1)
    assert found.changed_files == 2
    assert [each.name for each in markers if each.exists()] == []


def test_nothing_is_written(repository: Repository) -> None:
    """Not even the index, which `git status` would bring up to date by the way."""
    repository.commit("one")
    os.utime(repository.path / "one", (1.0, 1.0))
    before = {path: path.stat().st_mtime_ns for path in repository.path.rglob("*")}
    repository.look()
    assert {path: path.stat().st_mtime_ns for path in repository.path.rglob("*")} == before
    # The same question without our care does write: the test can fail.
    repository.git("status")
    assert {path: path.stat().st_mtime_ns for path in repository.path.rglob("*")} != before


def test_a_git_that_hangs_costs_its_deadline(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says that it did not answer."""
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(slow.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    began = time.monotonic()
    found = asyncio.run(GitFolders(seconds_max=0.2).inspect(str(repository.path), 0.0))
    assert found.problem == "git did not answer"
    assert time.monotonic() - began < 3
