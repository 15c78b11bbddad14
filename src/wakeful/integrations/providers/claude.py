"""Provider Claude Code: one process per conversation, which asks for permissions itself."""

from wakeful.control.provider import Provider
from wakeful.integrations.claude_code.driver import ClaudeDriver
from wakeful.integrations.claude_code.login import ClaudeLogin, ClaudeOneShot
from wakeful.integrations.claude_code.turn_reader import ClaudeTurnReader

PROVIDER = Provider(
    name="claude",
    driver=lambda run, clock, _environ: ClaudeDriver(run, clock),
    turn_reader=ClaudeTurnReader,
    login=ClaudeLogin,
    one_shot=ClaudeOneShot,
    flags=lambda mode: () if mode == "default" else ("--permission-mode", mode),
)
