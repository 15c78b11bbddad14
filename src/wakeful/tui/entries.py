"""Decisions, incidents, agents and events as entries: a few lines each, and what can be ordered. Pure: answers in, lines out.

Everything in them may hold words of an agent, and is made plain here.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from msgspec import Struct

from wakeful.agents.model import AgentRecord, AgentState
from wakeful.checkpoints.model import CheckpointRecord
from wakeful.cli.commands.checkpoint_text import Checkpoints
from wakeful.cli.commands.events import Events
from wakeful.cli.commands.incidents import Episode, Episodes, incident_details
from wakeful.cli.format.listing import decoded
from wakeful.cli.format.why_words import Line
from wakeful.core.durations import age
from wakeful.core.text import plain
from wakeful.judging.available_actions import OBSERVING
from wakeful.tui.commands import Offer, agent_offers, choice_offer

DOUBTS_SHOWN_MAX: Final = 5
# Who needs somebody comes first.
_STATES: Final[Mapping[AgentState, tuple[str, str]]] = {
    AgentState.STALE: ("✗", "warning"),
    AgentState.ERROR: ("✗", "error"),
    AgentState.UNKNOWN: ("?", "warning"),
    AgentState.STARTING: ("…", "accent"),
    AgentState.STOPPING: ("…", "accent"),
    AgentState.RUNNING: ("●", "success"),
    AgentState.STOPPED: ("○", "quiet"),
}
_ORDER: Final = tuple(_STATES)


class Entry(NamedTuple):
    """What one thing of a view says, and what can be ordered while it is chosen."""

    key: str
    lines: tuple[Line, ...]
    offers: tuple[Offer, ...] = ()


class ViewKind(NamedTuple):
    """One view: its title, where its answer comes from, what it says while there is nothing, and how it is read."""

    title: str
    target: str
    nothing: str
    entries: Callable[[bytes, float], Iterator[Entry]]


class _Agents(Struct, frozen=True):
    agents: list[AgentRecord]


def decisions(body: bytes, now: float) -> Iterator[Entry]:
    """Each with what may have happened, and what each choice leads to."""
    for each in decoded(body, Checkpoints).checkpoints:
        if each.state == "open":
            offers = tuple(choice_offer(each.number, choice) for choice in each.choices)
            yield Entry(str(each.number), tuple(_decision(each, offers, now)), offers)


def _decision(record: CheckpointRecord, offers: tuple[Offer, ...], now: float) -> Iterator[Line]:
    head = f"checkpoint {record.number}"
    about = plain(f"{record.project or '-'} · {record.subject} · for {_age(record.opened_at, now)}")
    yield (("◆ ", "needs-you"), (head, "strong"), (f"  {about}", "quiet"))
    for doubt in record.may_have[:DOUBTS_SHOWN_MAX]:
        yield (("  may have happened: ", "quiet"), (plain(doubt), "text"))
    for offer in offers:
        yield (
            (f"  {offer.key} ", "accent"),
            (f"{offer.label}  ", "text"),
            (offer.order.told.split("\n")[0], "quiet"),
        )


def incidents(body: bytes, now: float) -> Iterator[Entry]:
    """Open ones first, with what became of each session."""
    for each in decoded(body, Episodes).incidents:
        yield Entry(each.id, tuple(_incident(each, now)))


def _incident(episode: Episode, now: float) -> Iterator[Line]:
    is_open = episode.resolved_at is None
    lasted = (
        now - _wall(episode.opened_at)
        if is_open
        else _wall(episode.resolved_at or "") - _wall(episode.opened_at)
    )
    mark, style = ("✗ ", "error") if is_open else ("✓ ", "quiet")
    when = f"  {'open' if is_open else 'over'}, since {_clock(episode.opened_at, now)}, for {age(lasted)}"
    yield ((mark, style), (plain(episode.words), "strong" if is_open else "text"), (when, "quiet"))
    for line in incident_details(episode):
        yield ((f"  {plain(line)}", "text" if is_open else "quiet"),)


def agents(body: bytes, now: float) -> Iterator[Entry]:
    """Who needs somebody first; what can be ordered of each."""
    found = sorted(decoded(body, _Agents).agents, key=lambda each: (_ORDER.index(each.state), each.name))
    for each in found:
        offers = agent_offers(each.name, each.state)
        mark, style = _STATES[each.state]
        about = f"  {each.runtime}  for {_age(each.since, now)}"
        lines: list[Line] = [
            ((f"{mark} ", style), (each.name, "strong"), (f"  {each.state}", style), (about, "quiet")),
            *([((f"  {plain(each.reason)}", "text"),)] if each.reason else []),
        ]
        if offers:
            lines.append(tuple(_keys(offers)))
        yield Entry(each.id, tuple(lines), offers)


def withheld(entry: Entry) -> Entry:
    """An agent while the mode is observe: no order is taken, which is said where its keys stood."""
    if not entry.lines or entry.lines[-1] != tuple(_keys(entry.offers)):
        return entry
    names = ", ".join(offer.label for offer in entry.offers)
    said: Line = ((f"  {names} not now: ", "text"), (OBSERVING, "quiet"))
    return entry._replace(lines=(*entry.lines[:-1], said), offers=())


def _keys(offers: tuple[Offer, ...]) -> Iterator[tuple[str, str]]:
    yield ("  ", "quiet")
    for offer in offers:
        yield (f"{offer.key} ", "accent")
        yield (f"{offer.label}   ", "text")


def events(body: bytes, now: float) -> Iterator[Entry]:
    """The newest first; whatever another program put into them."""
    for number, each in enumerate(reversed(decoded(body, Events).events)):
        told = {key: plain(str(value), 100).replace("_", " ") for key, value in each.items() if value}
        at, what = str(each.get("timestamp") or ""), told.get("event", "-")
        style = "success" if what.endswith("recovered") else "error"
        acted = told.get("action_taken", "none")
        project = plain(str(each.get("project_key") or "-"), 40)
        line: Line = (
            (f"{_clock(at, now):<12}", "quiet"),
            (f"{what:<18} ", style),
            (f"{project}  ", "strong"),
            (f"{told.get('reason', '')}", "text"),
            (f"  Wakeful: {acted}" if acted != "none" else "", "accent"),
        )
        yield Entry(f"{at}{number}", (line,))


KINDS: Final[Mapping[str, ViewKind]] = {
    "2": ViewKind("Decisions", "/api/checkpoints", "Nothing waits for a decision.", decisions),
    "3": ViewKind("Incidents", "/api/incidents?all=true", "No incident in the last 30 days.", incidents),
    "4": ViewKind(
        "Agents", "/api/agents", "No agent is declared. [agents.NAME] in wakeful.toml declares one.", agents
    ),
    "5": ViewKind("Events", "/api/events?since=24h&limit=200", "No critical event in the last 24 h.", events),
}
"""By the key that opens each; `1` is the sessions."""


def _wall(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _age(stamp: str, now: float) -> str:
    return age(now - _wall(stamp))


def _clock(stamp: str, now: float) -> str:
    """By this host's clock, with the day where it is not today."""
    try:
        then = datetime.fromisoformat(stamp).astimezone()
    except ValueError:
        return "-"
    today = datetime.fromtimestamp(now, UTC).astimezone().date()
    return f"{then:%H:%M}" if then.date() == today else f"{then:%d %b %H:%M}"
