"""`[agents.NAME]` tables: what they make, and every way they can be wrong."""

import sys

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

import wakeful.integrations
from wakeful.agents.model import AgentRuntime, AgentSpec, Restart
from wakeful.cli.commands.config import default_lines
from wakeful.config.load import Document, LoadedConfig, combine
from wakeful.config.paths import StatePaths
from wakeful.config.schema import ConfigError
from wakeful.daemon.agents import EngineLibraryMissing, runtimes_of
from wakeful.testing.virtual_clock import VirtualClock

ENVIRON = {"HOME": "/home/me"}
WHOLE = """
[agents.claude]
runtime = "docker"
image = "agents:latest"
command = ["claude", "--model", "opus"]
workdir = "/code"
env = ["ANTHROPIC_API_KEY"]
network = "none"
mounts = ["~/code:/code:ro"]
user = "1000:1000"
ready = "for shortcuts"
ready_seconds = 30
restart = "auto"

[agents.docs]
runtime = "tmux"
command = ["codex"]
workdir = "~/docs"
"""


def loaded(*contents: str) -> LoadedConfig:
    documents = [Document(f"f{number}.toml", each.encode()) for number, each in enumerate(contents)]
    return combine(documents, ENVIRON)


def problems_of(content: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        loaded(content)
    return str(raised.value).splitlines()


def test_a_table_makes_a_specification() -> None:
    """Every key arrives, paths below the home are expanded, and what is not said has its default."""
    claude, docs = loaded(WHOLE).config.agents
    assert claude == AgentSpec(
        name="claude",
        runtime=AgentRuntime.DOCKER,
        image="agents:latest",
        command=("claude", "--model", "opus"),
        workdir="/code",
        env=("ANTHROPIC_API_KEY",),
        network="none",
        mounts=("/home/me/code:/code:ro",),
        user="1000:1000",
        ready="for shortcuts",
        ready_seconds=30.0,
        restart=Restart.AUTO,
    )
    assert (docs.workdir, docs.restart, docs.ready_seconds) == ("/home/me/docs", Restart.MANUAL, 60.0)


def test_where_an_agent_came_from_is_known() -> None:
    """Its place is its header's line, as for every other key."""
    assert loaded(WHOLE).origins["agents.docs"] == "f0.toml:15"


def test_a_later_file_replaces_the_whole_agent() -> None:
    """Half of one declaration and half of another would be neither."""
    other = '[agents.docs]\nruntime = "tmux"\ncommand = ["vim"]'
    agents = {each.name: each for each in loaded(WHOLE, other).config.agents}
    assert agents["docs"].command == ("vim",)
    assert agents["docs"].workdir == ""
    assert set(agents) == {"claude", "docs"}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('runtime = "podman"', "2: agents.a.runtime: 'podman' is not docker or tmux"),
        (
            "command = []",
            '2: agents.a.command: [] is not a list of words, the program first, like ["claude"]',
        ),
        ('command = [""]', "2: agents.a.command: its first word is the program and must not be empty"),
        ('command = "claude"', "2: agents.a.command: 'claude' is not a list of words"),
        ('env = ["A=1"]', "2: agents.a.env: ['A=1'] is not a list of names of variables"),
        ('mounts = ["/a"]', "2: agents.a.mounts: ['/a'] is not a list like"),
        ('workdir = "work"', "2: agents.a.workdir: 'work' is not empty, or a path"),
        ("ready_seconds = 0", "2: agents.a.ready_seconds: 0 is not a number of seconds above 0, 600 at most"),
        ("ready_seconds = 601", "2: agents.a.ready_seconds: 601 is not a number of seconds above 0"),
        ('ready = "("', "2: agents.a.ready: '(' is not a regular expression"),
        ('restart = "always"', "2: agents.a.restart: 'always' is not manual or auto"),
        ("restart = true", "2: agents.a.restart: true is not manual or auto"),
        ('imgae = "x"', "2: agents.a.imgae: unknown. Did you mean image?"),
        ('zzz = "x"', "2: agents.a.zzz: unknown. Known: runtime, command"),
        ('image = "--privileged"', "2: agents.a.image: '--privileged' is not the name of an image"),
        ('image = "x"\nruntime = "tmux"', '2: agents.a.image: only for runtime = "docker"'),
        ('runtime = "docker"', "1: agents.a: image is missing: docker needs the name of one"),
        ('runtime = "docker"\nimage = "x"\nworkdir = "~/x"', "4: agents.a.workdir: must begin with / inside"),
    ],
)
def test_every_problem_names_its_place_and_key(lines: str, said: str) -> None:
    """File, line, key, and what it may be instead."""
    found = problems_of(f"[agents.a]\n{lines}")
    assert any(each.startswith(f"f0.toml:{said}") for each in found), found


