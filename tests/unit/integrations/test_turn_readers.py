"""Claims about hearing one turn in a client's output. The order of lines is that of Claude Code 2.1.197 and Codex 0.166."""

import json
from collections.abc import Iterable
from itertools import chain
from typing import Any

import pytest

from wakeful.control.turn_events import (
    AnswerText,
    Ended,
    PermissionAsked,
    PermissionClosed,
    PromptTaken,
    Spent,
    TurnEvent,
)
from wakeful.integrations.claude_code.turn_reader import ClaudeTurnReader
from wakeful.integrations.codex.turn_reader import CodexTurnReader
from wakeful.judging.events import Failure

OURS = "11111111-1111-5111-8111-111111111111"
Line = dict[str, Any]
RUNNING = {"type": "system", "subtype": "session_state_changed", "state": "running"}
IDLE = {"type": "system", "subtype": "session_state_changed", "state": "idle"}


def replayed(uuid: str, text: str = "hello") -> Line:
    message = {"role": "user", "content": text}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "uuid": uuid, "isReplay": True}


def event(kind: str, parent: str | None = None, **fields: Any) -> Line:
    return {"type": "stream_event", "event": {"type": kind, **fields}, "parent_tool_use_id": parent}


def block(text: str, parent: str | None = None) -> list[Line]:
    """A block of text as it streams, up to its last delta."""
    return [
        event("content_block_start", parent, content_block={"type": "text", "text": ""}),
        event("content_block_delta", parent, delta={"type": "text_delta", "text": text}),
    ]


def whole(text: str, parent: str | None = None, error: str | None = None) -> Line:
    line = {
        "type": "assistant",
        "message": {"content": [{"type": "text", "text": text}]},
        "parent_tool_use_id": parent,
    }
    return line | ({"error": error} if error else {})


def result(text: str = "", cost_usd: float = 0.001, **fields: Any) -> Line:
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 7}
    said = {"type": "result", "subtype": "success", "is_error": False, "result": text, "usage": usage}
    return said | {"total_cost_usd": cost_usd, "terminal_reason": "completed"} | fields


def turn(uuid: str, text: str, cost_usd: float = 0.001, prompt: str = "hello") -> list[Line]:
    """A turn that says one thing: its prompt is replayed behind the first words."""
    return [RUNNING, *block(text), replayed(uuid, prompt), whole(text), result(text, cost_usd), IDLE]


def heard(hearing: ClaudeTurnReader | CodexTurnReader, lines: Iterable[Line]) -> list[TurnEvent]:
    fed = [hearing.feed(json.dumps(line).encode()) for line in lines]
    return list(chain.from_iterable(fed))


def words(told: Iterable[TurnEvent]) -> str:
    return "".join(each.text for each in told if isinstance(each, AnswerText))


def test_words_are_heard_before_the_prompt_is_replayed() -> None:
    """The client replays a prompt only when the first block of its answer is whole: the reader does not wait
    for that."""
    hearing = ClaudeTurnReader(OURS)
    hearing.on_caught_up()
    assert heard(hearing, [RUNNING, *block("Once upon")]) == [PromptTaken(), AnswerText("Once upon")]
    rest = heard(hearing, [replayed(OURS), whole("Once upon a time"), result("Once upon a time"), IDLE])
    assert rest == [AnswerText(" a time"), Ended("Once upon a time", spent=Spent(7, 7, 0.001))]


def test_an_old_turn_is_not_heard_again() -> None:
    """After a restart the whole file is read: only the turn with the prompt's own id counts, at its own cost."""
    hearing = ClaudeTurnReader(OURS)
    told = heard(hearing, [*turn("other", "old news", 0.005), *turn(OURS, "new", 0.007)])
    assert [type(each) for each in told] == [PromptTaken, AnswerText, Ended]
    assert told[-1] == Ended("new", spent=Spent(7, 7, 0.007 - 0.005))
    assert hearing.on_caught_up() == []


