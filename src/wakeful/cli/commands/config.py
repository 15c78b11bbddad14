"""Commands `wakeful config init|show|check|trust`, and the meaning of every key.

`wakeful config import` is in `gateway.py`.
"""

import os
from collections.abc import Iterator
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
from wakeful.config.gateway import CHAT_KEYS, CHATS, MEANINGS as GATEWAY_MEANINGS
from wakeful.config.heartbeat import MEANINGS as HEARTBEAT_MEANINGS
from wakeful.config.load import LoadedConfig, combine
from wakeful.config.paths import StatePaths, config_path
from wakeful.config.schema import AGENT_KEYS, DOCKER_ONLY, KEYS, ConfigError
from wakeful.config.state_dir import require_home
from wakeful.config.trust import TrustFile
from wakeful.core.clock import iso
from wakeful.core.errors import OperatorError
from wakeful.core.text import plain

_MODULE: Final = "wakeful.cli.commands.config"
COMMANDS: Final = {
    "init": CommandEntry("Set up", f"{_MODULE}:init", "Write a commented file with every default"),
    "show": CommandEntry("Set up", f"{_MODULE}:show", "Every value, and where it came from"),
    "check": CommandEntry("Set up", f"{_MODULE}:check", "Say whether the configuration is valid"),
    "trust": CommandEntry(
        "Set up", f"{_MODULE}:trust", "Let ./wakeful.toml or a HEARTBEAT.md count, as it is now"
    ),
    "import": CommandEntry(
        "Set up",
        "wakeful.cli.commands.gateway:import_file",
        "Convert a gateway.json of another system",
    ),
}
MEANINGS: Final = {
    "daemon.host": "Where the TCP door listens: loopback only.",
    "daemon.port": "0 picks a free port. A busy one leaves the Unix socket alone open; `--port` insists.",
    "daemon.tcp": "false: the Unix socket only.",
    "daemon.mode": "observe acts on nothing, mine heals managed sessions, all heals every one.",
    "daemon.pass_environment": "Agents and hooks get these variables of the daemon, too.",
    "detect.silence_seconds": "A turn without any sign of progress for this long is silent.",
    "detect.settle_seconds": "Text whose log does not say whether more follows ends a turn after this.",
    "detect.tool_seconds": "A tool that declares no time limit of its own may run this long.",
    "detect.subagent_seconds": "A subagent may run this long; one whose own log is seen, while that grows.",
    "detect.tool_grace_seconds": "And this much longer, before it counts as stuck.",
    "detect.compaction_seconds": "Summarising a conversation may take this long.",
    "detect.wake_grace_seconds": "After the host woke up, nobody is silent for this long.",
    "detect.errors_in_a_row_max": "More failed calls in a row are an error cascade.",
    "detect.cycles_max": "More rounds of two to five calls with the same results, or of the same words, are a loop.",
    "detect.compactions_max": "More summaries of a conversation with nothing done between them are a loop.",
    "detect.alike_results_max": "More different reading calls of one tool in a row with one result are a loop.",
    "detect.plan_writes_max": "More writes of the plan in a row, with no item created or done, are a loop.",
    "detect.spawns_open_max": "More agents of one turn at work at once are a runaway.",
    "detect.spawns_max": "More agents sent out by one turn within 10 min are a runaway.",
    "detect.spawn_repeats_max": "More agents sent out by one turn with one prompt are a runaway.",
    "detect.duplicates_max": "One call with one result more often, only reading in between, is a loop.",
    "detect.poll_seconds": "Polling without any change for this long is a loop.",
    "detect.runaway_seconds": "A turn at work for longer runs away; a person's waits do not count.",
    "detect.runaway_calls_max": "So do more calls in one turn,",
    "detect.runaway_tokens_max": "and more tokens.",
    "detect.runaway_cost_usd": "and more dollars, where the next two say what a million tokens cost.",
    "detect.input_usd_per_million": "0: nobody said.",
    "detect.output_usd_per_million": "0: nobody said.",
    "detect.failures_alike_max": "More prompts in a row failing the same way are a poisoned conversation.",
    "detect.never_started_seconds": "Busy for this long with nothing written down never started.",
    "detect.repeats_max": "More repetitions of one call with one result are a loop.",
    "detect.drift_records_min": "So many unknown records and no known one: the log's format changed.",
    "detect.fold_after_seconds": "Lists fold sessions without a process and without a record for this long.",
    "eyes.claude_dirs": "Beside $CLAUDE_CONFIG_DIR, or ~/.claude: folders that hold `projects`.",
    "eyes.codex_dirs": "Beside $CODEX_HOME, or ~/.codex: folders that hold `sessions`.",
    "eyes.tool_use_dirs": "Folders whose folders hold a tool_use.jsonl each.",
    "eyes.event_dirs": "Folders of neutral event logs, beside events/ of the state folder.",
    "eyes.tmux_sockets": "Beside every tmux socket of this user that is found by itself.",
    "store.url": "Empty: wakeful.db of the state folder. Several daemons of one machine may share a file.",
    "heal.runaway": "revive also revives a turn that runs away while it makes progress.",
    "heal.confirm_seconds": "Trouble must last this long before anything is done about it.",
    "heal.steer_seconds": "A word to the agent gets this long to help before more is done.",
    "heal.pace_seconds": "One session is brought back in this time,",
    "heal.pace_burst": "after so many at once.",
    "alerts.telegram_token": "The bot that sends alerts; better as WAKEFUL_ALERTS__TELEGRAM_TOKEN.",
    "alerts.telegram_chat": "The chat it writes to.",
    "alerts.telegram_api": "Where the Bot API is served.",
    "alerts.urls": "Any address that apprise knows, such as ntfy://, mailto:// or slack://.",
    "alerts.desktop": "Also on the desktop, where there is one.",
    "alerts.needs_you": "Tell when a session waits for a person.",
    "alerts.finished": "Tell when a turn is finished.",
    "alerts.trouble": "Tell when something is wrong, and when it is over.",
    "alerts.needs_you_seconds": "A question that is answered sooner is not told.",
    "alerts.cooldown_seconds": "The same trouble of the same session is not told again for this long.",
    "alerts.ping_url": "Called every minute while judging works: a service there notices a dead host.",
    "github.repo": "Where `gh` files trouble. Empty: nowhere.",
    "github.repos": "The same for single projects.",
    "github.public": "Allow a public repository: what a session did is then read by everybody.",
    "events.critical_path": "Empty: logs/critical_events.jsonl of the state folder.",
    "redis.url": "Sessions and jobs as popoto keeps them. Empty: not watched.",
    "redis.logs": "Its folders hold a tool_use.jsonl for each session. Empty: logs/sessions of the state folder.",
    "redis.interval_seconds": "How often they are checked.",
    "recovery.roots": "Folders with a journal that is recovered when its program is gone, beside registered ones.",
    "projects.active": "Projects that somebody serves; a message for another one is told. Empty: not checked.",
    **HEARTBEAT_MEANINGS,
    **GATEWAY_MEANINGS,
}


