"""Builds the supervisor and the registry over the same sessions."""

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.judging.thresholds import Policy
from wakeful.sessions.reachability import ReachabilityChecker
from wakeful.sessions.registry import KnownSessions, SessionRegistry
from wakeful.sessions.supervisor import Supervisor
from wakeful.sessions.supervisor_host import EvidenceSources, SupervisorHost


class SessionTracking(Struct, frozen=True):
    supervisor: Supervisor
    reachability: ReachabilityChecker
    registry: SessionRegistry


def track_sessions(
    clock: Clock,
    policy: Policy,
    host: SupervisorHost,
    sources: EvidenceSources,
    *,
    known: KnownSessions,
    boot_id: str,
) -> SessionTracking:
    supervisor = Supervisor(clock, known, policy, host, sources, boot_id=boot_id)
    reachability = ReachabilityChecker(supervisor, host)
    registry = SessionRegistry(known, supervisor, reachability, policy.fold_after_seconds)
    return SessionTracking(supervisor, reachability, registry)
