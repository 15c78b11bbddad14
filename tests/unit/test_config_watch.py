"""Which changed keys a running daemon applies, and what it says where it cannot watch. Without a daemon."""

import msgspec

from wakeful.config.load import Document, LoadedConfig, combine
from wakeful.config.schema import KEYS, Config
from wakeful.daemon.config_watch import ConfigSource, ConfigWatch, is_live, restart_keys, with_live_values
from wakeful.sources.base import FileChanges
from wakeful.testing.virtual_clock import VirtualClock


class NoFolders:
    """A kernel that watches nothing more."""

    slow_folders: frozenset[str] = frozenset()

    def add(self, folder: str) -> bool:
        del folder
        return False


def config(text: str) -> Config:
    return combine([Document("f", text.encode())], {"HOME": "/h"}).config


def test_every_key_is_applied_or_needs_a_restart() -> None:
    """Applied keys have their new value, all others the old one; the mode and what listens are never applied."""
    new = config('[daemon]\nmode = "all"\nport = 1\n[alerts]\nping_url = "http://x"\nfinished = true\n[detect]\nloop = 1\n'.replace("loop = 1", "repeats_max = 9\nfold_after_seconds = 5"))  # fmt: skip
    running = Config()
    assert restart_keys(running, new) == [
        "daemon.port",
        "daemon.mode",
        "detect.fold_after_seconds",
        "alerts.ping_url",
    ]
    live = with_live_values(running, new)
    assert (live.alerts.finished, live.detect.repeats_max) == (True, 9)
    assert (live.daemon, live.alerts.ping_url, live.detect.fold_after_seconds) == (
        running.daemon,
        "",
        running.detect.fold_after_seconds,
    )
    assert restart_keys(live, new) == restart_keys(running, new)


def test_no_key_that_gives_rights_is_applied() -> None:
    """What Wakeful may do, whom it obeys and what it runs changes with a restart only."""
    for name in KEYS:
        if name.startswith(("daemon.", "gateway.", "hooks.", "store.", "github.", "eyes.", "redis.")):
            assert not is_live(name, Config()), name


def test_a_queue_waits_for_the_restart() -> None:
    """Its watch has its own copy of the thresholds: none is applied to one half only."""
    running, new = (
        config(f'[redis]\nurl = "redis://h"\n[detect]\nrepeats_max = {each}\n') for each in (4, 5)
    )
    assert restart_keys(running, new) == ["detect.repeats_max"]
    assert with_live_values(running, new) == running


async def test_what_cannot_be_watched_is_said() -> None:
    """At the kernel's limit the notes say so; a lost event has the file read again."""
    applied: list[Config] = []
    source = ConfigSource(
        ("/none/wakeful.toml",), lambda: LoadedConfig(config("[heal]\npace_burst = 2\n"), {})
    )
    watch = ConfigWatch(source, Config(), NoFolders(), VirtualClock())
    watch.subscribe(lambda found, _: applied.append(found))
    assert "are not noticed (inotify limit)" in watch.notes()[0]
    watch.on_changes(FileChanges({"/none/other.toml"}, set(), set()))
    await watch.reload()
    assert [each.heal.pace_burst for each in applied] == [2]
    assert applied[0] == msgspec.structs.replace(Config(), heal=applied[0].heal)
