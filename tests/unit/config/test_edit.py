"""Setting keys in a configuration file: what was asked for, and no other byte."""

import re

import pytest
from hypothesis import given, strategies as st

from wakeful.cli.commands.config import default_lines
from wakeful.config.edit import NotEditable, NotMergeable, fragment_values, with_values
from wakeful.config.load import Document, combine
from wakeful.config.schema import KEYS, ConfigError

DEFAULT = "\n".join(default_lines()) + "\n"


def edited(text: str, **values: object) -> str:
    named = {name.replace("__", "."): value for name, value in values.items()}
    return with_values(Document("f", text.encode()), named, {})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[heal]\nsteer_seconds = 5\n"),
        ("[heal]\n", "[heal]\nsteer_seconds = 5\n"),
        ("[heal]\nsteer_seconds = 4\n[daemon]\n", "[heal]\nsteer_seconds = 5\n[daemon]\n"),
        ("[heal] # x\n# steer_seconds = 4\nrunaway='notify'\n", "[heal] # x\n# steer_seconds = 4\nsteer_seconds = 5\nrunaway='notify'\n"),
        ("[daemon]\r\nport = 1\r\n", "[daemon]\r\nport = 1\r\n\r\n[heal]\r\nsteer_seconds = 5\r\n"),
        ("[heal]\nsteer_seconds = 5 # kept", "[heal]\nsteer_seconds = 5 # kept"),
    ],
)  # fmt: skip
def test_a_key_is_set_in_its_place(before: str, after: str) -> None:
    """In the place of its value, below its comment, below its header, or in a new section; a set one changes nothing."""
    assert edited(before, heal__steer_seconds=5) == after


@pytest.mark.parametrize("before", ["heal = { steer_seconds = 4 }\n", "heal.steer_seconds = 4\n", "[heal\n"])
def test_what_cannot_be_edited_is_refused(before: str) -> None:
    """With the lines to add; nothing is guessed. A file that is broken already is refused as everywhere."""
    with pytest.raises((NotEditable, ConfigError)):
        edited(before, heal__steer_seconds=5)


def test_a_list_over_several_lines_is_not_cut() -> None:
    """Only its first line could be replaced: refused."""
    with pytest.raises(NotEditable, match=r"alerts\.urls"):
        edited('[alerts]\nurls = [\n  "json://a",\n]\n', alerts__urls=["json://b"])


@given(st.lists(st.sampled_from(sorted(KEYS)), unique=True))
def test_every_key_can_be_set_in_the_default_file(names: list[str]) -> None:
    """Every other line stays, and a second time changes nothing."""
    values = {name: _other(name) for name in names}
    text = with_values(Document("f", DEFAULT.encode()), values, {})
    loaded = combine([Document("f", text.encode())], {})
    assert {name for name, origin in loaded.origins.items() if origin != "default"} == set(names)
    assert re.sub(r"^(?!#).* = .*\n", "", text, flags=re.MULTILINE) == DEFAULT
    assert with_values(Document("f", text.encode()), values, {}) == text


def _other(name: str) -> object:
    key = KEYS[name]
    value = key.format_value(key.default)
    return list(value) if isinstance(value, tuple) else value


def test_a_fragment_has_keys_only() -> None:
    """An agent's table is no key."""
    with pytest.raises(NotMergeable, match="agents"):
        fragment_values(Document("f", b"[agents.a]\nruntime='tmux'\ncommand=['x']\n"), {})
