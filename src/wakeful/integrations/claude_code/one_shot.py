"""One question to Claude Code's model, in a process of its own that keeps no session and has no tools."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from wakeful.core.decoding import decode_json
from wakeful.linux.client_asking import ClientAsking


class _Result(Struct):
    is_error: bool
    result: str = ""


class ClaudeOneShot:
    """Implements ports.one_shot.OneShot. `folder` is one of ours, with nothing in it."""

    def __init__(self, argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        self._client = ClientAsking(argv, folder, {**environ, "CLAUDE_CODE_MAX_RETRIES": "0"})

    async def ask(self, prompt: str, seconds_max: float) -> str | None:
        flags = ("--output-format", "json", "--max-turns", "1", "--no-session-persistence", "--tools", "")
        answer = await self._client.ask_model(prompt, seconds_max, "-p", *flags)
        try:
            said = decode_json(answer.output, _Result)
        except (msgspec.DecodeError, UnicodeError):
            return None
        return None if said.is_error else said.result
