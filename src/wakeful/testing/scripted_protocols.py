"""The two model protocols, Anthropic Messages and OpenAI Responses, in the smallest correct subset. Pure.

Request bodies in, events out. Between the events of an answer are the points at which a script may hang or
close the connection; no socket is used here.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import uuid4

from wakeful.testing.scripted_steps import DONE, Call, ModelStep, Point, ShellCall, find_script

# The text of a stream before it breaks in the middle.
_PARTIAL_TEXT: Final = "Let me "
_MCP: Final = "mcp__"
_CALL_ITEMS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    kind: str
    facts: Mapping[str, Any]

    def encode(self) -> bytes:
        return f"event: {self.kind}\ndata: {json.dumps({'type': self.kind, **self.facts})}\n\n".encode()


RequestKind = Literal["messages", "responses", "side", "other"]
AnswerParts = Iterator[ServerSentEvent | Point]


@dataclass(frozen=True, slots=True)
class ScriptPosition:
    """The script of a request's last scripted prompt, and how many answers that prompt has had."""

    steps: Sequence[ModelStep]
    index: int


@dataclass(frozen=True, slots=True)
class ModelProtocol:
    kind: RequestKind
    path_end: str
    conversation_key: str
    answers_in: Callable[[Sequence[Mapping[str, Any]]], int]
    is_side_call: Callable[[Mapping[str, Any]], bool]
    answer: Callable[[ModelStep, str], AnswerParts]
    document: Callable[[ModelStep, str], Mapping[str, Any]]

    def read(self, body: Mapping[str, Any]) -> ScriptPosition:
        """The script in the request; without one the model is done. Raises BadScript."""
        messages = body.get(self.conversation_key, [])
        for position in reversed(range(len(messages))):
            message = messages[position]
            steps = find_script(_text(message.get("content"))) if message.get("role") == "user" else None
            if steps is not None:
                return ScriptPosition(steps, self.answers_in(messages[position + 1 :]))
        return ScriptPosition((DONE,), 0)


def error_document(status: int, message: str | None = None) -> dict[str, Any]:
    """The body of a failed request, close enough to both vendors' that both clients quote the message."""
    error_type, usual_message = _ERRORS.get(status, ("api_error", f"scripted {status}"))
    return {"type": "error", "error": {"type": error_type, "message": message or usual_message}}


_ERRORS: Final = {
    400: ("invalid_request_error", "scripted 400"),
    # Claude Code reports a wrong key only for exactly these words.
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "scripted 403"),
    429: ("rate_limit_error", "scripted 429"),
    529: ("overloaded_error", "scripted 529"),
}


def _text(content: Any) -> str:
    """The text of a message, without tool results: a script that a tool printed does not count."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])


def _new_id(prefix: str) -> str:
    # Clients reject a conversation in which a tool id occurs twice, also after a resume with a new server.
    return f"{prefix}_{uuid4().hex[:20]}"


def _text_of_step(step: ModelStep) -> str | None:
    return _PARTIAL_TEXT if step.text is None and step.breaks_at(Point.MID) else step.text


def _messages_call(call: Call) -> tuple[str, Mapping[str, Any]]:
    if isinstance(call, ShellCall):
        return "Bash", {"command": call.command, "description": "scripted"}
    return call.name, call.input


def _message_blocks(step: ModelStep) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Each content block: its opening, its one delta, and the whole block."""
    text = _text_of_step(step)
    if text is not None:
        whole = {"type": "text", "text": text}
        yield whole | {"text": ""}, {"type": "text_delta", "text": text}, whole
    for call in step.calls:
        name, arguments = _messages_call(call)
        opening = {"type": "tool_use", "id": _new_id("toolu"), "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        yield opening, delta, opening | {"input": arguments}


def _message(step: ModelStep, model: str) -> dict[str, Any]:
    """A whole message, which Claude requests after a broken stream."""
    return {
        "id": _new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [whole for _, _, whole in _message_blocks(step)],
        "stop_reason": "tool_use" if step.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }


def _message_events(step: ModelStep, model: str) -> AnswerParts:
    opening = _message(ModelStep(), model) | {
        "stop_reason": None,
        "usage": {"input_tokens": 5, "output_tokens": 1},
    }
    yield ServerSentEvent("message_start", {"message": opening})
    yield Point.START
    if step.sse_error is not None:
        yield ServerSentEvent("error", {"error": step.sse_error})
        return
    for index, (begun, delta, _) in enumerate(_message_blocks(step)):
        yield ServerSentEvent("content_block_start", {"index": index, "content_block": begun})
        yield ServerSentEvent("content_block_delta", {"index": index, "delta": delta})
        yield Point.MID
        yield ServerSentEvent("content_block_stop", {"index": index})
    reason = "tool_use" if step.calls else "end_turn"
    ended = {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 7}}
    yield ServerSentEvent("message_delta", ended)
    yield ServerSentEvent("message_stop", {})


