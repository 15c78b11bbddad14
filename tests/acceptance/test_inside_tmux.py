"""Claims about `run`, `attach` and Enter in `top` inside a person's own tmux, by keys through a real tmux client."""

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cli_user import DONE, Operator
from support.daemon_process import RunningDaemon
from support.gateway_process import end_agents
from support.real_clients import ClaudeHome, end_tmux, require_tmux, wait_for
from support.tmux_person import PREFIX, TmuxPerson
from support.tmux_server import Server
from wakeful.testing.scripted_model import script

# Shows each key as it arrives; C-d ends nothing.
KEYS = ("sh", "-c", "stty raw -echo; echo keys of $1; exec cat -v", "sh")


@pytest.fixture
def sockets(daemon: RunningDaemon) -> Path:
    """The folder of a person's tmux servers, where the daemon looks by itself."""
    require_tmux()
    folder = daemon.home / f"tmux-{daemon.home.stat().st_uid}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def own(daemon: RunningDaemon) -> Iterator[Server]:
    """Wakeful's own server."""
    yield Server(Path(daemon.environ["WAKEFUL_HOME"]) / "tmux.sock")
    end_agents(daemon.home, daemon)


@pytest.fixture
def seated(daemon: RunningDaemon, own: Server, sockets: Path) -> Iterator[Callable[..., TmuxPerson]]:
    people: list[TmuxPerson] = []

    def sit_down(**how: object) -> TmuxPerson:
        person = TmuxPerson(sockets / "default", daemon.environ, **how)  # type: ignore[arg-type]
        people.append(person)
        return person

    daemon.up()
    yield sit_down
    for each in people:
        each.end()
    own.end()


def words(*arguments: str) -> str:
    return shlex.join([sys.executable, "-P", "-m", "wakeful", *arguments])


def start(daemon: RunningDaemon, name: str) -> None:
    started = daemon.run("run", "--detach", "--name", name, "--", *KEYS, name, cwd=daemon.home)
    assert started.exit_code == 0, started.err


def bare(own: Server, name: str) -> str:
    """The options that this session has of its own."""
    return own.tmux("show-options", "-t", f"={name}:") + own.tmux("show-hooks", "-t", f"={name}:")


def test_run_opens_a_window_where_keys_arrive_once(
    daemon: RunningDaemon, own: Server, seated: Callable[..., TmuxPerson]
) -> None:
    """Their prefix stays theirs, every other key reaches the agent once, and the agent's window has no status bar."""
    person = seated()
    before = person.options()
    person.type_line(f"cd; {words('run', '--name', 'docs', '--', *KEYS, 'docs')}")
    person.wait_for("keys of docs")
    assert (person.window(), person.windows()) == ("docs", ["shell", "docs"])
    # C-b is the prefix of Wakeful's server; C-a twice is a C-a for the agent.
    person.press(b"\x02", b"x", PREFIX, PREFIX, b"y")
    assert "^Bx^Ay" in person.wait_for("^Ay")
    assert "docs" not in person.screen().replace("keys of docs", "")
    person.press(PREFIX, b"0")
    assert "close that window to detach" in person.wait_for("docs is open in tmux window me:1")
    # The second time there is nothing to open.
    person.type_line(words("attach", "docs"))
    wait_for(lambda: person.window() == "docs" or None, "switch to the window")
    assert person.windows() == ["shell", "docs"]
    person.press(PREFIX, b"&", b"y")
    wait_for(lambda: person.windows() == ["shell"] or None, "closed window")
    wait_for(lambda: "status off" not in bare(own, "docs") or None, "the session's own options")
    assert "prefix" not in bare(own, "docs")
    assert "if-shell" not in bare(own, "docs")
    assert person.options() == before
    assert [each["session_alive"] for each in daemon.sessions()] == [True]


def test_enter_in_top_opens_the_window_and_top_stays(
    daemon: RunningDaemon, own: Server, seated: Callable[..., TmuxPerson]
) -> None:
    """Twice it is the same window; a terminal of 40 columns and one without features show it, too."""
    start(daemon, "docs")
    person = seated(columns=40, terminal="vt100")
    person.type_line(words("top"))
    person.wait_for("live")
    for _ in range(2):
        person.press(b"\r")
        wait_for(lambda: person.window() == "docs" or None, "window")
        person.wait_for("keys of docs")
        assert own.tmux("list-clients", "-F", "#{client_width}x#{client_height}") == "40x23"
        person.press(PREFIX, b"0")
        person.wait_for("live")
    person.press(b"q")
    wait_for(lambda: "live" not in person.screen() or None, "end of top")
    assert person.windows() == ["shell", "docs"]


def test_a_session_without_a_name_is_chosen(
    daemon: RunningDaemon, own: Server, seated: Callable[..., TmuxPerson]
) -> None:
    """None: it says so. One: it is that one. Two: a numbered choice, and in a pipe the list and exit 2."""
    del own
    person = seated()
    nothing = daemon.run("attach")
    assert (nothing.exit_code, "wakeful run -- claude" in nothing.err) == (1, True)
    start(daemon, "docs")
    person.type_line(words("attach"))
    person.wait_for("keys of docs")
    person.press(PREFIX, b"0")
    start(daemon, "api")
    listed = daemon.run("attach")
    assert (listed.exit_code, "docs" in listed.err, "api" in listed.err) == (2, True, True)
    person.type_line(words("attach"))
    shown = person.wait_for("Which one? 1-2:")
    number = next(line.split()[0] for line in shown.splitlines() if " api " in line and line[:3].strip())
    person.press(number.encode(), b"\r")
    person.wait_for("keys of api")
    assert person.windows() == ["shell", "docs", "api"]


