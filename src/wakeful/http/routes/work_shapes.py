"""What the bodies of orders about work look like: bounded, and with nothing unknown in them."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from wakeful.core.leases import LEASE_SECONDS
from wakeful.core.process import Process
from wakeful.http.problems import Problem

PROMPT_CHARS_MAX: Final = 1_000_000
CONTEXT_CHARS_MAX: Final = 100_000
# What an agent answers; whole transcripts have their own files.
RESULT_CHARS_MAX: Final = 100_000
NAME_CHARS_MAX: Final = 200
# A budget is what a person approved to be tried again: more than this is a loop.
ATTEMPTS_MAX: Final = 10
DELAY_SECONDS_MAX: Final = 30 * 86_400
TTL_SECONDS_MAX: Final = 3600
# SQLite's integers end here.
_EPOCH_MAX: Final = 2**63 - 1

_Owner = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX, pattern=r"\S")]
_Name = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
_Epoch = Annotated[int, Meta(ge=1, le=_EPOCH_MAX)]
_Ttl = Annotated[float, Meta(ge=1, le=TTL_SECONDS_MAX)]


class NewWork(Struct, frozen=True, forbid_unknown_fields=True):
    """A work to be kept. `session_id` is the conversation it continues; `attempts_max` its whole budget."""

    prompt: Annotated[str, Meta(min_length=1, max_length=PROMPT_CHARS_MAX)]
    project: _Name = ""
    session_id: _Name | None = None
    context: Annotated[str, Meta(max_length=CONTEXT_CHARS_MAX)] = ""
    attempts_max: Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)] = 1
    delay_seconds: Annotated[float, Meta(ge=0, le=DELAY_SECONDS_MAX)] = 0.0


class RunClaim(Struct, frozen=True, forbid_unknown_fields=True):
    """Who wants the next run. `holder` is the process that will do it."""

    owner: _Owner
    project: _Name | None = None
    ttl_seconds: _Ttl = LEASE_SECONDS
    holder: Process | None = None


class LeaseClaim(Struct, frozen=True, forbid_unknown_fields=True):
    """Who wants a conversation. `holder` is the process that will run it."""

    owner: _Owner
    ttl_seconds: _Ttl = LEASE_SECONDS
    holder: Process | None = None


class Heartbeat(Struct, frozen=True, forbid_unknown_fields=True):
    """The owner with this epoch lives."""

    epoch: _Epoch
    ttl_seconds: _Ttl = LEASE_SECONDS


class Completion(Struct, frozen=True, forbid_unknown_fields=True):
    epoch: _Epoch
    result: Annotated[str, Meta(max_length=RESULT_CHARS_MAX)] = ""


class Failing(Struct, frozen=True, forbid_unknown_fields=True):
    epoch: _Epoch
    reason: Annotated[str, Meta(max_length=RESULT_CHARS_MAX)] = ""


class LeaseYield(Struct, frozen=True, forbid_unknown_fields=True):
    epoch: _Epoch


class HeldProblem(Problem, frozen=True, kw_only=True):
    """The problem `conversation-held`, with who has it."""

    owner: str
    since: str
    until: str
