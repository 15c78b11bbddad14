"""Checks the login of Codex, and asks its model a single question without storing a session.

`codex login status` also says "not logged in" if another provider needs no login, so only a one-word turn proves
the login. A fingerprint of the credential files and variables shows when they change. Each question runs in its
own process with a read-only sandbox.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.control.login import AuthEvent, AuthTier, auth_tier
from wakeful.core.decoding import decode_json
from wakeful.linux.run_command import PROBE_PROMPT, ClientCommands, credentials_fingerprint

_LOGGED_OUT: Final = b"Not logged in"
_VARIABLES: Final = ("OPENAI_API_KEY", "CODEX_API_KEY")
_ONE_TURN: Final = ("exec", "--json", "--skip-git-repo-check", "--ephemeral", "-s", "read-only")


class _Error(Struct):
    message: str = ""


class _Item(Struct):
    type: str = ""
    text: str = ""


class _Line(Struct):
    type: str
    error: _Error = msgspec.field(default_factory=_Error)
    item: _Item = msgspec.field(default_factory=_Item)


class CodexLogin:
    """Implements control.login.ProviderLogin. A probe runs in `folder`, an empty one of Wakeful's."""

    provider = "codex"

    def __init__(self, argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        self._client = ClientCommands(argv, folder, environ)
        self._environ = environ

    async def status(self) -> AuthEvent:
        answer = await self._client.run_status("login", "status")
        if answer.exit_code == 0:
            return AuthEvent.STATUS_GOOD
        is_logged_out = _LOGGED_OUT in answer.errors + answer.output
        return AuthEvent.STATUS_GONE if is_logged_out else AuthEvent.STATUS_UNKNOWN

    async def probe(self) -> AuthEvent:
        answer = await self._client.run_probe(*_ONE_TURN, PROBE_PROMPT)
        ends = [line for line in _lines(answer.output) if line.type in {"turn.completed", "turn.failed"}]
        if ends and ends[-1].type == "turn.completed":
            return AuthEvent.TURN_WORKED
        sure = bool(ends) and auth_tier(ends[-1].error.message[:300]) is AuthTier.SURE
        return AuthEvent.PROBE_REFUSED if sure else AuthEvent.STATUS_UNKNOWN

    def credentials(self) -> str:
        folder = self._environ.get("CODEX_HOME") or f"{self._environ.get('HOME', '/')}/.codex"
        return credentials_fingerprint(
            (f"{folder}/auth.json", f"{folder}/config.toml"), self._environ, _VARIABLES
        )


class CodexOneShot:
    """Implements control.provider.OneShot. It runs in `folder`, an empty one of Wakeful's."""

    def __init__(self, argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        self._client = ClientCommands(argv, folder, environ)

    async def execute(self, prompt: str, seconds_max: float) -> str | None:
        answer = await self._client.run_model(prompt, seconds_max, *_ONE_TURN, "-")
        lines = list(_lines(answer.output))
        if not any(line.type == "turn.completed" for line in lines):
            return None
        texts = [line.item.text for line in lines if line.item.type == "agent_message"]
        return texts[-1] if texts else None


def _lines(output: bytes) -> Iterator[_Line]:
    """The lines that are records of this shape."""
    for line in output.splitlines():
        with suppress(msgspec.DecodeError, UnicodeError):
            yield decode_json(line, _Line)
