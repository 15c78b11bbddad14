"""A journal for any program: its steps can be resumed after a crash, and nothing is repeated without approval."""

# True for mypy, False at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from wakeful.journal.api import (
        Journal,
        JournalClosed,
        JournalHeld,
        JournalInUse,
        KeyChanged,
        Ran,
        StateLost,
        Step,
        StepCompleted,
        StepFailed,
        StepRuns,
        Traits,
    )

__all__ = [
    "Journal",
    "JournalClosed",
    "JournalHeld",
    "JournalInUse",
    "KeyChanged",
    "Ran",
    "StateLost",
    "Step",
    "StepCompleted",
    "StepFailed",
    "StepRuns",
    "Traits",
]


def __getattr__(name: str) -> object:
    """Import `api` when one of its names is used: other packages use only parts of the journal."""
    if name not in __all__:
        raise AttributeError(f"module 'wakeful.journal' has no attribute {name!r}")
    from wakeful.journal import api  # noqa: PLC0415 - see above

    return getattr(api, name)
