"""What people are told of things that are no session of ours: a queue's sessions, its server, the disk. Pure.

The same lines in the same order as every trouble: what, where, since when, what Wakeful did, what happens otherwise,
one command.
"""

from typing import Final

from msgspec import Struct

from wakeful.domain.alerts import moment
from wakeful.domain.moment import iso
from wakeful.domain.plaintext import plain
from wakeful.domain.redact import redact

LINE_CHARS_MAX: Final = 300


class News(Struct, frozen=True, kw_only=True):
    """One thing to tell. Without a `command` there is nothing a person could type."""

    what: str
    where: str
    since: float
    did: str
    otherwise: str
    command: str = ""


def text_of(news: News) -> str:
    """As it is sent: plain and redacted line by line, so that nothing from outside looks like a line of ours."""
    lines = [
        news.what,
        f"Where: {news.where}",
        f"Since: {moment(iso(news.since))}",
        f"Wakeful did: {news.did}",
        f"If you do nothing: {news.otherwise}",
    ]
    if news.command:
        lines.append(f"→ {news.command}")
    return "\n".join(plain(redact(line), LINE_CHARS_MAX) for line in lines)
