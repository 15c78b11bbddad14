"""Counts the subagents that a turn starts: at once, in ten minutes, and with the same prompt. Pure.

Equal prompts of one message count once, because some turns ask several agents the same on purpose. A prompt
that is repeated after a write is a new task, such as a review of the change.
"""

from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec
from msgspec import Struct, field

from wakeful.core.clock import Instant
from wakeful.core.decoding import json_decoder
from wakeful.judging.call_identity import is_spawn

if TYPE_CHECKING:
    from wakeful.judging.activity import Activity, OpenCall
    from wakeful.judging.thresholds import Policy

WINDOW_SECONDS: Final = 600.0
# More than any policy is likely to allow; the oldest are dropped first.
SPAWNS_KEPT_MAX: Final = 128
PROMPTS_KEPT_MAX: Final = 32
_PROMPT_KEYS: Final = ("prompt", "message", "task", "instructions")
_decode: Final = json_decoder(dict[str, Any])


class _PromptCount(Struct, gc=False):
    """One prompt: how often it was given, when first, and in which message last."""

    since: Instant
    step: int
    count: int = 1


class Spawns(Struct, gc=False):
    times: list[Instant] = field(default_factory=list)
    prompts: dict[int, _PromptCount] = field(default_factory=dict)


class SpawnStorm(Struct, frozen=True):
    since: Instant
    summary: str


def on_spawn(spawns: Spawns, given: bytes, at: Instant, step: int) -> None:
    spawns.times = [*spawns.times[1 - SPAWNS_KEPT_MAX :], at]
    key = _prompt_key(given)
    before = spawns.prompts.pop(key, None)
    if before is None:
        before = _PromptCount(at, step)
    elif before.step != step:
        before.step, before.count = step, before.count + 1
    spawns.prompts[key] = before
    if len(spawns.prompts) > PROMPTS_KEPT_MAX:
        del spawns.prompts[next(iter(spawns.prompts))]


def on_spawn_failed(spawns: Spawns, given: bytes) -> None:
    """A subagent never started: its prompt does not count."""
    each = spawns.prompts.get(_prompt_key(given))
    if each is not None:
        each.count -= 1


def _prompt_key(given: bytes) -> int:
    """A number for the prompt of the call without its description, or for the whole input if it has no prompt."""
    try:
        arguments = _decode(given)
    except msgspec.DecodeError:
        return crc32(given)
    prompt = next((arguments[key] for key in _PROMPT_KEYS if isinstance(arguments.get(key), str)), None)
    return crc32(given if prompt is None else " ".join(prompt.split()).encode())


def detect_storm(activity: "Activity", policy: "Policy") -> SpawnStorm | None:
    """The number of subagents of this turn that is too high, if one is."""
    spawns = activity.spawns
    if spawns is None:
        return None
    if len(running := _running(activity)) > policy.spawns_open_max:
        return SpawnStorm(running[0], f"{len(running)} subagents running at once")
    if len(recent := _recent(spawns)) > policy.spawns_max:
        return SpawnStorm(recent[0], f"{len(recent)} subagents started within {WINDOW_SECONDS / 60:.0f} min")
    for each in spawns.prompts.values():
        if each.count > policy.spawn_repeats_max:
            return SpawnStorm(each.since, f"{each.count} subagents started with one prompt")
    return None


def _running(activity: "Activity") -> list[Instant]:
    """The start times of running subagents of this turn; not every log shows those of earlier turns."""
    since = activity.turn_since
    calls: list[OpenCall] = [call for call in activity.calls.values() if is_spawn(call.tool)]
    behind = [task for task in activity.background.values() if is_spawn(task.tool)]
    return sorted(
        [call.since for call in calls]
        + [task.since for task in behind if since is None or task.since >= since]
    )


def _recent(spawns: Spawns) -> list[Instant]:
    """The starts in the ten minutes before the newest: a storm does not end by time, but with its turn."""
    newest = spawns.times[-1]
    return [at for at in spawns.times if newest.seconds_since(at) < WINDOW_SECONDS]
