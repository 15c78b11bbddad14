"""Which project had an issue filed lately, kept where the queue is: all its watchdogs share it."""

from typing import Final

from wakeful.watchdog.queue import Jobs

# One issue per project per hour.
WINDOW_SECONDS: Final = 3600.0
_OWNER: Final = "filed"


class JobsLedger:
    """Implements adapters.github.ledger.Ledger."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def claim(self, project: str) -> bool:
        return await self._jobs.claim(f"issue:{project}", _OWNER, WINDOW_SECONDS)

    async def give_back(self, project: str) -> None:
        await self._jobs.yield_(f"issue:{project}", _OWNER)

    async def filed(self, project: str, url: str) -> None:
        await self._jobs.mark(f"issue:{project}", url)

    async def newest(self, project: str) -> str | None:
        kept = (await self._jobs.episodes()).get(f"issue:{project}")
        # An earlier version kept reports under the same name.
        return None if kept is None or kept.startswith("{") else kept
