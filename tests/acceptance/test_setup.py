"""Claims about `wakeful setup`, as a new user types it: shown before it is done, undone to the byte, the same twice."""

import json
import os
import pty
import select
import time
from collections.abc import Iterator

import pytest

from support.daemon_process import RunningDaemon

SYSTEMCTL = '#!/bin/sh\necho "$*" >>"$HOME/asked"\ncase "$*" in *is-active*) exit 3;; esac\n'
# Not UTF-8, and without a line end.
BASHRC = b"# mine \xff\nalias ll='ls -l'"
SETTINGS = '{\n  "model": "opus"\n}\n'
CONFIG = "# mine\n[heal]\nsteer_seconds = 60\n"
TOKEN = "123456789:AAHplantedplantedplantedplantedplanted"


@pytest.fixture
def newcomer(daemon: RunningDaemon) -> Iterator[RunningDaemon]:
    """A home with a client, a shell and a systemd; nothing of Wakeful's."""
    tools = daemon.home / "tools"
    tools.mkdir()
    for name, text in (("systemctl", SYSTEMCTL), ("claude", "#!/bin/sh\nexit 9\n")):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    (daemon.home / ".claude").mkdir()
    (daemon.home / ".claude/settings.json").write_text(SETTINGS)
    (daemon.home / ".bashrc").write_bytes(BASHRC)
    (daemon.home / ".config/wakeful").mkdir(parents=True)
    (daemon.home / ".config/wakeful/wakeful.toml").write_text(CONFIG)
    (daemon.home / ".config/wakeful/wakeful.toml").chmod(0o600)
    daemon.environ |= {"PATH": f"{tools}:{daemon.environ['PATH']}", "SHELL": "/bin/bash", "TERM": "dumb"}
    yield daemon
    daemon.run("down")


def files(daemon: RunningDaemon) -> dict[str, bytes]:
    """Every file of a person's below the home, with its content."""
    kept = (each for each in daemon.home.rglob("*") if each.is_file())
    outside = ("state", "asked", "tools", "daemon.log")
    found = {str(each.relative_to(daemon.home)): each.read_bytes() for each in kept}
    return {name: content for name, content in found.items() if name.split("/")[0] not in outside}


def type_at_terminal(daemon: RunningDaemon, *words: str, answers: dict[str, str]) -> tuple[int, str]:
    """Run it on a terminal of its own; each answer is typed when its question is there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(daemon.home)
        os.execvpe(daemon.argv()[0], daemon.argv(*words), daemon.environ)
    said, seen, until = "", 0, time.monotonic() + 60
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 0.5)[0]:
            continue
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break
        if not chunk:
            break
        said += chunk.decode(errors="replace")
        for question, answer in answers.items():
            if question in said[seen:]:
                seen = len(said)
                os.write(terminal, f"{answer}\n".encode())
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


def test_every_step_is_shown_and_done_and_undone_to_the_byte(newcomer: RunningDaemon) -> None:
    """Hooks, alerts, autostart and completion; the second time nothing changes; a secret is not shown or recorded."""
    before = files(newcomer)
    answers = {"Enter: the desktop only. ": "1", "@BotFather": TOKEN, "Id of your chat: ": "7", "[y/N] ": "y"}
    code, said = type_at_terminal(newcomer, "setup", answers=answers)
    assert code == 0, said
    for shown in (
        "+++ ",
        '+telegram_chat = "7"',
        "telegram_token = (not shown)",
        "completion bash",
        "ExecStart",
    ):
        assert shown in said, shown
    assert said.index('+telegram_chat = "7"') < said.index("test it: wakeful alerts test")
    after = files(newcomer)
    assert b"# wakeful hook" in after[".claude/settings.json"]
    assert TOKEN.encode() in after[".config/wakeful/wakeful.toml"]
    assert after[".config/wakeful/wakeful.toml"].startswith(CONFIG.encode())
    assert b"# wakeful completion" in after[".bashrc"]
    assert ".config/systemd/user/wakeful.service" in after
    record = (newcomer.home / "state/setup.json").read_text()
    assert list(json.loads(record)["steps"]) == ["hooks claude", "alerts", "autostart", "completion"]
    assert TOKEN not in said + record
    code, again = type_at_terminal(newcomer, "setup", answers=answers)
    assert (code, "[y/N]" in again, files(newcomer)) == (0, False, after)
    assert newcomer.run("setup", "--yes").exit_code == 0
    assert files(newcomer) == after
    code, said = type_at_terminal(newcomer, "setup", "--undo", answers={"[y/N] ": "y"})
    assert (code, TOKEN in said) == (0, False)
    assert files(newcomer) == before
    assert "nothing to undo" in newcomer.run("setup", "--undo", "--yes").out
    in_a_pipe = newcomer.run("setup", "--undo")
    assert (in_a_pipe.exit_code, in_a_pipe.out, in_a_pipe.err) == (0, "nothing to undo\n", "")


def test_in_a_pipe_it_explains_and_changes_nothing(newcomer: RunningDaemon) -> None:
    """Exit 2 with every step shown; so does --dry-run, with exit 0. An answer of no, and the end of input, is no."""
    before = files(newcomer)
    piped = newcomer.run("setup")
    assert (piped.exit_code, "Pass --yes" in piped.err) == (2, True)
    dry = newcomer.run("setup", "--dry-run")
    assert (dry.exit_code, dry.out) == (0, piped.out)
    for shown in ("Hooks of Claude Code", "Alerts", "Autostart", "Completion"):
        assert shown in piped.out
    for answer in ("n", "", "\x04"):
        code, _ = type_at_terminal(newcomer, "setup", answers={"desktop only. ": "", "[y/N] ": answer})
        assert code == 0
    assert files(newcomer) == before
    assert not (newcomer.home / "state").exists()


def test_what_was_changed_since_stays(newcomer: RunningDaemon) -> None:
    """Undo takes away Wakeful's own lines only; hooks that a person installed without setup stay."""
    assert newcomer.run("hooks", "install", "claude").exit_code == 0
    installed = (newcomer.home / ".claude/settings.json").read_bytes()
    assert newcomer.run("setup", "--yes").exit_code == 0
    with (newcomer.home / ".bashrc").open("a") as file:
        file.write("# later\n")
    assert newcomer.run("setup", "--undo", "--yes").exit_code == 0
    assert (newcomer.home / ".claude/settings.json").read_bytes() == installed
    assert (newcomer.home / ".bashrc").read_bytes() == BASHRC + b"\n# later\n"