class ConfigExists(OperatorError):
    """{path} exists already. Edit it, or move it away first."""

    code = "config-exists"


class NothingToTrust(OperatorError):
    """There is no wakeful.toml in this folder."""

    code = "nothing-to-trust"


class TrustNotNeeded(OperatorError):
    """{shown}: a file there needs no trust, or is never read. Trust is for ./wakeful.toml and for DIR/.wakeful/agents/NAME/HEARTBEAT.md."""

    code = "trust-not-needed"


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful config show")
def config() -> None:
    """The configuration: a TOML file, with every key also as WAKEFUL_SECTION__KEY."""


@click.command(epilog="Example: wakeful config init")
@click.option("--config", "config_file", metavar="FILE", help="Write it here.")
def init(*, config_file: str | None) -> int:
    """Write a file with every key at its default, commented out. Never overwrites one."""
    path = config_path(os.environ, config_file)
    if path is None:
        # Without a HOME there is no place to write to; `from_environ` says what to set.
        path = f"{StatePaths.from_environ(os.environ).state_dir}/wakeful.toml"
    if config_file is None:
        require_home(os.environ)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        # Readable by its owner only: it may hold tokens and passwords.
        with open(
            path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)
        ) as file:
            file.write("\n".join(default_lines()) + "\n")
    except FileExistsError as problem:
        raise ConfigExists(path=path) from problem
    print_line(f"wrote {path}")
    return 0


