"""Views of decisions, incidents, agents and events in `wakeful top`, and the screen that shows one of them.

The entries are made by pure functions: answers in, lines and offered actions out; text of agents is made
plain. A view asks the daemon again after a change. Without a proven connection it loses its colours and says
from when its data is.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import ClassVar, Final, NamedTuple, Protocol

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Static

from wakeful.agents.model import AgentState
from wakeful.checkpoints.model import CheckpointList, CheckpointRecord
from wakeful.cli.commands.incidents import incident_details
from wakeful.cli.format.explanation import Line
from wakeful.client.client import DaemonClient, decode_body
from wakeful.core.durations import age
from wakeful.core.errors import WakefulError
from wakeful.core.text import plain
from wakeful.judging.available_actions import OBSERVING
from wakeful.tui.commands import ActionRequest, KeyedAction, agent_actions, choice_action
from wakeful.tui.detail import to_rich_text
from wakeful.tui.key_bar import KeyBar
from wakeful.tui.theme import styles
from wakeful.tui.timeline import wall_of
from wakeful.views.incidents import IncidentList, IncidentRecord
from wakeful.views.records import AgentList, CriticalEventList

POSSIBLE_EFFECTS_SHOWN_MAX: Final = 5
# Agents that need a person come first.
_STATE_MARKS: Final[Mapping[AgentState, tuple[str, str]]] = {
    AgentState.STALE: ("✗", "warning"),
    AgentState.ERROR: ("✗", "error"),
    AgentState.UNKNOWN: ("?", "warning"),
    AgentState.STARTING: ("…", "accent"),
    AgentState.STOPPING: ("…", "accent"),
    AgentState.RUNNING: ("●", "success"),
    AgentState.STOPPED: ("○", "quiet"),
}
_STATE_ORDER: Final = tuple(_STATE_MARKS)


class ViewEntry(NamedTuple):
    """The lines of one entry, and the actions while it is selected."""

    key: str
    lines: tuple[Line, ...]
    offers: tuple[KeyedAction, ...] = ()


NameOf = Callable[[str], str]
"""What the list calls a session; other texts stay as they are."""


class ViewKind(NamedTuple):
    """One view: title, request, text of an empty view, and how its entries are made."""

    title: str
    target: str
    nothing: str
    entries: Callable[[bytes, float, "NameOf"], Iterator[ViewEntry]]


def decision_entries(body: bytes, now: float, name_of: NameOf) -> Iterator[ViewEntry]:
    """Each with its possible effects, and the consequence of each choice."""
    for each in decode_body(body, CheckpointList).checkpoints:
        if each.state == "open":
            offers = tuple(choice_action(each.number, choice) for choice in each.choices)
            yield ViewEntry(str(each.number), tuple(_decision_lines(each, offers, now, name_of)), offers)


def _decision_lines(
    record: CheckpointRecord, offers: tuple[KeyedAction, ...], now: float, name_of: NameOf
) -> Iterator[Line]:
    head = f"checkpoint {record.number}"
    # Most sessions are called as their project.
    names = dict.fromkeys((record.project or "-", name_of(record.subject)))
    about = plain(f"{' · '.join(names)} · for {_age(record.opened_at, now)}")
    yield (("◆ ", "needs-you"), (head, "strong"), (f"  {about}", "quiet"))
    for doubt in record.may_have[:POSSIBLE_EFFECTS_SHOWN_MAX]:
        yield (("  may have taken effect: ", "quiet"), (plain(doubt), "text"))
    for offer in offers:
        yield (
            (f"  {offer.key} ", "accent"),
            (f"{offer.label}  ", "text"),
            (offer.order.told.split("\n")[0], "quiet"),
        )


def incident_entries(body: bytes, now: float, _: NameOf) -> Iterator[ViewEntry]:
    """Open ones first, with the state of each session."""
    for each in decode_body(body, IncidentList).incidents:
        yield ViewEntry(each.id, tuple(_incident_lines(each, now)))


def _incident_lines(incident: IncidentRecord, now: float) -> Iterator[Line]:
    is_open = incident.resolved_at is None
    lasted = (
        now - wall_of(incident.opened_at)
        if is_open
        else wall_of(incident.resolved_at or "") - wall_of(incident.opened_at)
    )
    mark, style = ("✗ ", "error") if is_open else ("✓ ", "quiet")
    when = (
        f"  {'open' if is_open else 'resolved'}, since {_clock(incident.opened_at, now)}, for {age(lasted)}"
    )
    yield ((mark, style), (plain(incident.words), "strong" if is_open else "text"), (when, "quiet"))
    for line in incident_details(incident):
        yield ((f"  {plain(line)}", "text" if is_open else "quiet"),)


def agent_entries(body: bytes, now: float, _: NameOf) -> Iterator[ViewEntry]:
    """Agents that need a person first, each with its actions."""
    agents = decode_body(body, AgentList).agents
    for each in sorted(agents, key=lambda each: (_STATE_ORDER.index(each.state), each.name)):
        offers = agent_actions(each.name, each.state)
        mark, style = _STATE_MARKS[each.state]
        about = f"  {each.runtime}  for {_age(each.since, now)}"
        lines: list[Line] = [
            ((f"{mark} ", style), (each.name, "strong"), (f"  {each.state}", style), (about, "quiet")),
            *([((f"  {plain(each.reason)}", "text"),)] if each.reason else []),
        ]
        if offers:
            lines.append(tuple(_key_pieces(offers)))
        yield ViewEntry(each.id, tuple(lines), offers)


def without_actions(entry: ViewEntry) -> ViewEntry:
    """An agent in the mode observe: a line instead of its keys says that no order is taken."""
    if not entry.lines or entry.lines[-1] != tuple(_key_pieces(entry.offers)):
        return entry
    names = ", ".join(offer.label for offer in entry.offers)
    said: Line = ((f"  {names} unavailable: ", "text"), (OBSERVING, "quiet"))
    return entry._replace(lines=(*entry.lines[:-1], said), offers=())


def _key_pieces(offers: tuple[KeyedAction, ...]) -> Iterator[tuple[str, str]]:
    yield ("  ", "quiet")
    for offer in offers:
        yield (f"{offer.key} ", "accent")
        yield (f"{offer.label}   ", "text")


def event_entries(body: bytes, now: float, name_of: NameOf) -> Iterator[ViewEntry]:
    """The newest first; other programs may have written anything into them."""
    for number, each in enumerate(reversed(decode_body(body, CriticalEventList).events)):
        texts = {key: plain(str(value), 100).replace("_", " ") for key, value in each.items() if value}
        at, what = str(each.get("timestamp") or ""), texts.get("event", "-")
        has_recovered = what.endswith("recovered")
        acted = texts.get("action_taken", "none")
        session_id = str(each.get("session_id") or "")
        name = name_of(session_id)
        # A session that is not listed any more is called as its project.
        shown = str(each.get("project_key") or name or "-") if name == session_id else name
        before = "before: " if has_recovered else ""
        line: Line = (
            (f"{_clock(at, now):<14}", "quiet"),
            (f"{what:<18} ", "success" if has_recovered else "error"),
            (f"{plain(shown, 40)}  ", "strong"),
            (f"{before}{texts.get('reason', '')}", "text"),
            (f"  Wakeful: {acted}" if acted != "none" else "", "accent"),
        )
        yield ViewEntry(f"{at}{number}", (line,))


VIEW_KINDS: Final[Mapping[str, ViewKind]] = {
    "2": ViewKind("Decisions", "/api/checkpoints", "No decision needed.", decision_entries),
    "3": ViewKind(
        "Incidents", "/api/incidents?all=true", "No incident in the last 30 days.", incident_entries
    ),
    "4": ViewKind(
        "Agents",
        "/api/agents",
        "No agents are declared. Declare one as [agents.NAME] in wakeful.toml.",
        agent_entries,
    ),
    "5": ViewKind(
        "Events", "/api/events?since=24h&limit=200", "No critical event in the last 24 h.", event_entries
    ),
}
"""By the key that opens each; `1` is the session list."""


def _age(stamp: str, now: float) -> str:
    return age(now - wall_of(stamp))


def _clock(stamp: str, now: float) -> str:
    """By this host's clock, with the day where it is not today."""
    try:
        then = datetime.fromisoformat(stamp).astimezone()
    except ValueError:
        return "-"
    today = datetime.fromtimestamp(now, UTC).astimezone().date()
    return f"{then:%H:%M}" if then.date() == today else f"{then:%d %b %H:%M}"


