"""What is remembered of every conversation: which session holds it, and what somebody allowed there."""

from typing import Final

import msgspec
from msgspec.structs import replace

from wakeful.client.ports_sessions import Seat
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.rules.turn import Conversation
from wakeful.storage.readable import readable
from wakeful.storage.store import Note, Store

KIND: Final = "gateway.conversation"
# Older ones are asked about again: nobody remembers what they allowed before so many others.
ALLOWED_MAX: Final = 200
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = json_decoder(Conversation)


class Conversations:
    """In memory, each also a note in the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[ConversationKey, Conversation] = {}

    async def take_up(self) -> None:
        """Recall what an earlier gateway knew."""
        notes = await self._store.notes(KIND)
        self._known = {ConversationKey(note.key): known for note, known in readable(notes, _decode)}

    def get(self, key: ConversationKey) -> Conversation | None:
        return self._known.get(key)

    def all(self) -> dict[ConversationKey, Conversation]:
        return dict(self._known)

    def key_of(self, session_id: str) -> ConversationKey | None:
        """Whose session it is."""
        return next((key for key, each in self._known.items() if each.session_id == session_id), None)

    async def seat(self, key: ConversationKey, seat: Seat, session_id: str) -> None:
        """This session holds the conversation now. What was allowed was allowed for the one before it."""
        known = self._known.get(key)
        same = known is not None and known.session_id == session_id
        new = Conversation(provider=seat.provider, session_id=session_id, held_as=seat.stamp)
        kept = known if known is not None and same else new
        if kept.seated and same:
            return
        await self._keep(key, replace(kept, seated=True, used_at=self._clock.now().wall))

    async def hand_over(self, key: ConversationKey, heir: str) -> None:
        """Another session, begun anew by a healer, holds the conversation as the one before it did."""
        known = self._known.get(key)
        if known is not None:
            await self._keep(key, replace(known, session_id=heir, allowed=()))

    async def unseat(self, key: ConversationKey) -> None:
        """Its session was ended; the conversation can be resumed."""
        known = self._known.get(key)
        if known is not None and known.seated:
            await self._keep(key, replace(known, seated=False))

    async def forget(self, key: ConversationKey) -> None:
        """The next message begins anew."""
        if self._known.pop(key, None) is not None:
            await self._store.drop_note(KIND, key)

    async def allow(self, key: ConversationKey, session_id: str, call: str) -> None:
        """Exactly this call may be made in this session without asking again; not in the one that came after it."""
        known = self._known.get(key)
        if known is None or known.session_id != session_id:
            return
        if call and call not in known.allowed:
            await self._keep(key, replace(known, allowed=(*known.allowed, call)[-ALLOWED_MAX:]))

    async def _keep(self, key: ConversationKey, conversation: Conversation) -> None:
        self._known[key] = conversation
        await self._store.keep_note(Note(KIND, key, _encode(conversation)))
