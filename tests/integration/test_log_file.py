"""Claims about following one log, on real files: nothing lost, nothing twice, nothing touched."""

import errno
import os
import socket
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from wakeful.sources import log_file as tail
from wakeful.sources.log_file import (
    LINE_BYTES_MAX,
    LineSplitter,
    LogBatch,
    LogFile,
    LogOutsideRoot,
    ReadRefusal,
)

NOBODY = 65534
MIB = 1024 * 1024

PIECES = st.lists(
    st.sampled_from([b"\n", b"\n", b"ab", b"!turn", b"\0\0", b" ", b'{"k":"0123456789"}']), max_size=40
).map(b"".join)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log will be: one folder below the root."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder / "session.jsonl"


@pytest.fixture
def log(path: Path, tmp_path: Path) -> LogFile:
    return LogFile(str(path), str(tmp_path))


def is_turn(line: bytes) -> bool:
    return line.startswith(b"!turn")


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def read_all(log: LogFile, *, bytes_max: int = tail.SLICE_BYTES_MAX) -> list[bytes]:
    lines: list[bytes] = []
    while True:
        batch = log.read_new(bytes_max=bytes_max)
        assert not batch.reset
        lines += batch.lines
        if not batch.more:
            return lines


def whole(content: bytes) -> list[bytes]:
    return [line for line in LineSplitter().feed(content) if isinstance(line, bytes)]


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root reads everything: step down to a user that may be denied. Other users are one already."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_each_line_comes_once_and_only_when_it_is_complete(path: Path, log: LogFile) -> None:
    """An unterminated last line is never returned before its newline."""
    append(path, b"one\ntw")
    assert log.read_new() == LogBatch([b"one"])
    assert log.read_new() == LogBatch()
    append(path, b"o")
    assert log.read_new() == LogBatch()
    append(path, b"\nthree\n")
    assert log.read_new() == LogBatch([b"two", b"three"])


@settings(deadline=None)
@given(PIECES, st.integers(1, 50))
def test_slices_of_any_size_give_the_same_lines(content: bytes, bytes_max: int) -> None:
    """However little is read at once, the lines are those of the whole file."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root, "log")
        path.write_bytes(content)
        assert read_all(LogFile(str(path), root), bytes_max=bytes_max) == whole(content)


@settings(max_examples=300, deadline=None)
@given(PIECES, PIECES, st.integers(1, 40), st.integers(1, 400))
def test_reading_back_and_on_is_a_suffix_of_reading_it_whole(
    before: bytes, after: bytes, first: int, most: int
) -> None:
    """Tail = whole: from the boundary on the lines are the same, and it is the last boundary there was."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root, "log")
        path.write_bytes(before)
        log = LogFile(str(path), root)
        back = log.read_back(is_turn, bytes_first=min(first, most), bytes_max=most)
        append(path, after)
        lines = back.lines + read_all(log)
    everything = whole(before + after)
    assert lines == everything[len(everything) - len(lines) :]
    turns = [place for place, line in enumerate(whole(before)) if is_turn(line)]
    within_reach = before if len(before) <= most else before[-most:].partition(b"\n")[2]
    if any(map(is_turn, whole(within_reach))):
        assert len(whole(before)) - len(back.lines) == turns[-1]
    elif len(before) <= most:
        assert lines == everything


