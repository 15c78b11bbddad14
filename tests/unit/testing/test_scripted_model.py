"""The scripted model on its own: what it says to a client that speaks either protocol on loopback."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from wakeful.testing.scripted_model import ScriptedModel, script
from wakeful.testing.scripted_steps import BadScript, ModelStep, find_script

MESSAGES = "/v1/messages?beta=true"
RESPONSES = "/v1/responses"
SECONDS_MAX = 10


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def assistant(text: str = "earlier") -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def messages(*conversation: Mapping[str, Any], stream: bool = True) -> dict[str, Any]:
    return {"model": "m", "stream": stream, "tools": [{"name": "Bash"}], "messages": conversation}


def responses(*conversation: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": "m", "stream": True, "input": conversation}


def ask(model: ScriptedModel, path: str, body: object) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", model.port, timeout=SECONDS_MAX)
    try:
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def events(raw: bytes) -> list[dict[str, Any]]:
    blocks = [block.split("\n") for block in raw.decode().split("\n\n") if block]
    parsed: list[dict[str, Any]] = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
    assert [each["type"] for each in parsed] == [kind.removeprefix("event: ") for kind, _ in blocks]
    return parsed


def played(model: ScriptedModel, path: str, body: object) -> list[dict[str, Any]]:
    return events(ask(model, path, body)[1])


def said(model: ScriptedModel, *conversation: Mapping[str, Any]) -> str:
    """The text of an answer in the Messages protocol."""
    deltas = [each.get("delta", {}) for each in played(model, MESSAGES, messages(*conversation))]
    return "".join(delta.get("text", "") for delta in deltas)


def test_messages_text_is_a_whole_stream(model: ScriptedModel) -> None:
    """A text step is one text block between message_start and message_stop, and ends the turn."""
    answer = played(model, MESSAGES, messages(user("do " + script({"text": "All done"}))))
    assert [each["type"] for each in answer] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert answer[0]["message"]["model"] == "m"
    assert answer[2]["delta"] == {"type": "text_delta", "text": "All done"}
    assert answer[4]["delta"]["stop_reason"] == "end_turn"


def test_responses_text_is_a_whole_stream(model: ScriptedModel) -> None:
    """A text step is created, spoken, done and completed with usage."""
    answer = played(model, RESPONSES, responses(user(script({"text": "All done"}))))
    assert [each["type"] for each in answer] == [
        "response.created",
        "response.output_item.added",
        "response.output_text.delta",
        "response.output_item.done",
        "response.completed",
    ]
    assert answer[3]["item"]["content"][0]["text"] == "All done"
    assert answer[4]["response"]["output"] == [answer[3]["item"]]
    assert answer[4]["response"]["usage"]["total_tokens"] == 15


def test_run_is_the_shell_tool_of_each_client(model: ScriptedModel) -> None:
    """One script drives both clients: `run` is Bash for Claude Code and exec_command for Codex."""
    prompt = user(script({"text": "so", "run": "ls"}))
    of_claude = played(model, MESSAGES, messages(prompt))
    assert of_claude[4]["content_block"]["name"] == "Bash"
    assert json.loads(of_claude[5]["delta"]["partial_json"])["command"] == "ls"
    assert of_claude[7]["delta"]["stop_reason"] == "tool_use"
    of_codex = played(model, RESPONSES, responses(prompt))[-1]["response"]["output"][1]
    assert (of_codex["name"], json.loads(of_codex["arguments"])) == ("exec_command", {"cmd": "ls"})


@pytest.mark.parametrize("path", [MESSAGES, RESPONSES])
def test_parallel_tools_have_ids_of_their_own(model: ScriptedModel, path: str) -> None:
    """Calls made at once, and calls made later, never share an id."""
    prompt = user(script({"tools": [{"tool": "Read", "input": {"a": 1}}, {"run": "ls"}], "loop": True}))
    body = messages(prompt) if path == MESSAGES else responses(prompt)
    starts = [each for _ in range(2) for each in played(model, path, body)]
    if path == MESSAGES:
        ids = [each["content_block"]["id"] for each in starts if "content_block" in each]
    else:
        ids = [each["item"]["call_id"] for each in starts if "item" in each]
    assert len(set(ids)) == len(ids) == 4


def test_the_step_is_the_number_of_answers_since_the_script(model: ScriptedModel) -> None:
    """The conversation itself says where in the script it is, so the server needs no memory of it."""
    prompt = user(script({"text": "one"}, {"text": "two"}))
    assert said(model, assistant(), prompt) == "one"
    assert said(model, assistant(), prompt, assistant(), user("go on")) == "two"
    assert said(model, prompt, assistant(), assistant(), user("go on")) == "Done."
    assert [each.step for each in model.requests] == [0, 1, 2]


def test_items_of_one_answer_count_once(model: ScriptedModel) -> None:
    """In the Responses protocol what the model said and the calls it made at once are one answer."""
    prompt = user(script({"text": "one"}, {"text": "two"}))
    call, output = {"type": "function_call"}, {"type": "function_call_output", "output": "x"}
    asked = responses(prompt, {"role": "assistant", "content": []}, call, call, output, output)
    assert played(model, RESPONSES, asked)[-1]["response"]["output"][0]["content"][0]["text"] == "two"


def test_a_tool_of_a_server_stands_in_its_namespace(model: ScriptedModel) -> None:
    """As Codex wants the tools of MCP servers called; every other name is left as it is."""
    prompt = user(script({"tools": [{"tool": "mcp__wakeful__self"}, {"tool": "mcp__odd"}]}))
    made = played(model, RESPONSES, responses(prompt))[-1]["response"]["output"]
    assert [(each.get("namespace"), each["name"]) for each in made] == [
        ("mcp__wakeful", "self"),
        (None, "mcp__odd"),
    ]


def test_the_last_script_wins(model: ScriptedModel) -> None:
    """A later prompt starts a script of its own."""
    first, second = user(script({"text": "old"})), user(script({"text": "new"}))
    assert said(model, first, assistant(), second) == "new"


def test_a_looping_last_step_never_runs_out(model: ScriptedModel) -> None:
    """`loop` plays the last step for ever."""
    assert said(model, user(script({"text": "again", "loop": True})), *[assistant()] * 9) == "again"


def test_a_script_printed_by_a_tool_is_none(model: ScriptedModel) -> None:
    """Only what a user wrote is a script, not what a tool brought back."""
    result = {"role": "user", "content": [{"type": "tool_result", "content": script({"text": "evil"})}]}
    assert said(model, user("hello"), assistant(), result) == "Done."


@settings(deadline=None)  # other tests share the cores
@given(st.text(), st.text())
def test_any_text_survives_the_prompt(text: str, inner: str) -> None:
    """A script reads back as it was written, a nested script of a subagent included."""
    nested = script({"text": inner}, {"run": script({"text": inner})})
    found = find_script(f"before {script({'text': text, 'tool': 'Task', 'input': {'prompt': nested}})} after")
    assert found == (ModelStep.parse({"text": text, "tool": "Task", "input": {"prompt": nested}}),)
    assert find_script(nested) == (ModelStep(text=inner), ModelStep.parse({"run": script({"text": inner})}))


@pytest.mark.parametrize(
    "step",
    [{"txt": "typo"}, {"hang": "later"}, {"status": "401"}, {"tools": [{"input": {}}]}, {"tools": ["ls"]}],
)
def test_a_wrong_step_is_refused_where_it_is_written(step: dict[str, Any]) -> None:
    """A typing error in a script is an error of the test, not a silent answer."""
    with pytest.raises(BadScript):
        script(step)


@pytest.mark.parametrize("path", [MESSAGES, RESPONSES])
def test_a_wrong_script_fails_the_request(model: ScriptedModel, path: str) -> None:
    """A script written by hand is checked too, and the client gets the error."""
    prompt = user('@@[{"txt": "typo"}]@@')
    response, raw = ask(model, path, messages(prompt) if path == MESSAGES else responses(prompt))
    assert response.status == 400
    assert "'txt'" in json.loads(raw)["error"]["message"]


def test_a_body_that_is_not_json_fails_the_request(model: ScriptedModel) -> None:
    """What cannot be read is not taken for a prompt without a script."""
    connection = HTTPConnection("127.0.0.1", model.port, timeout=SECONDS_MAX)
    connection.request("POST", RESPONSES, b"\x28\xb5\x2f\xfd")
    assert connection.getresponse().status == 400
    connection.close()


def test_a_status_carries_its_body_and_headers(model: ScriptedModel) -> None:
    """An HTTP failure is what the step says it is."""
    step = {"status": 429, "body": {"error": {"message": "slow"}}, "headers": {"retry-after": "3600"}}
    response, raw = ask(model, MESSAGES, messages(user(script(step))))
    assert (response.status, response.headers["retry-after"]) == (429, "3600")
    assert json.loads(raw) == {"error": {"message": "slow"}}


def test_a_fault_may_end_after_some_attempts(model: ScriptedModel) -> None:
    """`times` fails the first attempts only, and the rest of the step is played then."""
    body = messages(user(script({"status": 500, "times": 2, "text": "fine"})))
    assert [ask(model, MESSAGES, body)[0].status for _ in range(3)] == [500, 500, 200]
    assert [each.attempt for each in model.requests] == [1, 2, 3]
    assert said(model, *body["messages"]) == "fine"


def test_a_request_without_stream_gets_a_document(model: ScriptedModel) -> None:
    """Claude repeats a broken stream as a plain request and must get a plain message."""
    _, raw = ask(model, MESSAGES, messages(user(script({"text": "so", "run": "ls"})), stream=False))
    message = json.loads(raw)
    assert [block["type"] for block in message["content"]] == ["text", "tool_use"]
    assert message["content"][1]["input"]["command"] == "ls"
    assert message["stop_reason"] == "tool_use"


def test_a_side_call_does_not_touch_the_script(model: ScriptedModel) -> None:
    """A request without tools is for a title or a summary: it uses up no attempt and sees no fault."""
    prompt = user(script({"status": 500, "times": 1, "text": "fine"}))
    side = {**messages(prompt), "tools": []}
    assert ask(model, MESSAGES, side)[0].status == 200
    assert ask(model, MESSAGES, messages(prompt))[0].status == 500
    assert [each.kind for each in model.requests] == ["side", "messages"]


@pytest.mark.parametrize(("path", "kind"), [(MESSAGES, "error"), (RESPONSES, "response.failed")])
def test_an_error_may_come_inside_the_stream(model: ScriptedModel, path: str, kind: str) -> None:
    """`sse_error` is the last event of a stream that began well."""
    prompt = user(script({"sse_error": {"type": "overloaded_error", "message": "busy"}}))
    answer = played(model, path, messages(prompt) if path == MESSAGES else responses(prompt))
    assert answer[-1]["type"] == kind
    assert "busy" in json.dumps(answer[-1])


@pytest.mark.parametrize(
    ("garbage", "starts_with"), [("body", b"\xff\xfe"), ("json", b'{"hello"'), ("html", b"<html>")]
)
def test_garbage_comes_with_a_good_status(model: ScriptedModel, garbage: str, starts_with: bytes) -> None:
    """What a broken gateway sends is not the protocol, and says 200."""
    response, raw = ask(model, MESSAGES, messages(user(script({"garbage": garbage}))))
    assert response.status == 200
    assert raw.startswith(starts_with)


@pytest.mark.parametrize(
    ("point", "kinds"),
    [
        ("headers", []),
        ("start", ["message_start"]),
        ("mid", ["message_start", "content_block_start", "content_block_delta"]),
    ],
)
def test_a_stream_is_cut_where_the_step_says(model: ScriptedModel, point: str, kinds: list[str]) -> None:
    """`close` ends the connection after exactly the events before its point."""
    answer = played(model, MESSAGES, messages(user(script({"close": point}))))
    assert [each["type"] for each in answer] == kinds


def test_a_connection_is_cut_before_any_answer(model: ScriptedModel) -> None:
    """`close: accept` gives no byte."""
    with pytest.raises((HTTPException, ConnectionError)):
        ask(model, MESSAGES, messages(user(script({"close": "accept"}))))


def test_a_broken_stream_breaks_again_without_stream(model: ScriptedModel) -> None:
    """The silent second attempt of Claude does not heal a scripted break."""
    _, raw = ask(model, MESSAGES, messages(user(script({"close": "mid"})), stream=False))
    assert raw == b""


def sent(model: ScriptedModel, step: dict[str, Any]) -> socket.socket:
    """A client that has asked and waits."""
    body = json.dumps(messages(user(script(step)))).encode()
    client = socket.create_connection(("127.0.0.1", model.port), timeout=SECONDS_MAX)
    client.sendall(f"POST {MESSAGES} HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    return client


def hung(model: ScriptedModel, point: str) -> socket.socket:
    """A client whose answer hangs at the point."""
    client = sent(model, {"hang": point})
    assert model.wait_until(lambda: model.hanging == 1, SECONDS_MAX)
    return client


@pytest.mark.parametrize("point", ["accept", "headers", "start", "mid"])
def test_a_hang_ends_when_the_client_leaves(model: ScriptedModel, point: str) -> None:
    """No thread waits for a client that is gone."""
    hung(model, point).close()
    assert model.wait_until(lambda: model.hanging == 0, SECONDS_MAX)


def test_stop_ends_a_hung_client() -> None:
    """A test that ends takes its hung clients off the line."""
    with ScriptedModel() as model:
        client = hung(model, "accept")
    assert client.recv(1) == b""
    assert model.wait_until(lambda: model.hanging == 0, SECONDS_MAX)
    client.close()


def test_stop_ends_a_delayed_answer() -> None:
    """An answer that would come in an hour does not keep its client for an hour."""
    with ScriptedModel() as delayed:
        client = sent(delayed, {"text": "late", "delay": 3600})
        assert delayed.wait_until(lambda: len(delayed.requests) == 1, SECONDS_MAX)
    assert client.recv(1) == b""
    client.close()


def test_what_clients_ask_besides_is_answered(model: ScriptedModel) -> None:
    """Reachability checks, model lists and token counts work, and are listed as `other`."""
    connection = HTTPConnection("127.0.0.1", model.port, timeout=SECONDS_MAX)
    answers = []
    for method, path in [("HEAD", "/"), ("GET", "/v1/models"), ("POST", "/v1/messages/count_tokens")]:
        connection.request(method, path, b"{}" if method == "POST" else None)
        response = connection.getresponse()
        answers.append((response.status, response.read()))
    connection.close()
    assert answers == [(200, b""), (200, b'{"data": [], "models": []}'), (200, b'{"input_tokens": 10}')]
    assert {each.kind for each in model.requests} == {"other"}


def test_it_runs_as_a_command() -> None:
    """`python -m wakeful.testing.scripted_model` says its url and serves until it is ended."""
    command = [sys.executable, "-m", "wakeful.testing.scripted_model"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX).close()
        process.terminate()


def test_the_command_refuses_what_is_no_port() -> None:
    """A wrong argument is one line and exit 2."""
    command = [sys.executable, "-m", "wakeful.testing.scripted_model", "http"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