@pytest.mark.parametrize("name", ["list", "start", "Claude", "a b", "-a", "a" * 41, "ä", "a.b"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    """It becomes a container's name and a tmux session's, and a few words are commands."""
    (found,) = problems_of(f'[agents."{name}"]\nruntime = "tmux"\ncommand = ["x"]')
    assert "Invalid agent name" in found


def test_heartbeat_is_no_agent() -> None:
    """The name is taken: its table says what all wakes have in common, and knows no other key."""
    found = problems_of('[agents.heartbeat]\nruntime = "tmux"')
    assert "agents.heartbeat.runtime: unknown. Known: agents.heartbeat.enabled" in found[0]


def test_what_is_missing_is_said_together() -> None:
    """One pass finds everything, in every table."""
    found = problems_of("[agents.a]\n[agents.b]\ncommand = 1\n[agents]\nc = 3\n[daemon]\nport = -1")
    assert [each.partition(": ")[2].partition(":")[0] for each in found] == [
        "agents.a",
        "agents.a",
        "agents.b.command",
        "agents.b",
        "agents.c",
        "daemon.port",
    ]


def test_agents_that_are_no_table_are_refused() -> None:
    """`agents = 3` is a slip, not an empty list."""
    (found,) = problems_of("agents = 3")
    assert found == "f0.toml:1: agents: must hold tables, [agents.NAME]"


def test_the_default_file_declares_none_and_its_example_is_valid() -> None:
    """The file of `config init` declares nothing until a person removes the #."""
    text = "\n".join(default_lines())
    assert loaded(text).config.agents == ()
    example = [line.removeprefix("#| ") for line in text.splitlines() if line.startswith("#| ")]
    docker_only = ("image", "network", "mounts", "user")
    (agent,) = loaded("\n".join(each for each in example if not each.startswith(docker_only))).config.agents
    assert agent.command == ("claude",)


@settings(max_examples=100)
@given(
    st.dictionaries(st.text(max_size=8), st.one_of(st.none(), st.integers(), st.text(max_size=8)), max_size=4)
)
def test_whatever_stands_in_a_table_is_an_answer(table: dict[str, object]) -> None:
    """Odd keys and values are problems with a name, never a crash."""
    lines = "\n".join(f"{_quoted(key)} = {_quoted(value)}" for key, value in table.items())
    with pytest.raises(ConfigError):
        loaded(f"[agents.a]\n{lines}")


def _quoted(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    escaped = "".join(f"\\U{ord(char):08x}" for char in str(value) if not 0xD800 <= ord(char) < 0xE000)
    return f'"{escaped}"'


def test_agents_in_containers_say_which_library_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the command that installs it; agents in tmux need nothing."""
    # The package is imported again here; afterwards its parent must have the module that others know.
    monkeypatch.setattr(wakeful.integrations, "docker", None, raising=False)
    for module in [each for each in sys.modules if each.startswith("wakeful.integrations.docker")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "aiodocker", None)
    paths, clock = StatePaths("/nowhere"), VirtualClock()
    boxed = AgentSpec(name="a", runtime=AgentRuntime.DOCKER, command=("claude",), image="b")
    with pytest.raises(EngineLibraryMissing, match=r"aiodocker.*pip install 'wakeful\[docker\]'"):
        runtimes_of((boxed,), paths, clock)
    assert list(runtimes_of((replace(boxed, runtime=AgentRuntime.TMUX),), paths, clock)) == ["tmux"]
