"""A stand-in for GitHub's `gh`: a real program on the PATH that takes the real arguments and prints gh's output.

Its issues, its visibility and its failures are in a folder, where a test writes and reads them.
"""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any, Final

import pytest

_SCRIPT: Final = r"""#!{python} -S
import fcntl, json, os, subprocess, sys, time
folder = {folder!r}
# GitHub takes one after the other; whoever hangs does so without the lock.
one_at_a_time = open(folder + "/lock", "w")
words = sys.argv[1:]
with open(folder + "/calls.jsonl", "a") as calls:
    calls.write(json.dumps({{"words": words, "environ": dict(os.environ), "pid": os.getpid()}}) + "\n")
command = " ".join(words[:2])
troubles = json.load(open(folder + "/troubles.json"))
trouble = troubles.get(command) or troubles.get("*")
if trouble == "hang":
    child = subprocess.Popen(["sleep", "600"])
    with open(folder + "/pids", "a") as pids:
        pids.write("%d %d\n" % (os.getpid(), child.pid))
    time.sleep(600)
elif trouble == "logged out":
    sys.stderr.write("To get started with GitHub CLI, please run:  gh auth login\n")
    sys.exit(4)
elif trouble == "refuse":
    sys.stderr.write("GraphQL: Could not resolve to a Repository (ghp_0123456789012345678901)\x1b[2J\n")
    sys.exit(1)
elif trouble == "garbage":
    sys.stdout.buffer.write(b"\xff\xfe<html>\x1b]0;owned\x07")
    sys.exit(0)
elif trouble == "huge":
    while True:
        sys.stdout.write("x" * 1000000)
elif trouble == "leave a child":
    subprocess.Popen(["sleep", "600"])
elif trouble is not None:
    sys.exit("no such trouble: " + trouble)


def options(words, known):
    given = dict(zip(words[::2], words[1::2]))
    if len(words) % 2 or set(given) != set(known):
        sys.exit("unknown flag in " + " ".join(words))
    return given


fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
repository = json.load(open(folder + "/repository.json"))
if command == "repo view":
    if words[3:] != ["--json", "visibility"]:
        sys.exit("unknown flag")
    print(json.dumps({{"visibility": repository["visibility"]}}))
elif command == "issue list":
    given = options(words[2:], ["--repo", "--state", "--json", "--limit"])
    assert given["--state"] == "open"
    fields = given["--json"].split(",")
    shown = [each for each in repository["issues"] if each["state"] == "open" and each["repo"] == given["--repo"]]
    shown = sorted(shown, key=lambda each: -each["number"])[: int(given["--limit"])]
    print(json.dumps([{{field: each[field] for field in fields}} for each in shown]))
elif command == "issue create":
    given = options(words[2:], ["--repo", "--title", "--body-file"])
    number = len(repository["issues"]) + 1
    url = "https://github.com/%s/issues/%d" % (given["--repo"], number)
    issue = {{"number": number, "title": given["--title"], "url": url, "body": open(given["--body-file"]).read()}}
    issue["mode"] = oct(os.stat(given["--body-file"]).st_mode & 0o777)
    repository["issues"].append(issue | {{"state": "open", "repo": given["--repo"]}})
    with open(folder + "/repository.json", "w") as kept:
        json.dump(repository, kept)
    sys.stderr.write("\nCreating issue in " + given["--repo"] + "\n\n")
    print(url)
else:
    sys.exit("unknown command " + command)
"""


class StandInGh:
    """The program in `bin`, and its data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        program = self.bin / "gh"
        program.write_text(_SCRIPT.format(python=sys.executable, folder=str(folder)))
        program.chmod(stat.S_IRWXU)
        self._write("repository", {"visibility": "PRIVATE", "issues": []})
        self.trouble()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put it first on this process's PATH."""
        monkeypatch.setenv("PATH", f"{self.bin}{os.pathsep}{os.environ['PATH']}")

    def trouble(self, kind: str | None = None, *, at: str = "*") -> None:
        """From now on `gh`, or one of its commands, fails in this way; without a kind it works."""
        self._write("troubles", {} if kind is None else {at: kind})

    def visible(self, visibility: str) -> None:
        self._write("repository", {**self._read("repository"), "visibility": visibility})

    def close(self, number: int) -> None:
        """A person closes an issue."""
        repository = self._read("repository")
        repository["issues"][number - 1]["state"] = "closed"
        self._write("repository", repository)

    def add(self, title: str, body: str, repo: str = "me/shop") -> None:
        """Another person opens an issue."""
        repository = self._read("repository")
        number = len(repository["issues"]) + 1
        issue = {"number": number, "title": title, "body": body, "state": "open", "repo": repo}
        repository["issues"].append({**issue, "url": f"https://github.com/{repo}/issues/{number}"})
        self._write("repository", repository)

    @property
    def issues(self) -> list[dict[str, Any]]:
        issues: list[dict[str, Any]] = self._read("repository")["issues"]
        return issues

    @property
    def calls(self) -> list[dict[str, Any]]:
        path = self._folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def commands(self) -> list[str]:
        return [" ".join(call["words"][:2]) for call in self.calls]

    @property
    def hung_pids(self) -> list[int]:
        """The processes that hung, and their children."""
        return [int(word) for word in (self._folder / "pids").read_text().split()]

    def _read(self, name: str) -> Any:
        return json.loads((self._folder / f"{name}.json").read_text())

    def _write(self, name: str, value: Any) -> None:
        (self._folder / f"{name}.json").write_text(json.dumps(value))
