"""State folders with a wrong mode: the user's own are put right and said, others are left as they are."""

import logging
import os
from pathlib import Path

import pytest

from wakeful.config.paths import StatePaths
from wakeful.config.state_dir import make_state_dir


def mode(folder: Path | str) -> int:
    return Path(folder).stat().st_mode & 0o777


@pytest.mark.parametrize("wrong", [0o755, 0o770, 0o701, 0o500, 0o000])
def test_an_own_folder_is_put_right_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: int
) -> None:
    """Empty or with a store, and the folders in it; the second time there is no output."""
    paths = StatePaths(str(tmp_path / "state"))
    make_state_dir(paths)
    assert not caplog.records
    Path(paths.database).touch()
    for folder in (paths.spool, paths.state_dir):
        Path(folder).chmod(wrong)
    with caplog.at_level(logging.WARNING):
        make_state_dir(paths)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"{each} had mode {wrong:o}; now only you can use it (mode 700)"
        for each in (paths.state_dir, paths.spool)
    ]
    assert {mode(paths.state_dir), mode(paths.spool)} == {0o700}
    make_state_dir(paths)
    assert len(caplog.records) == 2


def test_a_folder_with_other_things_and_a_link_stay_as_they_are(tmp_path: Path) -> None:
    """A home that was named by mistake is not closed to others, and nothing behind a link is changed."""
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "letter.txt").touch()
    make_state_dir(StatePaths(str(home)))
    assert mode(home) == 0o755
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    (tmp_path / "state").symlink_to(target)
    make_state_dir(StatePaths(str(tmp_path / "state")))
    assert mode(target) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_stays(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    os.chown(folder, 12345, 12345)
    make_state_dir(StatePaths(str(folder)))
    assert mode(folder) == 0o755
