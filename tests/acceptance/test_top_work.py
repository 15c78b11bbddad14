"""`wakeful top` shows what a real session of Claude Code says and does, and acts on it with keys."""

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cli_user import DONE, Operator, bash
from support.real_clients import require_tmux, wait_for
from support.tmux_server import Server
from wakeful.testing.scripted_model import script


class TopTerminal:
    """A terminal with `wakeful top`: its keys and its screen."""

    def __init__(self, server: Server, operator: Operator) -> None:
        words = [f"{name}={shlex.quote(value)}" for name, value in operator.daemon.environ.items()]
        argv = shlex.join(operator.daemon.argv("top"))
        command = f"env -i TERM=tmux-256color {' '.join(words)} {argv}; echo left $?; cat"
        self._server = server
        server.tmux("new-session", "-d", "-x", "120", "-y", "40", "-s", "top", command)

    @property
    def screen(self) -> str:
        return self._server.tmux("capture-pane", "-p", "-t", "top")

    def press(self, *keys: str) -> None:
        self._server.tmux("send-keys", "-t", "top", *keys)

    def type(self, text: str) -> None:
        self._server.tmux("send-keys", "-t", "top", "-l", text)

    def resize(self, columns: int, lines: int) -> None:
        self._server.tmux("resize-window", "-t", "top", "-x", str(columns), "-y", str(lines))

    def wait_for(self, *texts: str) -> str:
        def look() -> str | None:
            seen = self.screen
            return seen if all(text in seen for text in texts) else None

        try:
            return wait_for(look, ", ".join(texts))
        except AssertionError as error:
            error.add_note(self.screen)
            raise

    def wait_without(self, text: str) -> str:
        return wait_for(lambda: seen if text not in (seen := self.screen) else None, f"no {text}")


@pytest.fixture
def open_top(tmp_path: Path, operator: Operator) -> Iterator[Callable[[], TopTerminal]]:
    require_tmux()
    server = Server(tmp_path / "terminal")
    yield lambda: TopTerminal(server, operator)
    server.end()


def test_what_a_session_says_is_beside_the_list_and_keys_act_on_it(
    operator: Operator, open_top: Callable[[], TopTerminal]
) -> None:
    """A question is read and answered, a prompt is sent, the conversation is read whole, the session is stopped."""
    asking = script(bash("touch made"), DONE)
    session_id = operator.start("--headless", "--name", "docs", "--prompt", asking, "--", "claude")
    operator.wait_until(session_id, "permission question", state="waiting")
    top = open_top()
    top.wait_for("◆ docs", "asks you · Bash: touch made", "◆ Bash: touch made", "waits for you: `touch made`")
    top.press("y")
    top.wait_for("Allow Bash: touch made?", "y  allow      n  deny")
    assert operator.record(session_id)["state"] == "waiting"  # type: ignore[index]
    top.press("y")
    top.wait_for("claude  All done", "✓ Bash: touch made", "○ docs")
    top.press("s")
    top.wait_for("prompt for docs")
    # `q` and `/` are text here.
    top.type(script({"text": "q/ is the answer"}))
    top.press("Enter")
    top.wait_for("claude  q/ is the answer", "prompt sent")
    top.press("l")
    top.wait_for("Esc Back", "All done")
    assert operator.type("send", "docs", script({"text": "while it was read"})).exit_code == 0
    top.wait_for("claude  while it was read", "Esc Back")
    top.press("Escape")
    for size in ((80, 24), (200, 60), (80, 24)):
        top.resize(*size)
        top.wait_for("NAME", "docs", "while it was read", "→ wakeful")
    top.press("d")
    top.wait_for("agent process", "Evidence")
    top.press("d")
    top.wait_without("Evidence")
    top.press("x")
    top.wait_for("Stop docs?")
    top.press("y")
    operator.wait_until(session_id, "its end", state="stopped")
    top.wait_for("· docs")
    top.press("q")
    top.wait_for("left 0")


def test_a_prompt_that_cannot_be_sent_is_said(
    operator: Operator, open_top: Callable[[], TopTerminal]
) -> None:
    """A session at work takes none: the reason is shown. Escape sends nothing."""
    waits = script(bash(f"{sys.executable} -c 'import time; time.sleep(60)'"), DONE)
    flags = ("--dangerously-skip-permissions",)
    session_id = operator.start(
        "--headless", "--name", "docs", "--prompt", script(DONE), "--", "claude", *flags
    )
    operator.wait_until(session_id, "end of its turn", state="idle")
    top = open_top()
    top.wait_for("○ docs", "All done")
    top.press("s")
    top.wait_for("prompt for docs")
    top.type("never")
    top.wait_for("never")
    top.press("Escape")
    top.wait_without("never")
    top.press("y")
    top.wait_for("Nothing to allow or deny")
    assert operator.type("send", "docs", waits).exit_code == 0
    top.wait_for("● docs", "running")
    assert "never" not in operator.type("logs", "docs").out
