"""What people are told of things that are no session of ours: a queue's sessions, its server, the disk. Pure.

The same lines in the same order as every trouble: what, where, since when, what Wakeful did, what happens otherwise,
one command.
"""

from msgspec import Struct

from wakeful.alerts.alerts import six_things
from wakeful.core.moment import iso


class News(Struct, frozen=True, kw_only=True):
    """One thing to tell. Without a `command` there is nothing a person could type."""

    what: str
    where: str
    since: float
    did: str
    otherwise: str
    command: str = ""

    def __post_init__(self) -> None:
        said = (self.what, self.where, self.did, self.otherwise)
        assert all(each.strip() for each in said), "whoever tells of trouble says all of it"


def text_of(news: News) -> str:
    """As it is sent: plain and redacted line by line, so that nothing from outside looks like a line of ours."""
    return six_things(
        what=news.what,
        where=news.where,
        since=iso(news.since),
        did=news.did,
        otherwise=news.otherwise,
        command=news.command,
    )


def forge_news(words: str, host: str, since: float, *, did: str) -> News:
    """That issues cannot be filed."""
    return News(
        what=f"No issue could be filed: {words}",
        where=f"`gh` on {host}",
        since=since,
        did=did,
        otherwise="no issue tells of it; everything else goes on",
        command="gh auth status",
    )


def refusal_news(asker: str, order: str, reason: str, command: str, since: float) -> News:
    """That a decision was refused. `command` are the words that the asking process was started with."""
    return News(
        what=f"A decision was refused: {asker} asked for it",
        where=f"`{command}`" if command else "a process that had ended, or cannot be seen",
        since=since,
        did=f"refused {order} ({reason}); tells this once a day for each asker",
        otherwise="nothing of it is done; decide it yourself if you want it",
        command="wakeful status",
    )


def failure_news(name: str, reason: str, host: str, since: float) -> News:
    """That a source or a service of Wakeful raised an error."""
    return News(
        what=f"A part of Wakeful is down: {name}",
        where=f"wakeful on {host} ({reason})",
        since=since,
        did="tries it again after 1 to 60 s; everything else goes on",
        otherwise="what it shows or does may be missing",
        command="wakeful doctor",
    )
