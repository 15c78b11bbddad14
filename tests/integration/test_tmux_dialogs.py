"""Claims about reading the dialogs of a client from its screen: what is known is named, what is not is called unknown."""

import asyncio
import os
import shutil
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from support.real_clients import wait_for
from support.tmux_server import Server
from wakeful.core.process import Process
from wakeful.integrations.tmux import dialogs, start_clients
from wakeful.integrations.tmux.dialogs import DialogDetector
from wakeful.integrations.tmux.input_line import CodexInput
from wakeful.integrations.tmux.screen import Screen
from wakeful.integrations.tmux.server import TmuxServer
from wakeful.integrations.tmux.start_clients import PaneClient, client_in
from wakeful.integrations.tmux.start_screens import claude_dialog_on, codex_dialog_on
from wakeful.judging.evidence import DialogKind, SessionIdentity
from wakeful.linux import proc

CLIENT_IN, LOOK = client_in, TmuxServer.capture
ANGLE = "\u276f"
RULE = "─" * 40
CONVERSATION = "0b1f3c52-7d1e-4a53-9d0e-2f5c1d0a9b11"


def screen(*rows: str, row: int = 0) -> Screen:
    return Screen.parse(f"10 0 0 0 0 80 1 {row} /dev/pts/1\n".encode() + "\n".join(rows).encode())


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (
            (" Quick safety check: Is this a project", f" {ANGLE} 1. Yes, I trust this folder"),
            DialogKind.TRUST,
        ),
        ((" Quick safety", " check: Is this", f" {ANGLE} 1. Yes"), DialogKind.TRUST),
        (("WARNING: Claude Code running in Bypass", "Permissions mode", f"{ANGLE} 1. No"), DialogKind.BYPASS),
        (("Select login method:", f" {ANGLE} 1. Claude account", "Esc to cancel"), DialogKind.LOGIN),
        (("Detected a custom API key in your environment", f"  {ANGLE} 2. No"), DialogKind.API_KEY),
        (
            (
                RULE,
                "  Detected a custom API key in your environment",
                "  ANTHROPIC_API_KEY: sk-ant-...abc",
                "  Do you want to use this API key?",
                "    1. Yes",
                f"  {ANGLE} 2. No (recommended)",
                "  Enter to confirm · Esc to cancel",
            ),
            DialogKind.API_KEY,
        ),
        (
            ("Security notes:", "1. Claude can make mistakes.", "Press Enter to continue…"),
            DialogKind.SECURITY_NOTES,
        ),
        # Words without a key to press, a key without known words, and nothing at all.
        (("Quick safety check: passed", "Loading…"), DialogKind.UNKNOWN),
        (
            ("Choose a colour for your new keyboard", f"{ANGLE} 1. Red", "Enter to confirm"),
            DialogKind.UNKNOWN,
        ),
        (("", ""), DialogKind.UNKNOWN),
    ],
)
def test_a_dialog_is_known_by_its_words_and_by_the_key_it_waits_for(
    rows: tuple[str, ...], kind: DialogKind
) -> None:
    """However the pane breaks them; one without the other is an unknown screen."""
    seen = claude_dialog_on(screen(*rows))
    assert seen is not None
    assert seen.kind is kind


def test_an_input_line_and_a_permission_question_are_no_dialogs_of_a_start() -> None:
    """Inside a conversation others say what a screen means, whatever the agent printed above."""
    line = screen("Quick safety check: x", f"{ANGLE} 1. Yes", RULE, f"{ANGLE} ", RULE, row=3)
    asked = screen(RULE, "Bash command", "Do you want to proceed?", f" {ANGLE} 1. Yes", "  2. No", row=3)
    assert (claude_dialog_on(line), claude_dialog_on(asked)) == (None, None)


