"""Detects lack of progress without repeated calls. Pure.

There are two patterns: the same answer to different questions, and a plan that is only reworded. A run
consists of steps: equal calls of one message count once.
"""

from typing import Final
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.clock import Instant
from wakeful.judging.call_identity import Call, identity_of, writes_nothing
from wakeful.judging.plan_items import PlanShape

# A shorter answer says little: "No matches found", "true", an empty list.
RESULT_BYTES_MIN: Final = 40
# JSON around the text of a result.
_AROUND: Final = (b'[{"type":"text","text":', b'[{"type": "text", "text": ', b"Output:\\n", b'"')
_BEHIND: Final = (b"}]", b'"')


class SameAnswerRun(Struct, frozen=True, gc=False):
    """Reading calls of one tool in a row that all got the same answer. Most runs have one call."""

    call: Call
    answer: int
    since: Instant
    step: int
    count: int = 1


class PlanRun(Struct, frozen=True, gc=False):
    """Writes of a plan in a row, with no item created or done after the first."""

    call: Call
    shape: PlanShape
    since: Instant
    step: int
    count: int = 1


def extend_same_answer_run(
    run: SameAnswerRun | None, call: Call, result: bytes, since: Instant, step: int
) -> SameAnswerRun | None:
    """The run with a call that was not made before; a repeated call is no other question."""
    if _text_bytes(result) < RESULT_BYTES_MIN:
        return None
    answer = crc32(result)
    if run is None or run.answer != answer or run.call.tool != call.tool:
        return SameAnswerRun(call, answer, since, step)
    if step and run.step == step:
        return run
    if run.count == 1 and not writes_nothing(identity_of(run.call)):
        return SameAnswerRun(call, answer, since, step)
    if not writes_nothing(identity_of(call)):
        return None
    return replace(run, call=call, step=step, count=run.count + 1)


def _text_bytes(result: bytes) -> int:
    """The length of an answer without its JSON."""
    for opening in _AROUND:
        result = result.removeprefix(opening)
    for closing in _BEHIND:
        result = result.removesuffix(closing)
    return len(result)


def extend_plan_run(run: PlanRun | None, call: Call, since: Instant, step: int) -> PlanRun | None:
    """The run with this call; any call that writes no plan ends it."""
    if call.plan is None:
        return None
    if run is None or call.plan.goes_beyond(run.shape):
        return PlanRun(call, call.plan, since, step)
    if step and run.step == step:
        return replace(run, shape=call.plan)
    return replace(run, call=call, shape=call.plan, step=step, count=run.count + 1)
