"""Claims about sessions of other machines on one store: shown as unknown, with the machine, and left alone."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from support.control_helpers import now
from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.alerts.mute_pause import MUTE_KIND, PAUSE_KIND
from wakeful.checkpoints import user_rules
from wakeful.control import idempotency
from wakeful.control.ownership import RunsElsewhere
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.leases import Lease, LeaseKey
from wakeful.core.machine import Machine
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.integrations import github
from wakeful.judging.session_record import SessionRecord
from wakeful.sessions.registry import Query
from wakeful.storage.base import SHARED_NOTES, Store, Transition
from wakeful.testing.memory_store import MemoryStore
from wakeful.work.expiry import NOTIFIED_KIND

HERE = Machine("1" * 16, "boot of here", "here")
THERE = Machine("2" * 16, "boot of there", "tower")
A = SessionId("claude-a")
MANAGED = ManagedSession(
    session_id=A,
    conversation_id=ConversationId("a"),
    driver="claude",
    cwd="/home/me/shop",
    argv=("claude",),
    epoch=1,
    since=1.0,
    process=Process(7, 70, THERE.boot_id, THERE.id),
    name="fox",
)


def alive(*, is_alive: bool = True) -> Transition:
    return Transition(A, 1.0, "", "idle", "", "healthy", "seen", b"{}", alive=is_alive)


class TwoMachines:
    """The fixture's supervisor is on one of them; a test writes what the other one stores."""

    def __init__(self) -> None:
        store = MemoryStore(machine=HERE)
        self.house = SupervisorFixture(store=store)
        self.there: Store = store.on_machine(THERE)

    def follow(self) -> Sequence[SessionRecord]:
        """The records after the daemon here has read the store again."""
        now(self.house.holdings.reload())
        self.house.supervisor.judge_pending()
        return [each.record for each in self.house.registry.sessions.values() if each.record is not None]


@pytest.fixture
def machines() -> TwoMachines:
    return TwoMachines()


def test_a_session_of_another_machine_is_unknown_and_named(machines: TwoMachines) -> None:
    """Nothing of it is known here but its row: no verdict, no action, and it is listed."""
    now(machines.there.save_managed_session(MANAGED))
    (record,) = machines.follow()
    assert (record.id, record.host, record.health, record.managed) == (A, "tower", "unknown", False)
    assert (record.session_alive, record.pid, record.actions, record.attachable) == (False, None, (), False)
    assert [each.summary for each in record.findings] == ["runs on another machine: tower"]
    assert record.attention == "none"
    assert (record.name, record.project, record.cwd) == ("fox", "shop", "/home/me/shop")
    assert machines.house.registry.find("fox").subject.id == A
    assert A.encode() in machines.house.registry.page(Query(), machines.house.clock.now()).bodies[0]


def test_a_log_in_a_shared_home_is_judged_by_the_machine_of_its_process(machines: TwoMachines) -> None:
    """Its process is not here, and a registry file says so: that is no death."""
    house = machines.house
    agent = house.start("a")
    house.end(agent)
    now(machines.there.record([alive()]))
    (record,) = machines.follow()
    assert (record.health, record.findings[0].code) == ("unknown", "runs_elsewhere")
    now(machines.there.record([alive(is_alive=False)]))
    (record,) = machines.follow()
    assert record.findings == ()


def test_a_process_that_lives_here_is_better_evidence(machines: TwoMachines) -> None:
    """A person continues the conversation here: it is judged, and can be adopted."""
    machines.house.start("a")
    now(machines.there.record([alive()]))
    (record,) = machines.follow()
    assert (record.health, record.session_alive) == ("healthy", True)
    assert now(machines.house.hands.adopt("a")).epoch == 1


def test_what_is_managed_here_is_judged_here(machines: TwoMachines) -> None:
    """A machine that was switched off still says that its agent lives; the conversation went on here since."""
    house = machines.house
    now(machines.there.record([alive()]))
    agent = house.start("a")
    now(house.hands.adopt("a"))
    house.end(agent)
    (record,) = machines.follow()
    assert record.managed
    assert [each.code for each in record.findings] != ["runs_elsewhere"]


def test_what_is_over_elsewhere_and_unknown_here_disappears(machines: TwoMachines) -> None:
    """The other machine released it."""
    now(machines.there.save_managed_session(MANAGED))
    machines.follow()
    now(machines.there.drop_managed_session(A))
    assert machines.follow() == []


@pytest.mark.parametrize("act", ["adopt", "release", "stop", "interrupt", "resume"])
def test_a_command_on_it_is_refused_with_its_machine(machines: TwoMachines, act: str) -> None:
    """The refusal says where to run the command."""
    now(machines.there.save_managed_session(MANAGED))
    machines.follow()
    with pytest.raises(RunsElsewhere, match="run the command on tower"):
        now(getattr(machines.house.hands, act)(A))
    assert machines.house.driver.asked == []


def test_only_leases_of_own_sessions_are_renewed(machines: TwoMachines) -> None:
    """A machine that is gone keeps no lease alive through another one."""
    now(machines.there.save_managed_session(MANAGED))
    lease = now(machines.there.claim_lease(LeaseKey(A), "wakeful on tower"))
    assert isinstance(lease, Lease)
    machines.follow()
    machines.house.clock.advance(30.0)
    now(machines.house.holdings.renew_all())
    assert now(machines.there.leases())[0].expires_at == lease.expires_at


def test_the_end_of_another_machine_s_process_is_not_seen_here(machines: TwoMachines) -> None:
    """Its process has a pid of this machine, too; what happens to that one is no news of the session."""
    here = Process(7, 70, HERE.boot_id, HERE.id)
    now(machines.there.save_managed_session(MANAGED))
    machines.follow()
    machines.house.supervisor.on_process(subject("b"), here, ProcessState.ALIVE, source="a test")
    machines.house.supervisor.on_exit(here)
    assert next(each for each in machines.follow() if each.id == A).findings[0].code == "runs_elsewhere"
    assert replace(here, machine=THERE.id) != here


def test_what_machines_share_is_what_they_must_agree_on() -> None:
    """Every other kind of note is about one machine, also one that is added later."""
    kinds = {PAUSE_KIND, MUTE_KIND, user_rules.KIND, github.KIND, NOTIFIED_KIND, idempotency.KIND}
    assert kinds == SHARED_NOTES