def test_reading_back_costs_one_look(path: Path, log: LogFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its boundary in the last 16 KiB a log is opened, measured, read and closed once; its folder opened."""
    path.write_bytes(b'{"text":"older"}\n' * 12_000 + b"!turn\n" + b"newer\n" * 100)
    calls: list[str] = []
    for name in ("open", "fstat", "pread", "close"):
        monkeypatch.setattr(os, name, _counted(name, getattr(os, name), calls))
    batch = log.read_back(is_turn)
    monkeypatch.undo()
    assert batch == LogBatch([b"!turn", *[b"newer"] * 100])
    assert calls == ["open", "open", "close", "fstat", "pread", "close"]


def _counted(name: str, call: Callable[..., object], calls: list[str]) -> Callable[..., object]:
    def counted(*arguments: object, **options: object) -> object:
        calls.append(name)
        return call(*arguments, **options)

    return counted


def test_a_truncated_log_is_read_from_its_new_beginning(path: Path, log: LogFile) -> None:
    """Shorter than what was read means a new beginning, and says so once."""
    path.write_bytes(b"one\ntwo\n")
    log.read_new()
    path.write_bytes(b"new\n")
    assert log.read_new() == LogBatch([b"new"], reset=True)
    assert log.read_new() == LogBatch()


def test_a_rotated_log_is_read_from_its_new_beginning(path: Path, log: LogFile) -> None:
    """The file that now has the name is another one, longer though it may be."""
    path.write_bytes(b"one\n")
    log.read_new()
    path.rename(path.with_suffix(".1"))
    path.write_bytes(b"first\nsecond\n")
    assert log.read_new() == LogBatch([b"first", b"second"], reset=True)


def test_a_longer_log_moved_into_place_is_another_one(path: Path, log: LogFile) -> None:
    """Also when it begins with everything that was read of the old one."""
    path.write_bytes(b"one\ntwo\n")
    log.read_new()
    path.with_suffix(".new").write_bytes(b"one\ntwo\nthree\n")
    path.with_suffix(".new").rename(path)
    assert log.read_new() == LogBatch([b"one", b"two", b"three"], reset=True)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_replacement_of_the_same_size_is_noticed(path: Path, log: LogFile, *, in_place: bool) -> None:
    """Neither the same size nor the same inode makes it the same log."""
    path.write_bytes(b"one\ntwo\n")
    log.read_new()
    other = path if in_place else path.with_suffix(".new")
    other.write_bytes(b"ONE\nTWO\n")
    other.rename(path)
    assert log.read_new() == LogBatch([b"ONE", b"TWO"], reset=True)


def test_a_log_cut_short_and_grown_again_is_noticed(path: Path, log: LogFile) -> None:
    """The same head does not hide that the place we stopped at is inside a line now."""
    head = b'{"type":"meta","text":"' + b"x" * 300 + b'"}\n'
    path.write_bytes(head + b"old\n")
    log.read_new()
    path.write_bytes(head + b"somewhat longer\n")
    assert log.read_new() == LogBatch([head.strip(), b"somewhat longer"], reset=True)


def test_a_torn_end_that_its_writer_repairs_is_not_glued(path: Path, log: LogFile) -> None:
    """Cutting an unterminated end off undoes no line, and what was torn is forgotten."""
    path.write_bytes(b'one\n{"torn":"so')
    assert log.read_new().lines == [b"one"]
    path.write_bytes(b"one\n" + b'{"good":1}\n')
    assert log.read_new() == LogBatch([b'{"good":1}'])


def test_a_long_unterminated_end_cut_off_undoes_no_line(path: Path, log: LogFile) -> None:
    """Also when so much of it was read that it is kept between two looks."""
    path.write_bytes(b"one\n" + b"x" * 200_000)
    assert log.read_new().lines == [b"one"]
    os.truncate(path, 4)
    append(path, b"two\n")
    assert log.read_new() == LogBatch([b"two"])


def test_a_line_cut_off_together_with_a_long_unterminated_end_is_a_reset(path: Path, log: LogFile) -> None:
    """One line that is there no more is enough."""
    head = b"x" * 300 + b"\n"
    path.write_bytes(head + b"one\n" + b"x" * 200_000)
    log.read_new()
    os.truncate(path, len(head))
    assert log.read_new() == LogBatch([head.strip()], reset=True)


def test_a_long_line_is_not_read_again_from_its_beginning(
    path: Path, log: LogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cost follows new bytes: a line growing for long is read once, though it comes in many pieces."""
    total = 0
    real_pread = os.pread

    def counting_pread(fd: int, length: int, offset: int) -> bytes:
        nonlocal total
        content = real_pread(fd, length, offset)
        total += len(content)
        return content

    monkeypatch.setattr(os, "pread", counting_pread)
    for _ in range(100):
        append(path, b"x" * 100_000)
        assert log.read_new() == LogBatch()
    append(path, b"\n")
    assert log.read_new().lines == [b"x" * 10_000_000]
    assert total < 11_000_000


OPERATIONS = st.lists(
    st.sampled_from(["line", "torn", "glue", "nuls", "blank", "cut", "empty", "rotate", "rewrite", "read"]),
    max_size=30,
)


@settings(max_examples=500, deadline=None)
@given(OPERATIONS)
def test_whatever_happens_to_a_log_its_lines_are_known_in_the_end(operations: list[str]) -> None:
    """After the last reset exactly the lines that are in the file now were given, in order."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root, "log")
        path.write_bytes(b"generation start\n")
        log, seen = LogFile(str(path), root), list[bytes]()
        for number, operation in enumerate(operations):
            _happen(path, operation, number)
            if operation in ("read", "cut"):
                seen = _look(log, seen)
        append(path, b"\n")
        assert _look(log, seen) == whole(path.read_bytes())


def _happen(path: Path, operation: str, number: int) -> None:
    added = {"line": b'{"n":%d}\n', "torn": b'{"n":%d,"te', "glue": b'{"m":%d}'}.get(operation)
    fresh = b"generation %d\n" % number
    if added is not None:
        append(path, added % number)
    elif operation in ("nuls", "blank"):
        append(path, bytes(number) if operation == "nuls" else b" \r\n")
    elif operation == "cut":
        os.truncate(path, path.stat().st_size * 2 // 3)
    elif operation == "empty":
        path.write_bytes(fresh)
    elif operation == "rotate":
        path.rename(f"{path}.{number}")
        path.write_bytes(fresh + path.with_name(f"{path.name}.{number}").read_bytes())
    elif operation == "rewrite":
        path.write_bytes(fresh + path.read_bytes())


def _look(log: LogFile, seen: list[bytes]) -> list[bytes]:
    batch = log.read_new()
    return batch.lines if batch.reset else seen + batch.lines


def test_nuls_of_a_crash_cost_no_record(path: Path, log: LogFile) -> None:
    """NULs before, between and behind records are cut off; a line of them is nothing."""
    path.write_bytes(bytes(4096) + b'{"a":1}\n' + bytes(100) + b"\n" + b'{"b":2}' + bytes(7) + b"\n")
    assert log.read_new().lines == [b'{"a":1}', b'{"b":2}']


def test_a_kept_position_goes_on_where_it_was(path: Path, log: LogFile, tmp_path: Path) -> None:
    """After a restart only new lines come."""
    path.write_bytes(b"one\ntwo\nthr")
    log.read_new()
    position = log.position()
    assert position is not None
    append(path, b"ee\n")
    again = LogFile(str(path), str(tmp_path))
    again.resume(position.inode, position.offset, position.head_hash)
    assert again.read_new() == LogBatch([b"three"])


@pytest.mark.parametrize("content", [b"ONE\nTWO\nTHREE\n", b"one\n", b"one longer\ntwo\n"])
def test_a_kept_position_that_fits_no_more_is_a_reset(
    path: Path, log: LogFile, tmp_path: Path, content: bytes
) -> None:
    """Rewritten, truncated or shifted between two reads: reported, and read from the beginning."""
    path.write_bytes(b"one\ntwo\n")
    log.read_new()
    position = log.position()
    assert position is not None
    path.write_bytes(content)
    again = LogFile(str(path), str(tmp_path))
    again.resume(position.inode, position.offset, position.head_hash)
    assert again.read_new() == LogBatch(content.splitlines(), reset=True)


def test_a_position_after_reading_back_can_be_kept_too(path: Path, log: LogFile, tmp_path: Path) -> None:
    """Its head is not known yet, and that is no reason to read the log again."""
    path.write_bytes(b"old line\n" * 10_000 + b"!turn\n")
    log.read_back(is_turn)
    position = log.position()
    assert position is not None
    assert position.head_hash is None
    append(path, b"new\n")
    again = LogFile(str(path), str(tmp_path))
    again.resume(position.inode, position.offset, position.head_hash)
    assert again.read_new() == LogBatch([b"new"])
    kept = again.position()
    assert kept is not None
    assert kept.head_hash is not None


def test_a_symlink_is_not_followed(
    path: Path, log: LogFile, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Not to a file outside, not to one inside the root, not to nothing."""
    outside = tmp_path_factory.mktemp("outside") / "secret"
    inside = path.with_name("inside")
    for target in (outside, inside):
        target.write_bytes(b"secret\n")
    for target in (outside, inside, Path("/nonexistent")):
        path.symlink_to(target)
        assert log.read_new() == LogBatch(refused=ReadRefusal.SYMLINK)
        assert log.read_back(is_turn) == LogBatch(refused=ReadRefusal.SYMLINK)
        path.unlink()


def test_a_folder_swapped_for_a_symlink_is_not_followed(path: Path, log: LogFile, tmp_path: Path) -> None:
    """No component below the root may be a link, also if it was a folder when we first looked."""
    path.write_bytes(b"one\n")
    assert log.read_new().lines == [b"one"]
    path.parent.rename(tmp_path / "elsewhere")
    path.parent.symlink_to(tmp_path / "elsewhere")
    assert log.read_new() == LogBatch(refused=ReadRefusal.NOT_A_FOLDER)


def test_a_root_may_be_reached_through_whatever_its_owner_chose(path: Path, tmp_path: Path) -> None:
    """Only below the root are links refused; a log in deeper folders is found too."""
    deep = path.parent / "2026" / "11"
    deep.mkdir(parents=True)
    (deep / "log").write_bytes(b"one\n")
    (tmp_path / "link").symlink_to(path.parent)
    assert LogFile(f"{tmp_path}/link/2026/11/log", f"{tmp_path}/link").read_new().lines == [b"one"]


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "device"])
def test_what_is_no_file_is_refused_at_once(path: Path, tmp_path: Path, kind: str) -> None:
    """A pipe without a writer does not block, and nothing but a regular file is read."""
    log = LogFile(str(path), str(tmp_path))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        _bind(path)
    else:
        log = LogFile("/dev/null", "/dev")
    refused: list[ReadRefusal | None] = []
    looking = threading.Thread(target=lambda: refused.append(log.read_new().refused), daemon=True)
    looking.start()
    looking.join(timeout=10)
    assert refused == [ReadRefusal.NOT_A_FILE]


