"""What a person found who read a recording at the time of an accusation. By recording and time, whatever the rule says.

Kept apart from the figures: it is written by hand, and unread parts are marked as unread.
"""

from typing import Final

from msgspec import Struct


class _Read(Struct, frozen=True):
    """A stretch of a recording, in epoch seconds, and what happens in it."""

    recording: str
    from_at: float
    to_at: float
    story: str


_EDIT: Final = (
    "an Edit is open, nothing else is written, and in the end it succeeds; edits take no time, and the mode asks before"
    " them. Most likely a permission question, answered late."
)
_READ: Final = (
    _Read(
        "4ec443d0",
        1767796530.0,
        1767799184.0,
        "a search and a listing outside the project are open and come back well 44 min later, one second apart. Most"
        " likely two permission questions, answered late.",
    ),
    _Read("67d765b5", 1769755118.0, 1769768235.0, _EDIT),
    _Read("67d765b5", 1769768244.0, 1769769154.0, _EDIT),
    _Read("86cc3044", 1768836174.0, 1768837186.0, _EDIT),
    _Read("86cc3044", 1768847757.0, 1768848443.0, _EDIT),
    _Read("c93f3533", 1767717164.0, 1767717872.0, _EDIT),
    _Read("e59f0f58", 1770838497.0, 1770839249.0, _EDIT),
    _Read(
        "019f43d1",
        1783555531.0,
        1783556279.0,
        "an empty write_stdin that may wait 120 s comes back after 747 s and says that it took 117 s: the host slept"
        " for ten minutes. No trouble.",
    ),
)


def explanation(recording: str, from_at: float, to_at: float) -> str:
    """What was read of this stretch; empty if it was not read."""
    for each in _READ:
        if recording.startswith(each.recording) and each.from_at <= from_at and to_at <= each.to_at + 60:
            return each.story
    return ""
