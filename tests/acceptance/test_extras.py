"""A setting whose library is not installed is refused in one line that names the command to install it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.daemon_process import RunningDaemon
from support.run_program import run_program


def test_the_gateway_as_a_library_names_the_command() -> None:
    """The package itself can be imported without its extra; its names cannot."""
    code = "import sys; sys.modules['rapidfuzz'] = None; import wakeful.gateway; wakeful.gateway.Breaker"
    done = run_program([sys.executable, "-c", code])
    last = done.stderr.splitlines()[-1]
    wanted = "ExtraMissing: wakeful.gateway needs rapidfuzz.fuzz, which is not installed: pip install 'wakeful[gateway]'"
    assert last.endswith(wanted), done.stderr


@pytest.mark.parametrize(
    ("library", "environ", "extra"),
    [
        ("redis", {"WAKEFUL_REDIS__URL": "redis://127.0.0.1:1/0"}, "fleet"),
        ("rapidfuzz", {"WAKEFUL_GATEWAY__TOKEN": "123:abc"}, "gateway"),
    ],
)
def test_a_missing_library_is_named_with_its_command(
    tmp_path: Path, library: str, environ: dict[str, str], extra: str
) -> None:
    """Exit 3, the world's fault; no traceback and no word of a bug."""
    home = RunningDaemon(tmp_path / "home")
    words = ["gateway"] if extra == "gateway" else ["up", "--port", "0"]
    code = (
        f"import sys; sys.modules[{library!r}] = None; sys.argv = ['wakeful', *{words!r}];"
        "from wakeful.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=home.environ | environ,
        cwd=home.home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    wanted = rf" needs {library}\S*, which is not installed: pip install 'wakeful\[{extra}\]'"
    assert re.search(wanted, done.stderr), done.stderr
