"""Claims about hosting any command in tmux: real tmux, real programs, and what they were given written to files."""

import asyncio
import os
import shlex
import signal
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from support import stub_clients
from support.real_clients import end_tmux, require_tmux, wait_for
from support.tmux_server import Server
from wakeful.control.driver import ActionResult, PromptRefused, StartRequest
from wakeful.core.errors import ClientMissing, StartFailed, WorkingDirectoryGone
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import ManagedSession, PaneAddress
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.tmux import driver as acts, pane
from wakeful.integrations.tmux.driver import TmuxDriver
from wakeful.integrations.tmux.input_line import TYPED_BYTES_MAX
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer
from wakeful.integrations.tmux.start import BadTmuxName
from wakeful.linux import proc
from wakeful.linux.client_processes import is_client
from wakeful.linux.clock import SystemClock
from wakeful.storage.base import ActionOutcome

PATH: Final = "/usr/local/bin:/usr/bin:/bin"
# Writes down each line it is given; an interrupt ends the line and not the program.
AGENT: Final = """
import sys
while True:
    try:
        line = input("> ")
    except KeyboardInterrupt:
        print("stopped")
        continue
    with open(sys.argv[1], "a") as file:
        file.write(line + "\\n")
    print("took", len(line))
"""
# Works without an end, until it is interrupted.
WORKER: Final = """
import time
try:
    print("working", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    input("worker> ")
"""
# Reads keys and shows none of them, like an unknown menu; all keys are written down.
SILENT: Final = """
import os, sys, termios, tty
tty.setraw(0)
os.write(1, b"ready")
while True:
    with open(sys.argv[1], "ab") as file:
        file.write(os.read(0, 4096))
"""
# Draws its input line, leaves what comes unread for a while, throws it away and works.
LATE_AGENT: Final = f"""
import os, select, termios, time, tty
modes = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b"> ")
select.select([0], [], [])
time.sleep(1.5)
os.write(1, b"\\r")
termios.tcsetattr(0, termios.TCSAFLUSH, modes)
{AGENT}"""


class Stage:
    """A driver on a private server, and the programs it plays with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.taken = folder / "taken"
        self.run_folder = folder / "run"
        self.socket = folder / "tmux.sock"
        self.driver = TmuxDriver(
            str(self.socket), str(self.run_folder), SystemClock(), config=os.devnull, deadline_seconds=10.0
        )
        self.server = Server(self.socket)

    def order(self, *argv: str, environ: Mapping[str, str] | None = None, name: str = "bot") -> StartRequest:
        return StartRequest(
            session_id=SessionId(name),
            conversation_id=ConversationId(name),
            epoch=7,
            intent_id="0123abcd",
            cwd=str(self.folder),
            argv=argv,
            environ={"PATH": PATH, "LANG": "C.UTF-8", **(environ or {})},
            name=name,
        )

    def start(self, *argv: str) -> ManagedSession:
        result = asyncio.run(self.driver.start(self.order(*argv)))
        assert result.outcome is ActionOutcome.CONFIRMED, result
        assert result.hosting is not None
        return result.hosting

    def start_python(self, program: str, until: str) -> ManagedSession:
        script = self.folder / "program.py"
        script.write_text(program)
        managed = self.start(sys.executable, str(script), str(self.taken))
        self.wait_for_text(until)
        return managed

    def screen(self) -> str:
        return self.server.tmux("capture-pane", "-p")

    def wait_for_text(self, text: str) -> None:
        wait_for(lambda: text in self.screen() or None, f"{text!r} on the screen")

    def deliver(self, hosting: ManagedSession, text: str) -> ActionResult:
        return asyncio.run(self.driver.deliver(hosting, text))

    def lines(self) -> list[str]:
        return self.taken.read_text().splitlines() if self.taken.exists() else []


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    require_tmux()
    stage = Stage(tmp_path)
    yield stage
    end_tmux(stage.socket)


def process_of(hosting: ManagedSession) -> Process:
    assert hosting.process is not None
    return hosting.process


def test_a_started_program_has_exactly_its_environment(stage: Stage) -> None:
    """Values with newlines and quotes arrive, none of Wakeful's own does, and no command line or file keeps a secret."""
    secret = 'line one\nit\'s "$HOME" `id` \\ end'
    dump = f"import os; open({str(stage.taken)!r}, 'wb').write(open('/proc/self/environ', 'rb').read()); "
    command = (sys.executable, "-c", dump + "import time; time.sleep(600)")
    os.environ["LEAKED_FROM_THE_DAEMON"] = "1"
    try:
        result = asyncio.run(
            stage.driver.start(stage.order(*command, environ={"SECRET": secret, "A-B": "x"}))
        )
    finally:
        del os.environ["LEAKED_FROM_THE_DAEMON"]
    managed = result.hosting
    assert managed is not None
    wait_for(lambda: (stage.taken.exists() and stage.taken.stat().st_size) or None, "environment")
    entries = dict(entry.split("=", 1) for entry in stage.taken.read_text().rstrip("\0").split("\0"))
    assert entries["SECRET"] == secret
    assert (entries["WAKEFUL_SESSION"], entries["WAKEFUL_EPOCH"], entries["WAKEFUL_INTENT"]) == (
        "bot",
        "7",
        "0123abcd",
    )
    expected = {"PATH", "LANG", "SECRET", "TERM", "TMUX", "TMUX_PANE", "PWD", "OLDPWD"}
    assert entries.keys() - expected == {"WAKEFUL_SESSION", "WAKEFUL_EPOCH", "WAKEFUL_INTENT"}
    assert list(stage.run_folder.iterdir()) == []
    assert stat.S_IMODE(stage.run_folder.stat().st_mode) == 0o700
    assert not any("line one" in word for word in proc.command(process_of(managed).pid))


