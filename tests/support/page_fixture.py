"""A busy morning, for looking at the page: sessions of every kind, an incident, decisions, agents, events.

It asserts nothing. `screenshots.py` takes pictures of it, and tests of the page may start from it.
"""

from pathlib import Path
from typing import Final

import msgspec

from support.agents_fixture import TestHub, agent, with_pid
from support.healing_fixture import HealingFixture
from support.supervisor_fixture import HttpFixture, subject
from wakeful.agents.model import AgentRuntime
from wakeful.checkpoints.model import Checkpoint, CheckpointChoice, CheckpointKind, ChoiceName
from wakeful.core.ids import SessionId
from wakeful.healing.case import HealingCase
from wakeful.incidents.critical_event import critical_event
from wakeful.incidents.critical_log import CriticalLog
from wakeful.incidents.model import Cause, MemberStatus, Origin
from wakeful.judging.events import (
    CallEnded,
    CallStarted,
    Failure,
    Progressed,
    Prompted,
    Speaker,
    TurnEnded,
)
from wakeful.judging.findings import FindingCode
from wakeful.testing.scripted_runtime import ALIVE, SESSION_DEAD, UNKNOWN

MINUTE: Final = 60.0
# Sessions as (conversation, project).
NAMES: Final = {
    "checkout": ("7c9e6679-7425-40de-944b-e07fc1f90ae7", "shop-checkout"),
    "deploy": ("5a74ada3-1f0e-4a59-8c53-0f3a5f6f2b11", "infra"),
    "ledger": ("9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "bank-ledger"),
    "search": ("1d2c9c35-6f0b-4d8e-b6fa-2f7d5f3c8f01", "search"),
    "mobile": ("3f2a91bc-0f5e-4bb8-9a53-71b9e5b0c642", "mobile-app"),
    "docs": ("c56a4180-65aa-42ec-a945-5fd21dec0538", "docs"),
    "billing": ("e2719d58-a985-41f8-ae2f-b5b0f6dc0a11", "billing"),
    "website": ("f81d4fae-7dec-41d0-a765-00a0c91e6bf6", "website"),
    "etl": ("0f8fad5b-d9cb-469f-a165-70867728950e", "warehouse-etl"),
    "sdk": ("6fa459ea-ee8a-4ca4-894e-db77e160355e", "python-sdk"),
}


class MorningFixture:
    """Plays the morning behind running servers: `play` runs in their loop."""

    def __init__(self, clinic: HealingFixture, folder: Path) -> None:
        self.clinic = clinic
        self._log = CriticalLog(folder / "critical_events.jsonl")
        self._calls = 0

    async def play(self) -> None:
        house = self.clinic
        for name in ("checkout", "deploy", "ledger", "sdk"):
            await self._begin(name, managed=True)
        for name in ("docs", "search", "mobile", "billing", "website", "etl"):
            await self._begin(name)
        self._turn("website")
        self._turn("etl")
        house.hear(self._id("website"), TurnEnded(house.wall()))
        house.end(self._processes["etl"])
        for _ in range(6):
            for name in ("checkout", "deploy", "docs", "sdk"):
                self._turn(name)
            house.clock.advance(11 * MINUTE)
        await self._trouble()
        for name in ("checkout", "sdk"):
            self._turn(name)
        self._call("checkout", "Bash", command="npm run test:e2e -- --shard 2/4")
        house.ask(self._id("ledger"), "Bash: psql -f migrations/0042_split_accounts.sql")
        house.hear(self._id("sdk"), Progressed(house.wall()))
        house.hear(self._id("docs"), TurnEnded(house.wall()))
        house.clock.advance(45)
        house.supervisor.on_timer()
        house.settle()
        await self._decisions()

    async def _begin(self, name: str, *, managed: bool = False) -> None:
        conversation, project = NAMES[name]
        self._processes = getattr(self, "_processes", {})
        self._processes[name] = self.clinic.start(conversation, project=project)
        if managed:
            await self.clinic.hands.adopt(conversation)
            self.clinic.settle()
        if name in ("checkout", "deploy"):
            self.clinic.show(conversation, self._processes[name])

    def _id(self, name: str) -> str:
        return NAMES[name][0]

    def _turn(self, name: str) -> None:
        """A prompt and some calls with their results; the turn goes on."""
        house, clock = self.clinic, self.clinic.clock
        house.hear(self._id(name), Prompted(house.wall()))
        house.say(self._id(name), "Round the totals half up, and run the tests of the cart.", Speaker.PERSON)
        house.say(self._id(name), "I look for the rounding first, then I change it and run the tests.")
        for tool, given, seconds in (
            ("Read", {"file_path": "src/cart/totals.ts"}, 2),
            ("Grep", {"pattern": "roundHalfUp"}, 3),
            ("Edit", {"file_path": "src/cart/totals.ts"}, 2),
            ("Bash", {"command": "npm test -- totals"}, 41),
        ):
            clock.advance(9)
            call = self._call(name, tool, **given)
            clock.advance(seconds)
            failed = tool == "Bash" and self._calls % 3 == 0
            result = b"1 failed, 41 passed" if failed else b"ok"
            house.hear(self._id(name), CallEnded(house.wall(), call, is_error=failed, result=result))
        clock.advance(6)
        if self._calls % 8:
            return
        house.hear(self._id(name), TurnEnded(house.wall()))

    def _call(self, name: str, tool: str, **given: str) -> str:
        self._calls += 1
        call = f"call-{self._calls}"
        self.clinic.hear(
            self._id(name), CallStarted(self.clinic.wall(), call, tool, input=msgspec.json.encode(given))
        )
        return call

    async def _trouble(self) -> None:
        """One is killed during a deployment, one goes silent, one fails repeatedly, one has no login."""
        house = self.clinic
        house.hear(self._id("search"), Prompted(house.wall()))
        self._call("search", "WebFetch", url="https://docs.example/api")
        house.fail(self._id("mobile"), "Please run /login", Failure.AUTH)
        house.fail(self._id("billing"), "You've hit your limit", Failure.LIMIT)
        await self._past_incident()
        house.clock.advance(14 * MINUTE)
        house.supervisor.on_timer()
        house.settle()
        self._turn("deploy")
        self._call("deploy", "Bash", command="terraform apply -auto-approve prod.plan")
        house.clock.advance(25)
        house.end(self._processes["deploy"])
        await self._incident("deploy", Cause.SESSION, "died in the middle of a turn", MemberStatus.HELD)
        await self._incident("mobile", Cause.AUTH, "its login was refused", MemberStatus.LEFT_ALONE)
        self._event("session_unhealthy", "deploy", "session_dead", "held_for_approval")
        house.clock.advance(3 * MINUTE)

    async def _past_incident(self) -> None:
        await self._incident("checkout", Cause.SESSION, "died in the middle of a turn", MemberStatus.REVIVED)
        self._event("session_unhealthy", "checkout", "session_dead", "revival_attempted")
        self.clinic.clock.advance(40)
        await self.clinic.incidents.leave(subject(self._id("checkout")).id)
        self._event("session_recovered", "checkout", "session_dead", "none")

    async def _incident(self, name: str, cause: Cause, summary: str, fate: MemberStatus) -> None:
        session_id, project = subject(self._id(name)).id, NAMES[name][1]
        scope = "claude" if cause is Cause.AUTH else session_id
        incidents = self.clinic.incidents
        incident = await incidents.join(session_id, Origin(cause, scope), summary, project)
        did = {
            MemberStatus.REVIVED: "resumed its conversation, and it came back",
            MemberStatus.HELD: "no action: `terraform apply` may have taken effect",
        }
        await incidents.update(incident.with_treatment(session_id, fate, did.get(fate, "")))

    def _event(self, event: str, name: str, reason: str, action: str) -> None:
        session_id, project = subject(self._id(name)).id, NAMES[name][1]
        at = self.clinic.wall()
        self._log.append(critical_event(event, session_id, project, reason, action, None, {}, at_wall=at))

    async def _decisions(self) -> None:
        drafts = {
            f"/srv/{NAMES['website'][1]}": "step publish: rsync site/ web1:/srv/www",
            str(subject(self._id("deploy")).id): "Bash: terraform apply -auto-approve prod.plan",
        }
        for at, (subject_text, may_have) in enumerate(drafts.items()):
            kind = CheckpointKind.SESSION if at else CheckpointKind.JOURNAL
            project = NAMES["deploy" if at else "website"][1]
            draft = Checkpoint(
                0, kind, subject_text, project, self.clinic.wall(), (), (may_have,), (), CHOICES
            )
            opened = await self.clinic.checkpoints.open(draft)
            if at:
                self._hold(opened.number)

    def _hold(self, number: int) -> None:
        session_id, now = subject(self._id("deploy")).id, self.clinic.wall()
        self.clinic.troubles[session_id] = HealingCase(
            session_id=session_id,
            work=session_id,
            project=NAMES["deploy"][1],
            code=FindingCode.SESSION_DEAD,
            opened_at=now,
            code_since=now,
            held=True,
            checkpoint=number,
            did=f"no action: an interrupted call may have had effects elsewhere (checkpoint {number})",
        )


CHOICES: Final = (
    CheckpointChoice(ChoiceName.CONTINUE, "it is run again from its start"),
    CheckpointChoice(ChoiceName.DONE, "it counts as completed and is not repeated"),
    CheckpointChoice(ChoiceName.ABORT, "nothing is run"),
)


def hub_of_three(clinic: HealingFixture) -> TestHub:
    """Agents of the hub: one working, one whose session is gone, one unknown, one stopped."""
    docker = AgentRuntime.DOCKER
    hub = TestHub(
        agent("docs", runtime=docker), agent("fox", runtime=docker), agent("nightly"), agent("triage")
    )
    hub.clock.set_wall(clinic.wall())
    hub.feed = clinic.feed
    clinic.hub = hub.hub
    return hub


async def look_at_agents(hub: TestHub) -> None:
    hub.runtime.observations |= {
        "docs": with_pid(ALIVE, 4017),
        "fox": msgspec.structs.replace(SESSION_DEAD, reason="agent exited to a shell"),
        "nightly": UNKNOWN,
    }
    hub.sessions.by_pid[4017] = SessionId(subject(NAMES["docs"][0]).id)
    await hub.hub.inspect(tuple(hub.book.agents.values()))


def play(doors: HttpFixture, morning: MorningFixture, hub: TestHub) -> None:
    """Play the whole morning in the servers' loop."""
    doors.run(morning.play())
    doors.run(look_at_agents(hub))
