"""Reads the configuration again when one of its files changes.

What can be applied is applied. What needs a restart is named in the log, in `status` and in `doctor`. A broken
file changes nothing and is reported once. The files are watched with inotify and never polled.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.config.gateway import CHATS
from wakeful.config.load import LoadedConfig, absolute_paths
from wakeful.config.schema import AGENTS_SECTION, KEYS, Config, ConfigError
from wakeful.config.trust import TrustDamaged
from wakeful.core.clock import Clock
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.sources.base import FileChanges, FolderWatcher
from wakeful.sources.folder_watch import watch_or_await

# An editor writes a file in several steps.
SETTLE_SECONDS: Final = 0.5
LIVE_SECTIONS: Final = ("alerts", "heal", "detect", "session.supervision")
# It is a threshold of `detect`, under another name.
LIVE_KEYS: Final = ("agents.heartbeat.session_health_stale_after",)
# Parts that get these once, at the start.
NOT_LIVE: Final = ("alerts.ping_url", "detect.fold_after_seconds")
# The watch of a queue has its own copy of these.
NOT_LIVE_WITH_QUEUE: Final = ("alerts.telegram_token", "alerts.telegram_chat", "alerts.telegram_api")
RESTART: Final = "wakeful down, then wakeful up"

log = logging.getLogger("wakeful")


class ConfigSource(Struct, frozen=True):
    """The paths of the files that a start would read, and how to read them. `load` raises ConfigError."""

    paths: tuple[str, ...]
    load: Callable[[], LoadedConfig]
    # Those that were read.
    files: tuple[str, ...] = ()


NO_FILES: Final = ConfigSource((), lambda: LoadedConfig(Config(), {}))


class ConfigWatch:
    """Reads changed files and tells its subscribers; `notes` says what of the files is not in effect."""

    def __init__(
        self,
        source: ConfigSource,
        running: Config,
        folders: FolderWatcher,
        clock: Clock,
    ) -> None:
        self.files = source.files
        self._source = source
        # The values in effect: those of the start, and over them what was applied since.
        self._running = self._newest = running
        self._folders = folders
        self._clock = clock
        self._subscribers: list[Callable[[Config, LoadedConfig], None]] = []
        self._changed = asyncio.Event()
        self._problem: str | None = None
        self._watched: frozenset[str] = frozenset()
        self._unwatched: list[str] = []
        self.watch()

    def subscribe(self, on_config: Callable[[Config, LoadedConfig], None]) -> None:
        """Call it with the values in effect, and with all that was read."""
        self._subscribers.append(on_config)

    def watch(self) -> None:
        """Watch the folders of the files. A link is watched on both sides; a missing folder is awaited."""
        places = {os.path.abspath(path) for path in self._source.paths}  # noqa: PTH100 - the kernel reports strings
        resolved = {
            os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # noqa: PTH118, PTH119, PTH120
            for path in places
        } | {os.path.realpath(path) for path in places}
        folders = {os.path.dirname(path) for path in resolved}  # noqa: PTH120
        self._unwatched = sorted(each for each in folders if not watch_or_await(self._folders, each))
        self._watched = frozenset(resolved)

    def notes(self) -> tuple[str, ...]:
        """What is in the files and not in effect."""
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        if self._problem is not None:
            yield f"configuration not applied, the earlier one stays in effect: {self._problem}"
        if self._unwatched:
            folders = plain(redact(", ".join(self._unwatched)))
            yield f"configuration: changes in {folders} are not noticed (inotify limit); after one: {RESTART}"
        if keys := restart_keys(self._running, self._newest):
            yield f"configuration: {', '.join(keys)}: takes effect after a restart ({RESTART})"

    def on_changes(self, changes: FileChanges) -> None:
        touched = changes.changed | changes.gone | changes.folders
        # A folder above a file may appear or vanish with it.
        above = changes.folders | changes.gone
        if changes.rescan or any(
            path in touched or any(path.startswith(f"{each}/") for each in above) for path in self._watched
        ):
            self._changed.set()

    async def run(self) -> None:
        """Read again after each change, until cancelled."""
        while True:
            await self._changed.wait()
            while self._changed.is_set():
                self._changed.clear()
                await self._clock.sleep(SETTLE_SECONDS)
            # Before reading: what is written later is reported.
            self.watch()
            await self.reload()

    async def reload(self) -> None:
        """Read the files now, and apply what can be applied."""
        try:
            loaded = await asyncio.to_thread(self._source.load)
        except (ConfigError, TrustDamaged, OSError) as error:
            self._on_problem(plain(redact("; ".join(str(error).splitlines()))))
            return
        if self._problem is not None:
            log.warning("the configuration is valid again")
            self._problem = None
        before, self._newest = self._newest, loaded.config
        applied = [
            name for name in changed_keys(self._running, loaded.config) if is_live(name, self._running)
        ]
        self._running = with_live_values(self._running, loaded.config)
        self.files = absolute_paths(loaded.files)
        for on_config in self._subscribers:
            on_config(self._running, loaded)
        if applied:
            log.warning("configuration read again; applied: %s", ", ".join(applied))
        waiting = restart_keys(self._running, loaded.config)
        if waiting and waiting != restart_keys(self._running, before):
            log.warning("configuration: %s: takes effect after a restart (%s)", ", ".join(waiting), RESTART)

    def _on_problem(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("configuration not applied, the earlier one stays in effect: %s", problem)
        self._problem = problem


def changed_keys(one: Config, other: Config) -> list[str]:
    """The keys that differ; agents and chats by the name of their table."""
    names = [key.name for key in KEYS.values() if key.value_in(one) != key.value_in(other)]
    names += [AGENTS_SECTION] if one.agents != other.agents else []
    return [*names, *([CHATS] if one.gateway_chats != other.gateway_chats else [])]


def is_live(name: str, config: Config) -> bool:
    """Whether a running daemon applies a change of this key."""
    if name in LIVE_KEYS:
        return True
    return name.rpartition(".")[0] in LIVE_SECTIONS and name not in NOT_LIVE and name not in _of_queue(config)


def _of_queue(config: Config) -> tuple[str, ...]:
    if not config.redis.url:
        return ()
    return (*NOT_LIVE_WITH_QUEUE, *(name for name in KEYS if name.startswith("detect.")))


def restart_keys(running: Config, newest: Config) -> list[str]:
    return [name for name in changed_keys(running, newest) if not is_live(name, running)]


def with_live_values(running: Config, newest: Config) -> Config:
    """The running configuration with the new values of all keys that can be applied."""
    sections = {"alerts": newest.alerts, "heal": newest.heal, "detect": newest.detect}
    kept = {
        section: msgspec.structs.replace(
            new,
            **{
                KEYS[name].short: KEYS[name].value_in(running)
                for name in restart_keys(running, newest)
                if name in KEYS and KEYS[name].section == section
            },
        )
        for section, new in sections.items()
    }
    heartbeat = msgspec.structs.replace(
        running.heartbeat, session_health_stale_after=newest.heartbeat.session_health_stale_after
    )
    return msgspec.structs.replace(running, supervision=newest.supervision, heartbeat=heartbeat, **kept)
