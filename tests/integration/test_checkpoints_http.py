"""Claims about checkpoints over HTTP: all may read, people decide, rollback is rehearsed first."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.healing_fixture import HealingFixture
from support.supervisor_fixture import HttpFixture, open_http_fixture
from wakeful.checkpoints.model import Checkpoint, CheckpointChoice, CheckpointKind, ChoiceName
from wakeful.core.ids import SessionId

CHOICES = (
    CheckpointChoice(ChoiceName.CONTINUE, "the step is run again"),
    CheckpointChoice(ChoiceName.DONE, "the step counts as completed"),
    CheckpointChoice(ChoiceName.ROLLBACK, "the steps are undone", ("./unpublish 1.2",)),
    CheckpointChoice(ChoiceName.ABORT, "nothing more is run"),
)


def draft(subject: str) -> Checkpoint:
    return Checkpoint(
        0, CheckpointKind.JOURNAL, subject, "shop", 0.0, ("build",), ("publish",), ("announce",), CHOICES
    )


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[HttpFixture]:
    clinic = HealingFixture()

    async def opened() -> None:
        for name in ("one", "two", "three"):
            await clinic.checkpoints.open(draft(f"/srv/{name}"))

    asyncio.run(opened())
    # Its locks belong to the loop that first used them.
    clinic.build()
    with open_http_fixture(tmp_path, clinic) as doors:
        yield doors


def test_a_person_reads_and_decides_once(doors: HttpFixture) -> None:
    """List, one, continue; a second answer learns who was first; the list forgets what is decided."""
    with doors.socket() as person:
        listed = person.get("/api/checkpoints").json()["checkpoints"]
        assert [each["number"] for each in listed] == [3, 2, 1]
        assert person.get("/api/checkpoints/2").json()["may_have"] == ["publish"]
        done = person.post("/api/checkpoints/2/continue", json={"by": "ann@host"})
        assert (done.status_code, done.json()["checkpoint"]["decided_by"]) == (200, "ann@host")
        second = person.post("/api/checkpoints/2/abort", json={"by": "bob"})
        assert (second.status_code, second.json()["code"]) == (409, "already-decided")
        assert "ann@host" in second.json()["detail"]
        assert [each["number"] for each in person.get("/api/checkpoints").json()["checkpoints"]] == [3, 1]
        assert len(person.get("/api/checkpoints?all=true").json()["checkpoints"]) == 3
        missing = person.post("/api/checkpoints/99/abort", json={})
        assert (missing.status_code, missing.json()["code"]) == (404, "checkpoint-not-found")


def test_what_has_happened_is_another_answer_than_continue(doors: HttpFixture) -> None:
    """Said once with who; a plain continue after it is refused, the same again changes nothing."""
    with doors.socket() as person:
        done = person.post("/api/checkpoints/1/continue", json={"by": "ann@host", "done": True})
        told = done.json()["checkpoint"]
        assert (done.status_code, told["state"], told["decided_by"]) == (200, "counted_done", "ann@host")
        again = person.post("/api/checkpoints/1/continue", json={"by": "bob", "done": True})
        assert (again.status_code, again.json()["changed"]) == (200, False)
        other = person.post("/api/checkpoints/1/continue", json={"by": "bob"})
        assert (other.status_code, other.json()["code"]) == (409, "already-decided")


def test_a_rollback_is_a_dry_run_unless_somebody_says_otherwise(doors: HttpFixture) -> None:
    """The steps are named and nothing is decided; only `dry_run: false` decides."""
    with doors.socket() as person:
        shown = person.post("/api/checkpoints/1/rollback", json={}).json()
        assert (shown["steps"], shown["outcome"], shown["changed"]) == (["./unpublish 1.2"], None, False)
        assert person.get("/api/checkpoints/1").json()["state"] == "open"
        done = person.post("/api/checkpoints/1/rollback", json={"dry_run": False, "by": "ann"}).json()
        assert done["checkpoint"]["state"] == "rolled_back"


@pytest.mark.parametrize(
    ("path", "order"),
    [
        ("/api/checkpoints/1/continue", {}),
        ("/api/checkpoints/1/rollback", {"dry_run": False}),
        ("/api/checkpoints/1/abort", {}),
        ("/api/lessons", {"project": "shop", "prefix": "./x.sh"}),
        ("/api/lessons/forget", {"project": "shop", "prefix": "./x.sh"}),
    ],
)
def test_an_agent_neither_decides_nor_teaches(
    doors: HttpFixture, path: str, order: dict[str, object]
) -> None:
    """Refused at both doors, and nothing has changed; reading stays allowed."""
    doors.working_for[os.getpid()] = SessionId("claude-working")
    for caller in (doors.socket(), doors.tcp()):
        with caller:
            answer = caller.post(path, json=order)
            assert (answer.status_code, answer.json()["code"]) == (403, "agent-may-not-decide")
            assert caller.get("/api/checkpoints/1").json()["state"] == "open"
            assert caller.get("/api/lessons").json()["lessons"] == []


def test_lessons_are_taught_listed_and_forgotten(doors: HttpFixture) -> None:
    """Also together with a yes; a lesson that cannot be taught decides nothing."""
    with doors.socket() as person:
        refused = person.post("/api/checkpoints/3/continue", json={"always_local": "bash -c"})
        assert (refused.status_code, refused.json()["code"]) == (400, "bad-lesson")
        assert person.get("/api/checkpoints/3").json()["state"] == "open"
        person.post("/api/checkpoints/3/continue", json={"always_local": "./x.sh", "by": "ann"})
        (lesson,) = person.get("/api/lessons").json()["lessons"]
        assert (lesson["project"], lesson["prefix"], lesson["by"]) == ("shop", "./x.sh", "ann")
        gone = person.post("/api/lessons/forget", json={"project": "shop", "prefix": "./x.sh"})
        assert gone.json()["changed"] is True
        assert person.get("/api/lessons").json()["lessons"] == []