def _responses_call(call: Call) -> tuple[str, Mapping[str, Any]]:
    if isinstance(call, ShellCall):
        return "exec_command", {"cmd": call.command}
    return call.name, call.input


def _response_answers(items: Sequence[Mapping[str, Any]]) -> int:
    """An answer is a run of the model's items: its text and the calls that it makes at once."""
    answers, inside = 0, False
    for item in items:
        of_model = item.get("type") in _CALL_ITEMS or item.get("role") == "assistant"
        answers += of_model and not inside
        inside = of_model
    return answers


def _response_items(step: ModelStep) -> Iterator[dict[str, Any]]:
    text = _text_of_step(step)
    if text is not None:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        yield {"type": "message", "id": _new_id("msg"), "role": "assistant", "content": content}
    for call in step.calls:
        name, arguments = _responses_call(call)
        ids = {"id": _new_id("fc"), "call_id": _new_id("call")}
        fields = {**ids, **_tool_name_fields(name), "arguments": json.dumps(arguments)}
        yield {"type": "function_call", **fields}


def _tool_name_fields(name: str) -> dict[str, str]:
    """A tool of an MCP server (`mcp__SERVER__TOOL`) is in the namespace of its server."""
    server, _, tool = name.removeprefix(_MCP).partition("__")
    if not name.startswith(_MCP) or not tool:
        return {"name": name}
    return {"namespace": f"{_MCP}{server}", "name": tool}


def _response_item_events(index: int, item: Mapping[str, Any]) -> AnswerParts:
    if item["type"] == "message":
        yield ServerSentEvent(
            "response.output_item.added", {"output_index": index, "item": {**item, "content": []}}
        )
        delta = {"item_id": item["id"], "output_index": index, "content_index": 0}
        yield ServerSentEvent("response.output_text.delta", {**delta, "delta": item["content"][0]["text"]})
        yield Point.MID
    yield ServerSentEvent("response.output_item.done", {"output_index": index, "item": item})


def _response(step: ModelStep, _model: str) -> dict[str, Any]:
    return {
        "id": _new_id("resp"),
        "object": "response",
        "status": "completed",
        "output": list(_response_items(step)),
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        },
    }


def _response_events(step: ModelStep, model: str) -> AnswerParts:
    whole = _response(step, model)
    opening = {"id": whole["id"], "object": "response", "status": "in_progress", "output": []}
    yield ServerSentEvent("response.created", {"response": opening})
    yield Point.START
    if step.sse_error is not None:
        failed = {"id": whole["id"], "status": "failed", "error": step.sse_error}
        yield ServerSentEvent("response.failed", {"response": failed})
        return
    for index, item in enumerate(whole["output"]):
        yield from _response_item_events(index, item)
    yield ServerSentEvent("response.completed", {"response": whole})


PROTOCOLS: Final = (
    ModelProtocol(
        kind="messages",
        path_end="/messages",
        conversation_key="messages",
        answers_in=lambda messages: sum(message.get("role") == "assistant" for message in messages),
        # Claude Code asks for titles and summaries on the side, and offers no tools then.
        is_side_call=lambda body: not body.get("tools"),
        answer=_message_events,
        document=_message,
    ),
    ModelProtocol(
        kind="responses",
        path_end="/responses",
        conversation_key="input",
        answers_in=_response_answers,
        is_side_call=lambda _: False,
        answer=_response_events,
        document=_response,
    ),
)