def test_a_terminal_that_only_inherited_the_variables_of_tmux_is_attached_itself(
    daemon: RunningDaemon, own: Server, seated: Callable[..., TmuxPerson]
) -> None:
    """As an editor's terminal has them. Its prefix and status bar are there, and a window opened beside it keeps them."""
    start(daemon, "docs")
    person = seated()
    other = Server(person.server.socket.with_name("other"))
    inside = person.server.tmux("display-message", "-p", "-t", "me:", "#{socket_path},#{pid},0")
    command = shlex.join(["env", f"TMUX={inside}", *shlex.split(words("attach", "docs"))])
    environ = [f"-e{name}={value}" for name, value in daemon.environ.items()]
    other.tmux("new-session", "-d", "-s", "editor", *environ, f"{command}; echo left; cat")
    try:
        wait_for(lambda: "keys of docs" in other.tmux("capture-pane", "-p", "-t", "editor") or None, "pane")
        assert person.windows() == ["shell"]
        person.type_line(words("attach", "docs"))
        wait_for(lambda: person.window() == "docs" or None, "window")
        wait_for(lambda: len(own.tmux("list-clients").splitlines()) == len("12") or None, "two clients")
        assert "status off" not in bare(own, "docs")
        other.tmux("send-keys", "-t", "editor", "C-b", "d")
        wait_for(
            lambda: "left" in other.tmux("capture-pane", "-p", "-t", "editor") or None, "detached terminal"
        )
    finally:
        other.end()


def test_a_window_whose_tmux_cannot_attach_says_so(
    daemon: RunningDaemon, own: Server, seated: Callable[..., TmuxPerson]
) -> None:
    """A terminal type that is not installed: the message stays until Enter, and the next try opens a new window."""
    del own
    start(daemon, "docs")
    person = seated(terminal="no-such-terminal")
    for _ in range(2):
        person.type_line(words("attach", "docs"))
        assert "missing or unsuitable terminal" in person.wait_for("Press Enter to close this window")
        person.press(b"\r")
        wait_for(lambda: person.windows() == ["shell"] or None, "closed window")


@pytest.fixture
def found(sockets: Path, operator: Operator, claude: ClaudeHome) -> Iterator[Callable[[str], str]]:
    """Starts a real client in another server of the person, or another session of theirs; the session's id."""

    def begin(server: str) -> str:
        claude.tmux_command(sockets / server, "work", "claude", script(DONE))
        record = operator.daemon.wait_for_session(
            lambda each: each["state"] == "idle" and any(one["name"] == "attach" for one in each["actions"]),
            "found session",
        )
        return str(record["id"])

    yield begin
    for each in ("default", "other"):
        end_tmux(sockets / each)


def test_a_found_session_of_the_same_server_is_switched_to(
    found: Callable[[str], str], sockets: Path, operator: Operator
) -> None:
    """Its window is shown where it is, and nothing is opened."""
    person = TmuxPerson(sockets / "default", operator.daemon.environ)
    try:
        session = found("default")
        before = person.options()
        person.type_line(words("attach", session))
        client = ("list-clients", "-F", "#{session_name}")
        wait_for(lambda: person.server.tmux(*client) == "work" or None, "switch to its session")
        assert person.windows() == ["shell"]
        assert person.options() == before
    finally:
        person.end()


def test_a_found_session_of_another_server_keeps_its_own_options(
    found: Callable[[str], str], sockets: Path, operator: Operator
) -> None:
    """It is shown in a window as everything else; prefix and status bar are its owner's."""
    person = TmuxPerson(sockets / "default", operator.daemon.environ)
    try:
        session = found("other")
        other = Server(sockets / "other")
        before = other.tmux("show-options", "-t", "work"), other.tmux("show-hooks", "-t", "work")
        person.type_line(words("attach", session))
        wait_for(lambda: other.tmux("list-clients") or None, "client of the other server")
        assert len(person.windows()) == len(("shell", "it"))
        # C-b d, the other server's own, detaches, and the window closes.
        person.press(b"\x02", b"d")
        wait_for(lambda: person.windows() == ["shell"] or None, "closed window")
        assert (other.tmux("show-options", "-t", "work"), other.tmux("show-hooks", "-t", "work")) == before
    finally:
        person.end()


def test_a_real_client_is_run_and_answered_by_keys(
    operator: Operator, claude: ClaudeHome, sockets: Path, own: Server
) -> None:
    """Claude Code in a window of a person's tmux with another prefix: a prompt typed there is one prompt."""
    person = TmuxPerson(sockets / "default", {**operator.daemon.environ, **claude.environ()})
    try:
        person.type_line(
            f"cd {shlex.quote(str(claude.project))}; {words('run', '--name', 'docs', '--', 'claude')}"
        )
        person.wait_for("? for shortcuts")
        assert person.window() == "docs"
        person.type_line(script(DONE))
        person.wait_for("All done")
        record = operator.daemon.wait_for_session(lambda each: each["state"] == "idle", "end of the turn")
        wait_for(lambda: operator.finished_turns(record["id"]) == 1 or None, "finished turn")
        # The person's own prefix leads away, and `attach` leads back.
        person.press(PREFIX, b"0")
        wait_for(lambda: person.window() == "shell" or None, "first window")
        person.type_line(words("attach"))
        wait_for(lambda: person.window() == "docs" or None, "second window")
        assert own.tmux("show-options", "-t", "=docs:", "status") == "status off"
    finally:
        person.end()