def test_a_started_session_carries_its_marks(stage: Stage) -> None:
    """Session, epoch and intent are options of the tmux session, and the pane's process is the program."""
    managed = stage.start("sleep", "600")
    assert managed.pane is not None
    shown = stage.server.tmux(
        "display-message", "-p", "-t", "=bot:", "#{@wakeful_session} #{@wakeful_epoch} #{@wakeful_intent}"
    )
    assert shown == "bot 7 0123abcd"
    assert proc.comm(process_of(managed).pid) == "sleep"
    assert managed.pane.target == stage.server.pane().pane_id
    assert stage.server.tmux("show-options", "-w", "-v", "-t", "=bot:", "remain-on-exit") == "off"


def test_a_first_prompt_that_was_lost_is_given_once_more(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may drop what is typed while it comes up; it is taken once."""
    monkeypatch.setattr(pane, "ECHO_SECONDS_MAX", 0.5)
    paste, pasted = TmuxServer.paste, []

    async def lost_at_first(server: TmuxServer, target: str, text: str, folder: str) -> None:
        pasted.append(text)
        if len(pasted) > 1:
            await paste(server, target, text, folder)

    monkeypatch.setattr(TmuxServer, "paste", lost_at_first)
    request = replace(stage.order("tee", "-a", str(stage.taken)), prompt="hello there")
    result = asyncio.run(stage.driver.start(request))
    assert result.outcome is ActionOutcome.CONFIRMED, result
    wait_for(lambda: stage.lines() == ["hello there"] or None, "prompt")
    assert len(pasted) == 2


def test_a_server_outlives_its_last_session(stage: Stage) -> None:
    """Leaving the last program closes it; a server that ends is a death, and brings its sessions back."""
    managed = stage.start("cat")
    assert managed.pane is not None
    assert managed.pane.server == proc.identify(stage.server.pid)
    stage.server.tmux("send-keys", "-t", "=bot:", "C-d")
    wait_for(lambda: stage.server.look().panes == () or None, "end of the program")
    assert stage.server.look().sight is ProcessState.ALIVE


def test_a_taken_name_gets_a_neighbour(stage: Stage) -> None:
    """A name in use is no reason to fail, and never a reason to touch the session that has it."""
    first = stage.start("sleep", "600")
    second = stage.start("sleep", "600")
    assert second.pane is not None
    assert second.pane.session.startswith("bot-")
    assert proc.state_of(process_of(first)) is ProcessState.ALIVE


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"cwd": "/no/such/folder"}, WorkingDirectoryGone),
        ({"argv": ("no-such-program",)}, ClientMissing),
        ({"name": "a:b"}, BadTmuxName),
        ({"name": "-x"}, BadTmuxName),
        ({"prompt": "\x1b[31m"}, PromptRefused),
    ],
)
def test_what_cannot_start_starts_nothing(
    stage: Stage, change: dict[str, object], error: type[Exception]
) -> None:
    """A missing folder or program, a bad name or prompt: an error, and no tmux server, script or session."""
    with pytest.raises(error):
        asyncio.run(stage.driver.start(replace(stage.order("sleep", "600"), **change)))
    assert not stage.socket.exists()
    assert not stage.run_folder.exists() or list(stage.run_folder.iterdir()) == []


def test_a_program_that_ends_at_once_leaves_its_last_words(stage: Stage) -> None:
    """The error says what the program said, and its tmux session is gone."""
    with pytest.raises(StartFailed, match="no key here"):
        asyncio.run(stage.driver.start(stage.order("sh", "-c", "echo no key here; sleep 0.1; exit 3")))
    assert stage.server.look().panes == ()


def test_a_text_arrives_literally(stage: Stage) -> None:
    """Neither tmux nor a shell reads a prompt: the program gets it letter by letter."""
    managed = stage.start_python(AGENT, ">")
    texts = [
        "plain words",
        "-x --help",
        "a; b; kill-server;",
        "#{pane_id} #(touch made) %0",
        "$(id) `id` \\ ' \" !!",
        "Gr\u00fc\u00dfe, \u4e16\u754c \u2713 e\u0301",
        "word " * 60,
    ]
    for text in texts:
        result = stage.deliver(managed, text)
        assert result.outcome is ActionOutcome.CONFIRMED, result
    wait_for(lambda: len(stage.lines()) == len(texts) or None, "every line")
    assert stage.lines() == [text.strip() for text in texts]
    stage.driver.forget_typed(managed.session_id)
    assert list(stage.run_folder.iterdir()) == []


def test_a_text_that_could_do_more_than_stand_there_is_refused(stage: Stage) -> None:
    """Controls, emptiness, floods and lines a program would take for Enter are refused before anything is typed."""
    managed = stage.start_python(AGENT, ">")
    before = stage.screen()
    for text, reason in (
        ("", "empty"),
        (" \n\t ", "empty"),
        ("red \x1b[31m", "U\\+001B"),
        ("bell \x07", "U\\+0007"),
        ("c1 \x9b31m", "U\\+009B"),
        ("a\rb", "U\\+000D"),
        ("\ud800", "U\\+D800"),
        ("x" * (TYPED_BYTES_MAX + 1), "32,769 bytes"),
        ("one\ntwo", "each line"),
    ):
        with pytest.raises(PromptRefused, match=reason):
            stage.deliver(managed, text)
    assert stage.screen() == before
    assert stage.lines() == []


@pytest.mark.parametrize(
    ("program", "shown", "reason"),
    [
        (
            "print('Delete all?'); input('Proceed? [y/N] '); open(sys.argv[1], 'w').write('answered')",
            "[y/N]",
            "question",
        ),
        ("input('Really delete it? '); open(sys.argv[1], 'w').write('answered')", "Really", "question"),
        (
            "import getpass; getpass.getpass('Key: '); open(sys.argv[1], 'w').write('answered')",
            "Key:",
            "not shown",
        ),
        (
            "print('  1. Yes\\n> 2. No\\nEnter to select'); input(); open(sys.argv[1], 'w').write('answered')",
            "Enter to",
            "question",
        ),
    ],
)
def test_a_text_never_answers_a_question(stage: Stage, program: str, shown: str, reason: str) -> None:
    """While something asks, text is declined, and the question is still open and unanswered afterwards."""
    managed = stage.start_python(f"import sys\n{program}", shown)
    before = stage.screen()
    for text in ("y", "1", "some words"):
        result = stage.deliver(managed, text)
        assert result.outcome is ActionOutcome.DECLINED
        assert reason in result.words
    assert stage.screen() == before
    assert stage.lines() == []


def test_a_menu_nobody_knows_never_gets_an_enter(stage: Stage) -> None:
    """A text that is not seen in an input line is not followed by Enter."""
    managed = stage.start_python(SILENT, "ready")
    # The cursor stands behind a word that looks like a draft; make it look like a prompt instead.
    result = stage.deliver(managed, "yes please")
    assert (result.outcome, result.words) == (
        ActionOutcome.DECLINED,
        "a person's draft is in its input line",
    )
    stage.server.tmux("send-keys", "-R", "-t", "=bot:")
    result = stage.deliver(managed, "yes please")
    assert result.outcome is ActionOutcome.INEFFECTIVE
    assert "Enter was not pressed" in result.words
    assert b"yes please" in stage.taken.read_bytes()
    assert b"\r" not in stage.taken.read_bytes()


def test_a_draft_is_left_as_it_is(stage: Stage) -> None:
    """What a person typed and did not send is neither sent nor removed."""
    managed = stage.start_python(AGENT, ">")
    stage.server.tmux("send-keys", "-l", "-t", "=bot:", "half a thou")
    stage.wait_for_text("half a thou")
    result = stage.deliver(managed, "other words")
    assert (result.outcome, result.untrusted) == (ActionOutcome.DECLINED, "> half a thou")
    stage.server.tmux("send-keys", "-t", "=bot:", "Enter")
    wait_for(lambda: stage.lines() or None, "line")
    assert stage.lines() == ["half a thou"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("copy-mode",), "copy mode"),
        (("select-pane", "-d"), "takes no input"),
        (("set-option", "-w", "synchronize-panes", "on"), "synchronized"),
    ],
)
def test_a_pane_that_would_take_keys_otherwise_gets_none(
    stage: Stage, command: tuple[str, ...], reason: str
) -> None:
    """Copy mode, a closed pane and synchronized neighbours are noticed before a key is pressed."""
    managed = stage.start_python(AGENT, ">")
    stage.server.tmux(command[0], "-t", "=bot:", *command[1:])
    result = stage.deliver(managed, "words")
    assert result.outcome is ActionOutcome.DECLINED
    assert reason in result.words
    assert stage.lines() == []


def test_nothing_is_typed_into_a_shell(stage: Stage) -> None:
    """A program that is a shell gets no text, for text would be a command there."""
    managed = stage.start("bash", "--norc", "--noprofile")
    stage.wait_for_text("bash-")
    result = stage.deliver(managed, f"touch {stage.taken}")
    assert (result.outcome, result.words) == (
        ActionOutcome.DECLINED,
        "its program is a shell, which would run the text as a command",
    )
    assert "touch" not in stage.screen()


def test_nothing_is_typed_when_the_agent_is_gone_to_a_shell(stage: Stage) -> None:
    """An agent that ended below its shell, or was put behind, is not in front any more: no key is pressed."""
    shell = stage.server.start("hand", "bash", "--norc", "--noprofile")
    stage.wait_for_text("bash-")
    stage.server.tmux("send-keys", "-t", "=hand:", "cat", "Enter")
    cat = wait_for(lambda: next((each for each in proc.children_by_parent().get(shell, ())), None), "cat")
    managed = stage_hosting(stage, cat)
    assert stage.deliver(managed, "to the cat").outcome is ActionOutcome.CONFIRMED
    stage.server.tmux("send-keys", "-t", "=hand:", "C-z")
    stage.wait_for_text("Stopped")
    result = stage.deliver(managed, "touch made")
    assert (result.outcome, "in front" in result.words) == (ActionOutcome.DECLINED, True)
    os.kill(cat.pid, signal.SIGKILL)
    wait_for(lambda: True if proc.state_of(cat) is ProcessState.DEAD else None, "end of cat")
    result = stage.deliver(managed, "touch made")
    assert (result.outcome, "no longer" in result.words) == (ActionOutcome.DECLINED, True)
    assert "touch" not in stage.screen()


def test_a_program_that_does_not_read_is_not_called_reached(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the terminal shows is not proof that the program read it."""
    monkeypatch.setattr(acts, "EFFECT_SECONDS_MAX", 1.0)
    monkeypatch.setattr(pane, "READ_SECONDS_MAX", 0.5)
    managed = stage.start_python("import time; print('> ', end='', flush=True); time.sleep(600)", ">")
    first = stage.deliver(managed, "anybody there")
    second = stage.deliver(managed, "hello")
    assert first.outcome is ActionOutcome.UNVERIFIED
    assert (second.outcome, second.words) == (ActionOutcome.DECLINED, "it has not read what was typed before")


def test_a_program_that_reads_late_is_waited_for(stage: Stage) -> None:
    """Bytes that lie unread for a moment, as while a long conversation is taken up, do not turn a prompt away."""
    managed = stage.start_python(LATE_AGENT, ">")
    stage.server.tmux("send-keys", "answer of a terminal")
    assert stage.deliver(managed, "hello").outcome is ActionOutcome.CONFIRMED
    stage.wait_for_text("took 5")


def test_another_pane_with_the_same_address_is_not_touched(stage: Stage) -> None:
    """A tmux server that was restarted counts its panes from zero again."""
    managed = stage.start_python(AGENT, ">")
    server = stage.server.pid
    end_tmux(stage.socket)
    wait_for(lambda: True if proc.identify(server) is None else None, "end of the server")
    stage.server.start("other", "cat")
    assert managed.pane is not None
    assert stage.server.pane().pane_id == managed.pane.target
    assert stage.deliver(managed, "words").words == "another pane has its address now"
    assert stage.screen() == ""


def test_a_server_that_is_gone_is_an_error_and_nothing_was_done(stage: Stage) -> None:
    """Before the first key a failing tmux is an error, which says that nothing happened."""
    managed = stage.start("sleep", "600")
    end_tmux(stage.socket)
    with pytest.raises(TmuxFailed):
        stage.deliver(managed, "words")


def test_an_interrupt_ends_the_work_and_not_the_program(stage: Stage) -> None:
    """Ctrl-C to a program at work; the prompt it shows afterwards is the proof, and then there is nothing to stop."""
    managed = stage.start_python(WORKER, "working")
    assert asyncio.run(stage.driver.interrupt(managed)).outcome is ActionOutcome.CONFIRMED
    assert proc.state_of(process_of(managed)) is ProcessState.ALIVE
    again = asyncio.run(stage.driver.interrupt(managed))
    assert (again.outcome, again.words) == (ActionOutcome.DECLINED, "no turn runs that could be interrupted")
    assert proc.state_of(process_of(managed)) is ProcessState.ALIVE


@pytest.mark.parametrize(
    "command", [("sleep", "600"), ("sh", "-c", "trap 'sleep 0.5; exit 1' INT; sleep 600; :")]
)
def test_an_interrupt_that_ends_the_program_says_so(stage: Stage, command: tuple[str, ...]) -> None:
    """A program that dies of Ctrl-C was not interrupted, also if it takes its time: the key's echo is no prompt."""
    managed = stage.start(*command)
    result = asyncio.run(stage.driver.interrupt(managed))
    # Its terminal is gone a moment before the program is.
    wait_for(lambda: proc.state_of(process_of(managed)) is ProcessState.DEAD or None, "end of the program")
    assert result.outcome in (ActionOutcome.INEFFECTIVE, ActionOutcome.UNVERIFIED)


def test_a_stop_ends_the_agent_its_session_and_its_tools(stage: Stage) -> None:
    """Agent, session and an orphaned tool are gone; a neighbour on the same server is not touched."""
    neighbour = stage.server.start("neighbour", "sleep", "600")
    tool = f"setsid sh -c 'echo $$ > {shlex.quote(str(stage.taken))}; exec sleep 600' </dev/null & exec cat"
    managed = stage.start("sh", "-c", tool)
    pid = int(wait_for(lambda: stage.lines() or None, "tool")[0])
    # As a person's tmux.conf may have it: the pane outlives its program.
    stage.server.tmux("set-option", "-w", "-t", "=bot:", "remain-on-exit", "on")
    result = asyncio.run(stage.driver.stop(managed))
    assert result.outcome is ActionOutcome.CONFIRMED, result
    assert proc.identify(pid) is None
    assert proc.state_of(process_of(managed)) is ProcessState.DEAD
    assert [row.session for row in stage.server.look().panes] == ["neighbour"]
    assert proc.identify(neighbour) is not None
    assert asyncio.run(stage.driver.stop(managed)).outcome is ActionOutcome.CONFIRMED


def test_a_shell_ends_as_its_terminal_closes(stage: Stage) -> None:
    """It ignores what ends other programs: no ten seconds until it is killed."""
    managed = stage.start("bash", "--norc", "--noprofile")
    stage.wait_for_text("bash-")
    result = asyncio.run(stage.driver.stop(managed))
    assert result.outcome is ActionOutcome.CONFIRMED
    assert "SIGHUP" in result.words, result


def test_a_stop_leaves_a_session_that_is_not_ours(stage: Stage) -> None:
    """An adopted client ends; the pane and the shell of its person stay. Another program in its place is not ended."""
    shell = stage.server.start("hand", "bash", "--norc", "--noprofile")
    stage.wait_for_text("bash-")

    def typed(words: str) -> Process:
        stage.server.tmux("send-keys", "-t", "=hand:", words, "Enter")
        return wait_for(
            lambda: next((each for each in proc.children_by_parent().get(shell, ())), None), words
        )

    cat = typed("cat")
    assert asyncio.run(stage.driver.stop(stage_hosting(stage, cat))).outcome is ActionOutcome.INEFFECTIVE
    assert proc.state_of(cat) is ProcessState.ALIVE
    stage.server.tmux("send-keys", "-t", "=hand:", "C-d")
    wait_for(lambda: proc.state_of(cat) is ProcessState.DEAD or None, "end of cat")
    client = typed(shlex.join(stub_clients.program(stage.folder / "bin")))
    wait_for(lambda: is_client(client.pid, "claude") or None, "client")
    result = asyncio.run(stage.driver.stop(stage_hosting(stage, client)))
    assert result.outcome is ActionOutcome.CONFIRMED, result
    assert proc.state_of(client) is ProcessState.DEAD
    assert proc.identify(shell) is not None


@pytest.mark.parametrize("shell", [("bash", "--norc", "--noprofile"), ("dash",), ("sh", "-i")])
def test_a_command_is_typed_into_a_shell_that_waits(stage: Stage, shell: tuple[str, ...]) -> None:
    """At an empty prompt it runs and is seen; behind a draft, in another folder or beside a job nothing is typed."""
    pid = stage.server.start("hand", *shell)

    def type_in(*keys: str) -> None:
        stage.server.tmux("send-keys", "-t", "=hand:", *keys)

    wait_for(lambda: stage.screen() or None, "prompt")
    process = proc.identify(pid)
    assert process is not None
    managed = stage_hosting(stage, process)
    request = replace(stage.order("cat", "-u"), resume=True, cwd=proc.cwd(pid), epoch=9)

    def resume(order: StartRequest = request) -> ActionResult:
        return asyncio.run(stage.driver.resume_in_pane(managed, order))

    assert "is no longer in" in resume(replace(request, cwd="/proc")).words
    type_in("-l", "echo >")
    stage.wait_for_text("echo >")
    assert resume().words == "a person's draft is in its input line"
    type_in("C-u")
    type_in("-l", "sleep 600 &")
    type_in("Enter")
    job = wait_for(lambda: next(iter(proc.children_by_parent().get(pid, ())), None), "job")
    assert resume().words == "the shell in its pane runs something"
    os.kill(job.pid, signal.SIGKILL)
    type_in("Enter")
    wait_for(lambda: True if not proc.children_by_parent().get(pid) else None, "end of the job")
    result = wait_for(lambda: _unless_declined(resume()), "prompt without a draft")
    assert result.outcome is ActionOutcome.CONFIRMED, result
    assert result.hosting is not None
    agent = process_of(result.hosting)
    assert (proc.comm(agent.pid), proc.environ_value(agent.pid, "WAKEFUL_EPOCH")) == ("cat", "9")
    assert resume().words == "the shell in its pane runs something"


def test_no_command_is_typed_into_something_else(stage: Stage) -> None:
    """A pane whose program is no shell gets no command, whatever it shows."""
    managed = stage.start_python(AGENT, ">")
    result = asyncio.run(stage.driver.resume_in_pane(managed, replace(stage.order("cat"), resume=True)))
    assert (result.outcome, result.words) == (ActionOutcome.DECLINED, "there is no shell in its pane")
    assert stage.lines() == []


def _unless_declined(seen: ActionResult) -> ActionResult | None:
    return None if seen.outcome is ActionOutcome.DECLINED else seen


def stage_hosting(stage: Stage, process: Process) -> ManagedSession:
    """A session that a person started in the only pane and handed over."""
    row = stage.server.pane()
    return ManagedSession(
        session_id=SessionId("claude-handed"),
        conversation_id=ConversationId("handed"),
        driver="tmux",
        cwd=str(stage.folder),
        argv=("cat",),
        epoch=1,
        since=0.0,
        process=process,
        pane=PaneAddress(str(stage.socket), row.pane_id, row.session, proc.identify(row.pid)),
        adopted=True,
    )


def test_a_start_right_after_the_last_stop(stage: Stage) -> None:
    """The server that ends with its last session does not take the next start with it; nothing is left over."""
    for _ in range(4):
        assert asyncio.run(stage.driver.stop(stage.start("sleep", "600"))).outcome is ActionOutcome.CONFIRMED
    end_tmux(stage.socket)
    managed = stage.start("sleep", "600")
    assert [row.session for row in stage.server.look().panes] == ["bot"]
    assert list(stage.run_folder.iterdir()) == []
    assert proc.state_of(process_of(managed)) is ProcessState.ALIVE