def test_the_turn_that_is_open_is_taken_for_ours_until_its_prompt_says_otherwise() -> None:
    """Another turn is withdrawn as soon as it is recognised, and this one is read from its own beginning."""
    hearing = ClaudeTurnReader(OURS)
    assert heard(hearing, [*turn("a", "old"), RUNNING, *block("not ")]) == []
    assert hearing.on_caught_up() == [PromptTaken(), AnswerText("not ")]
    foreign = [replayed("b"), whole("not ours"), *block("at all"), result(), IDLE]
    assert heard(hearing, foreign) == []
    assert heard(hearing, turn(OURS, "ours"))[:2] == [PromptTaken(), AnswerText("ours")]


def test_subagents_are_not_heard() -> None:
    """Text between agents is no answer; blocks of the main agent are paragraphs."""
    inner = [*block("inner", "toolu_1"), whole("inner", "toolu_1")]
    lines = [RUNNING, *block("one"), replayed(OURS), whole("one"), *inner, *block("two"), whole("two")]
    told = heard(ClaudeTurnReader(OURS), [*lines, result("two")])
    assert words(told) == "one\n\ntwo"
    assert isinstance(told[-1], Ended)
    assert told[-1].text == "one\n\ntwo"


def test_a_broken_stream_is_heard_once() -> None:
    """The client asks again without a stream: what had streamed is not repeated, and what had not is not lost."""
    lines = [
        RUNNING,
        *block("after the"),
        replayed(OURS),
        whole("after the break"),
        result("after the break"),
    ]
    assert words(heard(ClaudeTurnReader(OURS), lines)) == "after the break"
    unstreamed = [RUNNING, replayed(OURS), whole("at once"), result("at once")]
    assert words(heard(ClaudeTurnReader(OURS), unstreamed)) == "at once"


def test_questions_are_open_until_answered_withdrawn_or_over() -> None:
    """Each is reported once, redacted, and settled once, by any answer."""
    call = {"command": "deploy --token sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"}

    def asks(question_id: str) -> Line:
        request = {"subtype": "can_use_tool", "tool_name": "Bash", "description": "d", "input": call}
        return {"type": "control_request", "request_id": question_id, "request": request}

    answer = {"type": "control_response", "response": {"subtype": "success", "request_id": "q1"}}
    withdrawn = {"type": "control_cancel_request", "request_id": "q2"}
    lines = [RUNNING, replayed(OURS), asks("q1"), answer, answer, asks("q2"), withdrawn, asks("q3"), result()]
    told = heard(ClaudeTurnReader(OURS), lines)
    asked = [each for each in told if isinstance(each, PermissionAsked)]
    assert [each.question_id for each in asked] == ["q1", "q2", "q3"]
    assert "sk-ant" not in asked[0].untrusted
    assert "deploy" in asked[0].untrusted
    assert [each.question_id for each in told if isinstance(each, PermissionClosed)] == ["q1", "q2", "q3"]


def test_a_question_shows_the_call_and_says_what_it_does_not_show() -> None:
    """However long the model describes it: the question says that a part is not shown."""

    def asked(call: Line, description: str) -> str:
        request = {"subtype": "can_use_tool", "tool_name": "Bash", "description": description, "input": call}
        line = {"type": "control_request", "request_id": "q", "request": request}
        (question,) = (
            each
            for each in heard(ClaudeTurnReader(OURS), [RUNNING, replayed(OURS), line])
            if isinstance(each, PermissionAsked)
        )
        return question.untrusted

    assert "rm -rf ~" in asked({"command": "rm -rf ~"}, "List files. " * 500)
    assert asked({"command": "ls", "description": "List files"}, "List files").count("List files") == 1
    hidden = asked({"command": "echo " + "x" * 2500 + "; rm -rf ~"}, "d")
    assert ("rm -rf" in hidden, "more characters of it are not shown" in hidden) == (False, True)


