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
from wakeful.control.driver import ArgumentRefused, ConversationUnknown, Order, PromptRefused, Reply, Seen
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import Hosting, PaneAddress
from wakeful.core.process import Process, Sight
from wakeful.integrations.tmux.driver import TmuxDriver
from wakeful.linux import proc
from wakeful.linux.clock import SystemClock
from wakeful.storage.base import Outcome
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

    def order(self, *arguments: str, prompt: str | None = None, resume: bool = False) -> Order:
        return Order(
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

    def start(self, *arguments: str, prompt: str | None = None, resume: bool = False) -> Hosting:
        seen = asyncio.run(self.driver.start(self.order(*arguments, prompt=prompt, resume=resume)))
        assert seen.outcome is Outcome.RECOVERED, seen
        assert seen.hosting is not None
        return seen.hosting

    def deliver(self, hosting: Hosting, text: str) -> Seen:
        return asyncio.run(self.driver.deliver(hosting, text))

    def say(self, hosting: Hosting, text: str) -> Hosting:
        """Deliver it, which must succeed; the hosting as it is kept then."""
        seen = self.deliver(hosting, text)
        assert (seen.outcome, seen.hosting is not None) == (Outcome.RECOVERED, True), seen
        assert seen.hosting is not None
        return seen.hosting

    def interrupt(self, hosting: Hosting) -> Seen:
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

    def screen(self) -> str:
        return self.server.tmux("capture-pane", "-p")


@pytest.fixture
def desk(tmp_path: Path, claude_home: ClaudeHome) -> Iterator[Desk]:
    require_tmux()
    desk = Desk(tmp_path, claude_home)
    yield desk
    end_tmux(desk.socket)


def process_of(hosting: Hosting) -> Process:
    assert hosting.process is not None
    return hosting.process


def test_prompts_are_taken_word_by_word(desk: Desk) -> None:
    """Several lines, commands of the client and of its shell, file names, a long paste: all arrive as text."""
    (desk.home.project / "foo.py").write_text("x = 1\n")
    first = script(DONE)
    hosting = desk.start("--model", "opus", prompt=first)
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
        desk.say(hosting, text)
        desk.wait_for_prompt(text.strip())
    assert not (desk.home.project / "bang").exists()
    assert proc.sight(process_of(hosting)) is Sight.ALIVE
    with pytest.raises(PromptRefused):
        desk.deliver(hosting, "red \x1b[31m text")
    seen = asyncio.run(desk.driver.stop(hosting))
    assert (seen.outcome, proc.sight(process_of(hosting))) == (Outcome.RECOVERED, Sight.DEAD)
    assert desk.server.look().panes == ()


def test_text_does_not_answer_a_permission_question(desk: Desk) -> None:
    """While it is open, text, digits and an interrupt are declined; only an answer to this very question counts."""
    hosting = desk.start(prompt=script(asking("touch made; echo x"), asking("touch other; echo x"), DONE))
    desk.home.wait_for_status("waiting")
    (question,) = wait_for(lambda: asyncio.run(desk.driver.questions(hosting)) or None, "question")
    assert question.tool == "Bash command"
    assert "touch made" in question.untrusted
    for text in ("1", "y", "some words"):
        assert desk.deliver(hosting, text).outcome is Outcome.DECLINED
    assert desk.interrupt(hosting).outcome is Outcome.DECLINED
    wrong = asyncio.run(desk.driver.answer(hosting, "0" * 16, Reply.ALLOW))
    assert (wrong.outcome, wrong.words) == (Outcome.DECLINED, "that question is not open any more")
    assert asyncio.run(desk.driver.questions(hosting)) == (question,)
    assert not (desk.home.project / "made").exists()

    allowed = asyncio.run(desk.driver.answer(hosting, question.id, Reply.ALLOW))
    assert allowed.outcome is Outcome.RECOVERED, allowed
    wait_for(lambda: (desk.home.project / "made").exists() or None, "effect of the permission")
    (second,) = wait_for(lambda: asyncio.run(desk.driver.questions(hosting)) or None, "second question")
    assert second.id != question.id
    assert asyncio.run(desk.driver.answer(hosting, question.id, Reply.ALLOW)).outcome is Outcome.DECLINED
    denied = asyncio.run(desk.driver.answer(hosting, second.id, Reply.DENY))
    assert denied.outcome is Outcome.RECOVERED, denied
    desk.rest()
    assert not (desk.home.project / "other").exists()
    desk.say(hosting, script(DONE))


def test_an_interrupt_ends_the_turn_and_the_next_prompt_is_taken(desk: Desk) -> None:
    """In a tool and before any answer: the turn ends, the input line is empty, the agent goes on."""
    hosting = desk.start("--allowedTools", "Bash(sleep *)", prompt=script(asking("sleep 60"), DONE))
    tool = desk.home.wait_for_tool("sleep")
    assert desk.interrupt(hosting).outcome is Outcome.RECOVERED
    wait_for(lambda: True if proc.identify(tool) is None else None, "end of the tool")
    idle = desk.interrupt(hosting)
    assert (idle.outcome, idle.words) == (Outcome.DECLINED, "no turn runs that could be interrupted")
    for cut_off in (HANGS, f"two\nlines, é and 漢字 {HANGS}", "\n".join(map(str, range(30))) + HANGS):
        hosting = desk.say(hosting, cut_off)
        desk.home.wait_for_status("busy")
        seen = desk.interrupt(hosting)
        assert (seen.outcome, seen.words.endswith("given back and removed")) == (Outcome.RECOVERED, True), (
            seen
        )
    desk.say(hosting, "go on")
    desk.wait_for_prompt("go on")
    assert proc.sight(process_of(hosting)) is Sight.ALIVE


def test_what_a_person_typed_is_not_removed_by_an_interrupt(desk: Desk) -> None:
    """A prompt of theirs that comes back, and a draft beside the turn, are left where they stand."""
    hosting = desk.start(prompt="hello")
    desk.rest()
    assert hosting.pane is not None
    terminal = TmuxSession(desk.socket, hosting.pane.session)
    terminal.type_line(f"mine {HANGS}")
    desk.home.wait_for_status("busy")
    seen = desk.interrupt(hosting)
    assert (seen.outcome, "something stands" in seen.words) == (Outcome.RECOVERED, True), seen
    assert "mine @@" in desk.screen()
    declined = desk.deliver(hosting, "go on")
    assert (declined.outcome, "draft" in declined.words) == (Outcome.DECLINED, True)


def test_a_killed_agent_is_resumed_and_a_stop_takes_its_tools(desk: Desk) -> None:
    """Killed in a tool, the conversation goes on in a new tmux session; a stop leaves no process of it."""
    flags = ("--allowedTools", "Bash(sleep *)")
    hosting = desk.start(*flags, prompt=script(asking("sleep 60"), DONE))
    orphan = desk.home.wait_for_tool("sleep")
    wait_for(lambda: desk.prompts() or None, "transcript")
    os.kill(process_of(hosting).pid, signal.SIGKILL)
    wait_for(lambda: True if proc.sight(process_of(hosting)) is Sight.DEAD else None, "end of the agent")
    resumed = desk.start(*flags, "a prompt that was given once", resume=True)
    desk.say(resumed, "you were cut short")
    desk.wait_for_prompt("you were cut short")
    assert "a prompt that was given once" not in desk.prompts()
    assert proc.identify(orphan) is not None
    seen = asyncio.run(desk.driver.stop(resumed))
    assert seen.outcome is Outcome.RECOVERED, seen
    assert desk.home.pids() == []
    assert desk.server.look().panes == ()


def test_a_conversation_that_does_not_exist_is_not_begun(desk: Desk) -> None:
    """An unknown id is said to be unknown, a malformed one never reaches the client, an odd flag neither."""
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
    hosting = Hosting(
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
    order = replace(desk.order(prompt="welcome back", resume=True), argv=hosting.argv, epoch=4)

    def resume() -> Seen:
        return asyncio.run(desk.driver.resume_in_pane(hosting, order))

    assert resume().words == "the shell in its pane runs something"
    desk.say(hosting, "before the end")
    desk.wait_for_prompt("before the end")
    os.kill(agent.pid, signal.SIGKILL)
    wait_for(lambda: "Killed" in terminal.screen() or None, "shell prompt")
    seen = resume()
    assert seen.outcome is Outcome.RECOVERED, seen
    assert seen.hosting is not None
    resumed = process_of(seen.hosting)
    assert (resumed != agent, proc.environ_value(resumed.pid, "WAKEFUL_EPOCH")) == (True, "4")
    desk.wait_for_prompt("welcome back")
    assert desk.prompts().count(first) == 1
    assert server.tmux("capture-pane", "-p", "-t", neighbour) == ""
