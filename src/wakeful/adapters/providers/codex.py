"""Codex: one process for each turn. It knows no permission questions without a terminal: what it may do is its sandbox."""

from collections.abc import Mapping
from typing import Final

from wakeful.adapters.codex.driver import CodexDriver
from wakeful.adapters.codex.hearing import CodexHearing
from wakeful.adapters.codex.login import CodexLogin
from wakeful.adapters.codex.one_shot import CodexOneShot
from wakeful.ports.provider import Provider

_SANDBOXES: Final[Mapping[str, tuple[str, ...]]] = {
    "default": ("-s", "workspace-write"),
    "acceptEdits": ("-s", "workspace-write"),
    "plan": ("-s", "read-only"),
    "bypassPermissions": ("--dangerously-bypass-approvals-and-sandbox",),
}

PROVIDER = Provider(
    name="codex",
    driver=CodexDriver,
    hearing=CodexHearing,
    login=CodexLogin,
    one_shot=CodexOneShot,
    flags=lambda mode: ("--skip-git-repo-check", *_SANDBOXES[mode]),
    subcommand=("exec",),
)
