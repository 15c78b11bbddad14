"""The budget of resumes: one for each task, stored for a week.

Spending it stores the note about the resume in the same transaction. So of several daemons on one store only one
acts, and a crash leaves either nothing or both. Tasks of the work queue and of Redis have the same budget in
another form, because there it must be one transaction with the act itself: the id of the second task, and the
key that the fencing script sets.
"""

from wakeful.healing.plan import BUDGET_SECONDS, REVIVALS_MAX
from wakeful.storage.base import Note, Store


class RevivalBudget:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def spend(self, work: str, note: Note) -> bool:
        """Store the note and spend one resume of this task. False: none is left, and nothing is stored."""
        return await self._store.spend_budget(
            work, note, times_max=REVIVALS_MAX, window_seconds=BUDGET_SECONDS
        )

    async def refund(self, work: str, note: Note) -> bool:
        """Drop the note and give the resume back: nothing reached the session. False: that was done before."""
        return await self._store.refund_budget(work, note)
