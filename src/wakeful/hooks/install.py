"""Installs and uninstalls hooks in the settings files of the clients, and reports their state.

A plan is a value that can be shown; only `apply_plan` writes, and no client is started. A settings file is
read as it is and replaced whole. It is not written if it is a link, read-only, too large or another user's:
a person edits settings that are kept elsewhere, for example in a repository, at that place.
"""

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.config.paths import StatePaths
from wakeful.core.errors import WorldError
from wakeful.hooks.json_edit import NotPlainJson
from wakeful.hooks.model import (
    FILES,
    NotOursToWrite,
    command_for,
    has_plugin,
    is_in_place,
    our_commands,
    snippet,
    with_hooks,
    without_hooks,
)
from wakeful.hooks.spool import last_report_at

# Settings are a few KB; clients and people write no larger ones.
SETTINGS_BYTES_MAX: Final = 4 * 1024 * 1024
BACKUP: Final = ".before-wakeful"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class SettingsChanged(WorldError, code="settings-changed", retryable=True):
    """Another program changed {path} at the same time. Nothing was written; try again."""


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + BACKUP)


def read_settings(path: Path) -> bytes | None:
    """The file's bytes; None if there is none. Raises NotOursToWrite."""
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        if path.is_symlink():
            raise NotOursToWrite(path=path, reason="it is a symbolic link") from None
        _require_folder(path)
        return None
    except OSError as problem:
        why = "it is a symbolic link" if path.is_symlink() else problem.strerror
        raise NotOursToWrite(path=path, reason=why) from problem
    try:
        _require_ours(path, os.fstat(descriptor))
    except NotOursToWrite:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def read_settings_to_show(path: Path) -> bytes:
    """The file's bytes, links followed: only for display. Raises OSError, and NotOursToWrite if it is no settings file."""
    # Opening a FIFO would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotOursToWrite(path=path, reason="it is not a regular file")
        content = file.read(SETTINGS_BYTES_MAX + 1)
    if len(content) > SETTINGS_BYTES_MAX:
        raise NotOursToWrite(path=path, reason="it is too large for a settings file")
    return content


def _require_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise NotOursToWrite(path=path, reason=f"there is no folder {path.parent}; start the client once")
    if not os.access(path.parent, os.W_OK):
        raise NotOursToWrite(path=path, reason=f"{path.parent} is not writable")


def _require_ours(path: Path, found: os.stat_result) -> None:
    _require_folder(path)
    reason = (
        "it is not a regular file"
        if not stat.S_ISREG(found.st_mode)
        else "it is another user's"
        if found.st_uid != os.geteuid()
        else "it has a second name (a hard link)"
        if found.st_nlink > 1
        else "it is read-only"
        if not found.st_mode & stat.S_IWUSR
        else "it is too large for a settings file"
        if found.st_size > SETTINGS_BYTES_MAX
        else None
    )
    if reason is not None:
        raise NotOursToWrite(path=path, reason=reason)


def replace_settings(path: Path, before: bytes | None, after: bytes) -> None:
    """Write a new file, sync, rename; the mode stays. Raises SettingsChanged if the file no longer holds `before`."""
    if read_settings(path) != before:
        raise SettingsChanged(path=path)
    mode = stat.S_IMODE(path.stat().st_mode) if before is not None else 0o600
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(aside, _NEW, 0o600), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def remove_settings(path: Path, before: bytes) -> None:
    """Raises SettingsChanged if the file no longer holds `before`."""
    if read_settings(path) != before:
        raise SettingsChanged(path=path)
    path.unlink()


def save_backup(path: Path, content: bytes) -> None:
    """Write a backup beside the file, readable only by its owner. It replaces an older backup and follows no link."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(aside, _NEW, 0o600), "wb") as file:
        file.write(content)
    aside.rename(backup_of(path))


def read_backup(path: Path) -> bytes | None:
    """The file's content before Wakeful's hooks; None if it is unknown."""
    try:
        with os.fdopen(os.open(backup_of(path), _READ), "rb") as file:
            return file.read(SETTINGS_BYTES_MAX) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None


CLIENTS: Final = tuple(FILES)
_FOLDERS: Final = {"claude": ("CLAUDE_CONFIG_DIR", ".claude"), "codex": ("CODEX_HOME", ".codex")}


class SettingsPlan(Struct, frozen=True):
    """The planned change of a settings file. `None` means no file; equal sides mean nothing to do."""

    path: Path
    before: bytes | None
    after: bytes | None
    backup: bytes | None

    @property
    def is_done(self) -> bool:
        return self.before == self.after


class HookState(Struct, frozen=True):
    """The state of a client's hooks: their file, whether they are installed and current, and the last report."""

    path: Path
    is_installed: bool
    is_current: bool
    fired_at: float | None
    problem: str = ""
    has_plugin: bool = False


