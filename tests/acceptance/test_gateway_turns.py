"""Claims about turns with the real Claude Code and the real Codex: a message becomes a streamed answer, and goes on."""

import asyncio
from pathlib import Path

from support.cli_user import Operator, assert_ended_quietly
from support.gateway_process import GatewayFixture
from support.real_clients import ClaudeHome, CodexHome
from support.telegram_server import BotApi
from wakeful.client.api import Workspace
from wakeful.testing.scripted_model import script

FREE = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")


async def test_a_message_is_answered_by_claude_code(
    operator: Operator, claude: ClaudeHome, api: BotApi, tmp_path: Path
) -> None:
    """One session: words, a permission that a button gives, half an answer seen while the model hangs, /stop, and /new."""
    workspace = Workspace("claude", str(claude.project), ("claude",), claude.environ(), "")
    house = GatewayFixture(operator.daemon, api, tmp_path, workspace)
    async with house.gateway() as life:
        api.says(script({"text": "First I look."}))
        assert await life.answered(1) == ["First I look."]
        api.says(
            script(
                {"text": "Let me make it.", "tool": "Bash", "input": {"command": "touch made"}},
                {"text": "Made."},
            )
        )
        room = api.room(1)
        await life.until(lambda: any(each.labels for each in room.messages), "buttons")
        (asked,) = [each for each in room.messages if each.labels]
        assert "touch made" in asked.text
        api.presses(asked, asked.buttons[0][0]["callback_data"])
        assert "Let me make it.\n\nMade." in await life.answered(2)
        assert (claude.project / "made").exists()
        api.says(script({"text": "Half of an answer", "hang": "mid"}))
        await life.until(lambda: "Half of" in "".join(api.seen()), "streamed words")
        api.says("/stop")
        assert "Half of an answer\n\nStopped." in await life.answered(3)
        api.says(script({"text": "Here again."}))
        assert "Here again." in await life.answered(4)
        assert len(claude.logs()) == 1
        assert house.parts.plain.ends[1][0].cost_usd is not None
        api.says(script({"text": "Another half", "hang": "mid"}))
        await life.until(lambda: "Another" in "".join(api.seen()), "streamed words")
        api.says("/new")
        await life.until(lambda: "new conversation" in "".join(api.seen()), "its end")
        session_id = f"claude-{claude.logs()[0].stem}"
        # Confirmed after three seconds: what comes, comes within this time. The stop before counts as well.
        await asyncio.to_thread(assert_ended_quietly, operator.daemon, session_id, 5.0)


async def test_a_message_is_answered_by_codex(
    codex_operator: Operator, codex: CodexHome, api: BotApi, tmp_path: Path
) -> None:
    """Two turns of one thread, each a process of its own; a refused key is never shown."""
    workspace = Workspace("codex", str(codex.project), ("codex", *FREE), codex.environ(), "")
    house = GatewayFixture(codex_operator.daemon, api, tmp_path, workspace)
    async with house.gateway() as life:
        run = {"text": "I will run it", "tool": "exec_command", "input": {"cmd": "echo hi"}}
        api.says(script(run, {"text": "All done"}))
        assert await life.answered(1) == ["I will run it\n\nAll done"]
        api.says(script({"text": "Second answer"}))
        assert (await life.answered(2))[1:] == ["Second answer"]
        assert len(codex.logs()) == 1
        api.says(script({"status": 401}))
        seen = await life.answered(3)
        assert ("401" in "".join(seen), house.parts.door.told[-1]) == (False, ("failed", "codex"))
