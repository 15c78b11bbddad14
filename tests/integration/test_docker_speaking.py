"""Claims about speaking to an agent in a container of a real engine: what is typed there, and when nobody types."""

import asyncio
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from clients import wait_for
from docker_engines import DockerEngine
from docker_scenes import in_container, spec, with_runtime
from wakeful.adapters.docker.speaking import ContainerSpeaker
from wakeful.adapters.system import proc
from wakeful.adapters.tmux.failure import TmuxFailed
from wakeful.domain.hosting import Hosting, PaneAddress
from wakeful.domain.ids import ConversationId, SessionId
from wakeful.ports.hands import Seen
from wakeful.ports.store import Outcome

pytestmark = pytest.mark.usefixtures("quick_starts")


@pytest.fixture(scope="module")
def hosted(docker_engine: DockerEngine) -> Iterator[Hosting]:
    """An agent that repeats what it is told, below a shell, as another user than root."""
    docker_engine.clear()
    repeating = spec("bot", "sh", "-c", "cat; exit 3", user="plain")
    glimpse = with_runtime(docker_engine, lambda made: made.start(repeating, 1, {}))
    # A person's window beside it is not the agent's.
    in_container(docker_engine, "tmux", "new-window", "-d", "-t", "agent", "sleep 1000")
    assert glimpse.pid is not None
    assert glimpse.container_id is not None
    shell = proc.identify_if_seen(glimpse.pid)
    assert shell is not None
    (agent,) = proc.descendants(shell)
    yield Hosting(
        SessionId("claude-x"),
        ConversationId("x"),
        "docker",
        "/code",
        ("sh",),
        1,
        0.0,
        agent,
        pane=PaneAddress(glimpse.container_id, "", "agent"),
    )
    docker_engine.clear()


def said(engine: DockerEngine) -> list[str]:
    return in_container(engine, "tmux", "capture-pane", "-p", "-t", "agent:0").split("\n")


def deliver(engine: DockerEngine, hosting: Hosting, text: str) -> Seen:
    return asyncio.run(ContainerSpeaker(engine.address).deliver(hosting, text))


def test_a_prompt_is_typed_in_a_container_and_seen_taken(
    hosted: Hosting, docker_engine: DockerEngine
) -> None:
    """Literally, once, and into the agent's own pane."""
    assert ContainerSpeaker(docker_engine.address).is_open(hosted)
    text = "it's $HOME; `true` -n %s"
    seen = deliver(docker_engine, hosted, text)
    assert (seen.outcome, seen.words) == (
        Outcome.RECOVERED,
        "the text stood in the input line and was taken with Enter",
    )
    # Once by the terminal as it is typed, once by the agent.
    wait_for(lambda: said(docker_engine).count(text) == 2 or None, "what the agent repeats")


def test_nobody_types_over_a_draft_or_into_another_container(
    hosted: Hosting, docker_engine: DockerEngine
) -> None:
    """What stands there stays, and an agent that is not in this container is in none of its panes."""
    in_container(docker_engine, "tmux", "send-keys", "-t", "agent:0", "-l", "half a thought")
    wait_for(lambda: "half a thought" in said(docker_engine) or None, "draft")
    refused = deliver(docker_engine, hosted, "hello")
    assert (refused.outcome, refused.words) == (
        Outcome.DECLINED,
        "somebody's draft stands in its input line",
    )
    in_container(docker_engine, "tmux", "send-keys", "-t", "agent:0", "C-u")
    stranger = replace(hosted, process=proc.identify(1))
    assert "in which pane" in deliver(docker_engine, stranger, "hello").words
    gone = replace(hosted, pane=PaneAddress("no-such-container", "", ""))
    with pytest.raises(TmuxFailed, match="no-such-container"):
        deliver(docker_engine, gone, "hello")


def test_the_way_into_a_container_is_open_only_where_it_is_proven(
    hosted: Hosting, docker_engine: DockerEngine
) -> None:
    """Its agent lives in that container, and its engine is one of this host and there."""
    speaker = ContainerSpeaker(docker_engine.address)
    assert not speaker.is_open(replace(hosted, process=None))
    assert not speaker.is_open(replace(hosted, pane=None))
    assert not speaker.is_open(replace(hosted, process=proc.identify(1)))
    assert not ContainerSpeaker("tcp://127.0.0.1:1").is_open(hosted)
    assert not ContainerSpeaker(f"{docker_engine.address}-gone").is_open(hosted)
