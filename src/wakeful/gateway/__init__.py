"""The pure parts of the chat gateway as a library; each can be used alone.

They know no chat service, client or clock: times are seconds that the caller gives, of any clock that never
goes back. `pip install wakeful[gateway]` installs what they need; without it, the first use of a name raises
ExtraMissing.

    from wakeful.gateway import Breaker, Outcome

    breaker = Breaker()
    if breaker.may_pass(now):
        breaker = breaker.passing(now)
        ...
        breaker = breaker.after(Outcome.FAILURE, now)
"""

# What mypy reads and the interpreter skips.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from wakeful.gateway.api import (
        Access,
        Action,
        ApiCall,
        AuthAlert,
        AuthEvent,
        AuthLevel,
        AuthMode,
        AuthState,
        AuthTier,
        Bound,
        Breaker,
        BreakerState,
        Category,
        ConversationKey,
        End,
        Ended,
        ErrorCounts,
        Evicted,
        EvictionReason,
        Failed,
        Failure,
        Fault,
        FileToSend,
        Finish,
        Gone,
        Growing,
        HealKind,
        HealLimits,
        Hog,
        HostAlert,
        HostReading,
        Next,
        NotBegun,
        Outcome,
        Pairing,
        PermissionChoice,
        Place,
        Pool,
        PoolLimits,
        PressRefusal,
        Proposal,
        Quoted,
        Reason,
        Recent,
        Rejected,
        Role,
        Signals,
        Spent,
        Tagged,
        Thresholds,
        TimedOut,
        Told,
        WatchLimits,
        auth_tier,
        classify,
        cue_of,
        decision_prompt,
        looks_like_code,
        new_token,
        open_pairing,
        propose,
        read_decision,
        read_tags,
        refused,
        shown_so_far,
        similarity,
        split,
        units,
        user_words,
        validate,
        with_context,
        wrong_with,
    )

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


def __getattr__(name: str) -> object:
    """Import the library when one of its names is asked for: the gateway itself uses only parts of it."""
    if name not in __all__:
        raise AttributeError(f"module 'wakeful.gateway' has no attribute {name!r}")
    try:
        from wakeful.gateway import api  # noqa: PLC0415 - see above
    except ModuleNotFoundError as missing:
        from wakeful.core.errors import ExtraMissing  # noqa: PLC0415 - see above

        raise ExtraMissing(what="wakeful.gateway", library=missing.name, extra="gateway") from missing

    return getattr(api, name)
