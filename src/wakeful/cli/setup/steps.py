"""The steps of `wakeful setup`. Each makes a plan that can be shown, carried out and undone.

A step does what the command of its own does (`hooks install`, `autostart install`): there is no second way.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from wakeful.cli.commands.autostart import carry_out, left_out_text
from wakeful.cli.commands.hooks import NEXT_STEPS
from wakeful.cli.config_file import apply_change, plan_change, plan_removal
from wakeful.cli.difference import file_difference, settings_difference
from wakeful.cli.settings import load_settings
from wakeful.config.paths import StatePaths
from wakeful.config.state_dir import make_state_dir
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.text import plain
from wakeful.daemon import autostart
from wakeful.hooks.install import (
    CLIENTS,
    apply_plan,
    plan_install,
    plan_uninstall,
    read_settings,
    remove_settings,
    replace_settings,
    settings_path,
)
from wakeful.linux.child_environment import given_environ

COMPLETION_MARK: Final = "# wakeful completion"
CLIENT_SECONDS_MAX: Final = 60.0
Details = Mapping[str, Any]
"""What a step must remember to be undone."""


class StepRefused(OperatorError, code="step-refused"):
    """{reason}"""


class ClientFailed(WorldError, code="client-failed"):
    """`{command}` failed: {reason}"""


class StepPlan(Struct, frozen=True):
    """What a step would change. Without `apply` there is nothing to do, for the reason in `why`."""

    id: str
    title: str
    why: str
    lines: tuple[str, ...] = ()
    apply: Callable[[], None] | None = None
    then: str = ""
    details: dict[str, Any] = {}


def hook_plans(environ: Mapping[str, str], paths: StatePaths) -> Iterator[StepPlan]:
    """One for each client that has a folder."""
    title = "Hooks of {}: its questions are reported at once"
    found = [each for each in CLIENTS if settings_path(each, environ).parent.is_dir()]
    if not found:
        yield StepPlan(
            "hooks", title.format("your clients"), "neither Claude Code nor Codex has been started here yet"
        )
    for client in found:
        name = title.format({"claude": "Claude Code", "codex": "Codex"}[client])
        plan = plan_install(client, environ, paths)
        if plan.is_done:
            yield StepPlan(f"hooks {client}", name, f"installed in {plan.path}")
            continue
        lines = tuple(settings_difference(plan.path, plan.before, plan.after))

        def install(plan: Any = plan) -> None:
            # The spool must be there before a hook is.
            make_state_dir(paths)
            apply_plan(plan)

        yield StepPlan(f"hooks {client}", name, "", lines, install, NEXT_STEPS[client])


def undo_hooks(client: str, environ: Mapping[str, str]) -> StepPlan:
    plan = plan_uninstall(client, environ)
    lines = tuple(settings_difference(plan.path, plan.before, plan.after))
    return StepPlan(
        f"hooks {client}",
        f"Hooks of {client}",
        f"{plan.path} has none",
        lines,
        None if plan.is_done else partial(apply_plan, plan),
    )


def has_channel(config_file: str | None = None) -> bool:
    alerts = load_settings(config_file).config.alerts
    return bool(alerts.telegram_token or alerts.urls)


def alert_plan(values: Mapping[str, Any], config_file: str | None = None) -> StepPlan:
    """`values` are the keys that the operator chose; without any the desktop gets the alerts."""
    title = "Alerts: a message when a session needs you or fails"
    if has_channel(config_file):
        return StepPlan("alerts", title, "a channel is set up; test it: wakeful alerts test")
    if not values:
        return StepPlan(
            "alerts",
            title,
            "no channel yet; only the desktop gets alerts. To choose one: wakeful setup alerts",
        )
    plan = plan_change(config_file, values)
    return StepPlan(
        "alerts", title, "", tuple(plan.lines()), partial(apply_change, plan), "test it: wakeful alerts test",
        {"keys": list(values), "file": str(plan.path), "made": plan.before is None},
    )  # fmt: skip


def undo_alerts(details: Details) -> StepPlan:
    plan = plan_removal(str(details["file"]), tuple(details["keys"]), made=bool(details.get("made")))
    title = f"Alerts: {', '.join(details['keys'])}"
    if plan.is_done:
        return StepPlan("alerts", title, f"{plan.path} does not set them")
    return StepPlan("alerts", title, "", tuple(plan.lines()), partial(apply_change, plan))


def autostart_plan(environ: Mapping[str, str]) -> StepPlan:
    title = "Autostart: systemd starts Wakeful at your login and restarts it"
    plan = autostart.plan_install(environ, watch_only=False)
    if plan.is_done:
        return StepPlan("autostart", title, f"installed: {plan.path}")
    reason = autostart.missing_manager()
    if reason is not None:
        return StepPlan("autostart", title, reason)
    lines = tuple(file_difference(plan.path, plan.before, plan.after))
    left_out = left_out_text(plan) if plan.left_out else ""
    return StepPlan("autostart", title, "", lines, partial(carry_out, plan), left_out)


def undo_autostart(environ: Mapping[str, str]) -> StepPlan:
    plan = autostart.plan_remove(environ)
    lines = tuple(file_difference(plan.path, plan.before, plan.after))
    apply = None if plan.is_done else partial(autostart.remove, plan)
    return StepPlan("autostart", "Autostart", f"{plan.path} does not exist", lines, apply)


def completion_plan(environ: Mapping[str, str]) -> StepPlan:
    """One line in the shell's own file."""
    title = "Completion: the shell completes commands and names of sessions"
    shell = environ.get("SHELL", "").rpartition("/")[2]
    path = _shell_file(shell, environ)
    if path is None:
        return StepPlan(
            "completion",
            title,
            f"no completion for the shell {shell or '(none)'}: only bash, zsh and fish have one",
        )
    before = read_settings(path) if path.parent.is_dir() else None
    text = os.fsdecode(before or b"")
    if COMPLETION_MARK in text or f"wakeful completion {shell}" in text:
        return StepPlan("completion", title, f"installed in {path}")
    line = f"{_completion_line(shell)}  {COMPLETION_MARK}\n"
    after = f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}"
    return StepPlan(
        "completion", title, "", tuple(file_difference(path, None if before is None else text, after)),
        partial(_write, path, before, os.fsencode(after)), "a new shell has it",
        {"file": str(path), "made": before is None, "newline": bool(text) and not text.endswith("\n")},
    )  # fmt: skip


