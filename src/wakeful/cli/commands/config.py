"""Commands `wakeful config init|show|check|trust`, and the meaning of every key.

`wakeful config import` is in `gateway.py`.
"""

import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from wakeful.cli import settings as trusting
from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.options import json_option
from wakeful.cli.output import print_line, print_note, print_record, wall_now
from wakeful.cli.settings import load_settings
from wakeful.config.edit import fragment_values, toml as _toml
from wakeful.config.gateway import CHAT_KEYS, CHATS, MEANINGS as GATEWAY_MEANINGS
from wakeful.config.heartbeat import MEANINGS as HEARTBEAT_MEANINGS
from wakeful.config.load import FILE_BYTES_MAX, Document, LoadedConfig, combine, read_file
from wakeful.config.paths import StatePaths
from wakeful.config.schema import AGENT_KEYS, DOCKER_ONLY, KEYS, ConfigError
from wakeful.config.trust import TrustFile
from wakeful.core.clock import iso
from wakeful.core.errors import OperatorError
from wakeful.core.text import plain

_MODULE: Final = "wakeful.cli.commands.config"
COMMANDS: Final = {
    "init": CommandEntry("Set up", f"{_MODULE}:init", "Write a commented file to start from"),
    "show": CommandEntry("Set up", f"{_MODULE}:show", "Show every value and its origin"),
    "check": CommandEntry("Set up", f"{_MODULE}:check", "Check whether the configuration is valid"),
    "trust": CommandEntry(
        "Set up", f"{_MODULE}:trust", "Trust ./wakeful.toml or a HEARTBEAT.md as it is now"
    ),
    "merge": CommandEntry("Set up", f"{_MODULE}:merge", "Add the keys of another file to your own"),
    "import": CommandEntry(
        "Set up",
        "wakeful.cli.commands.gateway:import_file",
        "Convert a gateway.json",
    ),
}
MEANINGS: Final = {
    "daemon.host": "Address of the TCP listener: loopback only.",
    "daemon.port": "0 picks a free port. If the port is busy, only the Unix socket is open; with `--port` the start fails.",
    "daemon.tcp": "false: only the Unix socket.",
    "daemon.mode": "observe takes no action, mine acts on managed sessions, all acts on every session.",
    "daemon.pass_environment": "Additional variables of the daemon that agents and hooks get.",
    "detect.silence_seconds": "Finding `silent`: a turn makes no progress for this long.",
    "detect.settle_seconds": "After text without an end marker in the log, the turn counts as finished after this.",
    "detect.tool_seconds": "Time limit for a tool that declares none.",
    "detect.subagent_seconds": "Time limit for a subagent. If its log is visible, the limit counts from the last entry.",
    "detect.tool_grace_seconds": "Extra time after a tool's limit before it counts as stuck.",
    "detect.compaction_seconds": "Time limit for summarising a conversation.",
    "detect.wake_grace_seconds": "After the host wakes from suspend, no session counts as silent for this long.",
    "detect.errors_in_a_row_max": "Error cascade: more failed calls in a row than this.",
    "detect.cycles_max": "Loop: two to five calls with the same results, or the same text, more often than this.",
    "detect.compactions_max": "Loop: more summaries of a conversation than this, with no work between them.",
    "detect.alike_results_max": "Loop: more different reading calls of one tool in a row than this, all with one result.",
    "detect.plan_writes_max": "Loop: more writes of the plan in a row than this, with no item created or done.",
    "detect.spawns_open_max": "Runaway: more agents of one turn at once than this.",
    "detect.spawns_max": "Runaway: more agents started by one turn within 10 min than this.",
    "detect.spawn_repeats_max": "Runaway: more agents started by one turn with one prompt than this.",
    "detect.duplicates_max": "Loop: one call with one result more often than this, with only reading in between.",
    "detect.poll_seconds": "Loop: polling without any change for this long.",
    "detect.runaway_seconds": "Runaway: a turn runs longer than this. Waiting for you does not count.",
    "detect.runaway_calls_max": "Runaway: more calls in one turn than this.",
    "detect.runaway_tokens_max": "Runaway: more tokens in one turn than this.",
    "detect.runaway_cost_usd": "Runaway: a turn costs more dollars than this. Needs the two prices below.",
    "detect.input_usd_per_million": "Price of a million input tokens in dollars. 0: unknown.",
    "detect.output_usd_per_million": "Price of a million output tokens in dollars. 0: unknown.",
    "detect.failures_alike_max": "Poisoned conversation: more prompts in a row than this fail the same way.",
    "detect.never_started_seconds": "Never started: busy for this long with nothing in the log.",
    "detect.repeats_max": "Loop: more repetitions of one call with one result than this.",
    "detect.drift_records_min": "Log format changed: this many unknown records and no known one.",
    "detect.fold_after_seconds": "Lists fold sessions that have no process and no record for this long.",
    "eyes.claude_dirs": "More folders with a `projects` folder, besides $CLAUDE_CONFIG_DIR or ~/.claude.",
    "eyes.codex_dirs": "More folders with a `sessions` folder, besides $CODEX_HOME or ~/.codex.",
    "eyes.tool_use_dirs": "Folders whose subfolders each hold a tool_use.jsonl.",
    "eyes.event_dirs": "Folders with neutral event logs, besides events/ in the state folder.",
    "eyes.tmux_sockets": "More tmux sockets, besides those of this user that are found automatically.",
    "store.url": "Empty: wakeful.db in the state folder. Daemons on one machine can share a file.",
    "heal.runaway": "revive: also resume a runaway turn that makes progress.",
    "heal.confirm_seconds": "A problem must last this long before Wakeful acts.",
    "heal.steer_seconds": "Time for a corrective prompt to help before the next step.",
    "heal.pace_seconds": "Rate limit: one resume in this time,",
    "heal.pace_burst": "after this many at once.",
    "alerts.telegram_token": "Token of the bot that sends alerts; better as WAKEFUL_ALERTS__TELEGRAM_TOKEN.",
    "alerts.telegram_chat": "Id of the chat for alerts.",
    "alerts.telegram_api": "Address of the Bot API.",
    "alerts.urls": "Apprise addresses, such as ntfy://, mailto:// or slack://.",
    "alerts.desktop": "Also show desktop notifications.",
    "alerts.needs_you": "Alert when a session needs you.",
    "alerts.finished": "Alert when a turn is finished.",
    "alerts.trouble": "Alert on a problem, and when it is resolved.",
    "alerts.needs_you_seconds": "No alert for a question that is answered sooner.",
    "alerts.cooldown_seconds": "No repeated alert about the same problem of a session for this long.",
    "alerts.ping_url": "Requested every minute while judging works, so that a monitoring service notices a dead host.",
    "github.repo": "Repository where `gh` files problems. Empty: none.",
    "github.repos": "Repositories for single projects.",
    "github.public": "Allow a public repository. Everyone can then read what a session did.",
    "events.critical_path": "Empty: logs/critical_events.jsonl in the state folder.",
    "redis.url": "Redis address of sessions and jobs stored by popoto. Empty: not watched.",
    "redis.logs": "Folder with a subfolder and tool_use.jsonl for each session. Empty: logs/sessions in the state folder.",
    "redis.interval_seconds": "Interval of the checks.",
    "recovery.roots": "More folders with a journal to recover when its program is gone, besides registered ones.",
    "projects.active": "Known projects; a message for another project raises an alert. Empty: not checked.",
    **HEARTBEAT_MEANINGS,
    **GATEWAY_MEANINGS,
}


