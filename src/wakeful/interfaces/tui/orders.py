"""What can be ordered from the view, what is asked before, and how the daemon is asked. It decides and refuses."""

from typing import Final, NamedTuple

import msgspec

from wakeful.domain.errors import WakefulError
from wakeful.domain.ids import SessionId
from wakeful.domain.plaintext import plain
from wakeful.domain.record import SessionRecord
from wakeful.interfaces.cli.calm import who
from wakeful.interfaces.cli.client import Client
from wakeful.interfaces.cli.session_acts import ACT_SECONDS_MAX

MUTE_SECONDS: Final = 2 * 3600
HELD: Final = frozenset({"held-for-person", "held-in-queue"})


class Order(NamedTuple):
    """One act: the path's last part, the question, what it means, and what is sent along."""

    act: str
    asked: str
    told: str
    body: dict[str, object]


def order_of(act: str, record: SessionRecord) -> Order:
    """The order for this session."""
    name = plain(record.name or str(record.id), 60)
    project = plain(record.project, 40)
    called = f"{name} ({project})" if project else name
    if act == "revive":
        told = "Its conversation goes on, and it is told what was cut off."
        return Order(act, f"Revive {called}?", told, {"approved": False, "by": who()})
    if act == "stop":
        return Order(act, f"Stop {called}?", "Its agent is ended. A stop is final: nothing revives it.", {})
    told = "No alerts about it for 2 hours. Watching and healing go on."
    return Order(act, f"Mute {called}?", told, {"for_seconds": MUTE_SECONDS, "by": who()})


def approval_of(order: Order, refused: str) -> Order:
    """The same order for one that is held: a person looked at what was cut off."""
    return order._replace(
        asked="You looked at what was cut off: may it go on?",
        told=refused,
        body={**order.body, "approved": True},
    )


def needs_approval(refused: WakefulError) -> bool:
    """Whether the daemon only wants to hear that a person looked."""
    problem = refused.facts.get("problem")
    return isinstance(problem, dict) and problem.get("code") in HELD


def give(client: Client, order: Order, session_id: SessionId) -> str:
    """Ask the daemon; what it saw, in a few words. Blocks. Raises what it refused with."""
    answer = client.post(
        f"/api/sessions/{session_id}/{order.act}",
        msgspec.json.encode(order.body),
        timeout_seconds=ACT_SECONDS_MAX,
    )
    said = msgspec.json.decode(answer.body)
    if order.act == "mute":
        return plain(f"muted until {said.get('until', '')[11:16]} UTC")
    return plain(f"{order.act}: {said.get('outcome', '')}: {said.get('words', '')}", 200)