@pytest.mark.parametrize(
    ("error", "status", "text", "failure"),
    [
        ("authentication_failed", 401, "Invalid API key · Fix external API key", Failure.AUTH),
        ("rate_limit", 429, "API Error: Request rejected (429)", Failure.PROVIDER),
        (None, None, "API Error: The operation timed out.", Failure.PROVIDER),
        (None, None, "Reached maximum number of turns (2)", Failure.UNKNOWN),
    ],
)
def test_a_failed_turn_says_why_and_is_no_answer(
    error: str | None, status: int | None, text: str, failure: Failure
) -> None:
    """The client's words about a failure are not streamed as the agent's."""
    said = [whole(text, error=error)] if error else []
    end = result(text, is_error=True, api_error_status=status)
    told = heard(ClaudeTurnReader(OURS), [RUNNING, replayed(OURS), *said, end])
    assert words(told) == ""
    assert told[-1] == Ended(text, failure, Spent(7, 7, 0.001))


def test_what_the_healer_says_goes_on_with_the_turn() -> None:
    """Interrupted and prompted to go on, the same answer continues in the next turn; another prompt is not
    part of it."""
    hearing = ClaudeTurnReader(OURS)
    cut = result("", terminal_reason="aborted_streaming", is_error=True, subtype="error_during_execution")
    told = heard(hearing, [RUNNING, *block("half"), replayed(OURS), whole("half"), cut, IDLE])
    assert isinstance(told[-1], Ended)
    assert told[-1].interrupted
    again = heard(hearing, turn("healer", "the whole", prompt="Wakeful: you repeat the same calls."))
    assert again[-1] == Ended("the whole", spent=Spent(7, 7, 0.0))
    assert Ended not in map(type, heard(hearing, turn("other", "elsewhere")))


def test_a_new_process_goes_on_with_the_turn() -> None:
    """Its file has only a prompt of the healer: read live, and read by a listener that comes later."""
    brief = turn("healer", "done after all", prompt="Wakeful: your process ended in the middle of your work")
    living = ClaudeTurnReader(OURS)
    heard(living, [RUNNING, *block("half"), replayed(OURS)])
    living.on_new_process()
    assert heard(living, brief)[-1] == Ended("done after all", spent=Spent(7, 7, 0.001))
    late = ClaudeTurnReader(OURS)
    assert heard(late, brief) == []
    assert late.on_caught_up()[-1] == Ended("done after all", spent=Spent(7, 7, 0.001))
    somebody_elses = ClaudeTurnReader(OURS)
    assert heard(somebody_elses, [*turn("other", "theirs"), *brief]) == []
    assert somebody_elses.on_caught_up() == []
    after = ClaudeTurnReader(OURS)
    assert heard(after, [*brief, *turn(OURS, "mine")])[-1] == Ended("mine", spent=Spent(7, 7, 0.0))


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"null", b'{"type": 7}', b'{"type": "result", "usage": "x"}', b"\xff\xfe"]
)
def test_bad_lines_tell_nothing(line: bytes) -> None:
    """Torn, of another form or no text at all: lines after them are read."""
    for hearing in (ClaudeTurnReader(OURS), CodexTurnReader(OURS)):
        assert list(hearing.feed(line)) == []
    claude = ClaudeTurnReader(OURS)
    claude.feed(line)
    assert words(heard(claude, turn(OURS, "here"))) == "here"


