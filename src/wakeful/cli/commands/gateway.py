"""Commands `wakeful gateway`, `gateway pair|unpair`, and `wakeful config import`.

`gateway` runs the chat gateway; pairing decides which users it answers. `config import` converts a
`gateway.json` of another system into Wakeful's configuration.
"""

import asyncio
import logging
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import click

from wakeful.cli.output import print_line, print_line_now, print_note
from wakeful.cli.person import require_person
from wakeful.cli.settings import config_arguments, load_settings
from wakeful.config.load import Document, combine, read_file
from wakeful.config.paths import StatePaths, config_path
from wakeful.config.schema import ConfigError
from wakeful.config.state_dir import require_home
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.text import plain
from wakeful.gateway.import_config import ImportedConfig, merge_config, read_gateway_json, toml_lines


class GatewayPartsMissing(WorldError):
    """The gateway needs {missing}, which is not installed: pip install 'wakeful[gateway]'"""

    code = "gateway-parts-missing"


class NotPaired(OperatorError):
    """User {user_id} is not paired. Users in gateway.allow need no pairing."""

    code = "not-paired"


@click.group(invoke_without_command=True, epilog="Example: WAKEFUL_GATEWAY__TOKEN=123:AA… wakeful gateway")
@click.option("--config", "config_file", metavar="FILE", help="Read only this configuration file.")
@click.option("--supervised", is_flag=True, hidden=True, help="Started by `wakeful up`; stops with it.")
@click.pass_context
def gateway(context: click.Context, *, config_file: str | None, supervised: bool) -> int:
    """Connect Telegram chats with agents until Ctrl-C. Messages become turns of managed sessions.

    `wakeful up` starts it if gateway.token is set. Started alone, it also starts a daemon.
    """
    context.obj = config_file
    if context.invoked_subcommand is not None:
        return 0
    paths = StatePaths.from_environ(os.environ)
    require_home(os.environ)
    config = load_settings(config_file).config
    work = _gateway_process_module()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Addresses of the Bot API hold the token.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    daemon = ("up", "--no-tcp", "--no-gateway", "--supervised", *config_arguments(config_file))
    asyncio.run(work.serve_gateway(config, paths, print_line_now, daemon=daemon, supervised=supervised))
    return 0


@gateway.command(epilog="Example: wakeful gateway pair")
@click.pass_obj
def pair(config_file: str | None) -> int:
    """Print a one-time code. A user who sends it to the bot within ten minutes is paired."""
    require_person()
    work = _gateway_process_module()
    print_line(asyncio.run(work.pair(load_settings(config_file).config, StatePaths.from_environ(os.environ))))
    print_line(
        "Send it to the bot in a private chat within ten minutes. It works once and expires after five wrong tries."
    )
    return 0


@gateway.command(epilog="Example: wakeful gateway unpair 123456789")
@click.argument("user_id", type=int)
@click.pass_obj
def unpair(config_file: str | None, *, user_id: int) -> int:
    """Remove a paired user. A running gateway applies it within a minute."""
    require_person()
    work = _gateway_process_module()
    if not asyncio.run(
        work.unpair(load_settings(config_file).config, StatePaths.from_environ(os.environ), user_id)
    ):
        raise NotPaired(user_id=user_id)
    print_line(f"{user_id} is no longer paired")
    return 0


def _gateway_process_module() -> ModuleType:
    """The gateway's module; wrong options are reported before its libraries are imported."""
    try:
        from wakeful.gateway import process  # noqa: PLC0415 - see above
    except ImportError as problem:
        raise GatewayPartsMissing(missing=problem.name or "a library") from problem
    return process


# More backups than this are left to a person to read and remove.
_BACKUPS_MAX: Final = 100


@click.command("import", epilog="Example: wakeful config import config/gateway.json --write")
@click.argument("file", metavar="FILE")
@click.option("--write", is_flag=True, help="Write it to your configuration, after a backup.")
@click.option("--config", "config_file", metavar="FILE", help="Write to this file instead.")
def import_file(*, file: str, write: bool, config_file: str | None) -> int:
    """Convert a gateway.json to TOML and print it. Unknown keys are listed and kept as comments."""
    imported = read_gateway_json(read_file(file), plain(file))
    for name in imported.unknown:
        print_note(f"{plain(file)}: {plain(name)}: unknown, kept as a comment")
    if not imported.settings:
        print_note(f"{plain(file)}: has none of the keys of a gateway.json")
    if not write:
        for line in toml_lines(imported):
            print_line(line)
        return 0
    require_person()
    path = (
        config_path(os.environ, config_file)
        or f"{StatePaths.from_environ(os.environ).state_dir}/wakeful.toml"
    )
    if config_file is None:
        require_home(os.environ)
    _write(Path(path).resolve(), imported)
    return 0


def _write(path: Path, imported: ImportedConfig) -> None:
    before = read_file(str(path)) if path.exists() else b""
    # A file with a mistake is not touched: the mistake is reported first.
    combine([Document(str(path), before)], os.environ)
    after = merge_config(before.decode(), imported, plain(str(path)))
    if after == before.decode():
        print_line(f"{path} already has all of these settings")
        return
    _check(path, after, imported)
    path.parent.mkdir(parents=True, exist_ok=True)
    if before:
        print_line(f"saved a backup: {_write_backup(path, before)}")
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    _write_new(fresh, after.encode())
    fresh.replace(path)
    print_line(f"wrote {path}: {', '.join(imported.settings) or 'comments only'}")


def _check(path: Path, after: str, imported: ImportedConfig) -> None:
    """Check that the new text means what was imported. Raises ConfigError if it cannot be merged."""
    try:
        loaded = combine([Document(str(path), after.encode())], {"HOME": os.environ.get("HOME", "/")})
    except ConfigError as problem:
        lines = "; ".join(toml_lines(imported))
        said = f"{path}: its tables cannot be extended automatically. Add these lines yourself: {lines}"
        raise ConfigError(problems=said) from problem
    assert all(loaded.origins[name] != "default" for name in imported.settings), (
        "every setting is already there"
    )


def _write_backup(path: Path, content: bytes) -> Path:
    for number in range(1, _BACKUPS_MAX + 1):
        backup = path.with_name(f"{path.name}.before-import-{number}")
        try:
            _write_new(backup, content)
        except FileExistsError:
            continue
        return backup
    raise ConfigError(problems=f"{path}: {_BACKUPS_MAX} backups exist already. Remove some.")


def _write_new(path: Path, content: bytes) -> None:
    """Readable by its owner only: a configuration may hold a token."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
