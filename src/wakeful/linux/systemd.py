"""systemd integration: sd_notify, the watchdog of the event loop, the user unit, and scopes for agents.

The sd_notify address is removed from the environment, so no agent can send messages as Wakeful. When the loop
stalls, a thread dumps the stacks and the watchdog messages stop: a stalled loop cannot be repaired from
inside. systemd then restarts the service; without systemd the process goes on, because a late loop is better
than none.

Agents inherit what a unit forbids, so the usual unit forbids nothing; the watch-only unit has no right it
does not need (docs/decisions/0013-autostart.md). Each family of agents and tmux servers gets a scope, out of
reach of a restart of the service; otherwise only `KillMode=process` protects it. Without a bus they stay in
the service's group; that is logged, and the bus is tried again after an hour.
"""

import asyncio
import faulthandler
import logging
import os
import socket
import threading
import time
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Final, Self

from wakeful.core.process import Process
from wakeful.linux import launch, proc
from wakeful.linux.run_command import run_command

SEND_SECONDS_MAX: Final = 0.5
_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

log = logging.getLogger("wakeful")


class SystemdNotifier:
    """Sends messages to systemd. `watchdog_seconds` is its watchdog timeout; None without one."""

    def __init__(self, address: str = "", watchdog_seconds: float | None = None) -> None:
        self._address = address
        self.watchdog_seconds = watchdog_seconds

    @classmethod
    def from_environ(cls, environ: MutableMapping[str, str]) -> Self:
        """Read the address from the environment and remove it there."""
        address, usec, pid = (environ.pop(name, "") for name in _VARIABLES)
        is_for_us = pid in {"", str(os.getpid())}
        watchdog_seconds = float(usec) / 1e6 if usec.isdecimal() and is_for_us and int(usec) else None
        return cls(address if address[:1] in {"/", "@"} else "", watchdog_seconds)

    def send(self, word: str) -> None:
        """Send one message, such as READY=1. A failure is only logged: nothing depends on it."""
        if not self._address:
            return
        # A leading @ means an abstract address, which begins with a NUL.
        where = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaker:
            # systemd reads at once, unless the machine has a problem: then one message is lost.
            speaker.settimeout(SEND_SECONDS_MAX)
            try:
                speaker.sendto(word.encode(), where)
            except OSError as problem:
                log.warning("systemd was not told %s: %s", word, problem)


BEAT_SECONDS: Final = 5.0
# The longest measured block of the loop is one second, with ten thousand logs.
STALL_SECONDS: Final = 20.0
# A thread that is this late was itself stopped or starved with the loop: that is no stall.
LATE_FACTOR: Final = 2.0
STALL_FILES_MAX: Final = 10


