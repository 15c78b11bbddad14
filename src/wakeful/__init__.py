"""Wakeful: the truth about every agent session on this machine.

Nothing is imported here but what a name asked for needs: the command's start time depends on it.
"""

__version__ = "0.1.0.dev0"

# What mypy reads and the interpreter skips.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from wakeful.client.leases import (
        Ownership,
        claim_next_run,
        complete_run,
        fail_run,
        heartbeat_run_lease,
        own,
    )
    from wakeful.core.leases import ConversationHeld, LeaseLost
    from wakeful.journal.api import Journal, JournalHeld
    from wakeful.watchdog.api import watchdog_loop

__all__ = [
    "ConversationHeld",
    "Journal",
    "JournalHeld",
    "LeaseLost",
    "Ownership",
    "__version__",
    "claim_next_run",
    "complete_run",
    "fail_run",
    "heartbeat_run_lease",
    "own",
    "watchdog_loop",
]
# Whatever is not named here is about work and its owners.
_MODULE_OF_NAME = {
    "ConversationHeld": "wakeful.core.leases",
    "Journal": "wakeful.journal.api",
    "JournalHeld": "wakeful.journal.api",
    "LeaseLost": "wakeful.core.leases",
    "watchdog_loop": "wakeful.watchdog.api",
}


def __getattr__(name: str) -> object:
    """Import what was asked for, and only that."""
    if name not in __all__:
        raise AttributeError(f"module 'wakeful' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    return getattr(import_module(_MODULE_OF_NAME.get(name, "wakeful.client.leases")), name)
