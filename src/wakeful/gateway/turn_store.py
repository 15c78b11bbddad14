"""Stores turns and conversations of the gateway as notes in the store.

An update is stored before any work begins and is kept for a day, so accepting it twice counts once and a
crash loses none. A conversation records its session and the calls that were allowed in it.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from wakeful.client.api import Workspace
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.fault_points import fault_point
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.rules.turn import RETENTION_SECONDS, Conversation, Turn, TurnStage
from wakeful.storage.base import Note, Store
from wakeful.storage.note_decoding import decode_note_values, decode_notes

TURN_KIND: Final = "gateway.turn"
# Numbers of updates have at most 10 digits today; keys are ordered as texts.
_DIGITS: Final = 20
_encode: Final = msgspec.json.Encoder().encode
_decode_turn: Final = json_decoder(Turn)


class TurnStore:
    """The turns of one bot: each bot numbers its own updates. After a quiet week Telegram begins with any number."""

    def __init__(self, store: Store, clock: Clock, bot: str) -> None:
        self._store = store
        self._clock = clock
        self._bot = bot
        self._accepted_at: dict[int, float] = {}

    async def restore(self) -> list[Turn]:
        """Turns that an earlier gateway began and did not end, oldest first."""
        found = [
            turn
            for note, turn in decode_notes(await self._store.notes(TURN_KIND), _decode_turn)
            if note.key.startswith(f"{self._bot}-")
        ]
        self._accepted_at = {turn.update_id: turn.at for turn in found}
        return [turn for turn in found if not turn.is_over]

    async def accept(self, turns: Sequence[Turn]) -> list[Turn]:
        """Store the turns whose update was not accepted before, durably; returns those.

        All or none: an update that is confirmed by a later one must not be missing here.
        """
        new = {each.update_id: each for each in turns if each.update_id not in self._accepted_at}
        await self._store.save_new_notes([self._note(each) for each in new.values()])
        self._accepted_at |= {number: each.at for number, each in new.items()}
        if new:
            fault_point("turn.accepted")
        return list(new.values())

    async def save(self, turn: Turn) -> Turn:
        """Store the state of a turn, durably."""
        await self._store.save_note(self._note(turn))
        fault_point(f"turn.{turn.stage}")
        return turn

    async def close_press(self, row: Turn) -> None:
        """A press was handled. If it became a turn, the row is that turn's and stays as it is."""
        stored = await self.reread(row)
        if stored.pressed is not None:
            await self.save(replace(stored, stage=TurnStage.DONE))

    async def reread(self, turn: Turn) -> Turn:
        """The turn as it was stored last."""
        return await self.find(turn.update_id) or turn

    async def find(self, update_id: int) -> Turn | None:
        """The turn of this update, as it was stored last."""
        note = await self._store.note(TURN_KIND, self._name(update_id))
        return next(iter(decode_note_values([note], _decode_turn)), None) if note is not None else None

    async def newest_answer(self, key: ConversationKey) -> Turn | None:
        """The last turn of this conversation that was answered."""
        turns = decode_note_values(await self._store.notes(TURN_KIND), _decode_turn)
        answered = [turn for turn in turns if turn.key == key and turn.text and not turn.fault]
        return max(answered, key=lambda turn: turn.at, default=None)

    async def drop_old(self) -> None:
        """Drop the turns of updates that Telegram does not send again. Unfinished turns stay."""
        oldest = self._clock.now().wall - RETENTION_SECONDS
        if not any(at < oldest for at in self._accepted_at.values()):
            return
        turns = decode_note_values(await self._store.notes(TURN_KIND), _decode_turn)
        old = [
            each
            for each in turns
            if each.is_over and each.at < oldest and each.update_id in self._accepted_at
        ]
        for turn in old:
            await self._store.drop_note(TURN_KIND, self._name(turn.update_id))
            self._accepted_at.pop(turn.update_id, None)

    def key_of(self, turn: Turn) -> str:
        """The idempotency key under which its prompt is given to a session."""
        return f"tg-{self._bot}-{turn.update_id}"

    def _name(self, update_id: int) -> str:
        return f"{self._bot}-{update_id:0{_DIGITS}d}"

    def _note(self, turn: Turn) -> Note:
        return Note(TURN_KIND, self._name(turn.update_id), _encode(turn))


CONVERSATION_KIND: Final = "gateway.conversation"
# Older calls are asked about again: people do not remember what they allowed so long ago.
ALLOWED_MAX: Final = 200
_decode_conversation: Final = json_decoder(Conversation)


class Conversations:
    """In memory, each also a note in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._conversations: dict[ConversationKey, Conversation] = {}

    async def restore(self) -> None:
        """Load the conversations of an earlier gateway."""
        notes = await self._store.notes(CONVERSATION_KIND)
        self._conversations = {
            ConversationKey(note.key): each for note, each in decode_notes(notes, _decode_conversation)
        }

    def get(self, key: ConversationKey) -> Conversation | None:
        return self._conversations.get(key)

    def all(self) -> dict[ConversationKey, Conversation]:
        return dict(self._conversations)

    async def assign_session(self, key: ConversationKey, workspace: Workspace, session_id: str) -> None:
        """This session runs the conversation now. Calls that were allowed in another one are not allowed in it."""
        known = self._conversations.get(key)
        if known is None or known.session_id != session_id:
            known = Conversation(
                provider=workspace.provider, session_id=session_id, held_as=workspace.fingerprint
            )
        if not known.seated:
            await self._save(key, replace(known, seated=True))

    async def replace_session(self, key: ConversationKey, replacement: str) -> None:
        """A session that a healer started takes over the conversation, without the calls that were allowed."""
        known = self._conversations.get(key)
        if known is not None:
            await self._save(key, replace(known, session_id=replacement, allowed=()))

    async def release_session(self, key: ConversationKey) -> None:
        """Its session was ended; the conversation can be resumed."""
        known = self._conversations.get(key)
        if known is not None and known.seated:
            await self._save(key, replace(known, seated=False))

    async def forget(self, key: ConversationKey) -> None:
        """The next message starts a new session."""
        if self._conversations.pop(key, None) is not None:
            await self._store.drop_note(CONVERSATION_KIND, key)

    async def allow(self, key: ConversationKey, session_id: str, call: str) -> None:
        """Exactly this call may be made in this session without asking again; not in one that replaces it."""
        known = self._conversations.get(key)
        if known is None or known.session_id != session_id:
            return
        if call and call not in known.allowed:
            await self._save(key, replace(known, allowed=(*known.allowed, call)[-ALLOWED_MAX:]))

    async def _save(self, key: ConversationKey, conversation: Conversation) -> None:
        self._conversations[key] = conversation
        await self._store.save_note(Note(CONVERSATION_KIND, key, _encode(conversation)))
