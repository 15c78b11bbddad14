"""`wakeful config import FILE`: the configuration of another system, as ours."""

import os
from pathlib import Path
from typing import Final

import click

from wakeful.cli.output import note, say
from wakeful.cli.person import require_person
from wakeful.config.config import ConfigError
from wakeful.config.load import Document, combine, read_file
from wakeful.config.paths import Places, config_path
from wakeful.config.state_dir import require_home
from wakeful.core.text import plain
from wakeful.gateway.import_config import Imported, merged, read_gateway_json, toml_lines

# Whoever imports more often than this wants to see what is in those files first.
_BACKUPS_MAX: Final = 100


@click.command("import", epilog="Example: wakeful config import config/gateway.json --write")
@click.argument("file", metavar="FILE")
@click.option("--write", is_flag=True, help="Put it into your configuration, which is backed up first.")
@click.option("--config", "config_file", metavar="FILE", help="Write to this configuration instead.")
def import_file(*, file: str, write: bool, config_file: str | None) -> int:
    """Convert a gateway.json to Wakeful's configuration and print it as TOML. Unknown keys are named and kept."""
    imported = read_gateway_json(read_file(file), plain(file))
    for name in imported.unknown:
        note(f"{plain(file)}: {plain(name)}: not understood, kept as a comment")
    if not imported.settings:
        note(f"{plain(file)}: sets none of the keys of a gateway.json")
    if not write:
        for line in toml_lines(imported):
            say(line)
        return 0
    require_person()
    path = config_path(os.environ, config_file) or f"{Places.of(os.environ).home}/wakeful.toml"
    if config_file is None:
        require_home(os.environ)
    _write(Path(path).resolve(), imported)
    return 0


def _write(path: Path, imported: Imported) -> None:
    before = read_file(str(path)) if path.exists() else b""
    # A file with a mistake in it is not touched: its author is told first.
    combine([Document(str(path), before)], os.environ)
    after = merged(before.decode(), imported, plain(str(path)))
    if after == before.decode():
        say(f"{path} says all of this already")
        return
    _check(path, after, imported)
    path.parent.mkdir(parents=True, exist_ok=True)
    if before:
        say(f"kept what was there as {_backed_up(path, before)}")
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    _write_new(fresh, after.encode())
    fresh.replace(path)
    say(f"wrote {path}: {', '.join(imported.settings) or 'comments only'}")


def _check(path: Path, after: str, imported: Imported) -> None:
    """What will be written means what was imported. Raises ConfigError if it cannot be put in by machine."""
    try:
        loaded = combine([Document(str(path), after.encode())], {"HOME": os.environ.get("HOME", "/")})
    except ConfigError as problem:
        lines = "; ".join(toml_lines(imported))
        said = (
            f"{path}: its tables are written in a fashion that nothing can be added to. Add yourself: {lines}"
        )
        raise ConfigError(problems=said) from problem
    assert all(loaded.origins[name] != "default" for name in imported.settings), "every setting is there"


def _backed_up(path: Path, content: bytes) -> Path:
    for number in range(1, _BACKUPS_MAX + 1):
        backup = path.with_name(f"{path.name}.before-import-{number}")
        try:
            _write_new(backup, content)
        except FileExistsError:
            continue
        return backup
    raise ConfigError(problems=f"{path}: {_BACKUPS_MAX} backups lie beside it. Remove some.")


def _write_new(path: Path, content: bytes) -> None:
    """For its owner alone: a configuration may hold a token."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
