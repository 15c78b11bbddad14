"""Row "hub": agents in containers at rest, seen from the host against `docker exec tmux has-session` for each.

CPU of all counts: ours, the client's, the engine's and its shims', with what those ran and waited for.
"""

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.crowd import Stage
from bench.figures import Figure, milliseconds
from bench.scale import FULL
from wakeful.agents.model import AgentEvent, AgentRuntime, AgentSpec, event_of
from wakeful.integrations.docker.agent_runtime import DockerRuntime
from wakeful.linux import proc
from wakeful.linux.clock import SystemClock

if TYPE_CHECKING:
    from support.docker_engine import DockerEngine

ROW: Final = "hub"
AGENTS: Final = 200
AGENTS_QUICK: Final = 20
STARTS_AT_ONCE: Final = 3
# Long enough that the engine is asked once whether it still answers, and that its ticks of 10 ms count for little.
WATCH_SECONDS: Final = 12.0
ROUND_SECONDS: Final = 0.5
# Each takes as much CPU as the next: a part of them stands for all.
EXECS: Final = 20


def measure(stage: Stage) -> list[Figure]:
    # The engine of the tests: it is started, filled and ended there.
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.docker_engine import DockerEngine, make_image, missing_docker  # noqa: PLC0415

    if missing := missing_docker():
        print(f"{ROW}: not measured: {missing}")
        return []
    with closing(DockerEngine()) as engine:
        engine.start()
        make_image(engine)
        return asyncio.run(_measured(engine, AGENTS if stage.scale is FULL else AGENTS_QUICK))


async def _measured(engine: "DockerEngine", count: int) -> list[Figure]:
    runtime = DockerRuntime(engine.address, SystemClock())
    heard = asyncio.create_task(_listen(runtime))
    try:
        specs = await _started(runtime, count)
        ours = await _watching_seconds(runtime, engine, specs) / count
    finally:
        heard.cancel()
        await asyncio.wait([heard])
        await runtime.close()
    theirs = _asking_seconds(engine, specs[:EXECS]) / EXECS
    measured = (
        f"{count} agents in containers at rest: a look {milliseconds(ours)} CPU of us and the engine; "
        f"docker exec tmux has-session {milliseconds(theirs)}"
    )
    return [Figure(ROW, measured, ours / theirs, 0.02)]


async def _listen(runtime: DockerRuntime) -> None:
    async for _ in runtime.changes():
        pass


async def _started(runtime: DockerRuntime, count: int) -> list[AgentSpec]:
    specs = [_spec(number) for number in range(count)]
    room = asyncio.Semaphore(STARTS_AT_ONCE)

    async def start(spec: AgentSpec) -> None:
        async with room:
            await runtime.start(spec, 1, {})

    await asyncio.gather(*(start(spec) for spec in specs))
    return specs


def _spec(number: int) -> AgentSpec:
    from support.docker_engine import IMAGE  # noqa: PLC0415 - see `measure`

    command = ("sleep", "86400")
    return AgentSpec(name=f"bench-{number}", runtime=AgentRuntime.DOCKER, image=IMAGE, command=command)


async def _watching_seconds(
    runtime: DockerRuntime, engine: "DockerEngine", specs: Sequence[AgentSpec]
) -> float:
    """CPU of one look at all of them, the stream of events with its questions included."""
    began, ends, rounds = _cpu_seconds(engine), time.monotonic() + WATCH_SECONDS, 0
    while time.monotonic() < ends:
        for spec in specs:
            assert event_of(await runtime.inspect(spec)) is AgentEvent.READY, "nobody is lost at rest"
        rounds += 1
        await asyncio.sleep(ROUND_SECONDS)
    return (_cpu_seconds(engine) - began) / rounds


def _asking_seconds(engine: "DockerEngine", specs: Sequence[AgentSpec]) -> float:
    """The same by asking tmux in each container with a program."""
    began = _cpu_seconds(engine)
    for spec in specs:
        engine.docker("exec", f"agent-{spec.name}", "tmux", "has-session", "-t", "agent")
    return _cpu_seconds(engine) - began


def _cpu_seconds(engine: "DockerEngine") -> float:
    """CPU of this process, of the programs it ran, and of the engine with its shims and all they waited for."""
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = own.ru_utime + own.ru_stime
    return (
        time.process_time()
        + ran
        + sum(_ticks(pid) for pid in _engine_pids(engine)) / os.sysconf("SC_CLK_TCK")
    )


def _engine_pids(engine: "DockerEngine") -> list[int]:
    named = subprocess.run(("pgrep", "-f", str(engine.folder)), capture_output=True, text=True, check=True)
    ours = {os.getpid(), *(each.pid for each in proc.ancestors(os.getpid()))}
    return [int(pid) for pid in named.stdout.split() if int(pid) not in ours]


def _ticks(pid: int) -> int:
    """Fields 14 to 17 of proc(5): its own time and that of the children it waited for."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return 0
    return sum(map(int, line[line.rindex(b")") + 2 :].split()[11:15]))