def test_one_step_at_a_time_and_one_that_cannot_be_done(newcomer: RunningDaemon) -> None:
    """A step alone does itself alone; a linked file is refused, named, and the other steps go on; exit 1."""
    assert newcomer.run("setup", "completion", "--yes").exit_code == 0
    assert list(json.loads((newcomer.home / "state/setup.json").read_text())["steps"]) == ["completion"]
    assert newcomer.run("setup", "completion", "--undo", "--yes").exit_code == 0
    assert (newcomer.home / ".bashrc").read_bytes() == BASHRC
    (newcomer.home / ".bashrc").rename(newcomer.home / "kept")
    (newcomer.home / ".bashrc").symlink_to("kept")
    done = newcomer.run("setup", "--yes")
    assert (done.exit_code, "it is a symbolic link" in done.err) == (1, True)
    assert (newcomer.home / "kept").read_bytes() == BASHRC
    assert b"# wakeful hook" in (newcomer.home / ".claude/settings.json").read_bytes()


@pytest.mark.parametrize(
    "text", ["", "{", '{"steps": {"completion": {}, "alerts": {"keys": 5}, "hooks emacs": {}, "later": {}}}']
)
def test_a_damaged_record_undoes_nothing(newcomer: RunningDaemon, text: str) -> None:
    """It is named, without a traceback, and no file is changed."""
    before = files(newcomer)
    (newcomer.home / "state").mkdir(mode=0o700)
    (newcomer.home / "state/setup.json").write_text(text)
    done = newcomer.run("setup", "--undo", "--yes")
    assert (done.exit_code in (0, 1), "setup.json" in done.err, "bug" in done.err) == (True, True, False), (
        done.err
    )
    assert files(newcomer) == before


def test_mcp_is_added_by_the_clients_own_command(newcomer: RunningDaemon) -> None:
    """Shown, run once, and taken back; a client that refuses is a failed step."""
    tool = newcomer.home / "tools/claude"
    assert newcomer.run("setup", "mcp", "--yes").exit_code == 1
    tool.write_text(
        '#!/bin/sh\necho "$*" >>"$HOME/state/claude-asked"\nf="$HOME/state/server"\n'
        'case "$2" in get) test -e $f;; add) touch $f;; remove) rm $f;; esac\n'
    )
    done = newcomer.run("setup", "mcp", "--yes")
    assert (done.exit_code, "$ claude mcp add --scope user wakeful -- " in done.out) == (0, True), done.err
    assert "has a server named wakeful" in newcomer.run("setup", "mcp", "--yes").out
    assert newcomer.run("setup", "mcp", "--undo", "--yes").exit_code == 0
    asked = (newcomer.home / "state/claude-asked").read_text().splitlines()
    assert [line.split()[1] for line in asked if line.split()[1] != "get"] == ["add", "remove"]
