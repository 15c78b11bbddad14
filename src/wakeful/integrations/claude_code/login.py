"""Checks the login of Claude Code, and asks its model a single question without storing a session.

`claude auth status` does not contact the server, so only a one-word turn proves the login. The output of the
login checks is never shown. A fingerprint of the credential files and variables shows when they change. Each
question runs in its own process, without tools.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.control.login import AuthEvent, AuthTier, auth_tier
from wakeful.core.decoding import decode_json
from wakeful.linux.run_command import PROBE_PROMPT, ClientCommands, credentials_fingerprint

_REFUSED: Final = (401, 403)
_VARIABLES: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_ONE_TURN: Final = ("--output-format", "json", "--max-turns", "1", "--no-session-persistence", "--tools", "")


class _Status(Struct, rename={"logged_in": "loggedIn"}):
    logged_in: bool


class _Result(Struct):
    is_error: bool
    result: str = ""
    api_error_status: int | None = None


class ClaudeLogin:
    """Implements control.login.ProviderLogin. A probe runs in `folder`, an empty one of Wakeful's."""

    provider = "claude"

    def __init__(self, argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        self._client = ClientCommands(argv, folder, {**environ, "CLAUDE_CODE_MAX_RETRIES": "0"})
        self._environ = environ

    async def status(self) -> AuthEvent:
        answer = await self._client.run_status("auth", "status")
        try:
            status = decode_json(answer.output, _Status)
        except (msgspec.DecodeError, UnicodeError):
            return AuthEvent.STATUS_UNKNOWN
        return AuthEvent.STATUS_GOOD if status.logged_in else AuthEvent.STATUS_GONE

    async def probe(self) -> AuthEvent:
        answer = await self._client.run_probe("-p", PROBE_PROMPT, *_ONE_TURN)
        try:
            result = decode_json(answer.output, _Result)
        except (msgspec.DecodeError, UnicodeError):
            return AuthEvent.STATUS_UNKNOWN
        if not result.is_error:
            return AuthEvent.TURN_WORKED
        refused = result.api_error_status in _REFUSED or auth_tier(result.result) is AuthTier.SURE
        return AuthEvent.PROBE_REFUSED if refused else AuthEvent.STATUS_UNKNOWN

    def credentials(self) -> str:
        folder = self._environ.get("CLAUDE_CONFIG_DIR") or f"{self._environ.get('HOME', '/')}/.claude"
        return credentials_fingerprint(
            (f"{folder}/.credentials.json", f"{folder}/settings.json"), self._environ, _VARIABLES
        )


class ClaudeOneShot:
    """Implements control.provider.OneShot. It runs in `folder`, an empty one of Wakeful's."""

    def __init__(self, argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        self._client = ClientCommands(argv, folder, {**environ, "CLAUDE_CODE_MAX_RETRIES": "0"})

    async def execute(self, prompt: str, seconds_max: float) -> str | None:
        answer = await self._client.run_model(prompt, seconds_max, "-p", *_ONE_TURN)
        try:
            result = decode_json(answer.output, _Result)
        except (msgspec.DecodeError, UnicodeError):
            return None
        return None if result.is_error else result.result
