"""Rules of the container runtime that need no engine: which process is the agent, and what may be declared."""

import pytest

from wakeful.agents.model import AgentRuntime, AgentSpec
from wakeful.core.process import Process
from wakeful.integrations.docker.inspect import RunningProgram, agent_among, pane_tree
from wakeful.integrations.docker.spec import AgentRefused, container_body, epoch_of

CLAUDE = ("claude", "--model", "x")
ADDRESS = "unix:///run/docker.sock"


def tree(*lines: str) -> list[RunningProgram]:
    """Processes of a pane, each below the one before, by their command lines."""
    processes = {Process(pid, 1, "b"): tuple(line.split()) for pid, line in enumerate(lines, 1)}
    if not lines:
        return []
    return pane_tree(
        next(iter(processes)),
        processes.__getitem__,
        lambda above: [each for each in processes if each.pid == above.pid + 1],
    )


@pytest.mark.parametrize(
    ("lines", "command", "pid"),
    [
        (["claude --model x"], CLAUDE, 1),
        (["/opt/bin/claude"], CLAUDE, 1),
        (["node /opt/claude"], CLAUDE, 1),
        # A client that renamed itself, or an unknown interpreter: the pane's own program is the agent.
        (["something else"], CLAUDE, 1),
        (["bash -lc claude;exec", "claude", "bash -c make"], ("bash", "-lc", "claude; exec bash"), 2),
        (["-bash", "claude"], CLAUDE, 2),
        (["-bash", "codex"], ("sh", "run.sh"), 2),
        (["sh /opt/run-agent", "python3 loop.py"], ("/opt/run-agent",), 1),
        (["sh -c x;y", "x"], ("sh", "-c", "x;y"), 1),
        # A tool's own terminal is not the prompt the agent left.
        (["sh /opt/run-agent", "python3 loop.py", "bash"], ("/opt/run-agent",), 1),
        (["bash", "npx claude", "claude"], CLAUDE, 3),
        (["sh"], ("sh",), 1),
        (["bash"], CLAUDE, None),
        (["-zsh"], CLAUDE, None),
        (["bash -i"], ("bash", "-lc", "claude; exec bash"), None),
        (["bash -lc claude;bash", "bash"], ("bash", "-lc", "claude; bash"), None),
        (["sh /opt/run-agent", "bash"], ("/opt/run-agent",), None),
        (["bash", "vim claude"], CLAUDE, None),
        ([], CLAUDE, None),
    ],
)
def test_the_agent_in_a_pane_is_told_from_a_shell_it_left(
    lines: list[str], command: tuple[str, ...], pid: int | None
) -> None:
    """A prompt is not an agent; a script of a shell may be one, until a prompt is below it."""
    found = agent_among(tree(*lines), command)
    assert (found.process.pid if found is not None else None) == pid


def test_in_a_pane_that_is_not_the_agents_only_its_name_counts() -> None:
    """A person's editor in another window is not the agent."""
    assert agent_among(tree("vim notes"), CLAUDE, by_name_only=True) is None
    assert agent_among(tree("bash", "claude"), CLAUDE, by_name_only=True) is not None


def spec(*mounts: str, **fields: str) -> AgentSpec:
    given = {"image": "i", **fields}
    return AgentSpec(name="bot", runtime=AgentRuntime.DOCKER, command=CLAUDE, mounts=mounts, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "mount",
    [
        "x",
        "relative:/x",
        "/x:relative",
        "/x:/y:rwx",
        "/:/host",
        "/run:/run",
        "/run/docker.sock:/s",
        "/run/../run:/r",
    ],
)
def test_a_mount_that_is_none_or_leads_to_the_engine_is_refused(mount: str) -> None:
    """A process that reaches the engine's socket owns the host, whichever folder is mounted."""
    with pytest.raises(AgentRefused):
        container_body(spec(mount), 1, ADDRESS)


def test_what_is_declared_is_what_the_engine_is_told() -> None:
    """No privileges, no network unless given, values of the environment nowhere."""
    body = container_body(spec("/opt:/opt:ro", network="host", user="u", workdir="/w"), 5, ADDRESS)
    assert body["HostConfig"] == {
        "Init": True,
        "NetworkMode": "host",
        "Mounts": [{"Type": "bind", "Source": "/opt", "Target": "/opt", "ReadOnly": True}],
    }
    assert (body["User"], body["WorkingDir"], "Env" in body) == ("u", "/w", False)
    assert epoch_of(body["Labels"]) == 5


def test_an_agent_without_an_image_is_refused() -> None:
    """The engine would say it less clearly."""
    with pytest.raises(AgentRefused, match="it names no image"):
        container_body(spec(image=""), 1, ADDRESS)


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 30])
def test_a_label_that_is_no_epoch_is_nobodys(text: str) -> None:
    """Any program may put labels on containers."""
    assert epoch_of({"wakeful.epoch": text}) == 0
