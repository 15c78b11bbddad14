"""The parts of a door by themselves: the token's file, the socket's file, the loopback port, the price of guessing."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wakeful.config.token_file import (
    TokenFileBroken,
    TokenFileLink,
    TokenFileUnsafe,
    load_or_create_token,
)
from wakeful.http.errors import TooManyFailures
from wakeful.http.gate import (
    DELAY_SECONDS_MAX,
    DELAY_STEP_SECONDS_MAX,
    SOURCES_MAX,
    FailureLimiter,
    source_of,
)
from wakeful.http.server import (
    AlreadyRunning,
    FolderTooOpen,
    NotASocket,
    NotLoopback,
    PortBusy,
    PortRefused,
    SocketPathTooLong,
    bind_tcp,
    bind_unix,
)


def test_a_token_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    """256 bits, mode 0600 whatever the umask, the same at the next start, and nothing left beside it."""
    path = tmp_path / "token"
    before = os.umask(0)
    try:
        token = load_or_create_token(path)
    finally:
        os.umask(before)
    assert len(token) == 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_create_token(path) == token
    assert list(tmp_path.iterdir()) == [path]


def test_of_many_starts_one_token_wins(tmp_path: Path) -> None:
    """Daemons that start at the same time get the same token."""
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: load_or_create_token(tmp_path / "token"), range(32)))
    assert len(tokens) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601, 0o644])
def test_a_token_others_could_read_is_refused(tmp_path: Path, mode: int) -> None:
    """A secret that was open is none; the message says what to run."""
    path = tmp_path / "token"
    load_or_create_token(path)
    path.chmod(mode)
    with pytest.raises(TokenFileUnsafe, match="chmod 600"):
        load_or_create_token(path)


def test_a_token_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """Neither a link nor a file of another user is believed."""
    path = tmp_path / "token"
    token = load_or_create_token(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(TokenFileLink, match="Remove it"):
        load_or_create_token(link)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        with pytest.raises(TokenFileUnsafe):
            load_or_create_token(path)
        os.chown(path, 0, 0)
    assert load_or_create_token(path) == token


@pytest.mark.parametrize("text", [b"", b"short\n", b"x" * 44, b"\x00" * 43, "ü".encode() * 30])
def test_a_broken_token_is_said_and_kept(tmp_path: Path, text: bytes) -> None:
    """What is not a token of Wakeful is not used and not overwritten."""
    path = tmp_path / "token"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(TokenFileBroken, match="Delete it"):
        load_or_create_token(path)
    assert path.read_bytes() == text


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    """Something that blocks when opened is no token file."""
    path = tmp_path / "token"
    os.mkfifo(path, 0o600)
    with pytest.raises(TokenFileBroken):
        load_or_create_token(path)


def test_a_folder_is_no_token(tmp_path: Path) -> None:
    """It says what to delete."""
    path = tmp_path / "token"
    path.mkdir(mode=0o700)
    with pytest.raises(TokenFileBroken, match="Delete it"):
        load_or_create_token(path)


def test_the_socket_is_never_open_to_others(tmp_path: Path) -> None:
    """Mode 0600 from its first moment, even where the umask forbids nothing."""
    path = tmp_path / "wakeful.sock"
    before = os.umask(0)
    try:
        with bind_unix(path):
            assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701, 0o770])
def test_a_loose_folder_is_refused(tmp_path: Path, mode: int) -> None:
    """The socket lies in a folder of its owner's alone, or not at all."""
    tmp_path.chmod(mode)
    with pytest.raises(FolderTooOpen, match="chmod 700"):
        bind_unix(tmp_path / "wakeful.sock")
    assert not list(tmp_path.iterdir())


