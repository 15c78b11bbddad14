"""Claims about `session revive` of what a queue runs: a yes is asked for in its own words, and given only once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.healing_fixture import HealingFixture
from support.supervisor_fixture import HttpFixture, open_http_fixture


class ScriptedQueue:
    """Runs one session, which is held."""

    def __init__(self) -> None:
        self.released: list[str] = []

    async def release(self, session_id: str, by: str) -> str | None:  # noqa: ARG002 - the queue has its own
        self.released.append(session_id)
        return "a person approved it" if session_id == "tg_shop_1_2" else None

    async def waits(self, session_id: str) -> str | None:
        return "a call was cut off" if session_id == "tg_shop_1_2" else None


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[HttpFixture]:
    clinic = HealingFixture()
    clinic.queue = ScriptedQueue()
    with open_http_fixture(tmp_path, clinic) as doors:
        yield doors


def test_a_queues_session_asks_for_a_yes_and_not_to_be_adopted(doors: HttpFixture) -> None:
    """The refusal names the command; the yes is passed on; a session without a process stays unknown."""
    with doors.socket() as person:
        asked = person.post("/api/sessions/tg_shop_1_2/revive", json={})
        assert (asked.status_code, asked.json()["code"]) == (409, "held-in-queue")
        assert "wakeful resume tg_shop_1_2 --yes" in asked.json()["detail"]
        assert "is held: a call was cut off" in asked.json()["detail"]
        done = person.post("/api/sessions/tg_shop_1_2/revive", json={"approved": True})
        assert (done.status_code, done.json()["words"]) == (200, "a person approved it")
        assert person.post("/api/sessions/tg_shop_1_3/revive", json={}).status_code == 404
