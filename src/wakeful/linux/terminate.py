"""Ends processes, gently first, and only the exact process that was meant.

Signals go through a pidfd. After it is opened, the process is checked again: by identity, by the caller's
predicate (it is the client, or carries a mark), and against those that are never signalled: process 1, Wakeful,
its ancestors, and, outside containers, processes of other users. The caller decides whether a process should end.
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
"""Signals in their order, and the seconds to wait after each."""

# An agent interrupted in a tool took up to 1.5 s to end it and itself; several times that on a busy machine.
AGENT_STEPS: Final[SignalSteps] = ((SIGINT, 5.0), (SIGTERM, 5.0), (SIGKILL, 2.0))
TOOL_STEPS: Final[SignalSteps] = ((SIGTERM, 1.0), (SIGKILL, 2.0))
# A tool may start another one while it is ended; one that still does so after this many rounds is left and reported.
SWEEP_ROUNDS_MAX: Final = 20
# A process in the middle of exec shows no environment for a moment: only a second look proves that none is left.
RECHECK_SECONDS: Final = 0.02
# An ending process shows none either; it is gone within milliseconds, unless the kernel has much to clean up.
CHECKS_MAX: Final = 100


class TerminationResult(Struct, frozen=True):
    """How a process ended. `signal` is the last one sent, None without one."""

    process: Process
    sight: ProcessState
    signal: Signals | None
    seconds: float


class SweepResult(Struct, frozen=True):
    """The result for processes with a mark. `spared` carry it too, but have a terminal or a newer claim."""

    endings: tuple[TerminationResult, ...]
    spared: tuple[Process, ...]

    @property
    def survivors(self) -> tuple[Process, ...]:
        """The processes that were not confirmed dead."""
        return tuple(each.process for each in self.endings if each.sight is not ProcessState.DEAD)


IsMeant = Callable[[Process], bool]
"""Whether the caller means to end this process, whose pid is fixed by a pidfd."""


def has_variable(variable: str, value: str) -> IsMeant:
    """A predicate for processes that were started with variable=value."""
    return lambda process: proc.environ_value(process.pid, variable) == value


async def terminate(
    process: Process, steps: SignalSteps = AGENT_STEPS, *, is_meant: IsMeant, any_user: bool = False
) -> TerminationResult:
    """Signal it until it has ended or the steps are used up. A process that is not meant or is spared gets no signal.

    `any_user`: for containers, which have their own users.
    """
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        # No such process, or no free descriptor: its state says which.
        return TerminationResult(process, proc.state_of(process), None, 0.0)
    try:
        # Only now is the pid fixed. If another process had got it before, the start time would differ.
        state = proc.state_of(process)
        if state is not ProcessState.ALIVE or reason_to_spare(process, any_user=any_user) is not None:
            return TerminationResult(process, state, None, 0.0)
        if not await _is_confirmed_target(process, pidfd, is_meant):
            return TerminationResult(process, proc.state_of(process), None, 0.0)
        return await _send_signals(process, pidfd, steps)
    finally:
        os.close(pidfd)


async def _is_confirmed_target(process: Process, pidfd: int, is_meant: IsMeant) -> bool:
    """Repeated while it shows neither arguments nor environment: it is in the middle of exec, or ending."""
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
    """End every process of this user that was started with variable=value: an agent's tools, including orphans.

    Spared are Wakeful and its ancestors, processes that have a terminal or keep one for others (a tmux server that
    an agent happened to start first has all panes), and processes of a claim newer than `epoch_max`.
    `is_meant` filters where the mark does not identify one thing only.
    """
    assert value, "an empty mark identifies nothing"
    endings: dict[Process, TerminationResult] = {}
    spared: set[Process] = set()
    looked_twice = False
    for _ in range(SWEEP_ROUNDS_MAX):
        found = [
            each for each in _marked_processes(variable, value) if each not in endings and is_meant(each)
        ]
        spared = {each for each in found if _is_spared(each, epoch_max)}
        targets = [each for each in found if each not in spared]
        if targets:
            marked = has_variable(variable, value)
            ended = await asyncio.gather(*(terminate(each, steps, is_meant=marked) for each in targets))
            endings |= {each.process: each for each in ended}
        elif looked_twice:
            break
        looked_twice = not targets
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
            # It changed its user by exec of a setuid program: Wakeful may not end it.
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
    """The processes with the mark, without Wakeful and its ancestors."""
    own = {os.getpid(), *(each.pid for each in proc.ancestors(os.getpid()))}
    return [
        each for each in proc.processes_with_variable(variable, value, os.getuid()) if each.pid not in own
    ]


def _is_spared(process: Process, epoch_max: int | None) -> bool:
    family = (process, *proc.descendants(process))
    return any(proc.has_terminal(each.pid) for each in family) or _is_newer(process, epoch_max)


def _is_newer(process: Process, epoch_max: int | None) -> bool:
    """Whether it belongs to a later claim of the same session; a process without an epoch does not."""
    epoch = proc.environ_value(process.pid, EPOCH_VARIABLE) or ""
    return epoch_max is not None and epoch.isdecimal() and int(epoch) > epoch_max