def default_lines() -> Iterator[str]:
    """The default file. A key takes effect when its `# ` is removed."""
    yield "# Wakeful. Every key is shown with its default; remove the leading # to change it."
    section = ""
    for name, key in KEYS.items():
        if key.section != section:
            section = key.section
            yield f"\n[{section}]"
        default = _toml(key.format_value(key.default))
        yield f"\n# {MEANINGS[name]}\n# Allowed: {key.allowed}.\n# {key.short} = {default}"
    yield from _agent_lines()
    yield from _chat_lines()


def _agent_lines() -> Iterator[str]:
    """An example, because agents have no default."""
    yield "\n# Agents of the hub, a table each. Take the leading #| away to have one called `claude`."
    yield "#| [agents.claude]"
    for name, key in AGENT_KEYS.items():
        example = {"runtime": "tmux", "command": ["claude"]}.get(name, key.default)
        # The example runs in tmux and is valid.
        aside = "# " if name in DOCKER_ONLY else ""
        yield f"#| {aside}{name} = {_toml(example)}  # {key.meaning} Allowed: {key.allowed}."


def _chat_lines() -> Iterator[str]:
    yield "\n# Chats and topics of the gateway, a table each; `default` is for all the others."
    yield f'#| [{CHATS}."chat:-100123:thread:7"]'
    for name, key in CHAT_KEYS.items():
        example = {"folder": "~/code/shop", "permission_mode": "default", "provider": "claude"}.get(
            name, key.default
        )
        yield f"#| {name} = {_toml(example)}  # {key.meaning} Allowed: {key.allowed}."


def _toml(value: Any) -> str:
    """A default as TOML writes it: JSON's spelling of strings, numbers, booleans and lists is TOML's too."""
    return msgspec.json.encode(value).decode()


@click.command(epilog="Example: wakeful config show --json")
@click.option("--config", "config_file", metavar="FILE", help="Show what this file leads to.")
@json_option
def show(*, config_file: str | None, as_json: bool) -> int:
    """Show every value in force, and whether it comes from a file, the environment or the defaults."""
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
    """Say whether the configuration is valid. Exit 1 with every problem if it is not."""
    problems = _problems(config_file)
    print_record({"ok": not problems, "problems": problems}, problems or ["valid"], as_json=as_json)
    return 1 if problems else 0


def _problems(config_file: str | None) -> list[str]:
    try:
        load_settings(config_file)
    except ConfigError as problem:
        return str(problem).splitlines()
    return []


@click.command(epilog="Example: wakeful config trust .wakeful/agents/fox/HEARTBEAT.md")
@click.argument("file", metavar="[HEARTBEAT.md]", required=False)
def trust(*, file: str | None) -> int:
    """Let this folder's wakeful.toml, or an agent's HEARTBEAT.md, count as it is now. When it changes it does not count.

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
    print_line(f"trusted {document.path}: it sets {', '.join(changed) or 'nothing'}")
    print_note("it counts while you work in this folder, over your own configuration")
    return 0


def _trust_heartbeat(file: str, paths: StatePaths) -> int:
    """Raises TrustNotNeeded, HeartbeatInvalid, TrustDamaged."""
    from wakeful.daemon import heartbeat as heartbeats  # noqa: PLC0415 - imports YAML

    place = heartbeats.heartbeat_path_from(file, paths.state_dir)
    if place is None:
        raise TrustNotNeeded(shown=plain(file))
    bounds = heartbeats.bounds_of(load_settings(None).config.heartbeat)
    content = heartbeats.read_heartbeat(place, bounds)
    snapshot = heartbeats.parse_snapshot(content, place.path, bounds, iso(wall_now()))
    TrustFile(paths.trust_file).trust(place.path, content)
    print_line(f"trusted {plain(place.path)}, snapshot {snapshot.id}")
    print_note("its words are given to the agent on its schedule, until the file changes")
    return 0
