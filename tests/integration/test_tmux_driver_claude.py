"""Claims about the real Claude Code in tmux, driven by keys and answered by a scripted model."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from msgspec.structs import replace

from support.real_clients import ClaudeHome, TmuxSession, end_tmux, require_tmux, wait_for
from support.tmux_server import Server
from wakeful.control.driver import (
    ActionResult,
    ArgumentRefused,
    ConversationUnknown,
    PermissionReply,
    PromptRefused,
    StartRequest,
)
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import ManagedSession, PaneAddress
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.tmux.driver import TmuxDriver
from wakeful.integrations.tmux.input_line import ClaudeInput
from wakeful.integrations.tmux.server import TmuxServer
from wakeful.linux import proc
from wakeful.linux.clock import SystemClock
from wakeful.storage.base import ActionOutcome
from wakeful.testing.scripted_model import script

DONE: Final = {"text": "All done"}
# A prompt the model never answers.
HANGS: Final = script({"hang": "accept"})


def asking(command: str) -> dict[str, object]:
    return {"tool": "Bash", "input": {"command": command}}


class Desk:
    """A driver, a home of Claude Code and one conversation."""

    def __init__(self, folder: Path, home: ClaudeHome) -> None:
        self.home = home
        self.socket = folder / "wakeful.sock"
        self.server = Server(self.socket)
        self.driver = TmuxDriver(str(self.socket), str(folder / "run"), SystemClock(), config=os.devnull)
        self.conversation = ConversationId(str(uuid4()))

    def order(self, *arguments: str, prompt: str | None = None, resume: bool = False) -> StartRequest:
        return StartRequest(
            session_id=SessionId(f"claude-{self.conversation}"),
            conversation_id=self.conversation,
            epoch=1,
            intent_id="feed",
            cwd=str(self.home.project),
            argv=("claude", *arguments),
            environ=self.home.environ(),
            prompt=prompt,
            resume=resume,
        )

    def start(self, *arguments: str, prompt: str | None = None, resume: bool = False) -> ManagedSession:
        result = asyncio.run(self.driver.start(self.order(*arguments, prompt=prompt, resume=resume)))
        assert result.outcome is ActionOutcome.CONFIRMED, result
        assert result.hosting is not None
        return result.hosting

    def deliver(self, hosting: ManagedSession, text: str) -> ActionResult:
        return asyncio.run(self.driver.deliver(hosting, text))

    def say(self, hosting: ManagedSession, text: str) -> ManagedSession:
        """Deliver it, which must succeed; the hosting as it is kept then."""
        result = self.deliver(hosting, text)
        assert (result.outcome, result.hosting is not None) == (ActionOutcome.CONFIRMED, True), result
        assert result.hosting is not None
        return result.hosting

    def interrupt(self, hosting: ManagedSession) -> ActionResult:
        return asyncio.run(self.driver.interrupt(hosting))

    def rest(self) -> None:
        self.home.wait_for_status("idle")

    def prompts(self) -> list[str]:
        """What the conversation's file says a person wrote."""
        transcript = next(iter(self.home.logs()), None)
        if transcript is None:
            return []
        assert transcript.stem == self.conversation
        records = [json.loads(line) for line in transcript.read_text().splitlines()]
        said = [each["message"]["content"] for each in records if each["type"] == "user"]
        return [each.strip() for each in said if isinstance(each, str)]

    def wait_for_prompt(self, text: str) -> None:
        wait_for(lambda: text in self.prompts() or None, f"prompt {text!r}")
        self.rest()

    def draft(self) -> str | None:
        server = TmuxServer(str(self.socket), 5.0)
        (target,) = self.server.tmux("list-panes", "-a", "-F", "#{pane_id}").split()
        return ClaudeInput().draft(asyncio.run(server.capture(target)))

    def screen(self) -> str:
        return self.server.tmux("capture-pane", "-p")


@pytest.fixture
def desk(tmp_path: Path, claude_home: ClaudeHome) -> Iterator[Desk]:
    require_tmux()
    desk = Desk(tmp_path, claude_home)
    yield desk
    end_tmux(desk.socket)


def process_of(hosting: ManagedSession) -> Process:
    assert hosting.process is not None
    return hosting.process


