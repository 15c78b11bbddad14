"""Claims about the advised command: it works from any folder, and people can read what will run."""

import subprocess
from pathlib import Path

import pytest

from wakeful.judging.resume_command import command_line, project_folder, resume_argv, resume_place

ODD = "/home/me/it's a shop; rm -rf ~"


def test_the_command_goes_to_its_folder_first() -> None:
    """Shown as it is typed; run as words it is the same command."""
    argv = resume_argv("claude", "x", "/home/me/shop")
    assert argv == ("sh", "-c", "cd /home/me/shop && claude --resume x")
    assert command_line(argv) == "cd /home/me/shop && claude --resume x"
    assert command_line(resume_argv("codex", "x", "/srv")) == "cd /srv && codex resume x"
    assert command_line(("wakeful", "session", "why", "a b")) == "wakeful session why 'a b'"


def test_an_odd_folder_is_quoted(tmp_path: Path) -> None:
    """A shell that is given the command goes there, and nowhere else."""
    folder = tmp_path / "it's a shop; touch hacked"
    folder.mkdir()
    words = command_line(resume_argv("claude", "x", str(folder))).replace("claude --resume x", "pwd")
    ran = subprocess.run(["sh", "-c", words], cwd="/", capture_output=True, text=True, check=True)
    assert ran.stdout == f"{folder}\n"
    assert list(tmp_path.rglob("hacked")) == []


@pytest.mark.parametrize(
    ("folder", "cwds", "place"),
    [
        # Its agent went into a folder below: the conversation is found where it was begun.
        ("-home-me-shop", (None, "/home/me/shop/src/deep"), "/home/me/shop"),
        ("-home-me-my-shop", (None, "/home/me/my.shop"), "/home/me/my.shop"),
        # What its process was started in comes first.
        ("-home-me-shop", ("/home/me/shop", "/tmp"), "/home/me/shop"),
        # Elsewhere: no folder that is known is the one.
        ("-home-me-shop", (None, "/tmp"), None),
        # A client whose conversations are found from anywhere.
        ("", (None, "/home/me/shop"), "/home/me/shop"),
        ("", (None, None), None),
        # What cannot be read as it is cannot be typed.
        ("", ("/home/me/sh\x1b[2Jop",), None),
        ("", ("relative",), None),
        ("", (ODD,), ODD),
    ],
)
def test_the_folder_is_where_the_conversation_was_begun(
    folder: str, cwds: tuple[str | None, ...], place: str | None
) -> None:
    """Claude Code looks only in the folder that is called after the place it is started in."""
    assert resume_place(folder, *cwds) == place
    assert place is None or not folder or project_folder(place) == folder
