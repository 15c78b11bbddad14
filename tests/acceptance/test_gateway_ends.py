"""Claims about turns whose agent, or daemon, ends at a bad moment: every answer belongs to the message it was asked in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.daemon_process import RunningDaemon
from support.gateway_e2e import TelegramUser
from support.gateway_process import end_agents
from support.real_clients import CodexHome, wait_for
from support.stub_claude import install
from support.telegram_chats import ChatMessage
from support.telegram_server import BotApi

USER, OTHER = 42, 43


@pytest.fixture
def chat(daemon: RunningDaemon, api: BotApi, tmp_path: Path) -> Iterator[BotApi]:
    """A bot whose agents answer with the words of the question."""
    program = Path(install(tmp_path / "bin"))
    daemon.environ["PATH"] = f"{program.parent}:{daemon.environ['PATH']}"
    daemon.watch(
        WAKEFUL_GATEWAY__TOKEN=api.token,
        WAKEFUL_GATEWAY__API=api.url,
        WAKEFUL_GATEWAY__ALLOW=f"{USER},{OTHER}",
        WAKEFUL_GATEWAY__EDIT_SECONDS="0.05",
        WAKEFUL_RESPONSE_ACTIONS__ENABLED="false",
        WAKEFUL_HEAL__CONFIRM_SECONDS="1",
    )
    daemon.up()
    yield api
    end_agents(tmp_path, daemon)


def said(api: BotApi) -> list[str]:
    return [text for text in api.seen(USER) if text != "…"]


def ask(api: BotApi, words: str) -> str:
    """What is answered to it."""
    count = len(api.seen(USER))
    api.says(words, user=USER)
    try:
        wait_for(lambda: len(said(api)) > count or None, f"answer to {words!r}", 40)
        return wait_for(
            lambda: next((each for each in said(api)[count:] if words in each or "Brought" in each), None),
            words,
        )
    except AssertionError as error:
        error.add_note(f"seen: {api.seen(USER)}")
        raise


def test_a_prompt_whose_agent_died_with_the_daemon_is_not_given_twice(
    chat: BotApi, daemon: RunningDaemon
) -> None:
    """Both are gone after the agent took the prompt; it is brought back, goes on with it, and is not asked once more."""
    assert ask(chat, "hello") == "Answer to: hello."
    daemon.end()
    daemon.watch(WAKEFUL_FAULTS="once.done:1:kill")
    daemon.up()
    chat.says("die in the middle", user=USER)
    wait_for(lambda: daemon.has_ended() or None, "end of the daemon")
    del daemon.environ["WAKEFUL_FAULTS"]
    daemon.up()
    wait_for(lambda: said(chat)[1:] == ["Brought back, and done after all."] or None, "an answer", 20)
    (log,) = Path(daemon.environ["HOME"]).glob(".claude/projects/*/*.jsonl")
    assert (log.read_text().count('"die in the middle"'), said(chat)[1]) == (
        1,
        "Brought back, and done after all.",
    )


def test_in_a_group_only_the_asker_or_an_admin_answers(chat: BotApi) -> None:
    """Not another member by the same button, not by data that was not offered, and not by an old press once more."""
    group = -5
    chat.says("ask Bash", user=USER, chat=group)

    def question() -> ChatMessage | None:
        return next((each for each in chat.room(group).messages if "May the agent use" in each.text), None)

    asked = wait_for(question, "question")
    wait_for(lambda: asked.buttons or None, "buttons")
    allow = str(asked.buttons[0][0]["callback_data"])
    forged = allow.replace("allow_once", "allow_everything")
    presses = [
        chat.presses(asked, choice, user=user)
        for user, choice in ((OTHER, allow), (USER, forged), (OTHER, forged))
    ]
    wait_for(lambda: all(chat.rooms.presses[each] for each in presses) or None, "an end of three presses")
    assert "Only the person who asked" in chat.rooms.presses[presses[0]]
    assert "It was" not in "".join(chat.seen(group)), "nothing was decided"
    chat.presses(asked, allow, user=USER)
    wait_for(lambda: "It was allowed." in "".join(chat.seen(group)) or None, "answer")
    late = chat.presses(asked, allow, user=OTHER)
    wait_for(lambda: chat.rooms.presses[late] or None, "an end of the last press")
    assert "".join(chat.seen(group)).count("It was") == 1


def written(codex: CodexHome) -> str:
    return "".join(each.read_text() for each in codex.logs())


def until_ended(codex: CodexHome, turns: int) -> None:
    wait_for(lambda: written(codex).count("task_complete") == turns or None, f"end of {turns} turns")


def test_a_codex_turn_that_ended_while_the_daemon_was_away_is_answered(
    codex: CodexHome, daemon: RunningDaemon, api: BotApi
) -> None:
    """The daemon dies as it hands the prompt over, the first one and a later one; the turn ends before it is back."""
    daemon.watch(WAKEFUL_FAULTS="once.done:1:kill")
    phone = TelegramUser(api, daemon, codex, "edit_seconds = 0.1\n")
    for number in range(2):
        phone.ask({"text": f"Done number {number}, as asked."})
        wait_for(lambda: daemon.has_ended() or None, "end of the daemon")
        until_ended(codex, number + 1)
        if number == 1:
            del daemon.environ["WAKEFUL_FAULTS"]
        else:
            daemon.watch(WAKEFUL_FAULTS="once.done:2:kill")
        daemon.up()
        phone.sees(f"Done number {number}, as asked.")
    assert phone.times("did not reach the agent") == 0
    assert written(codex).count("task_complete") == 2, "each was asked once"


@pytest.mark.parametrize("back", ["after its turn", "at once"])
def test_a_codex_whose_start_was_cut_off_before_it_had_a_name_is_found(
    codex: CodexHome, daemon: RunningDaemon, api: BotApi, back: str
) -> None:
    """The daemon dies between the start of the process and its first line, which names the conversation."""
    phone = TelegramUser(api, daemon, codex, "edit_seconds = 0.1\n")
    run = Path(daemon.environ["WAKEFUL_HOME"]) / "run"
    phone.ask({"text": "Done, as asked."})
    wait_for(lambda: any(run.glob("new-*/out.jsonl")) or None, "start of the client")
    daemon.kill()
    assert list(run.glob("new-*")), "its conversation had no name yet"
    if back == "after its turn":
        until_ended(codex, 1)
    daemon.up()
    phone.sees("Done, as asked.")
    phone.ask({"text": "And this, in the same conversation."})
    phone.sees("And this, in the same conversation.")
    assert phone.times("did not reach the agent") == 0
    assert (len(codex.logs()), written(codex).count("task_complete")) == (1, 2), (
        "one conversation, asked twice"
    )
    assert [each["managed"] for each in daemon.sessions()] == [True]
