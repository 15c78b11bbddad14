"""Access rules: which users are allowed, which are admins, and which button presses count. Pure.

Unknown users get no answer, and an empty list allows no user. A button carries an opaque token that is valid
for one place, one role and one thing. The caller supplies the random bytes.
"""

from base64 import b32encode, urlsafe_b64encode
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.gateway.rules.messages import ConversationKey

# A code has 60 bits or more, five tries and ten minutes. 13 characters of five bits are 65 bits.
CODE_CHARS: Final = 13
CODE_BYTES: Final = 9
TRIES_MAX: Final = 5
PAIRING_SECONDS: Final = 600.0
# 128 bits in 22 characters; Telegram takes 64 bytes.
TOKEN_BYTES: Final = 16


class Role(StrEnum):
    """The role of a user in the gateway."""

    NOBODY = "nobody"
    USER = "user"
    ADMIN = "admin"


class Access(Struct, frozen=True):
    """The allowed users: those in the configuration and the paired ones. Only an allowed user is an admin."""

    allow: frozenset[int] = frozenset()
    admins: frozenset[int] = frozenset()
    paired: frozenset[int] = frozenset()

    def role_of(self, user_id: int) -> Role:
        if user_id not in self.allow and user_id not in self.paired:
            return Role.NOBODY
        return Role.ADMIN if user_id in self.admins else Role.USER


def stranger_line(user_id: int, allow: frozenset[int] = frozenset()) -> str:
    """The log line about an unknown user: the id, and how to allow it."""
    listed = ", ".join(str(each) for each in sorted({*allow, user_id}))
    return f"message of user {user_id} ignored: not allowed. To allow: [gateway] allow = [{listed}]"


class Pairing(Struct, frozen=True):
    """A one-time code that allows one user. Only its digest is stored."""

    digest: str
    expires_at: float
    tries_left: int = TRIES_MAX

    def is_open(self, now: float) -> bool:
        return self.tries_left > 0 and now < self.expires_at

    def tried(self, text: str, now: float) -> tuple["Pairing", bool]:
        """The pairing after a user sent this text, and whether it was the code. A used pairing is closed."""
        if not self.is_open(now):
            return self, False
        fits = compare_digest(_digest(text), self.digest)
        return replace(self, tries_left=0 if fits else self.tries_left - 1), fits


def open_pairing(random_bytes: bytes, now: float) -> tuple[Pairing, str]:
    """A new pairing and its code, as a person types it."""
    assert len(random_bytes) >= CODE_BYTES, "60 bits and more"
    chars = b32encode(random_bytes).decode()[:CODE_CHARS]
    code = f"{chars[:4]}-{chars[4:8]}-{chars[8:]}"
    return Pairing(_digest(code), now + PAIRING_SECONDS), code


def looks_like_code(text: str) -> bool:
    """Whether an unknown user's message counts as a try."""
    return len(_normalize_code(text)) == CODE_CHARS and len(text) <= 2 * CODE_CHARS


class PermissionChoice(StrEnum):
    """The answers to a permission question."""

    ALLOW_ONCE = "allow_once"
    ALLOW_SESSION = "allow_session"
    DENY = "deny"

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS: Final = {
    PermissionChoice.ALLOW_ONCE: "Allow once",
    PermissionChoice.ALLOW_SESSION: "Allow for this session",
    PermissionChoice.DENY: "Deny",
}


class Bound(Struct, frozen=True):
    """The use of a button: one thing, in one place, for one role, until a time."""

    place: ConversationKey
    role: Role
    thing: str
    expires_at: float


class PressRefusal(StrEnum):
    """Why a press does not count."""

    FORGED = "forged"
    ELSEWHERE = "elsewhere"
    NOT_YOURS = "not_yours"
    NOT_ASKER = "not_asker"
    LATE = "late"


# The same text for everything that outsiders must not distinguish.
PRESS_REFUSAL_TEXTS: Final = {
    PressRefusal.FORGED: "This button is no longer in use.",
    PressRefusal.ELSEWHERE: "This button is no longer in use.",
    PressRefusal.NOT_YOURS: "Only admins can do this.",
    PressRefusal.NOT_ASKER: "Only the person who asked the agent, or an admin, can answer this.",
    PressRefusal.LATE: "Too late: this was decided or has expired.",
}


def new_token(random_bytes: bytes) -> str:
    """The token of a button. It cannot be guessed, so only the button can send it."""
    assert len(random_bytes) >= TOKEN_BYTES, "128 bits"
    return urlsafe_b64encode(random_bytes[:TOKEN_BYTES]).decode().rstrip("=")


def refused(bound: Bound | None, place: ConversationKey, role: Role, now: float) -> PressRefusal | None:
    """Why this press does not count; None: it does. `bound`: the stored use of its token, if there is one."""
    if bound is None or role is Role.NOBODY:
        return PressRefusal.FORGED
    if bound.place != place:
        return PressRefusal.ELSEWHERE
    if bound.role is Role.ADMIN and role is not Role.ADMIN:
        return PressRefusal.NOT_YOURS
    return PressRefusal.LATE if now >= bound.expires_at else None


def _digest(code: str) -> str:
    return sha256(_normalize_code(code).encode()).hexdigest()


def _normalize_code(text: str) -> str:
    """A code without the characters that people put between and around its own."""
    return "".join(char for char in text.upper() if char.isascii() and char.isalnum())
