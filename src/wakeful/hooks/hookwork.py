"""Hooks of the clients: planned, put in place and taken out again, and what is known of those in place.

A plan is a value that can be shown; only `carry_out` writes. Nothing here starts a client.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.config.paths import Places
from wakeful.hooks.fired import fired_at
from wakeful.hooks.json_edit import NotPlainJson
from wakeful.hooks.model import (
    FILES,
    NotOursToWrite,
    command_for,
    is_in_place,
    our_commands,
    snippet,
    with_hooks,
    without_hooks,
)
from wakeful.hooks.settings_file import (
    backup_of,
    keep_backup,
    look_at_settings,
    read_backup,
    read_settings,
    remove_settings,
    replace_settings,
)

CLIENTS: Final = tuple(FILES)
_FOLDERS: Final = {"claude": ("CLAUDE_CONFIG_DIR", ".claude"), "codex": ("CODEX_HOME", ".codex")}


class Plan(Struct, frozen=True):
    """What would become of a settings file. `None` is a file that is not there; equal sides are nothing to do."""

    path: Path
    before: bytes | None
    after: bytes | None
    backup: bytes | None

    @property
    def is_done(self) -> bool:
        return self.before == self.after


class State(Struct, frozen=True):
    """What is known of a client's hooks: where, whether they are in place, current, and when one last reported."""

    path: Path
    is_installed: bool
    is_current: bool
    fired_at: float | None
    trouble: str = ""


def settings_path(client: str, environ: Mapping[str, str]) -> Path:
    """The file in which a client looks for hooks of this user."""
    variable, folder = _FOLDERS[client]
    return Path(environ.get(variable) or f"{environ.get('HOME', '')}/{folder}") / FILES[client]


def plan_install(client: str, environ: Mapping[str, str], places: Places) -> Plan:
    """The settings with our hooks as they are now. Raises NotOursToWrite, NotPlainJson."""
    path = settings_path(client, environ)
    command = command_for(places.spool)
    before = read_settings(path)
    if before is not None and is_in_place(_text(before), client, command):
        # Whoever added hooks behind ours, or laid the file out anew, keeps that.
        return Plan(path, before, before, None)
    bare = _bare(path, before, client)
    after = with_hooks("{}\n" if bare is None else _text(bare), client, command).encode()
    return Plan(path, before, after, bare)


def plan_uninstall(client: str, environ: Mapping[str, str]) -> Plan:
    """The settings without our hooks: the very bytes of before, if nobody else wrote since. Raises as above."""
    path = settings_path(client, environ)
    before = read_settings(path) if path.parent.is_dir() else None
    return Plan(path, before, _bare(path, before, client), None)


def _bare(path: Path, current: bytes | None, client: str) -> bytes | None:
    """What stands there, or stood there, without us."""
    if current is None:
        return None
    text = _text(current)
    commands = our_commands(text)
    if not commands:
        return current
    kept = read_backup(path)
    # If our lines make of the backup what is there now, nobody else wrote since.
    if kept is not None and any(
        with_hooks(_text(kept), client, each).encode() == current for each in commands
    ):
        return kept
    bare = without_hooks(text)
    # Nothing was there before us, so nothing is after us.
    return None if kept is None and bare.strip() == "{}" else bare.encode()


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        raise NotPlainJson(reason="not UTF-8") from problem


def carry_out(plan: Plan) -> None:
    """Write what was planned. Raises SettingsChanged if the file is no longer what the plan was made from."""
    if plan.after is None:
        assert plan.before is not None, "nothing to remove is nothing to do"
        remove_settings(plan.path, plan.before)
    else:
        if plan.backup is not None:
            keep_backup(plan.path, plan.backup)
        replace_settings(plan.path, plan.before, plan.after)
    if plan.backup is None and plan.after is not None and plan.after == read_backup(plan.path):
        # It stands where it belongs again.
        backup_of(plan.path).unlink()


def snippet_for(client: str, places: Places) -> str:
    """The hooks as text, for whoever puts them there by hand."""
    return snippet(client, command_for(places.spool))


def hooks_state(client: str, environ: Mapping[str, str], places: Places) -> State:
    """What is known of a client's hooks. Changes nothing; what cannot be read is said."""
    path = settings_path(client, environ)
    fired = fired_at(Path(places.fired), client)
    try:
        text = _text(look_at_settings(path))
        is_installed = bool(our_commands(text))
        is_current = is_in_place(text, client, command_for(places.spool))
        changed_at = path.stat().st_mtime
    except FileNotFoundError:
        return State(path, is_installed=False, is_current=False, fired_at=fired)
    except (OSError, NotPlainJson, NotOursToWrite) as problem:
        return State(path, is_installed=False, is_current=False, fired_at=fired, trouble=str(problem))
    # What reported before the file was last written was trusted then, which says nothing of now.
    since = fired if fired is not None and fired > changed_at else None
    return State(path, is_installed, is_current, since)
