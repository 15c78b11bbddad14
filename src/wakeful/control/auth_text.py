"""Whether a text is a client's complaint about its login: two tiers, and short text only. Pure.

Sure: a sentence only a client says, at its beginning. Likely: an error that speaks of credentials; worth a check where
it is no answer for other reasons, no more. An answer about logins is longer than this, or does not begin as an error does.
"""

import re
from enum import StrEnum
from typing import Final

from wakeful.judging.outage import says_network

# The longest complaint seen has 210 characters; with the server's own message behind it.
SHORT_CHARS_MAX: Final = 300


class AuthTier(StrEnum):
    """How certain it is."""

    SURE = "sure"
    LIKELY = "likely"


# As Claude Code 2.1 and Codex 0.166 say it.
SURE_WORDS: Final = (
    r"Not logged in\b",
    r"Invalid API key\b.{0,40}(?:Fix external API key|Please run /login)",
    r"Please run /login\b",
    r"Failed to authenticate\. API Error: 40[13]\b",
    r"Your account does not have access to Claude\. Please login again",
    r"(?:API Error: 401\b.{0,80})?OAuth token (?:has )?(?:expired|been revoked)",
    r"unexpected status 40[13] (?:Unauthorized|Forbidden)\b",
    r"Missing environment variable: `\w+`",
    r"Your access token could not be refreshed",
    r"(?:To continue, )?(?:please )?(?:run|use) `?codex login\b",
)
LIKELY_WORDS: Final = (
    r"\b(?:401|403)\b",
    r"\bunauthori[sz]ed\b",
    r"\bforbidden\b",
    r"\bauthentication[_ ](?:failed|error|required)\b",
    r"\b(?:invalid|expired|revoked|missing)\b.{0,20}\b(?:api key|token|credentials?)\b",
    r"\b(?:log|sign)(?:ged)? ?in\b",
)
_SURE: Final = re.compile(rf"[\W_]*(?:{'|'.join(SURE_WORDS)})", re.IGNORECASE | re.DOTALL)
_ERROR_FIRST: Final = re.compile(
    r"[\W_]*(?:api error|error|fatal|failed|unexpected status|http)\b", re.IGNORECASE
)
_LIKELY: Final = re.compile("|".join(LIKELY_WORDS), re.IGNORECASE | re.DOTALL)


def auth_tier(text: str) -> AuthTier | None:
    """How certainly this text is about a missing login; None: it is not, or it is too long to be a complaint."""
    short = text.strip()
    # A login check whose connection broke says 401 too, and no login helps.
    if len(short) > SHORT_CHARS_MAX or says_network(short):
        return None
    if _SURE.match(short):
        return AuthTier.SURE
    return AuthTier.LIKELY if _ERROR_FIRST.match(short) and _LIKELY.search(short) else None
