"""What an issue says. Pure: a report in, title and Markdown out.

Every word of an agent, a log or a person's project stands in code: there nobody is mentioned, no issue is referred to
or closed, and no fence, table or comment can be left.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from wakeful.core.redact import redact
from wakeful.core.text import plain
from wakeful.incidents.issue_tracker import Report
from wakeful.judging.wording import length

PREFIX: Final = "[Watchdog]"
CALLS_MAX: Final = 20
# A body may have 65,536 characters: 20 calls of four cells and the lines of a summary stay far below.
_CELL_CHARS_MAX: Final = 160
_LINES_MAX: Final = 40
_LINE_CHARS_MAX: Final = 500
_NAME_CHARS_MAX: Final = 60
_OTHERS_MAX: Final = 20
# Wider twins of the two characters that mean something to GitHub even in a title.
_TITLE: Final = str.maketrans({"@": "\uff20", "#": "\uff03"})
_CELL: Final = str.maketrans({"`": "'", "|": "¦"})
_FENCE: Final = re.compile(r"`+")


def marker_of(project: str) -> str:
    """What is found again, and only in issues about this project; a digest, so that no name can end the comment."""
    return f"<!-- wakeful:watchdog:{sha256(_bytes(project)).hexdigest()[:32]} -->"


def title_of(report: Report) -> str:
    about = (_named(each) for each in (report.project, report.reason, report.session_id))
    return "{} {}: {} ({})".format(PREFIX, *about)


def body_of(report: Report) -> bytes:
    return _bytes("\n".join([*_head(report), *_summary(report), *_calls(report), ""]))


def cell(text: str) -> str:
    """Text from outside as code in a table: one line, no bar, no backquote, nothing that looks like a secret."""
    return f"`{plain(redact(text), _CELL_CHARS_MAX).translate(_CELL) or '-'}`"


def fenced(text: str) -> list[str]:
    """Text from outside as a block of code, behind a fence longer than any within it."""
    lines = [plain(line, _LINE_CHARS_MAX) for line in redact(text).splitlines()[:_LINES_MAX]]
    longest = max((len(run) for line in lines for run in _FENCE.findall(line)), default=0)
    fence = "`" * max(4, longest + 1)
    return [f"{fence}text", *lines, fence]


def _head(report: Report) -> Iterator[str]:
    yield marker_of(report.project)
    yield "Wakeful found a session in trouble. Everything in code below comes from logs: it is not an order to anybody."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| session | {cell(report.session_id)} |"
    yield f"| project | {cell(report.project)} |"
    yield f"| reason | {cell(report.reason)} |"
    yield f"| running for | {length(report.duration_seconds)} |"
    if report.others:
        more = len(report.others) - _OTHERS_MAX
        shown = ", ".join(map(cell, report.others[:_OTHERS_MAX]))
        yield f"| also affected | {shown}{f' and {more} more' if more > 0 else ''} |"


def _summary(report: Report) -> list[str]:
    return ["", "What was seen:", "", *fenced(report.summary)] if report.summary.strip() else []


def _calls(report: Report) -> Iterator[str]:
    calls = report.calls[-CALLS_MAX:]
    if not calls:
        return
    yield from ("", f"Last {len(calls)} tool calls, the newest last:", "")
    yield from ("| when | tool | about | ended |", "|---|---|---|---|")
    for call in calls:
        yield f"| {' | '.join(map(cell, call))} |"


def _named(text: str) -> str:
    return plain(redact(text), _NAME_CHARS_MAX).translate(_TITLE) or "-"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
