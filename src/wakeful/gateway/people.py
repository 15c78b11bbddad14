"""Knows which users are allowed: those the configuration lists, and those who sent a one-time pairing code.

Unknown users get no answer. A code is created on the host, with access to the store; a used or exhausted code
is closed.
"""

import logging
from typing import Final

import msgspec

from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.gateway.ports import Chat, send_notice
from wakeful.gateway.rules.access import Access, Pairing, Role, looks_like_code, open_pairing
from wakeful.gateway.rules.messages import ButtonPress, IncomingMessage
from wakeful.storage.base import Note, Store
from wakeful.storage.note_decoding import decode_note_values

PAIRING: Final = "gateway.pairing"
PAIRED: Final = "gateway.paired"
WELCOME: Final = (
    "You are paired. Write a message, and the agent of this chat answers. /help lists the commands."
)
# The key of the only pairing: one at a time is open.
_OPEN: Final = "open"
# No id of Telegram has more.
ID_DIGITS_MAX: Final = 18
_decode: Final = json_decoder(Pairing)

log = logging.getLogger("wakeful.gateway")


async def begin_pairing(store: Store, random_bytes: bytes, now_wall: float) -> str:
    """Open a pairing in place of any other; returns its code."""
    pairing, code = open_pairing(random_bytes, now_wall)
    await store.save_note(Note(PAIRING, _OPEN, msgspec.json.encode(pairing)))
    return code


async def paired_users(store: Store) -> frozenset[int]:
    keys = [note.key for note in await store.notes(PAIRED)]
    return frozenset(int(key) for key in keys if key.isdecimal() and len(key) <= ID_DIGITS_MAX)


async def unpair(store: Store, user_id: int) -> bool:
    """False: no user with this id was paired."""
    return await store.drop_note(PAIRED, str(user_id))


class People:
    def __init__(self, store: Store, chat: Chat, clock: Clock, access: Access) -> None:
        self._store = store
        self._chat = chat
        self._clock = clock
        self._access = access

    async def reload(self) -> None:
        """Read again which users are paired."""
        self._access = msgspec.structs.replace(self._access, paired=await paired_users(self._store))

    @property
    def count(self) -> int:
        """The number of allowed users."""
        return len(self._allowed)

    def count_of(self, role: Role) -> int:
        return sum(self.role_of(each) is role for each in self._allowed)

    @property
    def _allowed(self) -> frozenset[int]:
        return self._access.allow | self._access.paired

    def role_of(self, user_id: int) -> Role:
        return self._access.role_of(user_id)

    def is_allowed(self, update: IncomingMessage | ButtonPress) -> bool:
        return self.role_of(update.user_id) is not Role.NOBODY

    async def try_pairing(self, message: IncomingMessage) -> bool:
        """Whether an unknown user's message was the code; the user is allowed from the next message on."""
        # A code that others can read does not count: it has to be written in the bot's private chat.
        if not looks_like_code(message.text) or not message.place.is_private or message.forwarded:
            return False
        note = await self._store.note(PAIRING, _OPEN)
        opened = next(iter(decode_note_values([note], _decode)), None) if note is not None else None
        if opened is None:
            return False
        pairing, fits = opened.tried(message.text, self._clock.now().wall)
        await self._store.save_note(Note(PAIRING, _OPEN, msgspec.json.encode(pairing)))
        if not fits:
            log.warning(
                "user %d sent a wrong pairing code; %d tries left",
                message.user_id,
                pairing.tries_left,
            )
            return False
        await self._store.save_note(Note(PAIRED, str(message.user_id), b"{}"))
        await self.reload()
        user_id = message.user_id
        log.warning("user %d was paired. To make it an admin: [gateway] admins = [%d]", user_id, user_id)
        await send_notice(self._chat, message.place, WELCOME)
        return True
