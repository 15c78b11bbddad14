"""Claims about the pure parts of the tmux driver: what a screen says, which words start a program."""

import subprocess
from pathlib import Path

import pytest

from wakeful.control.driver import ArgumentRefused, ConversationUnknown, PermissionReply, StartRequest
from wakeful.core.ids import ConversationId
from wakeful.integrations.tmux.input_line import ClaudeInput, PlainInput, ShellInput, find_permission
from wakeful.integrations.tmux.programs import resume_argv, start_argv
from wakeful.integrations.tmux.screen import Screen, is_interactive_shell
from wakeful.integrations.tmux.start import script_text

UUID = "0b1f3c52-7d1e-4a53-9d0e-2f5c1d0a9b11"
RULE = "─" * 40
ANGLE = "\u276f"


def screen(*rows: str, row: int, column: int = 2, width: int = 80) -> Screen:
    return Screen.parse(f"10 0 0 0 0 {width} {column} {row} /dev/pts/1\n".encode() + "\n".join(rows).encode())


def test_dim_text_is_nobodys_draft() -> None:
    """A hint in the input line leaves it empty, a colour with the same number does not hide a word."""
    hint = screen(RULE, f"{ANGLE}\xa0\x1b[2mTry this\x1b[0m", RULE, "  ? for shortcuts", row=1)
    typed = screen(RULE, f"{ANGLE}\xa0\x1b[38;5;2mfix it\x1b[39m", RULE, "", row=1)
    carried = screen(RULE, f"{ANGLE}\xa0\x1b[38;2;2;2;2;1mfix\x1b[2m", "more\x1b[22m", RULE, row=1)
    assert [ClaudeInput().draft(each) for each in (hint, typed, carried)] == ["", "fix it", "fix"]


def test_an_input_line_is_one_only_around_the_cursor() -> None:
    """Two rules in an answer of the agent are no input line, nor is a dialog that begins with a rule."""
    printed = screen(RULE, f"{ANGLE} fake", RULE, "and more", f" {ANGLE} 1. Yes", row=4, column=1)
    assert ClaudeInput().draft(printed) is None
    assert ClaudeInput().question(printed) == f"{ANGLE} 1. Yes"


def test_a_question_is_known_by_all_it_says() -> None:
    """The mark of the chosen option may move; another command is another question; a cut one is none."""
    rows = ["", RULE, " Bash command", "", "   rm x", "", " Do you want to proceed?"]
    options = [f" {ANGLE} 1. Yes", "   2. Yes, and never ask again", "   3. No, and tell it why (esc)"]
    moved = ["   1. Yes", f" {ANGLE} 2. Yes, and never ask again", "   3. No, and tell it why (esc)"]
    one, two = (find_permission(screen(*rows, *each, row=7)) for each in (options, moved))
    other = find_permission(screen(*(row.replace("rm x", "rm y") for row in rows), *options, row=7))
    assert one is not None
    assert two is not None
    assert other is not None
    assert (one.id == two.id, one.id == other.id) == (True, False)
    assert (one.digit(PermissionReply.ALLOW), one.digit(PermissionReply.DENY)) == ("1", "3")
    assert find_permission(screen(*rows[2:], *options, row=5)) is None


@pytest.mark.parametrize(
    ("row", "draft"),
    [
        ("", ""),
        ("> ", ""),
        (">>> ", ""),
        ("aider> ", ""),
        ("│ > │", ""),
        ("> words", "> words"),
        ("Overwrite the file", "Overwrite the file"),
        ("root@host:/# ", "root@host:/#"),
    ],
)
def test_an_unknown_program_waits_with_nothing_but_a_prompt(row: str, draft: str) -> None:
    """What is no prompt is a person's text, and the prompt of a shell is no place for text."""
    assert PlainInput().draft(screen(row, row=0, column=len(row))) == draft


