"""Schema of `[agents.heartbeat]`, `[session.supervision]` and `[hooks]`: keys and defaults.

See docs/specs/session-health.md. It reads no file; `load.py` does. Durations are written `5m`, or as a number
of seconds.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

# Ten years: enough to say "never", and still a date that can be written down.
SECONDS_MAX: Final = 315_360_000
Duration = Annotated[float, Meta(gt=0, le=SECONDS_MAX, description="duration")]
Times = Annotated[int, Meta(ge=1, le=1_000_000)]
# The guidance is sent as part of a prompt, so a megabyte is far too much.
Bytes = Annotated[int, Meta(ge=1, le=1_048_576)]
# The kernel takes no NUL in an argument.
CommandWords = tuple[Annotated[str, Meta(pattern=r"^[^\x00]+$")], ...]

ALLOWED: Final = {
    Duration: f'a duration like "5m", or a number of seconds above 0, {SECONDS_MAX} at most',
    Times: "a whole number from 1 to 1000000",
    Bytes: "a whole number of bytes from 1 to 1048576",
    CommandWords: 'a list of words, the program first, like ["notify-send", "health"]',
}


class HeartbeatConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How agents are woken, and the bounds for the intervals in their HEARTBEAT.md."""

    enabled: bool = True
    min_interval: Duration = 300.0
    default_interval: Duration = 1800.0
    wake_cooldown: Duration = 60.0
    max_wakes_per_cycle: Times = 25
    cycle: Duration = 60.0
    session_health_stale_after: Duration = 120.0
    session_health_hook_min_interval: Duration = 60.0
    wake_event_retention: Duration = 604_800.0
    max_body_bytes: Bytes = 32_768


class SupervisionConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The timers of a running prompt. They never change a session's health."""

    activity_heartbeat_interval: Duration = 30.0
    progress_notify_interval: Duration = 600.0
    inactivity_warning_after: Duration = 900.0
    inactivity_timeout: Duration = 1800.0


class HooksConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Programs that the operator wants run on an event. Each gets the event as JSON on standard input."""

    session_health_update_after: CommandWords = ()


MEANINGS: Final = {
    "agents.heartbeat.enabled": "false: no agent is woken.",
    "agents.heartbeat.min_interval": "Least interval. A shorter one in a HEARTBEAT.md is raised to this, with a note.",
    "agents.heartbeat.default_interval": "Default interval.",
    "agents.heartbeat.wake_cooldown": "Least time between two wakes of a session.",
    "agents.heartbeat.max_wakes_per_cycle": "Maximum number of wakes in one cycle.",
    "agents.heartbeat.cycle": "Interval between checks for due agents.",
    "agents.heartbeat.session_health_stale_after": "An idle session without proof of life for this long is stale.",
    "agents.heartbeat.session_health_hook_min_interval": "Least time between two hook runs for a session.",
    "agents.heartbeat.wake_event_retention": "Wake decisions are kept this long.",
    "agents.heartbeat.max_body_bytes": "A HEARTBEAT.md with longer guidance is invalid.",
    "session.supervision.activity_heartbeat_interval": "Interval between checks of running prompts.",
    "session.supervision.progress_notify_interval": "Interval between progress messages of a running prompt.",
    "session.supervision.inactivity_warning_after": "Warn about a prompt without progress for this long,",
    "session.supervision.inactivity_timeout": "and interrupt it after this, if it is managed, unless a tool runs or healing handles it.",
    "hooks.session_health_update_after": "Command to run when a session's health changes. Empty: none.",
}
