"""Claims about reading what the system and tmux print, byte for byte, without asking either."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from wakeful.core.process import Process, ProcessState
from wakeful.integrations.tmux import panes
from wakeful.linux import proc
from wakeful.linux.machine import boot_id, machine_id

TAIL = b"1 99 99 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 7 0 424242 1000 200 18446744073709551615 0"


def stat_line(comm: bytes, state: bytes = b"S") -> bytes:
    return b"4711 (" + comm + b") " + state + b" " + TAIL + b"\n"


@pytest.mark.parametrize(
    "comm", [b"claude", b"a b", b"x) R 1 (y", b"((", b"))", b"", b"new\nline", b"\xff\xfe"]
)
def test_a_name_cannot_confuse_the_stat_line(comm: bytes) -> None:
    """Whatever a process calls itself, its parent and start time are read right."""
    stat = proc.parse_stat(stat_line(comm))
    assert (stat.pid, stat.parent_pid, stat.started, stat.threads) == (4711, 1, 424242, 7)
    assert stat.flags == 4194560
    assert os.fsencode(stat.comm) == comm


@given(st.binary(max_size=15))
def test_no_name_at_all_can(comm: bytes) -> None:
    """The kernel allows any fifteen bytes as a name."""
    stat = proc.parse_stat(stat_line(comm, b"R"))
    assert (stat.state, stat.parent_pid, stat.started) == ("R", 1, 424242)


@pytest.mark.parametrize(
    ("state", "threads", "gone"),
    [("R", 1, False), ("D", 9, False), ("T", 1, False), ("Z", 1, True), ("X", 0, True), ("Z", 2, False)],
)
def test_a_zombie_is_gone_unless_threads_of_it_run(state: str, threads: int, gone: bool) -> None:
    """A first thread that ended early leaves a zombie in front of a working process."""
    assert proc.Stat(1, "x", state, 0, 0, threads, 1).has_ended is gone


def test_flocks_are_read_and_other_locks_are_not() -> None:
    """POSIX and lease lines are no flocks, and who waits for a lock does not hold it."""
    text = (
        b"1: POSIX  ADVISORY  WRITE 100 08:01:5 0 EOF\n"
        b"2: FLOCK  ADVISORY  WRITE 200 fe:1a:2146339 0 EOF\n"
        b"2: -> FLOCK  ADVISORY  WRITE 300 fe:1a:2146339 0 EOF\n"
        b"3: OFDLCK ADVISORY  READ -1 00:2d:7 0 EOF\n"
        b"4: LEASE  ACTIVE    READ 400 08:01:9 0 EOF\n"
    )
    assert proc.parse_flocks(text) == [(os.makedev(0xFE, 0x1A), 2146339, 200)]
    assert proc.parse_flocks(b"") == []


@pytest.mark.parametrize("pid", [0, -1, -4711, 2**22 + 1, 2**31, 10**30])
def test_an_impossible_pid_is_nobody(pid: int) -> None:
    """Pids come out of files; zero and negative ones mean whole groups to the kernel and are never passed on."""
    assert proc.identify(pid) is None
    assert proc.state_of(Process(pid, 1, boot_id())) is ProcessState.DEAD
    assert proc.ancestors(pid) == []


@pytest.mark.parametrize("boot", [boot_id(), "another-boot"])
def test_a_process_of_another_machine_is_unknown(boot: str) -> None:
    """Neither dead nor alive, whatever has its pid here; two pid namespaces of one boot are two machines."""
    here = proc.identify(os.getpid())
    assert here is not None
    foreign = Process(here.pid, here.started, boot, "another machine")
    assert proc.state_of(foreign) is ProcessState.UNKNOWN
    assert not proc.is_running(foreign)
    assert proc.children(foreign) == []


def test_a_file_of_an_earlier_version_is_about_this_machine() -> None:
    """It names none, because there was only one."""
    here = proc.identify(os.getpid())
    assert here is not None
    stored = Process(here.pid, here.started, here.boot_id)
    assert proc.state_of(stored) is ProcessState.ALIVE
    assert proc.with_machine(stored) == here


def test_a_machine_is_one_pid_namespace_of_one_system() -> None:
    """Its id stays the same within both, and tells nothing of the system's own id."""
    assert machine_id("a", 1) == machine_id("a", 1)
    assert len({machine_id(system, namespace) for system in ("a", "b") for namespace in (1, 2)}) == 4
    assert "a" * 32 not in machine_id("a" * 32, 1)


def test_a_process_of_an_earlier_boot_is_dead() -> None:
    """Even if pid and start time happen to fit."""
    here = proc.identify(os.getpid())
    assert here is not None
    assert proc.state_of(here) is ProcessState.ALIVE
    assert proc.state_of(Process(here.pid, here.started, "another-boot")) is ProcessState.DEAD


SEPARATOR = b"0123456789abcdef"


def row(*fields: bytes) -> bytes:
    return SEPARATOR + b" ".join(fields) + b"\n"


ONE = (b"%3", b"4711", b"0", b"1794972577", "✳ main".encode())


def test_rows_are_read_as_printed() -> None:
    """Five fields a row, any number of rows, none at all included."""
    first, second = panes.parse_panes(row(*ONE) + row(b"%4", b"4712", b"1", b"17", b"other"), SEPARATOR)
    assert first == (panes.PaneRow("✳ main", "%3", 4711, False), 1794972577)
    assert (second[0].pane_id, second[0].dead, second[1]) == ("%4", True, 17)
    assert panes.parse_panes(b"", SEPARATOR) == []


def test_a_name_cannot_forge_a_row() -> None:
    """A newline, a tab and a whole row inside a session's name stay inside that name, cleaned."""
    ((only, _),) = panes.parse_panes(row(*ONE[:4], b"x\n\x1b[2Jmain\t%9\t1\t0"), SEPARATOR)
    assert only.session == "x main %9 1 0"


def test_bytes_that_are_no_text_do_not_stop_the_listing() -> None:
    """They are shown as replaced, and the row can be encoded again."""
    ((only, _),) = panes.parse_panes(row(*ONE[:4], b"a\xff\xfeb"), SEPARATOR)
    assert only.session == "a��b"


@pytest.mark.parametrize(
    "output",
    [
        b"hello\n",
        row(*ONE)[:-1],
        row(*ONE)[:-20],
        row(*ONE[:4]),
        b"noise" + row(*ONE),
        row(*ONE[:1], b"", *ONE[2:]),
    ],
)
def test_another_form_is_refused(output: bytes) -> None:
    """What we did not ask for is an error, never a guess."""
    with pytest.raises(ValueError, match=r"requested row|invalid literal"):
        panes.parse_panes(output, SEPARATOR)


def test_only_own_sockets_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file, no link, no folder and no foreign socket; a named one counts if it is one."""
    folder = tmp_path / f"tmux-{os.getuid()}"
    folder.mkdir()
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    named = tmp_path / "elsewhere"
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
        one.bind(str(folder / "default"))
        two.bind(str(named))
        (folder / "file").write_text("")
        (folder / "link").symlink_to(named)
        (folder / "folder").mkdir()
        assert panes.sockets(os.getuid()) == [folder / "default"]
        both = sorted([folder / "default", named])
        assert panes.sockets(os.getuid(), extra=[named, tmp_path / "missing", named]) == both
        assert panes.sockets(os.getuid() + 1, extra=[named]) == []


def test_a_folder_that_is_a_link_is_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user may put a link into a shared temporary folder."""
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / f"tmux-{os.getuid()}").symlink_to(real)
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(real / "default"))
        assert panes.sockets(os.getuid()) == []
