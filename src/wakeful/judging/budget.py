"""Spending budget of a run, as its client reports it, and whether it is used up. Pure.

Claude Code ends a run at its budget without a record: the log ends with an open call, as after SIGTERM. But
before each request it writes the amount spent so far. The cost of the last message is estimated from earlier ones.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

# A changed model or a request outside the turn may distort an estimate: only one below half of the rest is certain.
DOUBT: Final = 2.0


class Spending(StrEnum):
    LEFT = "left"
    UNKNOWN = "unknown"
    USED_UP = "used up"


class SpendingBudget(Struct, frozen=True, gc=False):
    """The client's last report of its budget, and the tokens spent since, weighted by their price."""

    used_usd: float
    total_usd: float
    # The cost of messages so far, and their weight: both only for requests without a parallel subagent.
    known_usd: float = 0.0
    known_weight: float = 0.0
    newest_weight: float = 0.0
    # A subagent spends from the same budget and has its own log.
    shared: bool = False

    def with_report(self, used_usd: float, total_usd: float) -> "SpendingBudget":
        """With the report before the next request."""
        if used_usd < self.used_usd or total_usd != self.total_usd:  # another run of the same conversation
            return SpendingBudget(used_usd, total_usd)
        if self.shared:
            return SpendingBudget(used_usd, total_usd, self.known_usd, self.known_weight)
        known_usd = self.known_usd + used_usd - self.used_usd
        return SpendingBudget(used_usd, total_usd, known_usd, self.known_weight + self.newest_weight)

    @property
    def spending(self) -> Spending:
        left_usd = self.total_usd - self.used_usd
        if left_usd <= 0:
            return Spending.USED_UP
        if not self.newest_weight:
            return Spending.LEFT
        if self.shared or not self.known_weight or not self.known_usd:
            return Spending.UNKNOWN
        cost_usd = self.newest_weight * self.known_usd / self.known_weight
        if cost_usd >= left_usd:
            return Spending.USED_UP
        return Spending.UNKNOWN if cost_usd * DOUBT >= left_usd else Spending.LEFT
