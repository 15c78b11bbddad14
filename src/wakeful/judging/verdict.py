"""The answer of `judge`: what a session is doing, how it is, why, and when that can change by time alone."""

from enum import StrEnum

from msgspec import Struct

from wakeful.core.moment import Instant
from wakeful.core.process import Sight
from wakeful.judging.evidence import Rung
from wakeful.judging.findings import Attention, Code, Health, State


class WaitKind(StrEnum):
    """What a silent session may be waiting for."""

    MODEL = "model"
    TOOL = "tool"
    SUBAGENT = "subagent"
    PERSON = "person"
    RETRY = "retry"
    LIMIT = "limit"
    COMPACTION = "compaction"
    BACKGROUND = "background"
    SLEEP = "sleep"


class Finding(Struct, frozen=True, gc=False):
    """One closed code with the evidence behind it. `untrusted` holds what an agent wrote."""

    code: Code
    since: Instant
    summary: str
    evidence: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()


class ExpectedWait(Struct, frozen=True, gc=False):
    """A named, evidenced, expiring permission to be silent. Without `until` only a person ends it."""

    kind: WaitKind
    since: Instant
    until: Instant | None
    evidence: str
    untrusted: str = ""
    # A guess: nobody said that it waits for this.
    probable: bool = False


class Verdict(Struct, frozen=True, gc=False):
    """What is true of a session now."""

    state: State
    health: Health
    agent: Sight
    active_prompt: bool
    attention: Attention
    findings: tuple[Finding, ...]
    waits: tuple[ExpectedWait, ...]
    alive_to: Rung
    broken_at: Rung | None
    next_check_at: Instant | None
