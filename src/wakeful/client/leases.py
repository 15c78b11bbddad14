"""Library functions for tasks and ownership: the same leases as on the command line and over HTTP.

The daemon decides about ownership; the only state here is the epoch. `wakeful/__init__` names the public
functions.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final

import msgspec

from wakeful.client.client import DaemonAnswer, own_daemon
from wakeful.client.errors import RequestDeclined
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WakefulError, WorldError
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.core.leases import LEASE_SECONDS, ConversationHeld, LeaseLost, WorkState, parse_work_id
from wakeful.linux.proc import identify
from wakeful.work.service import ClaimedRun, LeaseRecord, RenewedLease, RunRecord, WorkRecord

# Two heartbeats may be lost before the lease is.
HEARTBEATS_PER_LEASE: Final = 3


def claim_next_run(
    *, owner: str | None = None, project: str | None = None, ttl_seconds: float = LEASE_SECONDS
) -> RunRecord | None:
    """Begin an attempt of the oldest work that is due; None when there is none.

    The run is this caller's until `lease_until`: heartbeat before that, then complete or fail it. Raises
    WorldError without a daemon.
    """
    order = {**_claim_fields(owner), "project": project, "ttl_seconds": ttl_seconds}
    return decode_json(_post("/api/work/claim", order).body, ClaimedRun).run


def heartbeat_run_lease(work_id: str, epoch: int, *, ttl_seconds: float = LEASE_SECONDS) -> str:
    """Keep a run's lease; its new end, as ISO 8601. Raises LeaseLost: then stop working."""
    return _renew(f"/api/work/{parse_work_id(work_id)}/heartbeat", epoch, ttl_seconds)


def complete_run(work_id: str, epoch: int, result: str = "") -> None:
    """The run succeeded. Raises LeaseLost: then nothing was changed."""
    _post(f"/api/work/{parse_work_id(work_id)}/complete", {"epoch": epoch, "result": result})


def fail_run(work_id: str, epoch: int, reason: str = "") -> WorkState:
    """The run failed; whether its work is pending again or has failed. Raises LeaseLost."""
    answer = _post(f"/api/work/{parse_work_id(work_id)}/fail", {"epoch": epoch, "reason": reason})
    return decode_json(answer.body, WorkRecord).state


class Ownership:
    """A conversation that this process owns while `lost` is not set."""

    def __init__(self, lease: LeaseRecord) -> None:
        self.session_id: SessionId = lease.session_id
        self.epoch = lease.epoch
        self.lost = threading.Event()

    def require(self) -> None:
        """Raise LeaseLost unless this process still owns the conversation; call it before each effect."""
        if self.lost.is_set():
            raise LeaseLost(shown=self.session_id, epoch=self.epoch)


@contextmanager
def own(
    session_id: str, *, owner: str | None = None, ttl_seconds: float = LEASE_SECONDS
) -> Iterator[Ownership]:
    """Own a conversation inside the block: claimed at its start, kept by a thread, given back at its end.

    Raises ConversationHeld, which names the owner, before the block, and LeaseLost after it if the lease was lost
    inside the block.
    """
    order = {**_claim_fields(owner), "ttl_seconds": ttl_seconds}
    answer = _post(f"/api/sessions/{parse_session_id(session_id)}/claim", order)
    ownership = Ownership(decode_json(answer.body, LeaseRecord))
    over = threading.Event()
    keeper = threading.Thread(
        target=_renew_until_over,
        args=(ownership, over, ttl_seconds),
        name=f"own-{ownership.session_id}",
        daemon=True,
    )
    keeper.start()
    try:
        yield ownership
    finally:
        over.set()
        keeper.join()
        _release(ownership)
    ownership.require()


def _renew_until_over(ownership: Ownership, over: threading.Event, ttl_seconds: float) -> None:
    """Renew until the block is over or the lease is lost. While the daemon is away, retry until the lease may have ended."""
    deadline = monotonic() + ttl_seconds
    while not over.wait(ttl_seconds / HEARTBEATS_PER_LEASE):
        try:
            _renew(f"/api/sessions/{ownership.session_id}/renew", ownership.epoch, ttl_seconds)
            deadline = monotonic() + ttl_seconds
        except LeaseLost:
            ownership.lost.set()
            return
        except WorldError:
            if monotonic() >= deadline:
                # No renewal for a whole lease: another owner is possible, so the lease counts as lost.
                ownership.lost.set()
                return


def _release(ownership: Ownership) -> None:
    try:
        _post(f"/api/sessions/{ownership.session_id}/yield", {"epoch": ownership.epoch})
    except LeaseLost:
        ownership.lost.set()
    except WorldError:
        # Without a daemon the lease ends by itself.
        return


def _claim_fields(owner: str | None) -> dict[str, Any]:
    """This process as the claimant, under its own name unless another is given."""
    pid = os.getpid()
    return {"owner": owner or f"{socket.gethostname()} pid {pid}", "holder": identify(pid)}


def _renew(target: str, epoch: int, ttl_seconds: float) -> str:
    answer = _post(target, {"epoch": epoch, "ttl_seconds": ttl_seconds})
    return decode_json(answer.body, RenewedLease).lease_until


def _post(target: str, order: dict[str, Any]) -> DaemonAnswer:
    """Raises the daemon's refusals as the errors that the daemon raised."""
    try:
        return own_daemon().post(target, msgspec.json.encode(order))
    except RequestDeclined as refusal:
        raise _error_of_refusal(refusal, target.split("/")[3], order) from refusal


def _error_of_refusal(refusal: RequestDeclined, shown: str, order: dict[str, Any]) -> WakefulError:
    problem = refusal.problem
    if problem.get("code") == LeaseLost.code:
        return LeaseLost(shown=shown, epoch=order["epoch"])
    if problem.get("code") == ConversationHeld.code:
        facts = {name: problem.get(name) for name in ("owner", "since", "until")}
        return ConversationHeld(shown=shown, **facts)
    return refusal
