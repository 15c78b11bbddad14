"""Claims about hooks on a real disk: the command of a hook, and the settings of a client."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.daemon_process import RunningDaemon
from wakeful.config.paths import StatePaths
from wakeful.hooks.install import (
    BACKUP,
    SettingsChanged,
    SettingsPlan,
    apply_plan,
    hooks_state,
    plan_install,
    plan_uninstall,
)
from wakeful.hooks.model import REPORT_BYTES_MAX, SLOTS, NotOursToWrite, command_for

SETTINGS = b'{\r\n\t"model":"opus", "n": 1.50,\r\n\t"hooks": { "Stop":[] }\r\n}'
SHELLS = ["dash", "bash"]


@pytest.fixture
def places(tmp_path: Path) -> StatePaths:
    paths = StatePaths(str(tmp_path / "it's $HOME"))
    Path(paths.spool).mkdir(parents=True)
    return paths


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".claude").mkdir()
    return {"HOME": str(tmp_path)}


@pytest.fixture
def settings(environ: dict[str, str]) -> Path:
    path = Path(environ["HOME"]) / ".claude" / "settings.json"
    path.write_bytes(SETTINGS)
    path.chmod(0o640)
    return path


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def fire(places: StatePaths, payload: bytes, shell: str = "sh") -> subprocess.CompletedProcess[bytes]:
    command = [shell, "-c", command_for(places.spool)]
    return subprocess.run(command, input=payload, capture_output=True, check=False, timeout=10)


def silent(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_report_is_whole_and_for_its_owner_alone(places: StatePaths, shell: str) -> None:
    """One file with the very bytes, mode 600, in a slot; nothing is printed."""
    payload = json.dumps({"x": "ü" * 100_000}).encode()
    assert silent(fire(places, payload, shell))
    (report,) = Path(places.spool).iterdir()
    assert report.read_bytes() == payload
    assert (report.stat().st_mode & 0o777, int(report.name) < SLOTS) == (0o600, True)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_hook_without_wakeful_says_and_does_nothing(places: StatePaths, shell: str) -> None:
    """Moved or uninstalled: exit 0, not a word, no file. Nor does a slot that cannot be written refuse anything."""
    spool = Path(places.spool)
    for slot in range(SLOTS):
        (spool / str(slot)).mkdir()
    assert silent(fire(places, b"{}", shell))
    spool.rename(spool.with_name("moved"))
    assert silent(fire(places, b"{}", shell))
    assert not spool.exists()


def test_an_abandoned_spool_is_bounded(places: StatePaths) -> None:
    """No report is longer than the reader takes, and a slot that is taken is overwritten."""
    for slot in range(SLOTS):
        (Path(places.spool) / str(slot)).write_bytes(b"old")
    fire(places, b"x" * (REPORT_BYTES_MAX + 70_000))
    sizes = sorted(path.stat().st_size for path in Path(places.spool).iterdir())
    assert (len(sizes), sizes[-2:]) == (SLOTS, [3, REPORT_BYTES_MAX])


def test_settings_come_back_byte_for_byte(
    settings: Path, environ: dict[str, str], places: StatePaths
) -> None:
    """Installed twice is installed once; taken out, file, mode and folder are what they were."""
    apply_plan(plan_install("claude", environ, places))
    assert settings.with_name(settings.name + BACKUP).read_bytes() == SETTINGS
    assert (json.loads(settings.read_bytes())["n"], settings.stat().st_mode & 0o777) == (1.5, 0o640)
    assert plan_install("claude", environ, places).is_done
    assert hooks_state("claude", environ, places).is_current
    apply_plan(plan_uninstall("claude", environ))
    assert (settings.read_bytes(), names(settings.parent)) == (SETTINGS, [settings.name])
    assert plan_uninstall("claude", environ).is_done


def test_hooks_of_another_home_are_replaced(
    settings: Path, environ: dict[str, str], places: StatePaths
) -> None:
    """A moved state folder needs another install, which leaves one set of hooks and the first backup."""
    apply_plan(plan_install("claude", environ, StatePaths("/elsewhere")))
    assert not hooks_state("claude", environ, places).is_current
    apply_plan(plan_install("claude", environ, places))
    assert hooks_state("claude", environ, places).is_current
    apply_plan(plan_uninstall("claude", environ))
    assert settings.read_bytes() == SETTINGS


def test_whoever_wrote_behind_ours_keeps_that(
    settings: Path, environ: dict[str, str], places: StatePaths
) -> None:
    """A foreign hook came behind Wakeful's, in another layout: there is nothing to do, and nothing is written."""
    apply_plan(plan_install("claude", environ, places))
    theirs = json.loads(settings.read_bytes())
    theirs["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "say done"}]})
    settings.write_text(json.dumps(theirs, indent=4))
    assert plan_install("claude", environ, places).is_done
    del theirs["hooks"]["PermissionRequest"]
    settings.write_text(json.dumps(theirs, indent=4))
    assert not hooks_state("claude", environ, places).is_current
    apply_plan(plan_install("claude", environ, places))
    assert hooks_state("claude", environ, places).is_current


def test_without_the_client_nothing_is_to_be_taken_out(tmp_path: Path) -> None:
    """No folder of the client, no hooks: uninstalling is done before it began."""
    assert plan_uninstall("claude", {"HOME": str(tmp_path)}).is_done


def test_a_file_that_was_not_there_is_gone_again(environ: dict[str, str], places: StatePaths) -> None:
    """Codex has no hooks.json before; afterwards it has none."""
    folder = Path(environ["HOME"]) / ".codex"
    folder.mkdir()
    apply_plan(plan_install("codex", environ, places))
    assert names(folder) == ["hooks.json"]
    apply_plan(plan_uninstall("codex", environ))
    assert names(folder) == []


def test_a_file_that_changed_meanwhile_is_left_alone(
    settings: Path, environ: dict[str, str], places: StatePaths
) -> None:
    """Another program wrote between plan and act: its words stay."""
    plan = plan_install("claude", environ, places)
    settings.write_bytes(b"{}")
    with pytest.raises(SettingsChanged):
        apply_plan(plan)
    assert settings.read_bytes() == b"{}"


@pytest.mark.parametrize("how", ["link", "dangling", "hard", "read-only", "fifo", "folder", "no folder"])
def test_what_is_not_ours_is_left_alone(
    settings: Path, environ: dict[str, str], places: StatePaths, how: str
) -> None:
    """Links, second names, read-only files, things that are no files: refused with a reason, and untouched."""
    elsewhere = settings.with_name("elsewhere")
    if how == "hard":
        elsewhere.hardlink_to(settings)
    elif how == "read-only":
        settings.chmod(0o440)
    else:
        settings.rename(elsewhere)
        if how == "fifo":
            os.mkfifo(settings)
        elif how == "folder":
            settings.mkdir()
        elif how == "no folder":
            settings.parent.rename(settings.parent.with_name("away"))
        else:
            settings.symlink_to(elsewhere if how == "link" else "nowhere")
    with pytest.raises(NotOursToWrite):
        plan_install("claude", environ, places)


def test_a_plan_shows_both_sides(settings: Path, environ: dict[str, str], places: StatePaths) -> None:
    """A dry run is a plan that is not carried out."""
    plan = plan_install("claude", environ, places)
    assert isinstance(plan, SettingsPlan)
    assert (plan.before, plan.backup, plan.is_done) == (SETTINGS, SETTINGS, False)
    assert settings.read_bytes() == SETTINGS


def test_the_command_shows_before_it_writes(daemon: RunningDaemon) -> None:
    """A dry run prints the difference; settings with a comment get the lines to add, exit 1, and stay."""
    settings = daemon.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_bytes(SETTINGS)
    shown = daemon.run("hooks", "install", "claude", "--dry-run")
    assert (shown.exit_code, settings.read_bytes()) == (0, SETTINGS)
    assert all(line[:1] in {"+", "-", "@", " "} for line in shown.out.splitlines())
    assert "PermissionRequest" in shown.out
    settings.write_text("{} // mine")
    refused = daemon.run("hooks", "install", "claude")
    assert (refused.exit_code, settings.read_text()) == (1, "{} // mine")
    assert "PermissionRequest" in json.loads(refused.out)["hooks"]
    assert refused.out.splitlines()[:2] == ["{", '  "hooks": {'], "lines to read and to copy"
    assert "Nothing was changed" in refused.err
