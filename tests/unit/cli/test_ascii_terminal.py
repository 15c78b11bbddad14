"""Claims about terminals without UTF-8: every mark stays one cell wide and differs from the others."""

import codecs
import os
import pty
import subprocess
import sys

import pytest

from wakeful.cli.app import _STAND_IN, _has_ascii_locale, _prepare_streams
from wakeful.cli.table import MARKS


def typed(*words: str, **environ: str) -> str:
    """The output of a command on a terminal."""
    outer, inner = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-P", "-m", "wakeful", *words],
            env={"PATH": os.environ["PATH"], "TERM": "dumb", **environ},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            timeout=60,
            check=False,
        )
    finally:
        os.close(inner)
    with os.fdopen(outer, "rb", buffering=0) as terminal:
        return terminal.read(65536).decode()


def test_the_marks_of_the_list_have_stand_ins() -> None:
    """Those of needs you, problem, busy, later, idle and past."""
    _prepare_streams()
    marks = "".join(mark for mark, _ in MARKS.values())
    shown = marks.encode("ascii", _STAND_IN).decode()
    assert len(set(shown)) == len(shown) == len(marks)
    assert "?" not in shown
    # The footer of `top`, its timeline and the keys of `demo`: none is shown as the key for help.
    assert "?" not in "↵→│─━↑↓▁▇█░▒⊘".encode("ascii", _STAND_IN).decode()
    assert "日…".encode("ascii", _STAND_IN) == b"?~"
    with pytest.raises(UnicodeDecodeError):
        codecs.decode(b"\xff", "ascii", _STAND_IN)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"LANG": "C"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "en_GB.UTF-8", "LC_ALL": "POSIX"}, True),
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, False),
        ({"LANG": "C", "LC_ALL": "C.UTF-8"}, False),
        # Containers set nothing, and their terminals show UTF-8.
        ({}, False),
    ],
)
def test_only_a_chosen_locale_counts(environ: dict[str, str], expected: bool) -> None:
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    assert _has_ascii_locale(*(environ.get(name, "") for name in names)) is expected


def test_a_terminal_without_utf_8_gets_ascii(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The help of completion has a long dash nowhere, the report's marks are replaced; with UTF-8 they are not."""
    home = str(tmp_path_factory.mktemp("w"))
    words = ("why", "nobody…here")
    assert typed(*words, HOME=home, LANG="C").isascii()
    assert "…" in typed(*words, HOME=home, LANG="C.UTF-8")