class LoopWatchdog:
    """Sends watchdog messages as long as its loop runs."""

    def __init__(
        self,
        logs: Path,
        notifier: SystemdNotifier,
        *,
        beat_seconds: float = BEAT_SECONDS,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._logs = logs
        self._notifier = notifier
        # systemd advises half of the timeout; a third allows one late message.
        self._beat_seconds = min(beat_seconds, (notifier.watchdog_seconds or beat_seconds * 3) / 3)
        self._stall_seconds = stall_seconds
        self._beat_at = time.monotonic()
        self._stop = threading.Event()
        self._has_dumped = False

    async def run(self) -> None:
        """Report readiness and then, until cancelled, that the loop runs."""
        self._notifier.send("READY=1")
        watcher = threading.Thread(target=self._watch, name="wakeful-pulse", daemon=True)
        self._beat_at = time.monotonic()
        watcher.start()
        try:
            while True:
                self._beat_at = time.monotonic()
                if self._has_dumped:
                    self._has_dumped = False
                    log.warning("the loop runs again")
                self._notifier.send("WATCHDOG=1")
                await asyncio.sleep(self._beat_seconds)
        finally:
            self._stop.set()
            self._notifier.send("STOPPING=1")

    def _watch(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(self._beat_seconds):
            now = time.monotonic()
            in_time = now - began <= self._beat_seconds * LATE_FACTOR
            began = now
            if in_time and not self._has_dumped and now - self._beat_at > self._stall_seconds:
                self._has_dumped = True
                self._dump(now - self._beat_at)

    def _dump(self, seconds: float) -> None:
        path = self._logs / f"stall-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.txt"
        try:
            with os.fdopen(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w"
            ) as file:
                file.write(f"The loop has not run for {seconds:.0f} s.\n\n")
                file.flush()
                faulthandler.dump_traceback(file, all_threads=True)
            for old in sorted(self._logs.glob("stall-*.txt"))[:-STALL_FILES_MAX]:
                old.unlink(missing_ok=True)
        except OSError as problem:
            log.warning("the loop is stalled, and its stacks cannot be written: %s", problem)
        else:
            log.warning("the loop is stalled; its stacks are in %s", path)


NAME: Final = "wakeful.service"
# Marks a unit as written by Wakeful: any other unit of that name belongs to the operator.
MARK: Final = "# Written by `wakeful autostart install`; `wakeful autostart remove` removes it."
# Folders of clients, tools and Wakeful. No other variable of a terminal belongs into a file.
VARIABLES: Final = (
    *("PATH", "WAKEFUL_HOME", "WAKEFUL_CONFIG", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "TMUX_TMPDIR"),
    *("XDG_CONFIG_HOME", "XDG_STATE_HOME"),
)
# Three times what it takes to notice a stalled loop and write its stacks.
WATCHDOG_SECONDS: Final = 60
_UNIT: Final = """\
{mark}
[Unit]
Description=Wakeful: the truth about every agent session
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
{environment}
Restart=on-failure
RestartSec=2
TimeoutStartSec=120
TimeoutStopSec=30
WatchdogSec={watchdog}
# Its stacks are written by then; a core file would hold keys.
WatchdogSignal=SIGKILL
# Agents and tmux servers are started from here, get scopes of their own, and go on when this is stopped or killed:
KillMode=process
# one of them that runs out of memory does not take the rest along,
OOMPolicy=continue
# and their number is not ours to limit.
TasksMax=infinity
{hardening}
[Install]
WantedBy=default.target
"""
# No file or user namespace: in a user namespace Wakeful could not read /proc of agents any more, and ~/.claude,
# ~/.codex and the sockets of tmux are read where they are.
_HARDENING: Final = """\
# Nothing is started from here, so nothing else is bound by this.
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077
"""


def unit_text(
    argv: Sequence[str], environ: Mapping[str, str], *, watch_only: bool, settings: Sequence[str] = ()
) -> str:
    """The unit for this command, with the set ones of VARIABLES and `settings`."""
    chosen = {name: environ[name] for name in (*VARIABLES, *settings) if environ.get(name)}
    if watch_only:
        chosen["WAKEFUL_DAEMON__MODE"] = "observe"
    return _UNIT.format(
        mark=MARK,
        command=" ".join(_quote(word, in_command=True) for word in argv),
        environment="\n".join(f"Environment={_quote(f'{name}={value}')}" for name, value in chosen.items()),
        watchdog=WATCHDOG_SECONDS,
        hardening=_HARDENING if watch_only else "",
    )


def _quote(word: str, *, in_command: bool = False) -> str:
    """A word quoted by systemd.syntax(7): specifiers and, in a command, variables are taken literally."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{plain.replace("$", "$$") if in_command else plain}"'


# Until the sweep, the unit's KillMode protects new processes.
SWEEP_SECONDS: Final = 5.0
# A bus may be installed meanwhile.
NO_BUS_SECONDS: Final = 3600.0
BUS_SECONDS_MAX: Final = 5.0
_GROUPS: Final = Path("/sys/fs/cgroup")
_CALL: Final = (
    *("busctl", "--user", "--quiet", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1"),
    *("org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))"),
)
# One process that runs out of memory must not end its family; older managers do not know this property.
_OOM_CONTINUE: Final = ("OOMPolicy", "s", "continue")
# The message of busctl; a missing busctl gives the same.
_NO_BUS: Final = "Failed to connect to bus"


async def move_agents_to_scopes(listing: Path) -> None:
    """Move processes that outlive Wakeful out of the service's group as they appear, until cancelled."""
    while True:
        has_bus = await _move_families(listing)
        await asyncio.sleep(SWEEP_SECONDS if has_bus else NO_BUS_SECONDS)


def service_group() -> Path | None:
    """The process list of the service's group; None if this process is not the service."""
    return group_of(Path("/proc/self/cgroup").read_text())


def group_of(groups: str) -> Path | None:
    """The same from the text of a /proc/PID/cgroup, of either version."""
    for line in groups.splitlines():
        number, controllers, path = line.split(":", 2)
        if not path.endswith(f"/{NAME}"):
            continue
        if controllers == "name=systemd":
            return _GROUPS / "systemd" / path[1:] / "cgroup.procs"
        if number == "0":
            return _GROUPS / path[1:] / "cgroup.procs"
    return None


def agent_families(
    parents: Mapping[int, int], own: int, launched: Collection[int]
) -> dict[int, tuple[int, ...]]:
    """The processes of a group that outlive Wakeful, by the eldest of each family: launched ones, and detached ones.

    Other children (helper commands, the gateway) end with Wakeful.
    """
    found: dict[int, list[int]] = {}
    for pid in parents:
        eldest = pid
        while parents.get(eldest, 0) in parents and parents[eldest] != own:
            eldest = parents[eldest]
        ends_with_us = eldest == own or (parents[eldest] == own and eldest not in launched)
        if not ends_with_us:
            found.setdefault(eldest, []).append(pid)
    return {eldest: tuple(pids) for eldest, pids in found.items()}


async def _move_families(listing: Path) -> bool:
    """False without a bus."""
    members = {each.pid: each for each in _members(listing)}
    parents = {pid: each.parent_pid for pid, each in members.items()}
    for eldest, pids in agent_families(parents, os.getpid(), launch.launched_pids()).items():
        problem = await _move_to_scope(members[eldest].process, pids)
        if problem:
            log.info(
                "%d processes stay in the service's group, where KillMode=process protects them: %s",
                len(pids),
                problem,
            )
        if _NO_BUS in problem:
            return False
    return True


def _members(listing: Path) -> Iterable[proc.Stat]:
    for line in listing.read_text().split():
        try:
            yield proc.parse_stat(Path(f"/proc/{line}/stat").read_bytes())
        except (OSError, ValueError):
            continue  # It ended meanwhile.


async def _move_to_scope(eldest: Process, pids: Sequence[int]) -> str:
    """The problem; empty after success."""
    name = f"wakeful-agent-{eldest.pid}-{eldest.started}.scope"
    error = ""
    for more in (_OOM_CONTINUE, ()):
        properties = (
            *("Description", "s", "An agent of Wakeful"),
            *("CollectMode", "s", "inactive-or-failed"),
            *more,
        )
        count = 3 if more else 2
        words = (str(count + 1), "PIDs", "au", str(len(pids)), *map(str, pids), *properties, "0")
        try:
            answer = await run_command((*_CALL, name, "fail", *words), BUS_SECONDS_MAX)
        except OSError as problem:
            return f"{_NO_BUS}: {problem}"
        if answer.exit_code == 0:
            return ""
        error = answer.errors.decode(errors="replace").strip()
    return error or "no answer"
