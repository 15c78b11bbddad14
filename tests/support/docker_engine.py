"""A private container engine for tests: its data, sockets and pidfile are in one temporary folder.

Its one image is made of programs of this machine, because none can be fetched. Everything started here is
ended by its pid: the engine, then the shims of its containers, which the engine leaves behind when it is
killed.
"""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from support import prerequisites
from support.real_clients import wait_for
from wakeful.linux import proc

IMAGE: Final = "wakeful-tests"
START_SECONDS_MAX: Final = 60.0
END_SECONDS_MAX: Final = 40.0
_PROGRAMS: Final = ("tmux", "sh", "sleep", "env", "cat", "mkdir", "setsid")
_TERMINALS: Final = (
    "s/screen",
    "s/screen-256color",
    "t/tmux",
    "t/tmux-256color",
    "x/xterm",
    "x/xterm-256color",
)
_LOCALE: Final = Path("/usr/lib/locale/C.utf8")


def missing_docker() -> str:
    """Why no engine can be started here; empty if one can."""
    if not prerequisites.DOCKER.present():
        return "dockerd is missing: run `python tests/support/prerequisites.py`"
    return "" if os.geteuid() == 0 else "only root can start a container engine"


def require_docker() -> None:
    """Skip the test where no engine can be started; fail it in CI."""
    if missing := missing_docker():
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)


class DockerEngine:
    """A private dockerd."""

    def __init__(self) -> None:
        # A short name: a socket's path has 107 bytes at most, and containerd adds its own part.
        self.folder = Path(tempfile.mkdtemp(prefix="wdk"))
        self.address = f"unix://{self.folder}/s.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self._options: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it runs without options set by a test."""
        return self._process is not None and self._process.poll() is None and not self._options

    def start(self, *options: str) -> None:
        self._options = options
        argv = ["dockerd", "--storage-driver=vfs", "--iptables=false", "--ip6tables=false", "--bridge=none"]
        argv += ["--data-root", str(self.folder / "d"), "--exec-root", str(self.folder / "e")]
        argv += ["-H", self.address, "--pidfile", str(self.folder / "pid"), *options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(self._answers, "answer of dockerd", START_SECONDS_MAX)

    def stop(self) -> None:
        """End it as its service manager would: it ends its containers, unless configured to keep them."""
        self._end(signal.SIGTERM)

    def crash(self) -> None:
        """Kill it. Its containers go on until it is started again."""
        self._end(signal.SIGKILL)

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    def docker(self, *words: str, stdin: bytes | None = None) -> str:
        """The client's output; AssertionError with its error output if it fails."""
        done = subprocess.run(
            ("docker", "-H", self.address, *words), input=stdin, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"docker {words[0]}: {done.stderr.decode(errors='replace')}"
        return done.stdout.decode(errors="replace").strip()

    def inspect(self, container: str) -> dict[str, Any]:
        (only,) = json.loads(self.docker("inspect", container))
        assert isinstance(only, dict), only
        return only

    def clear(self) -> None:
        """Remove every container."""
        if names := self.docker("ps", "-aq").split():
            self.docker("rm", "-f", *names)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.clear()
            self.stop()
        for pid in self._left_behind():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for mount in self._mounts():
            subprocess.run(("umount", "-l", mount), check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool | None:
        assert self._process is not None, "it was started"
        assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
        asked = subprocess.run(("docker", "-H", self.address, "version"), capture_output=True, check=False)
        return asked.returncode == 0 or None

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None, "it was started"
        if self._process.poll() is None:
            self._process.send_signal(number)
        self._process.wait(END_SECONDS_MAX)
        # A killed engine leaves these behind, and would wait for the processes that have these pids now.
        for left in ("pid", "e/containerd/containerd.pid"):
            (self.folder / left).unlink(missing_ok=True)

    def _left_behind(self) -> list[int]:
        """The containers of a killed engine: their shims name this engine's socket, and their processes are
        below those."""
        families = proc.children_by_parent()
        ours = f"{self.folder}/e/"
        shims = [each for row in families.values() for each in row if _is_shim(each.pid, ours)]
        return [each.pid for shim in shims for each in (*proc.descendants(shim, families), shim)]

    def _mounts(self) -> list[str]:
        """Mounts that a killed engine left, innermost first."""
        rows = Path("/proc/self/mounts").read_text().splitlines()
        return [row.split()[1] for row in reversed(rows) if row.split()[1].startswith(f"{self.folder}/")]


def _is_shim(pid: int, ours: str) -> bool:
    argv = proc.command(pid)
    return bool(argv) and "containerd" in argv[0] and any(word.startswith(ours) for word in argv)


def make_image(
    engine: DockerEngine,
    name: str = IMAGE,
    *,
    without: tuple[str, ...] = (),
    more: tuple[str, ...] = (),
    mounted: tuple[Path, ...] = (),
) -> None:
    """An image of this machine's own tmux, shell and a few programs, and `more` of them.

    Of `mounted` programs it has only the libraries: a large program is not copied into every container.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        files = _image_files((*_PROGRAMS, *more), without)
        files |= {library for each in mounted for library in _libraries(str(each))}
        folders = {str(each) for file in files for each in file.parents} | {"/tmp", "/root", "/code"}
        for folder in sorted(folders):
            _add(tar, folder, tarfile.DIRTYPE)
        for path in files:
            tar.add(path.resolve(), str(path))
        # Looks like a client, and sleeps.
        tar.add("/usr/bin/sleep", "usr/bin/codex")
        # The same, where no PATH finds it.
        tar.add("/usr/bin/sleep", "opt/claude")
        _add(tar, "bin", tarfile.SYMTYPE, "usr/bin")
        _add_text(tar, "etc/passwd", "root:x:0:0::/root:/bin/sh\nplain:x:1000:1000::/code:/bin/sh\n")
    engine.docker("import", "-", name, stdin=content.getvalue())


def _image_files(programs: tuple[str, ...], without: tuple[str, ...]) -> set[Path]:
    files = {file for file in _LOCALE.rglob("*") if file.is_file()} if _LOCALE.is_dir() else set()
    files |= {path for each in _TERMINALS if (path := Path("/lib/terminfo") / each).is_file()}
    for program in set(programs) - set(without):
        found = shutil.which(program, path="/usr/bin")
        assert found is not None, f"{program} is on this machine"
        files |= {Path(found), *_libraries(found)}
    return files


def _libraries(program: str) -> set[Path]:
    listed = subprocess.run(("ldd", program), capture_output=True, text=True, check=True).stdout
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", listed)}


def _add(tar: tarfile.TarFile, name: str, kind: bytes, target: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, 0o1777, target
    tar.addfile(entry)


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text)
    tar.addfile(entry, io.BytesIO(text.encode()))
