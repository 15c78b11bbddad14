"""Detects whether a write to an agent's own plan is progress: items added or done. Pure.

Texts are ignored: a plan that is only reworded is no progress.
"""

import re
from typing import Final

from msgspec import Struct

# Tools of several clients that write the whole plan, and one that writes a single item.
_PLANS: Final = re.compile(
    r"(?:^|[_.-])(?:todo_?write|update_plan|(?:write|update|set)_todos?(?:_list)?|manage_todo_list|TaskUpdate)$",
    re.IGNORECASE,
)
_STATUS: Final = re.compile(rb'"status" ?: ?"(\w{1,40})"')
_DONE: Final = frozenset({b"cancelled", b"completed", b"deleted", b"done"})
_ITEM: Final = re.compile(rb'"taskId" ?: ?"?([\w-]{1,40})')


class PlanShape(Struct, frozen=True, gc=False):
    """A plan without its texts. `item`: the written one, if it was only one."""

    items: int
    done: int
    item: bytes = b""

    def goes_beyond(self, before: "PlanShape") -> bool:
        """Whether an item was created or done since; a write of another item counts, too."""
        return self.items > before.items or self.done > before.done or self.item != before.item


def is_plan(tool: str) -> bool:
    return _PLANS.search(tool) is not None


def plan_shape(given: bytes) -> PlanShape:
    statuses = _STATUS.findall(given)
    item = _ITEM.search(given)
    if item is not None:  # an update of one item creates none
        return PlanShape(0, sum(status in _DONE for status in statuses), item[1])
    return PlanShape(len(statuses), sum(status in _DONE for status in statuses))
