"""Claims about which processes are clients: by the executable the kernel names, and by their arguments."""

import pytest

from wakeful.linux.client_processes import CLIENTS, runs_client

PACKAGE = "/usr/lib/node_modules/@anthropic-ai/claude-code"
Words = tuple[str, ...]

REAL: tuple[tuple[str, str | None, Words], ...] = (
    ("claude", f"{PACKAGE}/bin/claude.exe", ("claude", "--settings", "{}")),
    ("claude", "/home/u/.local/share/claude/versions/2.1.197", ("claude",)),
    ("claude", "/home/u/.local/share/claude/versions/2.1.196 (deleted)", ("claude", "--resume")),
    ("claude", "/usr/bin/node", ("node", f"{PACKAGE}/cli.js", "-p", "hello")),
    ("claude", "/usr/bin/node", ("node", "--max-old-space-size=8192", "-r", "x.js", f"{PACKAGE}/cli.js")),
    ("claude", "/usr/bin/node", ("node", "/home/u/.npm/_npx/0a1b/node_modules/.bin/claude")),
    ("claude", "/usr/bin/node", ("claude", "", "")),
    ("claude", "/home/u/.bun/bin/bun", ("bun", "run", f"{PACKAGE}/cli.js")),
    ("claude", "/usr/bin/node", ("node", "/app/node_modules/@anthropic-ai/claude-agent-sdk/cli.js")),
    ("claude", "/opt/ext/anthropic.claude-code-2.1.0/resources/native-binary/claude", ("claude",)),
    ("claude", "/usr/bin/python3.11", ("python3", "-SI", "/tmp/claude", "-p")),
    ("claude", "/usr/bin/python3.13t", ("python3", "/tmp/claude")),
    ("claude", "/usr/bin/node-22", ("claude",)),
    ("claude", None, ("claude", "-c")),
    ("codex", "/usr/lib/node_modules/@openai/codex/vendor/x86_64/codex/codex", ("codex", "exec", "-")),
    ("codex", "/usr/local/bin/codex-x86_64-unknown-linux-musl", ("codex",)),
    ("codex", "/usr/bin/node", ("node", "/usr/bin/codex", "exec")),
)
OTHER: tuple[tuple[str, str | None, Words], ...] = (
    ("claude", "/usr/bin/sleep", ("claude", "1000")),
    ("claude", "/usr/bin/bash", ("bash", "-c", "claude --resume")),
    ("claude", "/usr/bin/bash", ("-bash",)),
    ("claude", "/usr/bin/vim", ("vim", "claude")),
    ("claude", "/usr/bin/sudo", ("sudo", "claude")),
    ("claude", "/usr/bin/script", ("script", "-qc", "claude")),
    ("claude", "/usr/bin/tmux", ("tmux", "new", "claude")),
    ("claude", "/usr/bin/node", ("node", "server.js", "/srv/claude")),
    ("claude", "/usr/bin/node", ("node", "/srv/other/cli.js")),
    ("claude", "/usr/bin/python3.11", ("python3", "-m", "wakeful", "up")),
    ("claude", "/usr/bin/python3.11", ("claude", "serve.py")),
    ("claude", "/usr/bin/python3.11", ("python3", "-c", "import x\n#/claude")),
    ("claude", "/usr/bin/python3.11", ("python3", "-Ic", "import x", "/srv/claude")),
    ("claude", "/usr/bin/python3.11", ("python3", "-uc", "#/claude")),
    ("claude", "/usr/bin/node", ("node", "-e", "//claude")),
    ("claude", "/usr/bin/node", ("node", "--eval=1", "claude")),
    ("claude", "/usr/bin/bunzip2", ("claude",)),
    ("claude", "/usr/bin/bunzip2", ("bunzip2", "-k", "claude")),
    ("codex", "/usr/bin/node_exporter", ("node_exporter", "codex")),
    ("claude", "/usr/lib/systemd/systemd", ("/sbin/init",)),
    ("claude", f"{PACKAGE}/bin/claude.exe", ()),
    ("codex", f"{PACKAGE}/bin/claude.exe", ("claude",)),
    ("codex", "/usr/bin/codex-tunnel", ("codex-tunnel",)),
    ("claude", None, ("sleep",)),
)


@pytest.mark.parametrize(("provider", "executable", "words"), REAL)
def test_every_way_a_client_is_installed_counts(provider: str, executable: str | None, words: Words) -> None:
    """Native, replaced by an update, below Node, Bun, npx or Python, and where the kernel hides the executable."""
    assert runs_client(executable, words, CLIENTS[provider])


@pytest.mark.parametrize(("provider", "executable", "words"), OTHER)
def test_what_only_mentions_a_client_does_not_count(
    provider: str, executable: str | None, words: Words
) -> None:
    """A program that calls itself so, its wrappers, an editor, another script, and a process that has no arguments."""
    assert not runs_client(executable, words, CLIENTS[provider])