def test_prompts_are_taken_word_by_word(desk: Desk) -> None:
    """Several lines, commands of the client and of its shell, file names, a long paste: all arrive as text."""
    (desk.home.project / "foo.py").write_text("x = 1\n")
    first = script(DONE)
    managed = desk.start("--model", "opus", prompt=first)
    desk.wait_for_prompt(first)
    assert desk.home.registry()[0]["sessionId"] == desk.conversation
    for text in (
        "-v; #{pane_id}\nsecond line\n\n  indented",
        "!touch bang",
        "/exit",
        "look at @foo",
        "1",
        "\n".join(f"line {number}" for number in range(30)),
        "long " * 400,
    ):
        desk.say(managed, text)
        desk.wait_for_prompt(text.strip())
    assert not (desk.home.project / "bang").exists()
    assert proc.state_of(process_of(managed)) is ProcessState.ALIVE
    with pytest.raises(PromptRefused):
        desk.deliver(managed, "red \x1b[31m text")
    result = asyncio.run(desk.driver.stop(managed))
    assert (result.outcome, proc.state_of(process_of(managed))) == (
        ActionOutcome.CONFIRMED,
        ProcessState.DEAD,
    )
    assert desk.server.look().panes == ()


def test_text_does_not_answer_a_permission_question(desk: Desk) -> None:
    """While it is open, text, digits and an interrupt are declined; only an answer to this very question counts."""
    managed = desk.start(prompt=script(asking("touch made; echo x"), asking("touch other; echo x"), DONE))
    desk.home.wait_for_status("waiting")
    (question,) = wait_for(lambda: asyncio.run(desk.driver.questions(managed)) or None, "question")
    assert question.tool == "Bash command"
    assert "touch made" in question.untrusted
    for text in ("1", "y", "some words"):
        assert desk.deliver(managed, text).outcome is ActionOutcome.DECLINED
    assert desk.interrupt(managed).outcome is ActionOutcome.DECLINED
    wrong = asyncio.run(desk.driver.answer(managed, "0" * 16, PermissionReply.ALLOW))
    assert (wrong.outcome, wrong.words) == (ActionOutcome.DECLINED, "that question is no longer open")
    assert asyncio.run(desk.driver.questions(managed)) == (question,)
    assert not (desk.home.project / "made").exists()

    allowed = asyncio.run(desk.driver.answer(managed, question.id, PermissionReply.ALLOW))
    assert allowed.outcome is ActionOutcome.CONFIRMED, allowed
    wait_for(lambda: (desk.home.project / "made").exists() or None, "effect of the permission")
    (second,) = wait_for(lambda: asyncio.run(desk.driver.questions(managed)) or None, "second question")
    assert second.id != question.id
    assert (
        asyncio.run(desk.driver.answer(managed, question.id, PermissionReply.ALLOW)).outcome
        is ActionOutcome.DECLINED
    )
    denied = asyncio.run(desk.driver.answer(managed, second.id, PermissionReply.DENY))
    assert denied.outcome is ActionOutcome.CONFIRMED, denied
    desk.rest()
    assert not (desk.home.project / "other").exists()
    desk.say(managed, script(DONE))


def test_an_interrupt_ends_the_turn_and_the_next_prompt_is_taken(desk: Desk) -> None:
    """In a tool and before any answer: the turn ends, the input line is empty, the agent goes on."""
    managed = desk.start("--allowedTools", "Bash(sleep *)", prompt=script(asking("sleep 60"), DONE))
    tool = desk.home.wait_for_tool("sleep")
    assert desk.interrupt(managed).outcome is ActionOutcome.CONFIRMED
    wait_for(lambda: True if proc.identify(tool) is None else None, "end of the tool")
    idle = desk.interrupt(managed)
    assert (idle.outcome, idle.words) == (ActionOutcome.DECLINED, "no turn runs that could be interrupted")
    for cut_off in (HANGS, f"two\nlines, é and 漢字 {HANGS}", "\n".join(map(str, range(30))) + HANGS):
        managed = desk.say(managed, cut_off)
        desk.home.wait_for_status("busy")
        result = desk.interrupt(managed)
        assert (result.outcome, result.words.endswith("returned to the input line and was removed")) == (
            ActionOutcome.CONFIRMED,
            True,
        ), result
    desk.say(managed, "go on")
    desk.wait_for_prompt("go on")
    assert proc.state_of(process_of(managed)) is ProcessState.ALIVE


