"""Every command's help: in the group where a person looks for it, with an example that works as it stands."""

import shlex
from collections.abc import Iterator

import click
import pytest
from bench.reference import command_contexts

from wakeful.cli.app import COMMANDS, HIDDEN, LazyGroup, root

# Groups in the order of `wakeful --help`; a command that is in none is another way to say one of these.
SECTIONS = {
    "See": "ls top why logs report incidents events status open doctor demo",
    "Act": "run attach send answer interrupt stop resume adopt release",
    "Quiet": "mute unmute pause unpause",
    "Daemon": "up down config setup hooks alerts autostart completion mcp",
    "Systems": "agent gateway work checkpoint recover backlog session replay",
    HIDDEN: "restore services list ps watch kill help version",
}
# Arguments that name a session or an agent: a shell completes them.
COMPLETED = {"session_id", "name"}
Path = tuple[str, ...]
# Two ways to say one thing have one example.
SAME: dict[Path, Path] = {
    ("session", "list"): ("ls",),
    ("session", "ls"): ("ls",),
    ("list",): ("ls",),
    ("ps",): ("ls",),
    ("watch",): ("top",),
    ("kill",): ("stop",),
    **{("session", verb): (verb,) for verb in ("send", "answer", "interrupt", "adopt", "release")},
}


# Every command below the root, groups included.
EVERY: dict[Path, click.Command] = {
    tuple(context.command_path.split()[1:]): context.command
    for context in command_contexts(root)
    if context.parent
}


def test_every_command_is_where_a_person_looks_for_it() -> None:
    """Groups and their commands, in this order; every command is in one of them."""
    where = {name: section for section, names in SECTIONS.items() for name in names.split()}
    assert {name: entry.section for name, entry in COMMANDS.items()} == {
        name: where[name] for name in COMMANDS
    }
    assert list(dict.fromkeys(entry.section for entry in COMMANDS.values())) == list(SECTIONS)


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_an_example_is_a_command_that_would_run(path: Path) -> None:
    """One example each; it names the command, and every word of it is known."""
    epilog = EVERY[path].epilog or ""
    assert epilog.startswith("Example: "), path
    example = epilog.removeprefix("Example: ")
    # What a shell substitutes, or a client is given, is a line of its own.
    line = example.replace('"$(', " ; ").replace(')"', " ").replace(" -- wakeful", " ; wakeful")
    lines = list(commands_of(line))
    named = SAME.get(path, path)
    assert any(tuple(words[: len(named)]) == named for words in lines), example
    for words in lines:
        assert_known(words)


def commands_of(line: str) -> Iterator[list[str]]:
    """The words of each `wakeful …` in a line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in (*lexer, ";"):
        if set(word) <= set(";&|"):
            if "wakeful" in words:
                yield words[words.index("wakeful") + 1 :]
            words = []
        else:
            words.append(word)


def assert_known(words: list[str]) -> None:
    """Options and arguments are such as the command takes. Nothing is run."""
    command: click.Command = root
    # With the command's own settings: click remembers the help option of the first caller.
    context = click.Context(root, info_name="wakeful", **root.context_settings)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.make_parser(context).parse_args(list(words))


def test_what_names_a_session_or_an_agent_can_be_completed() -> None:
    """Each such argument asks the daemon; none was forgotten."""
    arguments = [
        (path, each) for path, command in EVERY.items() for each in command.params if each.name in COMPLETED
    ]
    asking = [path for path, each in arguments if isinstance(each, click.Argument)]
    assert len(asking) > 20
    for path, each in arguments:
        if isinstance(each, click.Argument):
            assert each._custom_shell_complete is not None, path


def test_the_help_fits_on_one_screen() -> None:
    """24 lines of 80 characters with the prompt below; every command that is listed anywhere is on it."""
    context = click.Context(root, info_name="wakeful", terminal_width=80, **root.context_settings)
    lines = root.get_help(context).splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    shown = " ".join(lines).split()
    assert [name for name, entry in COMMANDS.items() if entry.section != HIDDEN and name not in shown] == []
    narrow = click.Context(root, info_name="wakeful", terminal_width=40, **root.context_settings)
    assert [name for name in SECTIONS["Act"].split() if f"  {name} " not in root.get_help(narrow)] == []


def test_every_group_knows_its_commands_by_heart() -> None:
    """A shell that asks for commands imports none of them."""
    groups = [command for command in (root, *EVERY.values()) if isinstance(command, LazyGroup)]
    assert len(groups) > 5
    for group in groups:
        found = group.shell_complete(click.Context(group), "")
        assert [each.value for each in found] == [
            name
            for name in group.list_commands(click.Context(group))
            if group is not root or COMMANDS[name].section != HIDDEN
        ]
        assert all(each.help for each in found)
