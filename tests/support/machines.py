"""Machines made of namespaces: one kernel, and for each of them a host name, pids, a machine id and a boot id of its own.

Each has the real file system, so a test chooses what they share: the store, the home, or nothing. Their programs end
with them. It needs util-linux, and root or unprivileged user namespaces.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from support.daemon_process import RunningDaemon
from support.real_clients import wait_for

_MACHINE_ID: Final = "/etc/machine-id"
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
# The first process of a pid namespace: nothing else reaps its orphans.
_FIRST_PROCESS: Final = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    signal.pause()
"""


class NamespaceMachine:
    """Runs until `end`. `reboot` ends its processes and gives it another boot id; it is the same machine."""

    def __init__(
        self, name: str, folder: Path, *, machine_id: str | None = None, boot_id: str | None = None
    ) -> None:
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)
        self._machine_id = folder / "machine-id"
        self._boot_id = folder / "boot-id"
        self._machine_id.write_text(f"{machine_id or uuid4().hex}\n")
        self._boot_id.write_text(f"{boot_id or uuid4()}\n")
        ready = folder / "ready"
        script = (
            f"hostname {name} && mount --bind {self._boot_id} {_BOOT_ID}"
            f" && mount --bind {self._machine_id} {_MACHINE_ID} && touch {ready}"
            f' && exec "$0" -SIc "$1"'
        )
        as_root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        namespaces = (*as_root, "--uts", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc")
        argv = ("unshare", *namespaces, "sh", "-c", script, sys.executable, _FIRST_PROCESS)
        self._unshare = subprocess.Popen(argv)
        wait_for(lambda: ready.exists() or None, f"machine {name}")
        self._first_pid = _child_of(self._unshare.pid)

    def argv(self, *argv: str) -> list[str]:
        """A command that runs these words on this machine."""
        user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        return [
            "nsenter",
            "--target",
            str(self._first_pid),
            *user,
            "--uts",
            "--pid",
            "--mount",
            "--wd=.",
            *argv,
        ]

    def pids(self) -> set[int]:
        """The pids of its processes, as this kernel's first namespace knows them, without the first process."""
        own = _pid_namespace(self._first_pid)
        found = {int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()}
        return {pid for pid in found if _pid_namespace(pid) == own} - {self._first_pid}

    def reboot(self) -> None:
        """End all its processes at once, as a power cut does, and begin the next boot."""
        for pid in self.pids():
            _kill(pid)
        wait_for(lambda: not self.pids() or None, f"end of everything on {self.name}")
        self._boot_id.write_text(f"{uuid4()}\n")

    def end(self) -> None:
        _kill(self._first_pid)
        self._unshare.wait()


class MachineDaemon(RunningDaemon):
    """A daemon on such a machine; commands run there, too."""

    def __init__(self, machine: NamespaceMachine, home: Path) -> None:
        super().__init__(home)
        self.machine = machine

    def argv(self, *arguments: str) -> list[str]:
        return self.machine.argv(*super().argv(*arguments))

    @property
    def outer_pid(self) -> int:
        """Its pid in the test's own namespace; nsenter only waits for it."""
        return _child_of(super().pid)

    @property
    def pid(self) -> int:
        """Its pid on its machine."""
        for line in Path(f"/proc/{self.outer_pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
        raise AssertionError(f"{self.machine.name}: its daemon has ended")

    def signal(self, number: int) -> None:
        os.kill(self.outer_pid, number)

    def wait_until_over(self) -> None:
        """After the end of its machine."""
        if self._process is not None:
            self._process.wait()
            self._process = None


@contextmanager
def machines(folder: Path, *names: str, **identity: str) -> Iterator[list[NamespaceMachine]]:
    """Machines with these names. `machine_id` and `boot_id`, if given, are the same for all: containers of one host."""
    with ExitStack() as stack:
        made = []
        for name in names:
            made.append(NamespaceMachine(name, folder / name, **identity))
            stack.callback(made[-1].end)
        yield made


def _child_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return wait_for(lambda: next(map(int, children.read_text().split()), None), f"child of {pid}")


def _pid_namespace(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return None


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