# The keys that people set, for a file that fits on a screen or two.
USUAL_KEYS: Final = (
    "daemon.port",
    "daemon.mode",
    "detect.silence_seconds",
    "detect.runaway_seconds",
    "detect.runaway_cost_usd",
    "detect.input_usd_per_million",
    "detect.output_usd_per_million",
    "eyes.claude_dirs",
    "eyes.codex_dirs",
    "eyes.tool_use_dirs",
    "heal.runaway",
    "alerts.telegram_token",
    "alerts.telegram_chat",
    "alerts.urls",
    "alerts.desktop",
    "alerts.finished",
    "alerts.ping_url",
    "github.repo",
    "gateway.token",
    "gateway.allow",
)


class ConfigExists(OperatorError):
    """{path} exists already. Edit it, or move it away first."""

    code = "config-exists"


class NothingToTrust(OperatorError):
    """No wakeful.toml in this folder."""

    code = "nothing-to-trust"


class TrustNotNeeded(OperatorError):
    """{shown} needs no trust or is never read. Only ./wakeful.toml and DIR/.wakeful/agents/NAME/HEARTBEAT.md can be trusted."""

    code = "trust-not-needed"


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful config show")
def config() -> None:
    """Create, show and check the configuration: a TOML file. Each key can also be set as WAKEFUL_SECTION__KEY."""