def test_what_a_person_typed_is_not_removed_by_an_interrupt(desk: Desk) -> None:
    """A prompt of theirs that comes back, and a draft beside the turn, are left where they stand."""
    managed = desk.start(prompt="hello")
    desk.rest()
    assert managed.pane is not None
    terminal = TmuxSession(desk.socket, managed.pane.session)
    terminal.type_line(f"mine {HANGS}")
    desk.home.wait_for_status("busy")
    # A busy client is at work before it has redrawn its input line.
    wait_for(lambda: desk.draft() == "" or None, "empty input line")
    result = desk.interrupt(managed)
    assert (result.outcome, "there is text" in result.words) == (ActionOutcome.CONFIRMED, True), result
    assert "mine @@" in desk.screen()
    declined = desk.deliver(managed, "go on")
    assert (declined.outcome, "draft" in declined.words) == (ActionOutcome.DECLINED, True)


def test_a_killed_agent_is_resumed_and_a_stop_takes_its_tools(desk: Desk) -> None:
    """Killed in a tool, the conversation goes on in a new tmux session; a stop leaves no process of it."""
    flags = ("--allowedTools", "Bash(sleep *)")
    managed = desk.start(*flags, prompt=script(asking("sleep 60"), DONE))
    orphan = desk.home.wait_for_tool("sleep")
    wait_for(lambda: desk.prompts() or None, "transcript")
    os.kill(process_of(managed).pid, signal.SIGKILL)
    wait_for(
        lambda: True if proc.state_of(process_of(managed)) is ProcessState.DEAD else None, "end of the agent"
    )
    resumed = desk.start(*flags, "a prompt that was given once", resume=True)
    desk.say(resumed, "you were cut short")
    desk.wait_for_prompt("you were cut short")
    assert "a prompt that was given once" not in desk.prompts()
    assert proc.identify(orphan) is not None
    result = asyncio.run(desk.driver.stop(resumed))
    assert result.outcome is ActionOutcome.CONFIRMED, result
    assert desk.home.pids() == []
    assert desk.server.look().panes == ()


def test_a_conversation_that_does_not_exist_is_not_begun(desk: Desk) -> None:
    """An unknown id is reported as unknown, a malformed one never reaches the client, an odd flag neither."""
    with pytest.raises(ConversationUnknown):
        asyncio.run(desk.driver.start(desk.order(resume=True)))
    assert desk.server.look().panes == ()
    desk.conversation = ConversationId("not-a-uuid")
    with pytest.raises(ConversationUnknown):
        asyncio.run(desk.driver.start(desk.order(resume=True)))
    with pytest.raises(ArgumentRefused):
        asyncio.run(desk.driver.start(desk.order("-p", "x")))


def test_an_agent_killed_in_a_persons_shell_is_resumed_in_its_pane(desk: Desk, tmux_socket: Path) -> None:
    """Killed, resumed by a command typed into the very shell, same conversation; a neighbour is not touched."""
    home = desk.home
    first = script(DONE)
    terminal = home.in_tmux(tmux_socket, first, "hand", shell_wrapped=True)
    wait_for(lambda: "● All done" in terminal.screen() or None, "answer")
    entry = home.wait_for_status("idle")
    server = Server(tmux_socket)
    neighbour = server.tmux("new-window", "-d", "-P", "-F", "#{pane_id}", "-t", "=hand:", "cat")
    agent = proc.identify(entry["pid"])
    assert agent is not None
    pane = PaneAddress(str(tmux_socket), terminal.shown("pane_id"), "hand")
    desk.conversation = ConversationId(entry["sessionId"])
    managed = ManagedSession(
        session_id=SessionId(f"claude-{desk.conversation}"),
        conversation_id=desk.conversation,
        driver="tmux",
        cwd=str(home.project),
        argv=proc.command(agent.pid),
        epoch=1,
        since=0.0,
        process=agent,
        pane=pane,
        adopted=True,
    )
    request = replace(desk.order(prompt="welcome back", resume=True), argv=managed.argv, epoch=4)

    def resume() -> ActionResult:
        return asyncio.run(desk.driver.resume_in_pane(managed, request))

    assert resume().words == "the shell in its pane runs something"
    desk.say(managed, "before the end")
    desk.wait_for_prompt("before the end")
    os.kill(agent.pid, signal.SIGKILL)
    wait_for(lambda: "Killed" in terminal.screen() or None, "shell prompt")
    result = resume()
    assert result.outcome is ActionOutcome.CONFIRMED, result
    assert result.hosting is not None
    resumed = process_of(result.hosting)
    assert (resumed != agent, proc.environ_value(resumed.pid, "WAKEFUL_EPOCH")) == (True, "4")
    desk.wait_for_prompt("welcome back")
    assert desk.prompts().count(first) == 1
    assert server.tmux("capture-pane", "-p", "-t", neighbour) == ""
