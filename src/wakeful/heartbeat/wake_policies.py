"""The policies agents are woken by: read again when their files changed, remembered when they were valid.

A missing file is no policy and an invalid one none either; the newest valid snapshot stays to be seen. Whatever an
agent's file says, nobody's health changes by it.
"""

import logging
from collections.abc import Mapping
from datetime import tzinfo
from typing import Final

import msgspec

from wakeful.core.clock import Clock
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WorldError
from wakeful.core.moment import iso
from wakeful.heartbeat.domain_heartbeat import (
    HeartbeatInvalid,
    HeartbeatPolicy,
    HeartbeatUnread,
    PolicyReading,
    Problem,
    Snapshot,
)
from wakeful.heartbeat.hours import is_quiet, next_change
from wakeful.heartbeat.ports_heartbeat import HeartbeatFiles
from wakeful.judging.session_record import safe
from wakeful.judging.wake_eligibility import PolicyState
from wakeful.storage.store import Note, Store

KIND: Final = "heartbeat-snapshot"
MISSING: Final = PolicyReading(PolicyState.MISSING)

log = logging.getLogger("wakeful")


class PolicyBook:
    """What every agent's file amounts to."""

    def __init__(self, files: HeartbeatFiles, store: Store, clock: Clock) -> None:
        self._files = files
        self._store = store
        self._clock = clock
        self._valid: dict[str, Snapshot] = {}
        self._read: dict[str, tuple[object, PolicyReading]] = {}
        self._unkept: dict[str, Snapshot] = {}

    async def take_up(self) -> None:
        """Know again which snapshots were valid last."""
        for note in await self._store.notes(KIND):
            try:
                self._valid[note.key] = decode_json(note.body, Snapshot)
            except msgspec.DecodeError:
                log.info("the snapshot of agent %s is of another version", note.key)

    def reading(self, agent: str, workdir: str | None) -> PolicyReading:
        """What the agent's file amounts to now."""
        stamp = self._files.stamp(agent, workdir)
        if stamp is None:
            self._read.pop(agent, None)
            return PolicyReading(PolicyState.MISSING, self._valid.get(agent))
        known = self._read.get(agent)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            reading = self._understood(agent, workdir)
        except HeartbeatUnread as wrong:
            # What the machine could not do once says nothing about the file: it is read again.
            return self._invalid(agent, wrong)
        except HeartbeatInvalid as wrong:
            reading = self._invalid(agent, wrong)
        self._read[agent] = (stamp, reading)
        return reading

    async def keep(self) -> None:
        """Remember new snapshots beyond a restart. A store that refuses costs only that."""
        for agent in list(self._unkept):
            snapshot = self._unkept[agent]
            try:
                await self._store.keep_note(Note(KIND, agent, msgspec.json.encode(snapshot)))
            except WorldError as error:
                log.warning("the snapshot of agent %s is not kept: %s", agent, error)
                return
            if self._unkept.get(agent) is snapshot:
                del self._unkept[agent]

    def is_quiet(self, policy: HeartbeatPolicy, wall: float) -> bool:
        return is_quiet(policy.active_hours, policy.quiet_windows, self._zones(policy), wall)

    def next_change(self, policy: HeartbeatPolicy, wall: float) -> float | None:
        """When a quiet time ends or begins; None if that never happens."""
        return next_change(policy.active_hours, policy.quiet_windows, self._zones(policy), wall)

    def _understood(self, agent: str, workdir: str | None) -> PolicyReading:
        snapshot = self._files.load(agent, workdir, iso(self._clock.now().wall))
        before = self._valid.get(agent)
        if before is not None and (before.digest, before.path) == (snapshot.digest, snapshot.path):
            snapshot = before
        else:
            self._valid[agent] = self._unkept[agent] = snapshot
        state = PolicyState.VALID if snapshot.policy.enabled else PolicyState.DISABLED
        return PolicyReading(state, snapshot)

    def _invalid(self, agent: str, wrong: HeartbeatInvalid) -> PolicyReading:
        file, line, reason = (wrong.facts[name] for name in ("file", "line", "reason"))
        # It may quote the file, whoever wrote that.
        problem = Problem(str(file), int(str(line)), safe(str(reason)))
        return PolicyReading(PolicyState.INVALID, self._valid.get(agent), problem)

    def _zones(self, policy: HeartbeatPolicy) -> Mapping[str, tzinfo]:
        windows = (*policy.active_hours, *policy.quiet_windows)
        return {each.timezone: self._files.zone(each.timezone) for each in windows}
