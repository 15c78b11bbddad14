"""Claims about prompts to an agent in a container of a real engine: what is typed there, and when nothing is."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from support.docker_engine import DockerEngine
from support.docker_fixture import in_container, spec, with_runtime
from support.real_clients import wait_for
from wakeful.control.driver import ActionResult
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import ManagedSession, PaneAddress
from wakeful.integrations.docker.prompt import ContainerPromptDriver
from wakeful.integrations.tmux.server import TmuxFailed
from wakeful.linux import proc
from wakeful.storage.base import ActionOutcome

pytestmark = pytest.mark.usefixtures("quick_starts")


@pytest.fixture(scope="module")
def hosted(docker_engine: DockerEngine) -> Iterator[ManagedSession]:
    """An agent that repeats its input, below a shell, as another user than root."""
    docker_engine.clear()
    repeating = spec("bot", "sh", "-c", "cat; exit 3", user="plain")
    observation = with_runtime(docker_engine, lambda made: made.start(repeating, 1, {}))
    # A person's window beside it is not the agent's.
    in_container(docker_engine, "tmux", "new-window", "-d", "-t", "agent", "sleep 1000")
    assert observation.pid is not None
    assert observation.container_id is not None
    shell = proc.identify_or_none(observation.pid)
    assert shell is not None
    (agent,) = proc.descendants(shell)
    yield ManagedSession(
        SessionId("claude-x"),
        ConversationId("x"),
        "docker",
        "/code",
        ("sh",),
        1,
        0.0,
        agent,
        pane=PaneAddress(observation.container_id, "", "agent"),
    )
    docker_engine.clear()


def said(engine: DockerEngine) -> list[str]:
    return in_container(engine, "tmux", "capture-pane", "-p", "-t", "agent:0").split("\n")


@pytest.fixture
def speaker(docker_engine: DockerEngine, tmp_path: Path) -> ContainerPromptDriver:
    return ContainerPromptDriver(docker_engine.address, str(tmp_path / "typing"))


def deliver(speaker: ContainerPromptDriver, hosting: ManagedSession, text: str) -> ActionResult:
    return asyncio.run(speaker.deliver(hosting, text))


def test_a_prompt_is_typed_in_a_container_and_seen_taken(
    hosted: ManagedSession, docker_engine: DockerEngine, speaker: ContainerPromptDriver
) -> None:
    """Literally, once, and into the agent's own pane."""
    assert speaker.is_open(hosted)
    text = "it's $HOME; `true` -n %s"
    result = deliver(speaker, hosted, text)
    assert (result.outcome, result.words) == (
        ActionOutcome.CONFIRMED,
        "the client took the prompt",
    )
    # Once by the terminal as it is typed, once by the agent.
    wait_for(lambda: said(docker_engine).count(text) == 2 or None, "what the agent repeats")


def test_nobody_types_over_a_draft_or_into_another_container(
    hosted: ManagedSession, docker_engine: DockerEngine, speaker: ContainerPromptDriver
) -> None:
    """What stands there stays, and an agent that is not in this container is in none of its panes."""
    in_container(docker_engine, "tmux", "send-keys", "-t", "agent:0", "-l", "half a thought")
    wait_for(lambda: "half a thought" in said(docker_engine) or None, "draft")
    refused = deliver(speaker, hosted, "hello")
    assert (refused.outcome, refused.words) == (
        ActionOutcome.DECLINED,
        "a person's draft is in its input line",
    )
    in_container(docker_engine, "tmux", "send-keys", "-t", "agent:0", "C-u")
    stranger = replace(hosted, process=proc.identify(1))
    assert "in which pane" in deliver(speaker, stranger, "hello").words
    gone = replace(hosted, pane=PaneAddress("no-such-container", "", ""))
    with pytest.raises(TmuxFailed, match="no-such-container"):
        deliver(speaker, gone, "hello")


def test_the_way_into_a_container_is_open_only_where_it_is_proven(
    hosted: ManagedSession, docker_engine: DockerEngine, speaker: ContainerPromptDriver, tmp_path: Path
) -> None:
    """Its agent lives in that container, and its engine is one of this host and there."""
    assert not speaker.is_open(replace(hosted, process=None))
    assert not speaker.is_open(replace(hosted, pane=None))
    assert not speaker.is_open(replace(hosted, process=proc.identify(1)))
    assert not ContainerPromptDriver("tcp://127.0.0.1:1", str(tmp_path)).is_open(hosted)
    assert not ContainerPromptDriver(f"{docker_engine.address}-gone", str(tmp_path)).is_open(hosted)


def test_a_text_that_was_cut_off_in_a_container_is_known_again(
    hosted: ManagedSession, docker_engine: DockerEngine, speaker: ContainerPromptDriver, tmp_path: Path
) -> None:
    """Killed while it typed: the next prompt finds Wakeful's own text, removes it and is taken whole."""
    code = (
        "import asyncio, sys, msgspec\n"
        "from wakeful.integrations.docker.prompt import ContainerPromptDriver\n"
        "from wakeful.core.managed_session import ManagedSession\n"
        "hosting = msgspec.json.decode(sys.argv[1], type=ManagedSession)\n"
        "asyncio.run(ContainerPromptDriver(sys.argv[2], sys.argv[3]).deliver(hosting, 'cut off here'))\n"
    )
    words = (msgspec.json.encode(hosted).decode(), docker_engine.address, str(tmp_path / "typing"))
    killed = subprocess.run(
        (sys.executable, "-c", code, *words),
        env={**os.environ, "WAKEFUL_FAULTS": "typing.pasted:1:kill"},
        check=False,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL
    wait_for(lambda: "cut off here" in said(docker_engine) or None, "text in the input line")
    assert deliver(speaker, hosted, "the next one").outcome is ActionOutcome.CONFIRMED
    wait_for(lambda: said(docker_engine).count("the next one") == 2 or None, "what the agent repeats")
    assert "cut off here" not in said(docker_engine)
    assert list((tmp_path / "typing").iterdir()) == []
