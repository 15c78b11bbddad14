"""Claims about CHECKPOINT_<n>.md on the disk: whole or not at all, never through a link, never over another file."""

import asyncio
from pathlib import Path

import pytest

from wakeful.checkpoints.files import CheckpointFiles, CheckpointNotWritten, read_checkpoint
from wakeful.checkpoints.model import Checkpoint, CheckpointChoice, CheckpointKind, ChoiceName, number_draft
from wakeful.core import fault_points as faults

CHOICES = (CheckpointChoice(ChoiceName.CONTINUE, "it goes on"), CheckpointChoice(ChoiceName.ABORT, "it ends"))


def checkpoint(subject: object = "claude-a", kind: CheckpointKind = CheckpointKind.SESSION) -> Checkpoint:
    draft = Checkpoint(0, kind, str(subject), "shop", 0.0, (), ("git push",), (), CHOICES, trace_id="t")
    return number_draft(draft, 3, 1_800_000_000.0)


@pytest.fixture
def files(tmp_path: Path) -> CheckpointFiles:
    return CheckpointFiles(tmp_path / "home" / "checkpoints")


def test_agents_and_journals_have_their_own_places(files: CheckpointFiles, tmp_path: Path) -> None:
    """An agent's lies in Wakeful's folder, which only its owner reads; a journal's in its root."""
    asyncio.run(files.write(checkpoint()))
    asyncio.run(files.write(checkpoint(tmp_path, CheckpointKind.JOURNAL)))
    own = tmp_path / "home" / "checkpoints"
    assert own.stat().st_mode & 0o777 == 0o700
    assert read_checkpoint(own / "CHECKPOINT_3.md") == checkpoint()
    assert read_checkpoint(tmp_path / "CHECKPOINT_3.md") == checkpoint(tmp_path, CheckpointKind.JOURNAL)


def test_a_decision_replaces_the_text_and_nothing_else_does(files: CheckpointFiles, tmp_path: Path) -> None:
    """The same checkpoint is replaced; a file of another store, or of a person, stays as it is."""
    asyncio.run(files.write(checkpoint()))
    decided = checkpoint().with_decision(ChoiceName.ABORT, "ann", 1_800_000_100.0)
    asyncio.run(files.write(decided))
    path = tmp_path / "home" / "checkpoints" / "CHECKPOINT_3.md"
    assert read_checkpoint(path) == decided
    path.write_text("mine\n")
    assert asyncio.run(files.is_free(checkpoint())) is False
    with pytest.raises(CheckpointNotWritten, match="a different file"):
        asyncio.run(files.write(checkpoint()))
    assert path.read_text() == "mine\n"


def test_no_link_is_followed(files: CheckpointFiles, tmp_path: Path) -> None:
    """Neither a link in its place nor a folder that is one leads anywhere."""
    target = tmp_path / "target"
    target.write_text("precious\n")
    own = tmp_path / "home" / "checkpoints"
    own.mkdir(parents=True)
    (own / "CHECKPOINT_3.md").symlink_to(target)
    with pytest.raises(CheckpointNotWritten):
        asyncio.run(files.write(checkpoint()))
    assert read_checkpoint(own / "CHECKPOINT_3.md") is None
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointNotWritten):
        asyncio.run(files.write(checkpoint(tmp_path / "link", CheckpointKind.JOURNAL)))
    assert (target.read_text(), list((tmp_path / "elsewhere").iterdir())) == ("precious\n", [])


def test_a_full_disk_leaves_the_old_text_and_nothing_beside_it(
    files: CheckpointFiles, tmp_path: Path
) -> None:
    """What could not be written whole was not written."""
    asyncio.run(files.write(checkpoint()))
    own = tmp_path / "home" / "checkpoints"
    before = faults.install(
        faults.FaultInjector([faults.InjectedFault("checkpoint.written", 1, "raise:ENOSPC")])
    )
    try:
        with pytest.raises(CheckpointNotWritten, match="No space left"):
            asyncio.run(files.write(checkpoint().with_decision(ChoiceName.ABORT, "ann", 1.0)))
    finally:
        faults.install(before)
    assert [each.name for each in own.iterdir()] == ["CHECKPOINT_3.md"]
    assert read_checkpoint(own / "CHECKPOINT_3.md") == checkpoint()
