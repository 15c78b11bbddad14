"""Idempotency keys for starts and prompts: a repeated key gets the same answer, and the action runs once.

The request is stored before the action and its result afterwards, with the daemon that carries it out: all daemons on
a store share the keys, and the others wait for the result. After a crash in between, the next request with the key
asks the client whether it has the prompt; if the client cannot tell, the result is unverified. A declined action did
not happen and may be requested again. Keys are kept for a day.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Final
from uuid import uuid4
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.controller import SessionController
from wakeful.control.gate import INTERRUPTED, ActionKind, ActionRecord
from wakeful.control.start import RunRequest
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import KeyUsed, WakefulError, WorldError
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.storage.base import ActionOutcome, Note, Store
from wakeful.storage.note_decoding import decode_notes

KIND: Final = "deed"
# A caller that lost the answer repeats its request within a day, or never.
RETENTION_SECONDS: Final = 86_400.0
# Another daemon's start takes some seconds; a client waits for its answer longer than this.
OTHER_DAEMON_SECONDS_MAX: Final = 30.0
_POLL_SECONDS: Final = 0.2


class KeyInUse(WorldError, code="idempotency-key-in-use", http_status=409, exit_code=1):
    """Another daemon on this store is carrying out the request with this key. Repeat it later with the same key."""

    retryable = True


class _StoredRequest(Struct, frozen=True):
    """`asked` is a digest of the request. `deed` is None while the action runs, or after a crash in its middle.

    `daemon` carries it out.
    """

    asked: str
    at: float
    deed: ActionRecord | None = None
    daemon: Process | None = None


_decode: Final = json_decoder(_StoredRequest)


class IdempotentController:
    """`daemon` is this process, None if it cannot be identified; `state_of` tells whether another one lives."""

    def __init__(
        self,
        controller: SessionController,
        store: Store,
        clock: Clock,
        daemon: Process | None,
        state_of: Callable[[Process], ProcessState],
    ) -> None:
        self._controller = controller
        self._store = store
        self._clock = clock
        self._daemon = daemon
        self._state_of = state_of
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, request: RunRequest, key: str) -> ActionRecord:
        """As `SessionController.run`. Raises KeyUsed."""
        # Without its environment: a repeated request may come from another terminal.
        content = msgspec.json.encode(replace(request, environ={}))

        async def perform_again() -> ActionRecord:
            started = self._controller.session_started_by(key)
            if started is not None and request.prompt is not None:
                return await self._controller.deliver(started, request.prompt, key=key, again=True)
            session_id = started or SessionId("")
            return ActionRecord(
                uuid4().hex, ActionKind.START, session_id, ActionOutcome.UNVERIFIED, INTERRUPTED
            )

        return await self._run_once(key, content, lambda: self._controller.run(request, key), perform_again)

    async def deliver(
        self, text: str, prompt: str, caller: Mapping[str, str] | None, key: str
    ) -> ActionRecord:
        """As `SessionController.deliver`. Raises KeyUsed."""
        return await self._run_once(
            key,
            msgspec.json.encode((text, prompt)),
            lambda: self._controller.deliver(text, prompt, caller, key=key),
            lambda: self._controller.deliver(text, prompt, caller, key=key, again=True),
        )

    async def forget_old(self) -> None:
        oldest = self._clock.now().wall - RETENTION_SECONDS
        for note, stored in decode_notes(await self._store.notes(KIND), _decode):
            if stored.at < oldest:
                await self._store.drop_note(KIND, note.key)

    async def _run_once(
        self,
        key: str,
        content: bytes,
        perform: Callable[[], Awaitable[ActionRecord]],
        perform_again: Callable[[], Awaitable[ActionRecord]],
    ) -> ActionRecord:
        name = sha256(key.encode()).hexdigest()
        digest = sha256(content).hexdigest()

        async def locked() -> ActionRecord:
            async with self._locks.setdefault(name, asyncio.Lock()):
                found = await self._claim(name, digest)
                if isinstance(found, ActionRecord):
                    return found
                fault_point("once.asked")
                return await self._finish(name, digest, perform if found else perform_again)

        # Shielded: if the caller disconnects, its next request with this key finds the result.
        return await asyncio.shield(locked())

    async def _claim(self, name: str, digest: str) -> ActionRecord | bool:
        """The result if there is one. Else this daemon carries the request out: true for the first time.

        False after a crash. Raises KeyUsed, KeyInUse.
        """
        until = self._clock.now().awake + OTHER_DAEMON_SECONDS_MAX
        while True:
            own = self._note(name, digest)
            if await self._store.save_new_note(own):
                return True
            note = await self._store.note(KIND, name)
            if note is None:
                continue  # Dropped since: it was declined, so it may be requested again.
            stored = _decode(note.body)
            if stored.asked != digest:
                raise KeyUsed
            if stored.deed is not None:
                return stored.deed
            if self._has_crashed(stored.daemon) and await self._store.replace_note(note, own):
                return False
            if self._clock.now().awake >= until:
                raise KeyInUse
            await self._clock.sleep(_POLL_SECONDS)

    def _has_crashed(self, daemon: Process | None) -> bool:
        """Whether no daemon carries the request out any more. Of another machine that is never known."""
        if daemon is None or daemon == self._daemon:
            return True
        return self._state_of(daemon) is ProcessState.DEAD

    async def _finish(
        self, name: str, digest: str, perform: Callable[[], Awaitable[ActionRecord]]
    ) -> ActionRecord:
        try:
            record = await perform()
        except WakefulError:
            await self._store.drop_note(KIND, name)
            raise
        fault_point("once.done")
        if record.outcome is ActionOutcome.DECLINED:
            await self._store.drop_note(KIND, name)
        else:
            await self._store.save_note(self._note(name, digest, record))
        return record

    def _note(self, name: str, digest: str, record: ActionRecord | None = None) -> Note:
        request = _StoredRequest(digest, self._clock.now().wall, record, self._daemon)
        return Note(KIND, name, msgspec.json.encode(request))