def test_nobody_is_sent_to_change_what_a_link_points_at(tmp_path: Path) -> None:
    """A state folder that is a link to a loose one: the way out is a folder of one's own, not chmod."""
    (tmp_path / "loose").mkdir(mode=0o755)
    (tmp_path / "state").symlink_to("loose")
    with pytest.raises(FolderTooOpen, match="symbolic link: set WAKEFUL_HOME"):
        bind_unix(tmp_path / "state/wakeful.sock")


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    """What a killed daemon left behind is in no daemon's way."""
    path = tmp_path / "wakeful.sock"
    bind_unix(path).close()
    assert path.is_socket()
    with bind_unix(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


LISTEN = """
import sys
from pathlib import Path
from wakeful.http.server import bind_unix
listener = bind_unix(Path(sys.argv[1]))
print("listening", flush=True)
sys.stdin.read()
"""


def test_a_living_daemon_is_found_and_named(tmp_path: Path) -> None:
    """A second start learns the first one's pid and changes nothing."""
    path = tmp_path / "wakeful.sock"
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        first.stdout.readline()
        with pytest.raises(AlreadyRunning, match=rf"pid {first.pid}\b"):
            bind_unix(path)
        assert path.is_socket()
        first.communicate("")


def test_of_many_starts_one_listens(tmp_path: Path) -> None:
    """Starting at the same time over a stale socket, exactly one daemon gets it and keeps it."""
    path = tmp_path / "wakeful.sock"
    bind_unix(path).close()
    together = threading.Barrier(8)

    def start(_number: int) -> socket.socket | None:
        together.wait()
        try:
            return bind_unix(path)
        except AlreadyRunning:
            return None

    with ThreadPoolExecutor(8) as pool:
        listeners = [each for each in pool.map(start, range(8)) if each is not None]
    assert len(listeners) == 1
    with listeners[0], socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_whatever_else_is_in_the_way_stays(tmp_path: Path) -> None:
    """A file or a link of that name is not ours to remove."""
    path = tmp_path / "wakeful.sock"
    path.write_text("precious")
    with pytest.raises(NotASocket):
        bind_unix(path)
    assert path.read_text() == "precious"
    link = tmp_path / "link.sock"
    link.symlink_to(tmp_path / "elsewhere.sock")
    with pytest.raises(NotASocket):
        bind_unix(link)


def test_a_path_too_long_is_said(tmp_path: Path) -> None:
    """The kernel's limit becomes a sentence with a way out."""
    with pytest.raises(SocketPathTooLong, match="WAKEFUL_HOME"):
        bind_unix(tmp_path / ("x" * 120))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.1", "example.com", "", "127.0.0.1.example.com", "::ffff:127.0.0.1"]
)
def test_only_loopback_is_listened_on(host: str) -> None:
    """Anything other machines could reach is refused before it is opened."""
    with pytest.raises(NotLoopback):
        bind_tcp(host, 0)


def test_a_busy_port_is_an_answer() -> None:
    """The daemon can go on with its socket alone."""
    first = bind_tcp("localhost", 0)
    assert not isinstance(first, PortBusy)
    with first:
        port = first.getsockname()[1]
        second = bind_tcp("127.0.0.1", port)
        assert isinstance(second, PortBusy)
        assert str(port) in str(second)


def test_a_port_that_does_not_exist_is_said() -> None:
    """Whatever else is refused has its reason in the message."""
    with pytest.raises(PortRefused, match="0-65535"):
        bind_tcp("127.0.0.1", 70_000)


def test_a_failure_costs_twice_the_last_one_up_to_a_cap() -> None:
    """Doubling, capped, forgiven after a quiet minute, and each source for itself."""
    limiter = FailureLimiter()
    now, costs = 0.0, []
    for _ in range(8):
        costs.append(limiter.record_failure("a", now))
        now += costs[-1]
    assert costs[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert costs[-1] == pytest.approx(DELAY_STEP_SECONDS_MAX)
    assert limiter.record_failure("b", now) == 0.1
    assert limiter.record_failure("a", now + 50.0) == DELAY_STEP_SECONDS_MAX
    assert limiter.record_failure("a", now + 200.0) == 0.1


def test_failures_at_once_are_paid_one_after_the_other() -> None:
    """Forty connections are as slow as one: those that would wait too long are refused and add nothing."""
    limiter = FailureLimiter()
    waits = [limiter.record_failure("a", 0.0) for _ in range(40)]
    accepted = [each for each in waits if each <= DELAY_SECONDS_MAX]
    assert accepted == pytest.approx([0.1, 0.3, 0.7, 1.5, 3.1, 6.3])
    assert limiter.record_failure("a", 6.3) == pytest.approx(DELAY_STEP_SECONDS_MAX)


def test_the_table_of_failures_is_bounded() -> None:
    """Many sources do not fill the memory; one that fails on is remembered."""
    limiter = FailureLimiter()
    for number in range(SOURCES_MAX * 4):
        limiter.record_failure(f"source {number}", 0.0)
        limiter.record_failure("persistent", 0.0)
    assert len(limiter._failures_by_source) == SOURCES_MAX
    assert limiter.record_failure("persistent", 0.0) > DELAY_SECONDS_MAX


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1"])
def test_loopback_is_one_source(address: str) -> None:
    """A program can choose among 16 million addresses."""
    assert source_of(address) == "loopback"


async def test_a_source_that_owes_too_much_is_refused_at_once() -> None:
    """An answer that waits holds a connection."""
    limiter = FailureLimiter()
    for _ in range(20):
        limiter.record_failure("a", asyncio.get_running_loop().time())
    assert [
        type(each)
        for each in await asyncio.gather(*(limiter.delay("a") for _ in range(5)), return_exceptions=True)
    ] == [TooManyFailures] * 5
