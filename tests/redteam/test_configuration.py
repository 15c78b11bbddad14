"""Configuration and records of `wakeful setup` that are no such files: nothing hangs, ends or is shown of them."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from redteam.conftest import Redteam
from support.daemon_process import RunningDaemon
from support.real_clients import wait_for

TOKEN = "ghp_" + "a1B2c3" * 6
# What does not even decode must be refused as fast as anything else.
ANSWER_SECONDS_MAX = 10.0
CONTENTS = {
    "a key of 60,000 parts": b"a" + b".a" * 60_000 + b" = 1",
    "a heading of 60,000 parts": b"[a" + b" . a" * 60_000 + b"]",
    "quoted parts": b'"a"' + b'."\\""' * 60_000 + b" = 1",
    "nested lists": b"a = " + b"[" * 60_000,
    "2 MB": b"#" * 2_000_000,
    "20,000 unknown keys": b"".join(b"k%d = 1\n" % number for number in range(20_000)),
    "not UTF-8": b"\xff\xfe[heal]",
    "half of a surrogate pair": b'[alerts]\nurls = ["\\ud800"]\n',
    "a number of 5,000 digits": b"[heal]\nsteer_seconds = " + b"9" * 5000,
    "no number": b"[heal]\nsteer_seconds = nan\n",
    "a half token": f'[alerts]\ntelegram_token = "{TOKEN}'.encode(),
    "a token of another kind": f'[alerts]\ntelegram_token = ["{TOKEN}"]\n'.encode(),
    "a token as a name": f'[alerts]\n"{TOKEN}" = 1\n[{TOKEN}]\nx = 1\n'.encode(),
    "a token elsewhere": f'[daemon]\nmode = "{TOKEN}"\n'.encode(),
    "controls": b'[alerts]\n"\\u001b[2J\\u202e" = 1\n',
}
KINDS: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
    "another file": lambda path: path.symlink_to("/etc/passwd"),
    "an environment": lambda path: path.symlink_to("/proc/self/environ"),
    **{name: lambda path, raw=raw: path.write_bytes(raw) for name, raw in CONTENTS.items()},  # type: ignore[misc]
}


def test_a_changed_configuration_ends_nothing(daemon: RunningDaemon, redteam: Redteam) -> None:
    """The daemon answers at once and reports each; the next good file is applied, and the daemon ends when asked."""
    file = daemon.home / ".config" / "wakeful" / "wakeful.toml"
    file.parent.mkdir(parents=True)
    daemon.up()
    for number, (name, make) in enumerate(KINDS.items()):
        make(file)
        began = time.monotonic()
        notes = wait_for(lambda: _notes(daemon), f"a note about {name}", 30)
        seconds = time.monotonic() - began
        held = seconds < ANSWER_SECONDS_MAX and notes.isprintable() and TOKEN not in notes
        redteam.attack("configuration", f"{name}: {seconds:.1f} s, {notes}", held=held)
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
        aside = file.with_suffix(".new")
        aside.write_text(f"[heal]\nsteer_seconds = {60 + number}\n")
        aside.rename(file)
        wait_for(lambda: not _notes(daemon) or None, f"the good file after {name}", 30)
        file.unlink()
    said = daemon.said()
    redteam.attack("configuration", said, held=TOKEN not in said and "Traceback" not in said)
    redteam.attack("configuration", "the daemon does not end", held=daemon.end() == 0)


def _notes(daemon: RunningDaemon) -> str:
    return " ".join(daemon.run("status", "--json").json["daemon"]["config_notes"])


RECORDS = (
    b"\xff\xfe",
    b"[" * 60_000,
    b"null",
    b'{"steps":[]}',
    b'{"steps":{"completion":[1]}}',
    b'{"steps":{"completion":{"file":"/\\ud800"}}}',
    b'{"steps":{"completion":{"file":"/a\\u0000b"}}}',
    b'{"steps":{"completion":{"file":7}}}',
    b'{"steps":{"completion":{"file":"/etc"}}}',
    b'{"steps":{"completion":{"file":"/etc/hostname"}}}',
    b'{"steps":{"alerts":{"keys":["alerts.urls"],"file":"/a\\u0000b"}}}',
    b'{"steps":{"alerts":{"keys":[1],"file":"/none"}}}',
    b'{"steps":{"alerts":{"keys":["\\u001b[2J.x"],"file":"/none"}}}',
    b'{"steps":{"hooks \\u001b[2J":{},"\\u001b[2J":{}}}',
)


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_of_setup_is_no_order(record: bytes, daemon: RunningDaemon, redteam: Redteam) -> None:
    """`setup --undo` answers or refuses in plain lines, and changes no file that setup did not write."""
    state = Path(daemon.environ["WAKEFUL_HOME"])
    state.mkdir(mode=0o700)
    (state / "setup.json").write_bytes(record)
    before = Path("/etc/hostname").read_bytes()
    said = daemon.run("setup", "--undo", "--yes")
    words = said.out + said.err
    held = (
        "bug in Wakeful" not in words and "Traceback" not in words and words.replace("\n", "").isprintable()
    )
    redteam.attack("records of setup", f"{record[:60]!r}: {words}", held=held)
    redteam.attack("records of setup", repr(record), held=Path("/etc/hostname").read_bytes() == before)