SIGN = "\u203a"


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (("Trust this folder?", "Codex can read, edit", f"{SIGN} 1. Trust and continue"), DialogKind.TRUST),
        (("Trust this", "folder?", f"{SIGN} 1. Trust and", "continue"), DialogKind.TRUST),
        (
            ("Sign in with ChatGPT to use Codex as part of your paid plan", "> 1. Sign in with ChatGPT"),
            DialogKind.LOGIN,
        ),
        (("Finish signing in via your browser", "Press Esc to cancel"), DialogKind.LOGIN),
        (
            ("> Use your own OpenAI API key for usage-based billing", "Paste or type your API key"),
            DialogKind.LOGIN,
        ),
        (
            ("Update available! 0.166.0 -> 0.167.0", f"{SIGN} 1. Update now", "Press enter to continue"),
            DialogKind.UPDATE,
        ),
        # Words without a key to press, a menu without known words, a client that has drawn nothing yet.
        (("Trust this folder? Loading",), DialogKind.UNKNOWN),
        (("Choose a keyboard", f"{SIGN} 1. Red", "Press enter to confirm"), DialogKind.UNKNOWN),
        (("", ""), DialogKind.UNKNOWN),
    ],
)
def test_a_dialog_of_codex_is_known_in_the_same_way(rows: tuple[str, ...], kind: DialogKind) -> None:
    """Wherever its hidden cursor stands."""
    for row in range(len(rows)):
        seen = codex_dialog_on(screen(*rows, row=row))
        assert seen is not None
        assert seen.kind is kind
        assert CodexInput().draft(screen(*rows, row=row)) is None


def test_codex_in_a_conversation_shows_no_dialog_of_a_start() -> None:
    """An input line, a running turn or an approval: whatever stands above was said by the agent."""
    above = ("Trust this folder?", f"{SIGN} 1. Trust and continue")
    line = screen(*above, f"{SIGN} Ask Codex to do anything", row=2)
    long_draft = screen(*above, f"{SIGN} a draft that goes", "  on below", row=3)
    works = screen(*above, "• Working (4s • esc to interrupt)", row=0)
    asks = screen(
        *above, "Would you like to run the following command?", f"{SIGN} 1. Yes, proceed (y)", row=3
    )
    assert [codex_dialog_on(each) for each in (line, long_draft, works, asks)] == [None] * 4
    assert CodexInput().draft(long_draft) == "a draft that goes\non below"


class Notes:
    """A witness that takes notes of dialogs."""

    def __init__(self) -> None:
        self.asked_by: dict[Process, tuple[SessionIdentity, DialogKind, str]] = {}

    def on_dialog(
        self, identity: SessionIdentity, process: Process, kind: DialogKind, words: str, *, cwd: str | None
    ) -> None:
        assert cwd is not None
        self.asked_by[process] = identity, kind, words

    def on_dialog_closed(self, process: Process) -> None:
        del self.asked_by[process]


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program of the client's name that shows its input."""
    (tmp_path / "bin").mkdir()
    copy = tmp_path / "bin" / "claude"
    shutil.copy("/bin/bash", copy)
    return str(copy)


def look(server: Server, notes: Notes, folder: Path, starting_seconds: float = 0.0) -> bool:
    folders = dict.fromkeys(("claude", "codex"), (folder,))
    dialogs = DialogDetector(notes, lambda _process: None, folders, "here", starting_seconds=starting_seconds)  # type: ignore[arg-type]
    return asyncio.run(dialogs.scan([server.look()]))


