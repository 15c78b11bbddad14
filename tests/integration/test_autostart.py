"""Claims about the systemd unit: systemd itself finds nothing wrong with it, and only Wakeful's unit is touched.

There is no user manager in a test: `systemctl` is a stand-in that writes down what it was asked.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.daemon_process import RunningDaemon
from wakeful.linux.systemd import MARK, unit_text

AWKWARD = {"PATH": '/usr/bin:/a b/%h/"q"/$x\\y', "WAKEFUL_HOME": "/srv/state", "SECRET_KEY": "hidden-value"}
SYSTEMCTL = '#!/bin/sh\necho "$*" >>"$HOME/asked"\ncase "$*" in *is-active*) exit 3;; esac\n'


@pytest.fixture
def at_home(daemon: RunningDaemon) -> RunningDaemon:
    """A person's terminal in which `systemctl --user` answers."""
    tools = daemon.home / "tools"
    tools.mkdir()
    (tools / "systemctl").write_text(SYSTEMCTL)
    (tools / "systemctl").chmod(0o755)
    daemon.environ["PATH"] = f"{tools}:{daemon.environ['PATH']}"
    return daemon


def unit(daemon: RunningDaemon) -> Path:
    return daemon.home / ".config" / "systemd" / "user" / "wakeful.service"


def asked(daemon: RunningDaemon) -> list[str]:
    return (daemon.home / "asked").read_text().splitlines()


@pytest.mark.parametrize("watch_only", [False, True])
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path, watch_only: bool) -> None:
    """`systemd-analyze verify` says nothing, whatever stands in the paths; no other variable is written down."""
    path = tmp_path / "wakeful.service"
    argv = (shutil.which("true") or "/bin/true", "-m", '100% $HOME \\ "x"')
    path.write_text(unit_text(argv, AWKWARD, watch_only=watch_only))
    assert "hidden-value" not in path.read_text()
    # systemd would take these for a home and a variable, and find nothing wrong with that.
    assert "/%%h/" in path.read_text()
    assert "100%% $$HOME" in path.read_text()
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is missing")
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [analyze, "verify", "--user", path], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_unit_that_acts_forbids_its_agents_is_nothing() -> None:
    """Agents are started from it and live in it: no rights are taken, and its end is not theirs."""
    acting, watching = (unit_text(("/x",), {}, watch_only=each) for each in (False, True))
    assert {"KillMode=process", "OOMPolicy=continue", "Type=notify"} <= set(acting.splitlines())
    assert "NoNewPrivileges" not in acting
    assert {"NoNewPrivileges=yes", 'Environment="WAKEFUL_DAEMON__MODE=observe"'} <= set(watching.splitlines())


def test_installed_started_and_removed(at_home: RunningDaemon) -> None:
    """A dry run writes nothing; installed it is enabled and started; removed it is stopped first, and gone."""
    dry = at_home.run("autostart", "install", "--dry-run")
    assert (dry.exit_code, f"+{MARK}" in dry.out, unit(at_home).exists()) == (0, True, False)
    done = at_home.run("autostart", "install")
    assert (done.exit_code, "enable-linger" in done.err) == (0, True)
    assert unit(at_home).read_text().startswith(MARK)
    assert [line.removeprefix("--user ") for line in asked(at_home)][-3:] == [
        "daemon-reload",
        "enable wakeful.service",
        "restart wakeful.service",
    ]
    assert "nothing to do" in at_home.run("autostart", "install", "--dry-run").out
    assert at_home.run("autostart", "remove").exit_code == 0
    assert (unit(at_home).exists(), asked(at_home)[-2:]) == (
        False,
        ["--user disable --now wakeful.service", "--user daemon-reload"],
    )
    assert "nothing to do" in at_home.run("autostart", "remove").out


def test_settings_are_kept_and_secrets_named(at_home: RunningDaemon) -> None:
    """What the environment sets is in the unit; a secret, one inside a value and an unknown one are named, never written."""
    token, hook = (
        "123456789:AAHplantedplantedplantedplantedplanted",
        "https://me:planted-word-9@example.org/x",
    )
    at_home.environ |= {
        "WAKEFUL_DETECT__SILENCE_SECONDS": "900",
        "WAKEFUL_EYES__CLAUDE_DIRS": '["/srv/a b"]',
        "WAKEFUL_ALERTS__TELEGRAM_TOKEN": token,
        "WAKEFUL_HOOKS__SESSION_HEALTH_UPDATE_AFTER": f"curl {hook}",
        "WAKEFUL_NO__SUCH": "1",
    }
    done = at_home.run("autostart", "install")
    assert done.exit_code == 0, done.err
    text = unit(at_home).read_text()
    assert 'Environment="WAKEFUL_DETECT__SILENCE_SECONDS=900"' in text
    assert r'Environment="WAKEFUL_EYES__CLAUDE_DIRS=[\"/srv/a b\"]"' in text
    for name in ("ALERTS__TELEGRAM_TOKEN", "HOOKS__SESSION_HEALTH_UPDATE_AFTER", "NO__SUCH"):
        assert f"WAKEFUL_{name}" in done.err
        assert f"WAKEFUL_{name}" not in text
    assert not any(planted in text + done.err for planted in (token, "planted-word-9"))


def test_a_unit_of_somebodys_own_stays(at_home: RunningDaemon) -> None:
    """Neither written over nor removed: exit 2, one line."""
    unit(at_home).parent.mkdir(parents=True)
    unit(at_home).write_text("[Service]\nExecStart=/bin/true\n")
    for command in ("install", "remove"):
        refused = at_home.run("autostart", command)
        assert (refused.exit_code, "was not written by Wakeful" in refused.err) == (2, True)
    assert unit(at_home).read_text() == "[Service]\nExecStart=/bin/true\n"


def test_without_a_user_manager_nothing_is_written(daemon: RunningDaemon) -> None:
    """No systemctl, or none that answers: exit 3, what to do instead, no unit."""
    nothing = daemon.home / "empty"
    nothing.mkdir()
    refused = daemon.run("autostart", "install", environ={"PATH": str(nothing)})
    assert (refused.exit_code, "wakeful up --detach" in refused.err, unit(daemon).exists()) == (
        3,
        True,
        False,
    )