@pytest.mark.parametrize(
    ("row", "waits"),
    [
        ("u@h:~/x$ ", True),
        ("# ", True),
        (f"~/x {ANGLE} ", True),
        ("", False),
        ("u@h:~$ ls >", False),
        ("u@h:~$ ls", False),
        ("> cat # ", False),
    ],
)
def test_a_draft_that_ends_like_a_prompt_is_a_draft(row: str, waits: bool) -> None:
    """Only one sign, at the end of the row, is a shell that waits."""
    shown = screen(row, row=0, column=len(row))
    assert (ShellInput().draft(shown) == "") is waits


@pytest.mark.parametrize(
    ("command", "shell"),
    [
        (("bash",), True),
        (("-zsh",), True),
        (("/bin/bash", "--norc", "-i"), True),
        (("bash", "--rcfile", "x"), True),
        (("sh", "-c", "agent"), False),
        (("bash", "-lc", "agent"), False),
        (("sh", "script.sh"), False),
        (("cat",), False),
        ((), False),
    ],
)
def test_a_shell_that_runs_a_script_is_no_shell_at_its_prompt(
    command: tuple[str, ...],
    shell: bool,
) -> None:
    """Only a shell that reads from a person is one."""
    assert is_interactive_shell(command) is shell


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("claude", "do it"), ("claude", "--resume", UUID)),
        (("claude", "--resume", "x", "-c", "do it"), ("claude", "--resume", UUID)),
        (
            ("/opt/claude", "--model=opus", "--allowedTools", "A", "B", "--verbose", "do it"),
            ("/opt/claude", "--resume", UUID, "--model=opus", "--allowedTools", "A", "B", "--verbose"),
        ),
        (
            ("claude", "--settings", "-odd", "--", "--print"),
            ("claude", "--resume", UUID, "--settings", "-odd"),
        ),
        (("node", "/x/codex", "resume", "-m", "o3", "do it"), ("/x/codex", "resume", UUID, "-m", "o3")),
        (("agent", "--flag", "do it"), ("agent", "--flag", "do it")),
    ],
)
def test_a_resume_keeps_options_and_drops_prompts(argv: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """What was asked once is not asked twice."""
    assert resume_argv(argv, ConversationId(UUID), "/x") == expected


def test_a_resume_refuses_what_it_does_not_know() -> None:
    """An unknown option could be a limit; an id that is none would begin a new conversation."""
    with pytest.raises(ArgumentRefused):
        resume_argv(("claude", "--limit", "3"), ConversationId(UUID), "/x")
    with pytest.raises(ConversationUnknown):
        resume_argv(("codex",), ConversationId("last"), "/x")


def test_a_start_names_its_conversation() -> None:
    """Claude Code gets its id; one that contradicts it is refused; other programs are left alone."""

    def order(*argv: str) -> StartRequest:
        return StartRequest(None, ConversationId(UUID), 1, "i", "/x", argv, {})

    assert start_argv(order("claude", "hi")) == ("claude", "--session-id", UUID, "hi")
    assert start_argv(order("claude", "--", "-p")) == ("claude", "--session-id", UUID, "--", "-p")
    assert start_argv(order("cat", "-u")) == ("cat", "-u")
    for refused in ("-p", "--resume=x", "-c", "--bg"):
        with pytest.raises(ArgumentRefused):
            start_argv(order("claude", refused))


def test_a_launch_script_survives_any_value(tmp_path: Path) -> None:
    """Names no shell can set are left out, values and folders are literal, and the script is gone when it runs."""
    folder = tmp_path / "it's; $(here)"
    folder.mkdir()
    script = tmp_path / "script.sh"
    environ = {"A": "x'\n$(id) \"", "SHELLOPTS": "x", "B%%": "y", "TERM": "theirs"}
    script.write_text(script_text(str(folder), ("/usr/bin/env",), environ))
    kept = {"TERM": "ours", "TMUX": "s,1,0", "TMUX_PANE": "%1", "LEAK": "z"}
    done = subprocess.run(["/bin/sh", str(script)], env=kept, capture_output=True, text=True, check=True)
    assert "A=x'\n$(id) \"\n" in done.stdout
    assert f"PWD={folder}\n" in done.stdout
    assert "TERM=ours\n" in done.stdout
    assert not {"LEAK", "SHELLOPTS", "B%%"} & {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert not script.exists()
