"""The logins of the real clients: what their status commands say, and what a probe turn proves."""

import asyncio
from pathlib import Path

from support.http_server import Behaviour, ScriptedHttp, answer
from support.real_clients import ClaudeHome, CodexHome
from wakeful.control.login import AuthEvent
from wakeful.integrations.claude_code.login import ClaudeLogin
from wakeful.integrations.codex.login import CodexLogin

WORDS = {401: ("authentication_error", "invalid x-api-key"), 500: ("api_error", "boom")}


def refuses(status: int) -> Behaviour:
    kind, message = WORDS[status]
    return answer(status, {"type": "error", "error": {"type": kind, "message": message}})


def test_claude_says_whether_it_has_credentials(claude_home: ClaudeHome, tmp_path: Path) -> None:
    """With a key it is logged in, without one it is not; a client that is not there says nothing."""
    environ = claude_home.environ()
    keyless = {name: value for name, value in environ.items() if name != "ANTHROPIC_API_KEY"}
    folder = str(tmp_path / "probe")
    good, gone = ClaudeLogin(["claude"], folder, environ), ClaudeLogin(["claude"], folder, keyless)
    assert asyncio.run(good.status()) is AuthEvent.STATUS_GOOD
    assert asyncio.run(gone.status()) is AuthEvent.STATUS_GONE
    assert good.credentials() != gone.credentials()
    missing = ClaudeLogin(["no-such-claude"], folder, environ)
    assert asyncio.run(missing.status()) is AuthEvent.STATUS_UNKNOWN


def test_a_probe_of_claude_is_a_turn_that_leaves_nothing_behind(
    claude_home: ClaudeHome, tmp_path: Path
) -> None:
    """It works against a model that answers, and no transcript of it is ever a session."""
    login = ClaudeLogin(["claude"], str(tmp_path / "probe"), claude_home.environ())
    assert asyncio.run(login.probe()) is AuthEvent.TURN_WORKED
    assert not list((claude_home.home / ".claude").glob("projects/*/*.jsonl"))


def test_a_probe_of_claude_is_refused_by_a_server_that_refuses(
    claude_home: ClaudeHome, tmp_path: Path
) -> None:
    """A server that fails otherwise proves nothing."""

    async def tried(status: int) -> AuthEvent:
        async with ScriptedHttp(refuses(status)) as server:
            environ = {**claude_home.environ(), "ANTHROPIC_BASE_URL": server.url}
            login = ClaudeLogin(["claude"], str(tmp_path / "probe"), environ)
            return await login.probe()

    assert asyncio.run(tried(401)) is AuthEvent.PROBE_REFUSED
    assert asyncio.run(tried(500)) is AuthEvent.STATUS_UNKNOWN


def test_codex_with_a_provider_of_its_own_works_without_a_login(
    codex_home: CodexHome, tmp_path: Path
) -> None:
    """Its status says that it is not logged in, and a turn works: the status alone means nothing."""
    login = CodexLogin(["codex"], str(tmp_path / "probe"), codex_home.environ())
    assert asyncio.run(login.status()) is AuthEvent.STATUS_GONE
    assert asyncio.run(login.probe()) is AuthEvent.TURN_WORKED
    assert not codex_home.logs()


def test_a_probe_of_codex_is_refused_by_a_server_that_refuses(codex_home: CodexHome, tmp_path: Path) -> None:
    """The client's own words say why; credentials that change are noticed by their file."""
    config = codex_home.home / ".codex" / "config.toml"

    async def tried(status: int) -> AuthEvent:
        async with ScriptedHttp(refuses(status)) as server:
            config.write_text(config.read_text().replace(codex_home.model.url, server.url))
            codex_home.model.url = server.url
            return await login.probe()

    login = CodexLogin(["codex"], str(tmp_path / "probe"), codex_home.environ())
    before = login.credentials()
    assert asyncio.run(tried(401)) is AuthEvent.PROBE_REFUSED
    assert asyncio.run(tried(500)) is AuthEvent.STATUS_UNKNOWN
    assert login.credentials() != before
