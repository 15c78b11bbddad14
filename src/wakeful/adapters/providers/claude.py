"""Claude Code: one process for a conversation, which asks for permissions itself."""

from wakeful.adapters.claude_code.driver import ClaudeDriver
from wakeful.adapters.claude_code.hearing import ClaudeHearing
from wakeful.adapters.claude_code.login import ClaudeLogin
from wakeful.adapters.claude_code.one_shot import ClaudeOneShot
from wakeful.ports.provider import Provider


def _flags(mode: str) -> tuple[str, ...]:
    return () if mode == "default" else ("--permission-mode", mode)


PROVIDER = Provider(
    name="claude",
    driver=lambda run, clock, _environ: ClaudeDriver(run, clock),
    hearing=ClaudeHearing,
    login=ClaudeLogin,
    one_shot=ClaudeOneShot,
    flags=_flags,
)
