"""The pure parts of the chat gateway as a library; each can be used alone.

They know no chat service, client or clock: times are seconds that the caller gives, of any clock that never
goes back. `pip install wakeful[gateway]` installs the dependencies of the validator.

    from wakeful.gateway import Breaker, Outcome

    breaker = Breaker()
    if breaker.may_pass(now):
        breaker = breaker.passing(now)
        ...
        breaker = breaker.after(Outcome.FAILURE, now)
"""

from wakeful.control.login import AuthAlert, AuthEvent, AuthLevel, AuthMode, AuthState, AuthTier, auth_tier
from wakeful.control.turn_events import Ended, Gone, Spent
from wakeful.gateway.rules.access import (
    Access,
    Bound,
    Pairing,
    PermissionChoice,
    PressRefusal,
    Role,
    looks_like_code,
    new_token,
    open_pairing,
    refused,
)
from wakeful.gateway.rules.breaker import Breaker, BreakerState, Outcome, Thresholds
from wakeful.gateway.rules.errors import (
    Category,
    End,
    Fault,
    NotBegun,
    Reason,
    Rejected,
    TimedOut,
    classify,
    user_words,
)
from wakeful.gateway.rules.follow_ups import Action, cue_of, decision_prompt, read_decision
from wakeful.gateway.rules.formatting import Growing, split, units
from wakeful.gateway.rules.host import (
    ErrorCounts,
    Failed,
    HealKind,
    HealLimits,
    Hog,
    HostAlert,
    HostReading,
    Proposal,
    Signals,
    Told,
    WatchLimits,
    propose,
    wrong_with,
)
from wakeful.gateway.rules.messages import ConversationKey, Place, Quoted, with_context
from wakeful.gateway.rules.pool import Evicted, EvictionReason, Next, Pool, PoolLimits
from wakeful.gateway.rules.tags import ApiCall, FileToSend, Tagged, read_tags, shown_so_far
from wakeful.gateway.rules.validation import Finish, Recent, similarity, validate
from wakeful.judging.events import Failure

__all__ = [
    "Access",
    "Action",
    "ApiCall",
    "AuthAlert",
    "AuthEvent",
    "AuthLevel",
    "AuthMode",
    "AuthState",
    "AuthTier",
    "Bound",
    "Breaker",
    "BreakerState",
    "Category",
    "ConversationKey",
    "End",
    "Ended",
    "ErrorCounts",
    "Evicted",
    "EvictionReason",
    "Failed",
    "Failure",
    "Fault",
    "FileToSend",
    "Finish",
    "Gone",
    "Growing",
    "HealKind",
    "HealLimits",
    "Hog",
    "HostAlert",
    "HostReading",
    "Next",
    "NotBegun",
    "Outcome",
    "Pairing",
    "PermissionChoice",
    "Place",
    "Pool",
    "PoolLimits",
    "PressRefusal",
    "Proposal",
    "Quoted",
    "Reason",
    "Recent",
    "Rejected",
    "Role",
    "Signals",
    "Spent",
    "Tagged",
    "Thresholds",
    "TimedOut",
    "Told",
    "WatchLimits",
    "auth_tier",
    "classify",
    "cue_of",
    "decision_prompt",
    "looks_like_code",
    "new_token",
    "open_pairing",
    "propose",
    "read_decision",
    "read_tags",
    "refused",
    "shown_so_far",
    "similarity",
    "split",
    "units",
    "user_words",
    "validate",
    "with_context",
    "wrong_with",
]