# What is not pushed is requested again this long after a change.
REFRESH_DELAY_SECONDS: Final = 0.5


class ViewHost(Protocol):
    """The application that shows a view."""

    def wall_time(self) -> float: ...

    def daemon_mode(self) -> str:
        """The mode of the daemon; empty while it is not known."""

    def session_name(self, subject: str) -> str:
        """What the list calls this session; anything else stays as it is."""

    def disconnected_text(self) -> str:
        """Since when the daemon does not answer; empty while it does."""

    async def confirm_and_send(self, order: ActionRequest) -> None:
        """Ask for confirmation, send the order, show the result."""


class View(ModalScreen[str | None]):
    """Left with the key of the next view; None is back to the sessions."""

    CSS = """
    View { background: $background; }
    View #head { height: auto; background: $surface; text-wrap: nowrap; text-overflow: ellipsis; }
    View #entries { height: 1fr; padding: 1 0 0 0; scrollbar-size-vertical: 1; }
    View .entry { height: auto; padding: 0 1; margin-bottom: 1; }
    View.-dense .entry { margin-bottom: 0; }
    View .entry.-chosen { background: $cursor; }
    View #nothing { padding: 1 3; color: $quiet; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next", key_display="↓"),
        Binding("up,k", "move(-1)", "Previous", key_display="↑"),
        Binding("1,escape,q", "go('')", "Sessions", key_display="1"),
        *(Binding(key, f"go('{key}')", kind.title) for key, kind in VIEW_KINDS.items()),
    ]

    def __init__(
        self,
        key: str,
        client: DaemonClient,
        host: ViewHost,
    ) -> None:
        super().__init__()
        self._key = key
        self._kind = VIEW_KINDS[key]
        self._client = client
        self._host = host
        self._entries: list[ViewEntry] = []
        self._selected = 0
        self._fetch_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield VerticalScroll(id="entries", can_focus=True)
        yield KeyBar()

    def on_mount(self) -> None:
        self.set_class(self._key == "5", "-dense")
        self.query_one("#entries").focus()
        self.draw_head()
        self._fetch()

    def fetch_soon(self) -> None:
        """Request the entries again soon, once for many changes."""
        if self._fetch_timer is None:
            self._fetch_timer = self.set_timer(REFRESH_DELAY_SECONDS, self._fetch)

    def draw_head(self) -> None:
        lost = self._host.disconnected_text()
        lines: list[Line] = [((f" {lost} ", "lost"),)] if lost else []
        count = f"  {len(self._entries)}" if self._entries else ""
        lines.append(((f" {self._kind.title}", "title"), (count, "quiet")))
        self.query_one("#head", Static).update(to_rich_text(lines, self._styles()))

    def redraw(self) -> None:
        """In other colours: the connection was lost or is back."""
        if not self.query("#head"):
            # The screen is not mounted.
            return
        self.draw_head()
        for shown, entry in zip(self.query(".entry").results(Static), self._entries, strict=False):
            shown.update(to_rich_text(entry.lines, self._styles()))

    def _styles(self) -> dict[str, str]:
        return styles(self.app.theme, is_lost=bool(self._host.disconnected_text()))

    @work(exclusive=True, group="view")
    async def _fetch(self) -> None:
        self._fetch_timer = None
        try:
            answer = await asyncio.to_thread(self._client.get, self._kind.target)
        except WakefulError:
            # The connection reports problems of the daemon, and the view is fetched again after them.
            return
        entries = self._kind.entries(answer.body, self._host.wall_time(), self._host.session_name)
        observing = self._host.daemon_mode() == "observe"
        await self._show([without_actions(each) if observing else each for each in entries])

    async def _show(self, entries: list[ViewEntry]) -> None:
        chosen = self._entries[self._selected].key if self._entries else None
        keys = [entry.key for entry in entries]
        self._selected = keys.index(chosen) if chosen in keys else min(self._selected, max(0, len(keys) - 1))
        self._entries = entries
        place = self.query_one("#entries", VerticalScroll)
        await place.remove_children()
        made = [Static(to_rich_text(each.lines, self._styles()), classes="entry") for each in entries]
        await place.mount_all(made or [Static(self._kind.nothing, id="nothing", markup=False)])
        self.draw_head()
        self._mark_selected()

    def _mark_selected(self) -> None:
        for number, shown in enumerate(self.query(".entry").results(Static)):
            shown.set_class(number == self._selected, "-chosen")
            if number == self._selected:
                shown.scroll_visible(animate=False)

    def action_move(self, steps: int) -> None:
        if self._entries:
            self._selected = max(0, min(len(self._entries) - 1, self._selected + steps))
            self._mark_selected()

    def action_go(self, key: str) -> None:
        if key != self._key:
            self.dismiss(key or None)

    def on_key(self, event: Key) -> None:
        offers = self._entries[self._selected].offers if self._entries else ()
        chosen = next((each for each in offers if each.key == event.key), None)
        if chosen is not None:
            event.stop()
            self._send(chosen.order)

    @work(group="orders")
    async def _send(self, order: ActionRequest) -> None:
        await self._host.confirm_and_send(order)
        self.fetch_soon()
