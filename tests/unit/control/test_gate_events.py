"""Claims about what follows an action: the evidence that it changed is read again."""

from types import SimpleNamespace
from typing import cast

from support.supervisor_fixture import BOOT, SupervisorFixture, subject
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.daemon.control import GateEvents
from wakeful.daemon.observer import SessionObserver
from wakeful.judging.evidence import Pane


def test_the_screen_is_read_again_after_an_action(house: SupervisorFixture) -> None:
    """A start may end at a dialog, which only the screen shows. A session without a terminal has none."""
    house.start("a")
    house.start("b")
    alive = ProcessState.ALIVE
    house.supervisor.on_pane(subject("a").id, Pane("/tmp/mine", "a", "%1", Process(7, 1, BOOT), alive, alive))
    read: list[SessionId] = []
    observer = SimpleNamespace(registry=house.registry, sources=SimpleNamespace(find_pane=read.append))
    events = GateEvents(cast(SessionObserver, observer), ())
    for name in "ab":
        events.on_concluded(subject(name).id)
    assert read == [subject("a").id]
