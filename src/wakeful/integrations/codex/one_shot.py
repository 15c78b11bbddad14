"""One question to Codex's model, in a process of its own that keeps no session and may only read."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from wakeful.core.decoding import decode_json
from wakeful.linux.client_asking import ClientAsking


class _Item(Struct):
    type: str = ""
    text: str = ""


class _Line(Struct):
    type: str
    item: _Item = msgspec.field(default_factory=_Item)


class CodexOneShot:
    """Implements ports.one_shot.OneShot. `folder` is one of ours, with nothing in it."""

    def __init__(self, argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        self._client = ClientAsking(argv, folder, environ)

    async def ask(self, prompt: str, seconds_max: float) -> str | None:
        flags = ("--json", "--skip-git-repo-check", "--ephemeral", "-s", "read-only", "-")
        answer = await self._client.ask_model(prompt, seconds_max, "exec", *flags)
        lines = [line for each in answer.output.splitlines() if (line := _read(each)) is not None]
        if not any(line.type == "turn.completed" for line in lines):
            return None
        said = [line.item.text for line in lines if line.item.type == "agent_message"]
        return said[-1] if said else None


def _read(line: bytes) -> _Line | None:
    try:
        return decode_json(line, _Line)
    except (msgspec.DecodeError, UnicodeError):
        return None