def test_a_codex_turn_from_its_first_word_to_its_cost() -> None:
    """Messages come whole; a warning, a command and a reconnection are no words of the answer."""
    items = [
        {"id": "item_0", "type": "error", "message": "Model metadata not found"},
        {"id": "item_1", "type": "agent_message", "text": "I will run it"},
        {"id": "item_2", "type": "command_execution", "aggregated_output": "hi\n", "exit_code": 0},
        {"id": "item_3", "type": "agent_message", "text": "All done"},
    ]
    lines: list[Line] = [{"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}]
    lines += [{"type": "item.completed", "item": each} for each in items]
    lines += [{"type": "error", "message": "Reconnecting... 1/5"}]
    lines += [{"type": "turn.completed", "usage": {"input_tokens": 20, "output_tokens": 10}}]
    told = heard(CodexTurnReader(OURS), lines)
    assert told == [
        PromptTaken(),
        AnswerText("I will run it"),
        AnswerText("\n\nAll done"),
        Ended("I will run it\n\nAll done", spent=Spent(20, 10), stop_reason="end_turn"),
    ]


def test_a_failed_codex_turn_says_why() -> None:
    """By the sentence Codex ends with."""
    message = "unexpected status 401 Unauthorized: invalid x-api-key, url: http://127.0.0.1:1/v1/responses"
    failed = {"type": "turn.failed", "error": {"message": message}}
    assert heard(CodexTurnReader(OURS), [failed]) == [Ended(message, Failure.AUTH)]


def test_what_the_healer_told_a_process_before_it_got_the_prompt_is_another_turn() -> None:
    """A resumed process finishes the earlier turn first; that answer belongs to another prompt."""
    lines = [
        *turn("brief", "the old answer", prompt="Wakeful: go on"),
        *turn(OURS, "the new answer"),
    ]
    hearing = ClaudeTurnReader(OURS)
    hearing.on_prompt_given()
    ends = [each.text for each in heard(hearing, lines) if isinstance(each, Ended)]
    assert ends == ["the new answer"]
    late = ClaudeTurnReader(OURS)
    late.on_prompt_given()
    late.on_caught_up()
    assert [each.text for each in heard(late, lines) if isinstance(each, Ended)] == ["the new answer"]


def test_a_process_that_took_over_goes_on_with_the_turn_by_what_the_healer_told_it() -> None:
    """It was given the prompt in the life before, so the healer's turn is its continuation."""
    hearing = ClaudeTurnReader(OURS)
    hearing.on_prompt_given()
    hearing.on_new_process()
    lines = turn("brief", "done after all", prompt="Wakeful: go on")
    assert [each.text for each in heard(hearing, lines) if isinstance(each, Ended)] == ["done after all"]


def test_a_call_is_known_by_all_of_it_but_its_description() -> None:
    """Two commands that read alike where they are cut off, or redacted, are two calls; other words about one are not."""

    def call(command: str, description: str = "d", tool: str = "Bash") -> str:
        request: Line = {"subtype": "can_use_tool", "tool_name": tool}
        request |= {"input": {"command": command, "description": description}}
        (asked,) = [
            each
            for each in heard(
                ClaudeTurnReader(OURS),
                [replayed(OURS), {"type": "control_request", "request_id": "q", "request": request}],
            )
            if isinstance(each, PermissionAsked)
        ]
        return asked.call

    # What describes a command is what another tool may be asked to write.
    assert call("", "one issue", "mcp__forge__create") != call("", "another issue", "mcp__forge__create")
    long = "touch " + "x" * 3000
    assert call("touch x") == call("touch x", "other words") != ""
    assert (
        len({call("touch x"), call("rm -rf x"), call(long), call(long + "y"), call("touch x", tool="Sh")})
        == 5
    )


@pytest.mark.parametrize("is_over", [False, True])
def test_a_prompt_that_waited_behind_another_turn_is_unread_when_its_process_ends(is_over: bool) -> None:
    """The next process continues that other turn, whose answer belongs to another prompt."""
    hearing = ClaudeTurnReader(OURS)
    hearing.on_prompt_given()
    hearing.on_caught_up()
    before = turn("brief", "the old answer", prompt="Wakeful: go on")
    heard(hearing, before if is_over else before[:4])
    assert not hearing.on_new_process()
    lines = turn("brief again", "the old answer after all", prompt="Wakeful: go on")
    assert [each for each in heard(hearing, lines) if isinstance(each, Ended)] == []


def test_a_prompt_that_was_begun_when_its_process_ended_goes_on_in_the_next() -> None:
    """Also one that was not replayed yet, behind another turn."""
    hearing = ClaudeTurnReader(OURS)
    hearing.on_prompt_given()
    hearing.on_caught_up()
    heard(hearing, [*turn("brief", "the old answer", prompt="Wakeful: go on"), RUNNING, *block("Half of")])
    assert hearing.on_new_process()
    lines = turn("brief again", "done", prompt="Wakeful: go on")
    assert [each.text for each in heard(hearing, lines) if isinstance(each, Ended)] == ["done"]
