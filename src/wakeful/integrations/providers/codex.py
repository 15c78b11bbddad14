"""Provider Codex: one process per turn, limited by its sandbox; it asks no permissions without a terminal."""

from collections.abc import Mapping
from typing import Final

from wakeful.control.provider import Provider
from wakeful.integrations.codex.driver import CodexDriver
from wakeful.integrations.codex.login import CodexLogin, CodexOneShot
from wakeful.integrations.codex.turn_reader import CodexTurnReader

_SANDBOXES: Final[Mapping[str, tuple[str, ...]]] = {
    "default": ("-s", "workspace-write"),
    "acceptEdits": ("-s", "workspace-write"),
    "plan": ("-s", "read-only"),
    "bypassPermissions": ("--dangerously-bypass-approvals-and-sandbox",),
}

PROVIDER = Provider(
    name="codex",
    driver=CodexDriver,
    turn_reader=CodexTurnReader,
    login=CodexLogin,
    one_shot=CodexOneShot,
    flags=lambda mode: ("--skip-git-repo-check", *_SANDBOXES[mode]),
    subcommand=("exec",),
)