def _bind(path: Path) -> None:
    # Bound by its short name: a socket's path is limited to 107 bytes, a temporary folder's is not.
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(before)


def test_a_log_that_is_missing_may_come_later(path: Path, log: LogFile) -> None:
    """Missing is a reason, not an error, and no reset when the log appears."""
    assert log.read_new() == LogBatch(refused=ReadRefusal.MISSING)
    assert log.position() is None
    path.write_bytes(b"one\n")
    assert log.read_new() == LogBatch([b"one"])
    path.unlink()
    assert log.read_new() == LogBatch(refused=ReadRefusal.MISSING)


def test_an_unreadable_log_is_refused_and_a_foreign_one_read() -> None:
    """Without the right to read: said. Without the right to spare its access time: read the plain way."""
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o711)
        Path(root, "secret").write_bytes(b"secret\n")
        Path(root, "secret").chmod(0)
        with as_nobody():
            assert LogFile(f"{root}/secret", root).read_new() == LogBatch(refused=ReadRefusal.UNREADABLE)
            assert Path("/etc/passwd").stat().st_uid != os.geteuid()
            assert (
                LogFile("/etc/passwd", "/etc").read_new().lines
                == Path("/etc/passwd").read_bytes().split(b"\n")[:-1]
            )


@pytest.mark.parametrize(
    "path", ["/logs/../etc/passwd", "/logs/", "/logs", "/logs2/a", "a", "/logs/a//b", "/logs/\0"]
)
def test_a_path_outside_its_root_is_our_bug(path: str) -> None:
    """No spelling leads out of the root, and none is opened to find out."""
    with pytest.raises(LogOutsideRoot):
        LogFile(path, "/logs")


