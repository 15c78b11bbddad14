"""Ends processes, gently first, and only the exact process that was meant.

Signals go through a pidfd. After it is opened, the process is checked again: by identity, by the caller's
proof (it is the client, or carries a mark), and against those that are never signalled: process 1, Wakeful,
its ancestors, and, outside containers, processes of other users. Whether a process should end is decided
elsewhere.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from typing import Final

from msgspec import Struct

from wakeful.core.managed_session import EPOCH_VARIABLE
from wakeful.core.process import Process, ProcessState
from wakeful.linux import proc
from wakeful.linux.client_processes import reason_to_spare

SignalSteps = Sequence[tuple[Signals, float]]
"""Signals in their order, and how many seconds each is given."""

# An agent interrupted in a tool took up to 1.5 s to end it and itself; several times that on a busy machine.
AGENT_STEPS: Final[SignalSteps] = ((SIGINT, 5.0), (SIGTERM, 5.0), (SIGKILL, 2.0))
TOOL_STEPS: Final[SignalSteps] = ((SIGTERM, 1.0), (SIGKILL, 2.0))
# A tool may start another while it is ended; one that still does so after this many looks is left and named.
SWEEP_ROUNDS_MAX: Final = 20
# A process in the middle of exec shows no environment for a moment: that nobody is there is said after a second look.
RECHECK_SECONDS: Final = 0.02
# One that ends by itself shows none either; it is gone within milliseconds, unless the kernel has much to clean up.
CHECKS_MAX: Final = 100


class TerminationResult(Struct, frozen=True):
    """What was seen of a process's end. `signal` is the last one sent, None if none was."""

    process: Process
    sight: ProcessState
    signal: Signals | None
    seconds: float


class SweepResult(Struct, frozen=True):
    """What became of the processes with a mark. `spared` carry it too, but have a terminal or a newer claim."""

    endings: tuple[TerminationResult, ...]
    spared: tuple[Process, ...]

    @property
    def survivors(self) -> tuple[Process, ...]:
        """Those that should have ended and were not seen dead."""
        return tuple(each.process for each in self.endings if each.sight is not ProcessState.DEAD)


IsMeant = Callable[[Process], bool]
"""Whether this process, whose number is held by now, is what the caller means to end."""


def has_variable(variable: str, value: str) -> IsMeant:
    """Meant is every process that was started with variable=value."""
    return lambda process: proc.environ_value(process.pid, variable) == value


async def terminate(
    process: Process, steps: SignalSteps = AGENT_STEPS, *, is_meant: IsMeant, any_user: bool = False
) -> TerminationResult:
    """Signal it until it is gone or the steps are used up. Sends nothing to a process that is not meant, or never may be.

    `any_user`: in a container, whose users are its own.
    """
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        # No such process, or no descriptor: what can be seen of it says which.
        return TerminationResult(process, proc.state_of(process), None, 0.0)
    try:
        # Only now is the pid held. Had it changed hands before, the start time would differ.
        seen = proc.state_of(process)
        if seen is not ProcessState.ALIVE or reason_to_spare(process, any_user=any_user) is not None:
            return TerminationResult(process, seen, None, 0.0)
        if not await _is_confirmed_target(process, pidfd, is_meant):
            return TerminationResult(process, proc.state_of(process), None, 0.0)
        return await _send_signals(process, pidfd, steps)
    finally:
        os.close(pidfd)


async def _is_confirmed_target(process: Process, pidfd: int, is_meant: IsMeant) -> bool:
    """Asked again while it shows neither arguments nor environment: it is between two programs, or ending."""
    for _ in range(CHECKS_MAX):
        if is_meant(process):
            return True
        if proc.command(process.pid) or await _is_gone_within(pidfd, RECHECK_SECONDS):
            return False
    return False


async def terminate_marked(
    variable: str,
    value: str,
    *,
    epoch_max: int | None = None,
    steps: SignalSteps = TOOL_STEPS,
    is_meant: IsMeant = lambda _process: True,
) -> SweepResult:
    """End every process of this user that was started with variable=value: an agent's tools, orphans among them.

    Left alone are ourselves and our ancestors, whoever sits at a terminal or keeps one for others (a tmux server that
    an agent happened to start first has everybody's panes), and what belongs to a claim newer than `epoch_max`.
    `is_meant` is asked where the mark is no name of one thing only.
    """
    assert value, "an empty mark is nobody's"
    endings: dict[Process, TerminationResult] = {}
    spared: set[Process] = set()
    looked_twice = False
    for _ in range(SWEEP_ROUNDS_MAX):
        found = [
            each for each in _marked_processes(variable, value) if each not in endings and is_meant(each)
        ]
        spared = {each for each in found if _is_spared(each, epoch_max)}
        meant = [each for each in found if each not in spared]
        if meant:
            marked = has_variable(variable, value)
            ended = await asyncio.gather(*(terminate(each, steps, is_meant=marked) for each in meant))
            endings |= {each.process: each for each in ended}
        elif looked_twice:
            break
        looked_twice = not meant
        await asyncio.sleep(RECHECK_SECONDS)
    return SweepResult(tuple(endings.values()), tuple(sorted(spared, key=lambda each: each.pid)))


async def _send_signals(process: Process, pidfd: int, steps: SignalSteps) -> TerminationResult:
    began = asyncio.get_running_loop().time()
    sent: Signals | None = None
    gone = False
    for each, patience_seconds in steps:
        try:
            signal.pidfd_send_signal(pidfd, each)
        except ProcessLookupError:
            gone = True
        except PermissionError:
            # It became somebody else by exec of a setuid program: not ours to end.
            break
        else:
            sent = each
            gone = await _is_gone_within(pidfd, patience_seconds)
        if gone:
            break
    seconds = asyncio.get_running_loop().time() - began
    return TerminationResult(process, ProcessState.DEAD if gone else proc.state_of(process), sent, seconds)


async def _is_gone_within(pidfd: int, seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(pidfd, gone.set)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await gone.wait()
    finally:
        loop.remove_reader(pidfd)
    return gone.is_set()


def _marked_processes(variable: str, value: str) -> list[Process]:
    """Who carries the mark, without us and those we descend from."""
    ours = {os.getpid(), *(each.pid for each in proc.ancestors(os.getpid()))}
    return [
        each for each in proc.processes_with_variable(variable, value, os.getuid()) if each.pid not in ours
    ]


def _is_spared(process: Process, epoch_max: int | None) -> bool:
    family = (process, *proc.descendants(process))
    return any(proc.has_terminal(each.pid) for each in family) or _is_newer(process, epoch_max)


def _is_newer(process: Process, epoch_max: int | None) -> bool:
    """Whether it belongs to a later claim of the same session; one that says nothing does not."""
    epoch = proc.environ_value(process.pid, EPOCH_VARIABLE) or ""
    return epoch_max is not None and epoch.isdecimal() and int(epoch) > epoch_max