class Watching:
    """Looks again and again, and counts what each look cost."""

    def __init__(
        self, server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, starting_seconds: float = 20.0
    ) -> None:
        self.notes = Notes()
        self._server = server
        self._counted: list[str] = []
        self._ahead_seconds = 0.0
        monkeypatch.setattr(dialogs, "client_in", self._client_in)
        monkeypatch.setattr(TmuxServer, "capture", self._capture)
        self._dialogs = DialogDetector(
            self.notes,  # type: ignore[arg-type]
            lambda _process: None,
            dict.fromkeys(("claude", "codex"), (folder,)),
            "here",
            starting_seconds=starting_seconds,
            wall=lambda: time.time() + self._ahead_seconds,
        )

    def look(self, anew: Collection[int] = (), *, later: bool = True) -> list[str]:
        """What was looked up. `later`: the second in which the panes last wrote is over."""
        self._counted.clear()
        self._ahead_seconds = 10.0 if later else -10.0
        asyncio.run(self._dialogs.scan([self._server.look()], anew))
        return sorted(self._counted)

    def patience(self, starting_seconds: float) -> None:
        self._dialogs._starting_seconds = starting_seconds

    def _client_in(self, pid: int) -> PaneClient | None:
        self._counted.append("client")
        return CLIENT_IN(pid)

    async def _capture(self, target: str) -> Screen:
        self._counted.append("screen")
        return await LOOK(TmuxServer(str(self._server.socket)), target)


def shows(server: Server, text: str) -> None:
    wait_for(lambda: text in server.tmux("capture-pane", "-p") or None, text)


def test_a_screen_that_nobody_knows_is_called_unknown_and_its_words_are_made_safe(
    server: Server, tmp_path: Path, program: str
) -> None:
    """A client that changed its dialogs is not guessed at, and its secrets and controls are not passed on."""
    key = "sk-ant-api03-" + "a" * 40
    told = f"printf 'Brand new dialog {key} \\342\\200\\256 here'; sleep 600; :"
    pid = server.start("a", "env", f"CLAUDE_CONFIG_DIR={tmp_path}", program, "-c", told)
    shows(server, "here")
    notes = Notes()
    assert look(server, notes, tmp_path)
    ((process, (identity, kind, words)),) = notes.asked_by.items()
    assert (process.pid, kind, identity.awaited) == (pid, DialogKind.UNKNOWN, True)
    assert "Brand new dialog" in words
    assert key not in words
    assert "\u202e" not in words


def test_who_has_just_started_is_given_its_time(server: Server, tmp_path: Path, program: str) -> None:
    """An empty screen in the first seconds says nothing, and the next look comes soon."""
    server.start("a", "env", f"CLAUDE_CONFIG_DIR={tmp_path}", program, "-c", "sleep 600; :")
    notes = Notes()
    wait_for(lambda: look(server, notes, tmp_path, starting_seconds=60.0) or None, "client")
    assert notes.asked_by == {}