@click.command(epilog="Example: wakeful config init")
@click.option("--config", "config_file", metavar="FILE", help="Path of the new file.")
@click.option("--all", "every", is_flag=True, help="Write every key, and examples of agents and chats.")
def init(*, config_file: str | None, every: bool) -> int:
    """Write a file with the keys that people set, at their defaults and commented out. Never overwrites a file."""
    path = trusting.own_config_path(config_file)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        # Readable by its owner only: it may hold tokens and passwords.
        with open(
            path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)
        ) as file:
            file.write("\n".join(default_lines(KEYS if every else USUAL_KEYS)) + "\n")
    except FileExistsError as problem:
        raise ConfigExists(path=path) from problem
    print_line(f"wrote {path}")
    return 0


def default_lines(names: Collection[str] = KEYS) -> Iterator[str]:
    """The default file with these keys. A key takes effect when its `# ` is removed."""
    yield "# Configuration of Wakeful. Each key shows its default; remove the leading # to change it."
    yield "# A running daemon reads this file again when it changes."
    if len(names) < len(KEYS):
        yield "# More keys: wakeful config init --all --config FILE"
    section = ""
    for name in names:
        key = KEYS[name]
        if key.section != section:
            section = key.section
            yield f"\n[{section}]"
        default = _toml(key.format_value(key.default))
        yield f"\n# {MEANINGS[name]}\n# Allowed: {key.allowed}.\n# {key.short} = {default}"
    if len(names) == len(KEYS):
        yield from _agent_lines()
        yield from _chat_lines()


def _agent_lines() -> Iterator[str]:
    """An example, because agents have no default."""
    yield "\n# Agents, one table each. Remove the leading #| to declare an agent named `claude`."
    yield "#| [agents.claude]"
    for name, key in AGENT_KEYS.items():
        example = {"runtime": "tmux", "command": ["claude"]}.get(name, key.default)
        # The example runs in tmux and is valid.
        aside = "# " if name in DOCKER_ONLY else ""
        yield f"#| {aside}{name} = {_toml(example)}  # {key.meaning} Allowed: {key.allowed}."


def _chat_lines() -> Iterator[str]:
    yield "\n# Chats and topics of the gateway, one table each; `default` applies to all others."
    yield f'#| [{CHATS}."chat:-100123:thread:7"]'
    for name, key in CHAT_KEYS.items():
        example = {"folder": "~/code/shop", "permission_mode": "default", "provider": "claude"}.get(
            name, key.default
        )
        yield f"#| {name} = {_toml(example)}  # {key.meaning} Allowed: {key.allowed}."


@click.command(epilog="Example: wakeful config show --json")
@click.option("--config", "config_file", metavar="FILE", help="Show the values with this file.")
@json_option
def show(*, config_file: str | None, as_json: bool) -> int:
    """Show every current value and its origin: a file, the environment or the default."""
    loaded = load_settings(config_file)
    record = {"config": public_values(loaded), "origins": loaded.origins}
    print_record(record, _value_lines(loaded), as_json=as_json)
    return 0


def public_values(loaded: LoadedConfig) -> dict[str, Any]:
    """Every value; of a secret only whether it is set."""
    values: dict[str, Any] = {}
    for key in KEYS.values():
        value = key.format_value(key.value_in(loaded.config))
        shown = "(set, not shown)" if key.is_secret and value else value
        values.setdefault(key.section, {})[key.short] = shown
    named = {"agents": loaded.config.agents, CHATS: loaded.config.gateway_chats}
    return {**values, **msgspec.to_builtins(named)}


def _value_lines(loaded: LoadedConfig) -> list[str]:
    values = public_values(loaded)
    cells = [
        (f"{key.name} = {_toml(values[key.section][key.short])}", loaded.origins[key.name])
        for key in KEYS.values()
    ]
    for agent in loaded.config.agents:
        cells += _table_cells(f"agents.{agent.name}", f"agents.{agent.name}", agent, loaded)
    for chat in loaded.config.gateway_chats:
        cells += _table_cells(f"{CHATS}.{chat.key}", f'{CHATS}."{chat.key}"', chat, loaded)
    width = max(len(setting) for setting, _ in cells)
    return [f"{setting.ljust(width)}  # {origin}" for setting, origin in cells]


