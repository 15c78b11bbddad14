"""Agents launched, attached to, left and stopped, over and over: a thousand in tmux, 50 in Docker, 20 real Claude Codes.

`python -m bench.hub_cycles` takes some forty minutes, so that no suite does it; any state that does not belong to the
flow, such as one false `stale`, is printed and fails it. So is a death that reaches the WebSocket too late.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.agents_e2e import CHEAP, AgentsFixture
from support.agents_soak import FLOW, cycle, deaths
from support.daemon_process import RunningDaemon
from support.docker_engine import IMAGE, DockerEngine, make_image
from support.real_clients import ClaudeHome, end_tmux
from wakeful.testing.scripted_model import ScriptedModel

TIMES: Final = {"tmux": 1000, "docker": 50, "claude": 20}
DEATHS: Final = 100
TOLD_SECONDS_MAX: Final = 0.1
# So that figures come early.
AT_ONCE: Final = 50
DOCKER: Final = """
[agents.one]
runtime = "docker"
image = "{image}"
command = ["sleep", "100000"]
"""
CLAUDE: Final = """
[agents.one]
runtime = "tmux"
command = ["claude"]
workdir = "{project}"
env = {env}
ready = "for shortcuts"
"""


@contextmanager
def house_of(kind: str) -> Iterator[AgentsFixture]:
    """A daemon with one agent of this kind, called `one`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wcy")))
        daemon = RunningDaemon(folder / "w")
        house = AgentsFixture(daemon, _declared(kind, folder, daemon, stack))
        daemon.up()
        stack.callback(end_tmux, house.server.socket)
        stack.callback(daemon.end)
        yield house


def _declared(kind: str, folder: Path, daemon: RunningDaemon, stack: ExitStack) -> str:
    if kind == "tmux":
        return CHEAP.format(name="one")
    if kind == "docker":
        engine = stack.enter_context(closing(DockerEngine()))
        engine.start()
        make_image(engine)
        daemon.environ["DOCKER_HOST"] = engine.address
        return DOCKER.format(image=IMAGE)
    home = stack.enter_context(ClaudeHome(folder, stack.enter_context(ScriptedModel())))
    environ = home.environ()
    daemon.environ |= environ
    names = [name for name in environ if name not in ("HOME", "PATH", "LANG", "SHELL")]
    return CLAUDE.format(project=home.project, env=json.dumps(names))


def run(kind: str, times: int) -> bool:
    """Whether nothing but the flow was ever told; said in a line."""
    began, done, strange = time.monotonic(), 0, 0
    with house_of(kind) as house:
        while done < times:
            part = min(AT_ONCE, times - done)
            states = cycle(house, "one", part)
            done += part
            strange += len([state for state in states if state not in FLOW]) or int(states != FLOW * part)
            seconds = time.monotonic() - began
            print(
                f"{kind}: {done} of {times} cycles, {strange} states that do not belong, {seconds:.0f} s",
                flush=True,
            )
    return strange == 0


def run_deaths(kind: str, times: int) -> bool:
    """Whether 99 in 100 deaths were reported in time; a line says so."""
    with house_of(kind) as house:
        house.start("one")
        seconds = sorted(each for each, _ in deaths(house, "one", times))
    middle, late = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.99) - 1]
    print(
        f"{kind}: {times} deaths told after {middle * 1000:.0f} ms (median), {late * 1000:.0f} ms (99 in 100), "
        f"{seconds[-1] * 1000:.0f} ms (the slowest)",
        flush=True,
    )
    return late <= TOLD_SECONDS_MAX


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hub_cycles", description=__doc__)
    for kind, times in TIMES.items():
        parser.add_argument(f"--{kind}", type=int, default=times, metavar="N")
    parser.add_argument("--deaths", type=int, default=DEATHS, metavar="N")
    wanted = vars(parser.parse_args())
    killed = wanted.pop("deaths")
    fine = [run(kind, times) for kind, times in wanted.items() if times]
    fine += [run_deaths(kind, killed) for kind in ("tmux", "docker") if killed]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
