"""Claims about our hooks in a client's settings: nothing else there is touched, and taken out they leave no trace."""

import json
from typing import Any

import pytest
from hypothesis import given, settings as tries, strategies as st

from wakeful.hooks.json_edit import NotPlainJson, parse
from wakeful.hooks.model import (
    EVENTS,
    command_for,
    our_commands,
    snippet,
    with_hooks,
    without_hooks,
)

COMMAND = command_for("/home/u/it's here/spool")
THEIRS = {"hooks": [{"type": "command", "command": "beep"}]}
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)
HOOKS = st.dictionaries(
    st.sampled_from([*EVENTS["claude"], "PreToolUse"]),
    st.lists(st.just(THEIRS), min_size=1, max_size=3),
    min_size=1,
)
SETTINGS = st.builds(
    lambda others, hooks: others | ({"hooks": hooks} if hooks else {}),
    st.dictionaries(st.text(max_size=6).filter(lambda name: name != "hooks"), VALUES, max_size=4),
    st.none() | HOOKS,
)


def expected(settings: dict[str, Any], client: str) -> dict[str, Any]:
    """What a person would write: our group behind theirs, for each event."""
    hooks = {event: list(groups) for event, groups in settings.get("hooks", {}).items()}
    ours = json.loads(snippet(client, COMMAND))["hooks"]
    for event, groups in ours.items():
        hooks.setdefault(event, []).extend(groups)
    return settings | {"hooks": hooks}


@tries(max_examples=50, deadline=None)
@given(SETTINGS, st.sampled_from([None, 1, 2, 4, "\t"]), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_in_and_out_again(
    settings: dict[str, Any], indent: int | str | None, ascii_only: bool, newline: str
) -> None:
    """Whatever stood there, in whatever spelling, stands there still; and out again it is the same, byte for byte."""
    text = json.dumps(settings, indent=indent, ensure_ascii=ascii_only).replace("\n", newline)
    spliced = with_hooks(text, "claude", COMMAND)
    assert json.loads(spliced) == expected(settings, "claude")
    assert list(json.loads(spliced)) == list(expected(settings, "claude"))
    assert our_commands(spliced) == {COMMAND}
    if settings:
        assert without_hooks(spliced) == text
    else:
        assert json.loads(without_hooks(spliced)) == {}
    assert our_commands(text) == frozenset()


def test_what_others_wrote_meanwhile_stays() -> None:
    """A client that rewrote its settings, in its own formatting, loses only Wakeful's lines."""
    spliced = json.loads(with_hooks('{"hooks": {"Stop": []}, "model": "opus"}', "claude", COMMAND))
    spliced["hooks"]["Stop"].append(THEIRS)
    spliced["hooks"]["SessionEnd"][0]["hooks"].insert(0, THEIRS["hooks"][0])
    rewritten = json.dumps(spliced | {"theme": "dark"}, indent=2)
    left = json.loads(without_hooks(rewritten))
    assert left == {"hooks": {"Stop": [THEIRS], "SessionEnd": [THEIRS]}, "model": "opus", "theme": "dark"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"a": 1,}',
        '{"a": 1} // mine',
        '/* mine */ {"a": 1}',
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        "\ufeff{}",
        '{"hooks": []}',
        '{"hooks": {"Stop": {}}}',
        "[" * 100_000,
    ],
)
def test_what_is_not_plain_is_refused(text: str) -> None:
    """Comments, trailing commas, a duplicate name, hooks of another form: nothing is guessed."""
    with pytest.raises(NotPlainJson):
        with_hooks(text, "claude", COMMAND)


def test_a_file_of_its_own_reads_like_one_by_hand() -> None:
    """Two spaces a level, and the text that is printed for adding it by hand."""
    assert with_hooks("{}\n", "codex", COMMAND) == snippet("codex", COMMAND) + "\n"
    assert set(parse(snippet("codex", COMMAND))["hooks"]) == set(EVENTS["codex"])