def undo_completion(details: Details) -> StepPlan:
    path = Path(details["file"])
    before = read_settings(path) if path.parent.is_dir() else None
    lines = os.fsdecode(before or b"").splitlines(keepends=True)
    after = "".join(line for line in lines if not line.rstrip().endswith(COMPLETION_MARK))
    if details.get("newline") and lines and lines[-1].rstrip().endswith(COMPLETION_MARK):
        # The line before had no end of its own.
        after = after.removesuffix("\n")
    if before is None or os.fsencode(after) == before:
        return StepPlan("completion", "Completion", f"{path} has no line from Wakeful")
    rest = None if not after and details.get("made") else after
    return StepPlan(
        "completion", "Completion", "", tuple(file_difference(path, os.fsdecode(before), rest)),
        partial(_write, path, before, None if rest is None else os.fsencode(rest)),
    )  # fmt: skip


def _shell_file(shell: str, environ: Mapping[str, str]) -> Path | None:
    home = environ.get("HOME", "")
    config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    files = {
        "bash": f"{home}/.bashrc",
        "zsh": f"{environ.get('ZDOTDIR') or home}/.zshrc",
        "fish": f"{config}/fish/completions/wakeful.fish",
    }
    return Path(files[shell]) if home and shell in files else None


def _completion_line(shell: str) -> str:
    command = shlex.quote(wakeful_command())
    if shell == "fish":
        return f"command -q {command}; and {command} completion fish | source"
    return f'command -v {command} >/dev/null && eval "$({command} completion {shell})"'