def settings_path(client: str, environ: Mapping[str, str]) -> Path:
    variable, folder = _FOLDERS[client]
    return Path(environ.get(variable) or f"{environ.get('HOME', '')}/{folder}") / FILES[client]


def plan_install(client: str, environ: Mapping[str, str], paths: StatePaths) -> SettingsPlan:
    """The settings with Wakeful's current hooks. Raises NotOursToWrite, NotPlainJson."""
    path = settings_path(client, environ)
    command = command_for(paths.spool)
    before = read_settings(path)
    if before is not None and is_in_place(_text(before), client, command):
        # Hooks that were added after Wakeful's, and another layout of the file, stay.
        return SettingsPlan(path, before, before, None)
    bare = _settings_without_hooks(path, before, client)
    after = with_hooks("{}\n" if bare is None else _text(bare), client, command).encode()
    return SettingsPlan(path, before, after, bare)


def plan_uninstall(client: str, environ: Mapping[str, str]) -> SettingsPlan:
    """The settings without Wakeful's hooks: the original bytes, if nothing else changed them. Raises as above."""
    path = settings_path(client, environ)
    before = read_settings(path) if path.parent.is_dir() else None
    return SettingsPlan(path, before, _settings_without_hooks(path, before, client), None)


def _settings_without_hooks(path: Path, current: bytes | None, client: str) -> bytes | None:
    if current is None:
        return None
    text = _text(current)
    commands = our_commands(text)
    if not commands:
        return current
    backup = read_backup(path)
    # If the backup with Wakeful's hooks equals the current file, nothing else changed it.
    if backup is not None and any(
        with_hooks(_text(backup), client, each).encode() == current for each in commands
    ):
        return backup
    bare = without_hooks(text)
    # There was no file before the hooks were installed, so there is none after.
    return None if backup is None and bare.strip() == "{}" else bare.encode()


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        raise NotPlainJson(reason="not UTF-8") from problem


def apply_plan(plan: SettingsPlan) -> None:
    """Raises SettingsChanged if the file has changed since it was read for the plan."""
    if plan.after is None:
        assert plan.before is not None, "nothing to remove is nothing to do"
        remove_settings(plan.path, plan.before)
    else:
        if plan.backup is not None:
            save_backup(plan.path, plan.backup)
        replace_settings(plan.path, plan.before, plan.after)
    if plan.backup is None and plan.after is not None and plan.after == read_backup(plan.path):
        # The settings are the backup again, so it is no longer needed.
        backup_of(plan.path).unlink()


def snippet_for(client: str, paths: StatePaths) -> str:
    """The hooks as text, for installation by hand."""
    return snippet(client, command_for(paths.spool))


def hooks_state(client: str, environ: Mapping[str, str], paths: StatePaths) -> HookState:
    """The state of a client's hooks; `problem` says why the file cannot be read. Changes nothing."""
    path = settings_path(client, environ)
    fired = last_report_at(Path(paths.hook_marks), client)
    try:
        text = _text(read_settings_to_show(path))
        is_installed = bool(our_commands(text))
        is_current = is_in_place(text, client, command_for(paths.spool))
        changed_at = path.stat().st_mtime
    except FileNotFoundError:
        return HookState(path, is_installed=False, is_current=False, fired_at=fired)
    except (OSError, NotPlainJson, NotOursToWrite) as problem:
        return HookState(path, is_installed=False, is_current=False, fired_at=fired, problem=str(problem))
    # A report from before the last write proves only that the client trusted the hooks then.
    since = fired if fired is not None and fired > changed_at else None
    return HookState(path, is_installed, is_current, since, has_plugin=has_plugin(text))