def test_lines_read_before_an_error_are_kept(
    path: Path, log: LogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk fails in the middle, what was read is given with the reason, and the rest later."""
    line = b"x" * 1023 + b"\n"
    path.write_bytes(line * 1024)
    real_pread, failing = os.pread, True

    def failing_pread(fd: int, length: int, offset: int) -> bytes:
        if failing and offset >= MIB // 2:
            raise OSError(errno.EIO, "the disk failed")
        return real_pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", failing_pread)
    assert log.read_new() == LogBatch([line.strip()] * 512, refused=ReadRefusal.FAILED)
    assert log.read_new().lines == []
    failing = False
    assert log.read_new() == LogBatch([line.strip()] * 512)


def test_a_hundred_megabytes_in_one_line_are_read_in_bounded_memory(path: Path, log: LogFile) -> None:
    """The line becomes a mark, the record behind it is read, and little more than the limit is ever held."""
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"x" * MIB)
        file.write(b'\n{"good":1}\n')
    tracemalloc.start()
    try:
        marks, lines = [], list[bytes]()
        while (batch := log.read_new()).more:
            marks += batch.marks
        marks, lines = marks + batch.marks, lines + batch.lines
        held_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [mark.length for mark in marks] == [100 * MIB]
    assert lines == [b'{"good":1}']
    assert held_bytes < 2 * LINE_BYTES_MAX


def test_reading_back_over_a_line_without_end_finds_the_next_record(path: Path, log: LogFile) -> None:
    """Begun inside a line longer than it may look back, it marks that line and goes on behind it."""
    path.write_bytes(b"!turn\n" + b"x" * 5 * MIB)
    assert log.read_back(is_turn) == LogBatch()
    append(path, b'y\n{"good":1}\n')
    batch = log.read_new()
    assert batch.lines == [b'{"good":1}']
    assert [mark.tail[-2:] for mark in batch.marks] == [b"xy"]
    assert not batch.reset


WRITER = """
import os, random, sys
path, records, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
pick = random.Random(seed)
lines = b"".join(b'{"n":%d,"pad":"%s"}\\n' % (n, b"x" * pick.choice([0, 10, 300, 9000])) for n in range(records))
fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
at = 0
while at < len(lines):
    at += os.write(fd, lines[at : at + pick.choice([1, 7, 100, 4096, 50_000])])
"""


@pytest.mark.parametrize("seed", range(3))
def test_every_record_of_a_real_writer_is_seen_once_and_in_order(path: Path, log: LogFile, seed: int) -> None:
    """Whatever sizes another process flushes in, following gives each record exactly once."""
    seen: list[bytes] = []
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path), "3000", str(seed)]) as writer:
        while writer.poll() is None:
            batch = log.read_new()
            assert not batch.reset
            seen += batch.lines
    assert writer.returncode == 0
    seen += read_all(log)
    assert seen == path.read_bytes().splitlines()
    assert [int(line[5:].split(b",")[0]) for line in seen] == list(range(3000))


def test_a_log_is_only_read(path: Path, log: LogFile) -> None:
    """Open for reading only, not locked, nothing of it changed (its access time either), and closed again."""
    path.write_bytes(b"!turn\n")
    path.chmod(0o600)
    os.utime(path, ns=(10**18, 10**18))
    before, open_before = path.stat(), open_descriptors()
    descriptors: list[str] = []

    def look_at_descriptor(_line: bytes) -> bool:
        numbers = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink() and each.exists()]
        mine = [each.name for each in numbers if each.readlink() == path]
        descriptors.extend(Path("/proc/self/fdinfo", name).read_text() for name in mine)
        return True

    log.read_back(look_at_descriptor)
    log.read_new()
    assert len(descriptors) == 1
    flags = next(line.split()[1] for line in descriptors[0].splitlines() if line.startswith("flags:"))
    assert int(flags, 8) & os.O_ACCMODE == os.O_RDONLY
    assert "lock:" not in descriptors[0]
    assert path.stat() == before
    assert open_descriptors() == open_before
