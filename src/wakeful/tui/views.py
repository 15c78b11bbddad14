"""The other views, one at a time over the list: decisions, incidents, agents, events. They ask when something happened.

What they show is what the daemon said last; without a proven link it loses its colours and says from when it is.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Footer, Static

from wakeful.cli.format.why_words import Line
from wakeful.client.client import Client
from wakeful.core.errors import WakefulError
from wakeful.tui.commands import Order
from wakeful.tui.entries import KINDS, Entry, withheld
from wakeful.tui.theme import styles
from wakeful.tui.words import assembled

# What is not pushed is asked for again this long after a change.
SETTLED_SECONDS: Final = 0.5


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
        *(Binding(key, f"go('{key}')", kind.title) for key, kind in KINDS.items()),
    ]

    def __init__(
        self,
        key: str,
        client: Client,
        *,
        now: Callable[[], float],
        give: Callable[[Order], Awaitable[None]],
        lost_words: Callable[[], str],
        mode: Callable[[], str],
    ) -> None:
        super().__init__()
        self._key = key
        self._kind = KINDS[key]
        self._client = client
        self._now = now
        self._give = give
        self._lost_words = lost_words
        self._mode = mode
        self._entries: list[Entry] = []
        self._chosen = 0
        self._asking: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield VerticalScroll(id="entries", can_focus=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.set_class(self._key == "5", "-dense")
        self.query_one("#entries").focus()
        self.draw_head()
        self._ask()

    def stir(self) -> None:
        """Something happened: ask again soon, once for many changes."""
        if self._asking is None:
            self._asking = self.set_timer(SETTLED_SECONDS, self._ask)

    def draw_head(self) -> None:
        lost = self._lost_words()
        lines: list[Line] = [((f" {lost} ", "lost"),)] if lost else []
        count = f"  {len(self._entries)}" if self._entries else ""
        lines.append(((f" {self._kind.title}", "title"), (count, "quiet")))
        self.query_one("#head", Static).update(assembled(lines, self._styles()))

    def redraw(self) -> None:
        """In other colours: the link changed."""
        if not self.query("#head"):
            # It is not there yet, or no more.
            return
        self.draw_head()
        for shown, entry in zip(self.query(".entry").results(Static), self._entries, strict=False):
            shown.update(assembled(entry.lines, self._styles()))

    def _styles(self) -> dict[str, str]:
        return styles(self.app.theme, is_lost=bool(self._lost_words()))

    @work(exclusive=True, group="view")
    async def _ask(self) -> None:
        self._asking = None
        try:
            answer = await asyncio.to_thread(self._client.get, self._kind.target)
        except WakefulError:
            # The link says what is wrong with the daemon, and asks again once it is back.
            return
        entries = self._kind.entries(answer.body, self._now())
        observing = self._mode() == "observe"
        await self._show([withheld(each) if observing else each for each in entries])

    async def _show(self, entries: list[Entry]) -> None:
        chosen = self._entries[self._chosen].key if self._entries else None
        keys = [entry.key for entry in entries]
        self._chosen = keys.index(chosen) if chosen in keys else min(self._chosen, max(0, len(keys) - 1))
        self._entries = entries
        place = self.query_one("#entries", VerticalScroll)
        await place.remove_children()
        made = [Static(assembled(each.lines, self._styles()), classes="entry") for each in entries]
        await place.mount_all(made or [Static(self._kind.nothing, id="nothing", markup=False)])
        self.draw_head()
        self._mark()

    def _mark(self) -> None:
        for number, shown in enumerate(self.query(".entry").results(Static)):
            shown.set_class(number == self._chosen, "-chosen")
            if number == self._chosen:
                shown.scroll_visible(animate=False)

    def action_move(self, steps: int) -> None:
        if self._entries:
            self._chosen = max(0, min(len(self._entries) - 1, self._chosen + steps))
            self._mark()

    def action_go(self, key: str) -> None:
        if key != self._key:
            self.dismiss(key or None)

    def on_key(self, event: Key) -> None:
        offers = self._entries[self._chosen].offers if self._entries else ()
        chosen = next((each for each in offers if each.key == event.key), None)
        if chosen is not None:
            event.stop()
            self._order(chosen.order)

    @work(group="orders")
    async def _order(self, order: Order) -> None:
        await self._give(order)
        self.stir()