def _table_cells(name: str, shown: str, table: Struct, loaded: LoadedConfig) -> Iterator[tuple[str, str]]:
    """Every key of an agent or a chat, defaults included."""
    for field in msgspec.structs.fields(table)[1:]:
        value = _toml(getattr(table, field.name))
        yield f"{shown}.{field.name} = {value}", loaded.origins.get(f"{name}.{field.name}", "default")


@click.command(epilog="Example: wakeful config check --config ./new.toml")
@click.option("--config", "config_file", metavar="FILE", help="Check this file.")
@json_option
def check(*, config_file: str | None, as_json: bool) -> int:
    """Check whether the configuration is valid. Exit 1: invalid; prints every problem."""
    problems = _problems(config_file)
    print_record({"ok": not problems, "problems": problems}, problems or ["valid"], as_json=as_json)
    return 1 if problems else 0


def _problems(config_file: str | None) -> list[str]:
    try:
        load_settings(config_file)
    except ConfigError as problem:
        return str(problem).splitlines()
    return []


@click.command(epilog="Example: wakeful replay logs/ --learn | wakeful config merge -")
@click.argument("fragment", metavar="FILE")
@click.option("--config", "config_file", metavar="FILE", help="Change this file.")
@click.option("--dry-run", is_flag=True, help="Show the changes without writing them.")
def merge(*, fragment: str, config_file: str | None, dry_run: bool) -> int:
    """Set the keys of FILE in your configuration; `-` reads standard input. All other lines stay as they are.

    For people: refused inside an agent's session.
    """
    from wakeful.cli.config_file import change_config  # noqa: PLC0415 - for this command alone
    from wakeful.cli.person import require_person  # noqa: PLC0415 - as above

    if not dry_run:
        require_person()
    piped = fragment == "-"
    content = sys.stdin.buffer.read(FILE_BYTES_MAX) if piped else read_file(fragment)
    values = fragment_values(Document("standard input" if piped else fragment, content), os.environ)
    return change_config(config_file, values, dry_run=dry_run)


@click.command(epilog="Example: wakeful config trust .wakeful/agents/fox/HEARTBEAT.md")
@click.argument("file", metavar="[HEARTBEAT.md]", required=False)
def trust(*, file: str | None) -> int:
    """Trust this folder's wakeful.toml or an agent's HEARTBEAT.md as it is now. If the file changes, trust it again.

    For people: refused inside an agent's session.
    """
    from wakeful.cli.person import require_person  # noqa: PLC0415 - for this command alone

    require_person()
    paths = StatePaths.from_environ(os.environ)
    if file is not None:
        return _trust_heartbeat(file, paths)
    document = trusting.working_directory_config()
    if document is None:
        raise NothingToTrust
    # Only a valid file is trusted: its problems are reported now, not at the next start.
    loaded = combine([document], {})
    set_here = {name for name, origin in loaded.origins.items() if origin != "default"}
    # For an agent or a chat the name is enough.
    changed = sorted(name for name in set_here if name.rpartition(".")[0] not in set_here)
    trusting.trust(document, paths)
    trusting.announce(document)
    print_line(f"trusted {document.path}: it sets {', '.join(changed) or 'nothing'}")
    print_note("it overrides your own configuration in this folder")
    return 0


def _trust_heartbeat(file: str, paths: StatePaths) -> int:
    """Raises TrustNotNeeded, HeartbeatInvalid, TrustDamaged."""
    from wakeful.daemon.heartbeat import bounds_of  # noqa: PLC0415
    from wakeful.heartbeat import file as heartbeats  # noqa: PLC0415 - imports YAML

    place = heartbeats.heartbeat_path_from(file, paths.state_dir)
    if place is None:
        raise TrustNotNeeded(shown=plain(file))
    bounds = bounds_of(load_settings(None).config.heartbeat)
    content = heartbeats.read_heartbeat(place, bounds)
    snapshot = heartbeats.parse_snapshot(content, place.path, bounds, iso(wall_now()))
    TrustFile(paths.trust_file).trust(place.path, content)
    print_line(f"trusted {plain(place.path)}, snapshot {snapshot.id}")
    print_note("its text is sent to the agent on its schedule, until the file changes")
    return 0