def wakeful_command() -> str:
    """How a shell or client starts Wakeful: by name where it is on PATH, else by this installation's path."""
    import sys  # noqa: PLC0415 - for its interpreter's folder

    return "wakeful" if shutil.which("wakeful") else str(Path(sys.executable).with_name("wakeful"))


def _write(path: Path, before: bytes | None, after: bytes | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if after is not None:
        replace_settings(path, before, after)
    elif before is not None:
        remove_settings(path, before)


def mcp_plan(environ: Mapping[str, str]) -> StepPlan:
    """Claude Code keeps its servers in a file that it rewrites while it runs, so its own command adds one."""
    title = "MCP: your agents can ask Wakeful about sessions (read-only)"
    if shutil.which("claude", path=environ.get("PATH")) is None:
        return StepPlan(
            "mcp", title, "Claude Code is not installed; for other clients see docs/how-to/mcp.md"
        )
    if _claude(environ, "mcp", "get", "wakeful").returncode == 0:
        return StepPlan("mcp", title, "Claude Code has a server named wakeful")
    words = ("mcp", "add", "--scope", "user", "wakeful", "--", wakeful_command(), "mcp")
    return StepPlan(
        "mcp", title, "", (f"$ {shlex.join(('claude', *words))}",), partial(_run_claude, environ, words)
    )


def undo_mcp(environ: Mapping[str, str]) -> StepPlan:
    words = ("mcp", "remove", "--scope", "user", "wakeful")
    if (
        shutil.which("claude", path=environ.get("PATH")) is None
        or _claude(environ, "mcp", "get", "wakeful").returncode
    ):
        return StepPlan("mcp", "MCP", "Claude Code has no server named wakeful")
    return StepPlan(
        "mcp", "MCP", "", (f"$ {shlex.join(('claude', *words))}",), partial(_run_claude, environ, words)
    )


def _run_claude(environ: Mapping[str, str], words: tuple[str, ...]) -> None:
    done = _claude(environ, *words)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace") or done.stdout.decode(errors="replace")
        raise ClientFailed(command=shlex.join(("claude", *words)), reason=plain(said, 300))


def _claude(environ: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ("claude", *words),
            env=given_environ(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CLIENT_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise ClientFailed(
            command=shlex.join(("claude", *words)), reason=plain(str(problem), 300)
        ) from problem


def undo_plan(step: str, details: Details, environ: Mapping[str, str]) -> StepPlan:
    """How to undo a step that an earlier `setup` carried out. Raises StepRefused for a record of another form."""
    name, _, client = step.partition(" ")
    try:
        if name == "hooks" and client in CLIENTS:
            return undo_hooks(client, environ)
        if name == "alerts":
            return undo_alerts(details)
        if name == "autostart":
            return undo_autostart(environ)
        if name == "completion":
            return undo_completion(details)
        if name == "mcp":
            return undo_mcp(environ)
    except (KeyError, TypeError, ValueError) as problem:
        raise StepRefused(reason=f"{plain(step, 60)}: its record in setup.json is damaged") from problem
    raise StepRefused(reason=f"{plain(step, 60)}: recorded by another version of Wakeful")


def asked_values(is_wanted: Callable[[str], str], read_secret: Callable[[str], str]) -> dict[str, Any]:
    """The channel that the operator types in; empty for none."""
    choice = is_wanted(
        "Send alerts to 1: Telegram, 2: an apprise address (ntfy, mail, Slack), Enter: the desktop only. "
    )
    if choice == "1":
        token = read_secret("Token of your bot, from @BotFather")
        chat = is_wanted("Id of your chat: ")
        return {"alerts.telegram_token": token, "alerts.telegram_chat": chat} if token and chat else {}
    if choice == "2":
        address = read_secret("Address, like ntfys://ntfy.sh/a-long-random-topic")
        return {"alerts.urls": [address]} if address else {}
    return {}
