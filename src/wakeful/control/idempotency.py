"""Idempotency keys for starts and prompts: a repeated key gets the same answer, and the action runs once.

The request is stored before the action and its result afterwards. After a crash in between, the next request
with the key asks the client whether it has the prompt; if the client cannot tell, the result is unverified. A
declined action did not happen and may be requested again. Keys are kept for a day.
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

from wakeful.control.controller import Hands
from wakeful.control.gate import INTERRUPTED, Act, Deed
from wakeful.control.start import RunRequest
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import OperatorError, WakefulError
from wakeful.core.fault_points import reach
from wakeful.core.ids import SessionId
from wakeful.storage.base import Note, Outcome, Store
from wakeful.storage.readable import readable

KIND: Final = "deed"
# Whoever asks again does so because an answer was lost: within a day, or never.
KEPT_SECONDS: Final = 86_400.0


class KeyUsed(OperatorError):
    """This idempotency key was used for another order. Use a new key for a new one."""

    code = "idempotency-key-reused"
    http_status = 409


class _Kept(Struct, frozen=True):
    """`deed` is None while it is being done, or if whoever did it ended in its middle."""

    asked: str
    at: float
    deed: Deed | None = None


_decode: Final = json_decoder(_Kept)


class OnceHands:
    """Starts and prompts by a key."""

    def __init__(self, hands: Hands, store: Store, now: Callable[[], float]) -> None:
        self._hands = hands
        self._store = store
        self._now = now
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, request: RunRequest, key: str) -> Deed:
        """As `Hands.run`. Raises KeyUsed."""
        # Without its environment: whoever asks again may have been started elsewhere since.
        asked = msgspec.json.encode(replace(request, environ={}))

        async def again() -> Deed:
            begun = self._hands.begun_by(key)
            if begun is not None and request.prompt is not None:
                return await self._hands.deliver(begun, request.prompt, key=key, again=True)
            session_id = begun or SessionId("")
            return Deed(uuid4().hex, Act.START, session_id, Outcome.UNVERIFIED, INTERRUPTED)

        return await self._once(key, asked, lambda: self._hands.run(request, key), again)

    async def deliver(self, text: str, prompt: str, caller: Mapping[str, str] | None, key: str) -> Deed:
        """As `Hands.deliver`. Raises KeyUsed."""
        asked = msgspec.json.encode((text, prompt))
        return await self._once(
            key,
            asked,
            lambda: self._hands.deliver(text, prompt, caller, key=key),
            lambda: self._hands.deliver(text, prompt, caller, key=key, again=True),
        )

    async def forget_old(self) -> None:
        """Drop what nobody will ask about again."""
        oldest = self._now() - KEPT_SECONDS
        for note, kept in readable(await self._store.notes(KIND), _decode):
            if kept.at < oldest:
                await self._store.drop_note(KIND, note.key)

    async def _once(
        self,
        key: str,
        asked: bytes,
        perform: Callable[[], Awaitable[Deed]],
        again: Callable[[], Awaitable[Deed]],
    ) -> Deed:
        name = sha256(key.encode()).hexdigest()
        digest = sha256(asked).hexdigest()
        # Shielded: whoever asked may hang up, and the next one with this key finds what became of it.
        return await asyncio.shield(self._in_turn(name, digest, perform, again))

    async def _in_turn(
        self,
        name: str,
        digest: str,
        perform: Callable[[], Awaitable[Deed]],
        again: Callable[[], Awaitable[Deed]],
    ) -> Deed:
        async with self._asking.setdefault(name, asyncio.Lock()):
            kept = await self._kept(name)
            if kept is not None and kept.asked != digest:
                raise KeyUsed
            if kept is not None and kept.deed is not None:
                return kept.deed
            if kept is None:
                await self._keep(name, _Kept(digest, self._now()))
                reach("once.asked")
            return await self._finish(name, digest, perform if kept is None else again)

    async def _finish(self, name: str, digest: str, perform: Callable[[], Awaitable[Deed]]) -> Deed:
        try:
            deed = await perform()
        except WakefulError:
            await self._store.drop_note(KIND, name)
            raise
        reach("once.done")
        if deed.outcome is Outcome.DECLINED:
            await self._store.drop_note(KIND, name)
        else:
            await self._keep(name, _Kept(digest, self._now(), deed))
        return deed

    async def _kept(self, name: str) -> _Kept | None:
        note = await self._store.note(KIND, name)
        return None if note is None else _decode(note.body)

    async def _keep(self, name: str, kept: _Kept) -> None:
        await self._store.keep_note(Note(KIND, name, msgspec.json.encode(kept)))
