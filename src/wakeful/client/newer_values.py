"""Leaves out of a daemon's answer what only a newer version knows: a client that is older than its daemon goes on.

A finding, a wait or an action with an unknown code is no part of the record then; state, health and the texts stay
as the daemon sent them. Unknown values anywhere else are a version mismatch. Pure.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from wakeful.judging.available_actions import ActionName
from wakeful.judging.findings import FindingCode, WaitKind

# The lists of a record, and the member of each item that has a closed set of values.
_CLOSED: Final[Mapping[str, tuple[str, type[StrEnum]]]] = {
    "findings": ("code", FindingCode),
    "fired": ("code", FindingCode),
    "held_back": ("code", FindingCode),
    "expected_waits": ("kind", WaitKind),
    "actions": ("name", ActionName),
}


def without_newer_values(value: Any) -> Any:
    """The same document without the items that this version cannot name."""
    if isinstance(value, list):
        return [without_newer_values(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _known_member(name, each) for name, each in value.items()}


def _known_member(name: str, value: Any) -> Any:
    if name == "last_error" and not _is_known(value, "code", FindingCode):
        return None
    if name in _CLOSED and isinstance(value, list):
        member, closed = _CLOSED[name]
        value = [each for each in value if _is_known(each, member, closed)]
    return without_newer_values(value)


def _is_known(item: Any, member: str, closed: type[StrEnum]) -> bool:
    """Whatever has another shape is left to the decoder."""
    code = item.get(member) if isinstance(item, dict) else None
    return not isinstance(code, str) or code in {each.value for each in closed}
