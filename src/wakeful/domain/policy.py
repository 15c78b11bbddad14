"""The numbers judgement uses. Every one is configurable; defaults are 000's and 003's where they gave one."""

from msgspec import Struct


class Policy(Struct, frozen=True):
    """Thresholds in awake seconds."""

    # 000: healthy sessions pause up to 6 minutes, stuck ones 10 and more.
    silence_seconds: float = 600.0
    # 003: session_health_stale_after. Idle sessions only, counted from the last proof of presence.
    stale_seconds: float = 120.0
    # Text whose log does not say whether more follows: 99.9 % of model waits end within 213 s, half in 3 s.
    settle_seconds: float = 60.0
    # Claude Code ends a Bash call after 120 s unless it declared a timeout; its longest is 600 s.
    tool_seconds: float = 600.0
    tool_grace_seconds: float = 30.0
    # Six: no healthy session of the 570 recorded ones had six errors in a row; five occurred once.
    errors_in_a_row_max: int = 5
    # Four: no recorded healthy session repeats the same call with the same result four times in a turn.
    repeats_max: int = 3
    # Records a reader must fail to understand, with none it does, before it says that the format changed.
    drift_records_min: int = 20
    # Sessions with no live process and no record for this long are folded in lists.
    fold_after_seconds: float = 86_400.0