def test_who_goes_on_after_a_dialog_is_given_its_time_again(
    server: Server, tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it stood there: what it shows while it goes on, or ends, is a problem only if it stays."""
    asks = f"printf 'Quick safety check: here {ANGLE} 1. Yes'; read; clear; printf 'No conversation'; sleep 600; :"
    pid = server.start("a", "env", f"CLAUDE_CONFIG_DIR={tmp_path}", program, "-c", asks)
    shows(server, "here")
    watching = Watching(server, tmp_path, monkeypatch, starting_seconds=0.5)
    process = proc.identify(pid)
    assert process is not None
    wait_for(lambda: proc.age_seconds(process) > 1 or None, "long stay")
    watching.look()
    server.tmux("send-keys", "-t", "=a:", "Enter")
    shows(server, "No conversation")

    def kinds() -> list[DialogKind]:
        return [kind for _, kind, _ in watching.notes.asked_by.values()]

    watching.look(anew=(pid,))
    assert kinds() == [DialogKind.TRUST]
    wait_for(lambda: (watching.look() and kinds() == [DialogKind.UNKNOWN]) or None, "problem")


def test_whose_registry_nobody_watches_is_left_alone(server: Server, tmp_path: Path, program: str) -> None:
    """It would be listed at its dialog and never become a session."""
    server.start("a", "env", f"CLAUDE_CONFIG_DIR={tmp_path}/other", program, "-c", "sleep 600; :")
    notes = Notes()
    assert not look(server, notes, tmp_path)


def test_a_conversation_that_its_command_names_is_known_from_its_dialog_on(
    server: Server, tmp_path: Path, program: str
) -> None:
    """Nothing has to stand for it until it begins."""
    words = ("-c", "sleep 600; :", "x", "--session-id", CONVERSATION)
    server.start("a", "env", f"CLAUDE_CONFIG_DIR={tmp_path}", program, *words)
    notes = Notes()
    wait_for(lambda: look(server, notes, tmp_path) or None, "client")
    ((identity, _, _),) = notes.asked_by.values()
    assert (identity.id, identity.awaited) == (f"claude-{CONVERSATION}", False)


def test_a_client_below_a_script_is_found(server: Server, tmp_path: Path, program: str) -> None:
    """A shell that runs a script is the leader of the group its programs are in."""
    inner = f"{program} -c 'sleep 600; :'; true"
    pid = server.start("a", "env", f"CLAUDE_CONFIG_DIR={tmp_path}", "sh", "-c", inner)
    notes = Notes()
    wait_for(lambda: look(server, notes, tmp_path) or None, "client")
    (process,) = notes.asked_by
    parent = proc.parent_of(process)
    assert parent is not None
    assert (parent.pid, os.path.basename(proc.command(process.pid)[0])) == (pid, "claude")  # noqa: PTH119


def test_panes_that_show_nothing_new_cost_nothing(
    server: Server, tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither shells nor a client at its dialog are looked at twice; news, a hint and a second not over yet are."""
    asks = f"printf 'Quick safety check: here {ANGLE} 1. Yes'; read; printf '\\nLoading'; sleep 600; :"
    pid = server.start("asks", "env", f"CLAUDE_CONFIG_DIR={tmp_path}", program, "-c", asks)
    shows(server, "here")
    for number in range(3):
        server.start(f"idle-{number}", "sleep", "600")
    watching = Watching(server, tmp_path, monkeypatch)
    everything = ["client"] * 4 + ["screen"]
    assert watching.look(later=False) == everything
    assert watching.look() == everything
    ((client, (_, kind, _)),) = watching.notes.asked_by.items()
    assert (client.pid, kind) == (pid, DialogKind.TRUST)
    assert watching.look() == []
    assert watching.look(anew=(pid,)) == ["client", "screen"]
    written = server.look().wrote
    wait_for(lambda: int(time.time()) > max(written) or None, "next second")
    server.tmux("send-keys", "-t", "=asks:", "Enter")
    wait_for(lambda: server.look().wrote != written or None, "news")
    assert watching.look() == ["client", "screen"]


def test_a_codex_whose_start_was_not_watched_is_not_guessed_at(
    server: Server, tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells nothing itself: an unknown screen may be one of its conversation, unless it was seen from its start on."""
    codex = Path(program).with_name("codex")
    shutil.copy("/bin/bash", codex)
    told = "printf 'Something new'; sleep 600; :"
    server.start("a", "env", f"CODEX_HOME={tmp_path}", str(codex), "-c", told)
    shows(server, "Something new")
    late, early = (Watching(server, tmp_path, monkeypatch, starting_seconds=each) for each in (0.0, 60.0))
    late.look()
    assert late.notes.asked_by == {}
    early.look()
    assert early.notes.asked_by == {}
    early.patience(0.0)
    early.look()
    ((identity, kind, _),) = early.notes.asked_by.values()
    assert (identity.provider, identity.awaited, kind) == ("codex", True, DialogKind.UNKNOWN)


@pytest.mark.parametrize("words", [("exec", "x"), ("-m", "o3", "exec"), ("--version",), ("app-server",)])
def test_a_command_of_codex_holds_no_conversation_in_its_terminal(words: tuple[str, ...]) -> None:
    """Only the client that a person talks to stands at a dialog."""
    assert not start_clients.client_started_by(("node", "/x/bin/codex", *words))
    assert start_clients.client_started_by(("codex", "-m", "o3", "resume", "--", "exec"))
