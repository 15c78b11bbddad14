"""Finds the question at the end of an agent's last text. Pure.

One in five final texts ends with one, mostly an offer ("Shall I also …?"). It is shown beside idle, and the
session does not count as waiting.
"""

import re
from typing import Final

from wakeful.core.redaction import redact

QUESTION_CHARS_MAX: Final = 300
_CHECKED_CHARS: Final = 3000
_MARKS: Final = ("?", "\uff1f", "\u061f")
# Emphasis and quotes around a sentence, and the beginning of a list item or heading.
_BEHIND: Final = " \t\r\n*_`~\"')]}\u201d\u2019\u00bb"
_BEFORE: Final = " \t*_`~\"'([{#>-\u2022\u201c\u2018\u00ab"
_SENTENCE_END: Final = re.compile(r"(?<=[.!?:\u2026\uff1f\u3002])\s+")


def question_in(text: str) -> str:
    """The last sentence of a text if it is a question, else empty."""
    stripped = text.rstrip(_BEHIND)
    if not stripped.endswith(_MARKS):
        return ""
    # The name of a secret may be in the sentence before.
    line = redact(stripped[-_CHECKED_CHARS:]).rpartition("\n")[2]
    return _SENTENCE_END.split(line)[-1].lstrip(_BEFORE)[-QUESTION_CHARS_MAX:]
