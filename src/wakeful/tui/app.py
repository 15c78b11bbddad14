"""The Textual app of `wakeful top`: session table, detail of one session, other views, and keys."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import ClassVar, Final

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.timer import Timer
from textual.widgets import Footer, Input, Static
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from wakeful.agents.model import AgentState
from wakeful.cli.commands.ls import NOBODY, whole_list
from wakeful.cli.commands.status import Overview
from wakeful.cli.format.sessions import Sessions
from wakeful.cli.output import wall_now
from wakeful.cli.read import DaemonDesk
from wakeful.client.client import Client
from wakeful.config.paths import Places
from wakeful.core.errors import WakefulError
from wakeful.core.text import plain
from wakeful.judging.available_actions import HELD
from wakeful.judging.session_record import SessionRecord
from wakeful.linux.child_environment import helper_environ
from wakeful.tui.commands import Order, approval_of, give, looked_order, order_of, refusal
from wakeful.tui.connection import Link
from wakeful.tui.detail import WIDE, Standing, Told, assembled, banner, detail, lost_text, told_of
from wakeful.tui.dialogs import Choosing, Keys, Question
from wakeful.tui.session_table import Board, SessionTable
from wakeful.tui.theme import PALETTES, styles, themes
from wakeful.tui.views import KINDS, View

# Whoever holds an arrow key down wants the row it ends at explained, not those it passes.
EXPLAIN_SECONDS: Final = 0.08
ATTACH_WORDS_MAX: Final = 200
_TROUBLED: Final = frozenset({AgentState.STALE, AgentState.UNKNOWN, AgentState.ERROR})


class Filter(Input):
    """The line in which words are typed; the footer says how to leave it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep", key_display="↵"),
        Binding("escape", "app.clear", "Show all", key_display="Esc"),
    ]


class TopApp(App[None]):
    """The view. What it shows comes by push; what it is told to do it asks the daemon for."""

    TITLE = "Wakeful"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012 - an instance variable of Textual's
    VERTICAL_BREAKPOINTS = [(0, "-low"), (18, "-high")]  # noqa: RUF012 - as above
    CSS = """
    Screen { background: $background; }
    * { scrollbar-background: $background; scrollbar-background-hover: $background;
        scrollbar-background-active: $background; scrollbar-color: $cursor; scrollbar-color-hover: $cursor;
        scrollbar-color-active: $cursor; }
    #banner { height: auto; max-height: 6; background: $surface; text-wrap: nowrap; text-overflow: ellipsis; }
    #middle { height: 1fr; layout: vertical; }
    #table { height: 1fr; }
    #empty { height: 1fr; padding: 2 4; color: $quiet; display: none; }
    #detail { height: 40%; border-top: solid $cursor; padding: 0 1; scrollbar-size-vertical: 1; }
    Screen.-wide #middle { layout: horizontal; }
    Screen.-wide #table, Screen.-wide #empty { width: 3fr; height: 1fr; }
    Screen.-wide #detail { width: 2fr; height: 1fr; border-top: none; border-left: solid $cursor; padding: 0 2; }
    Screen.-low #detail { display: none; }
    Screen.-empty #table { display: none; }
    Screen.-empty #empty { display: block; }
    #filter { display: none; height: 1; border: none; padding: 0 1; background: $surface; }
    #filter.-open { display: block; }
    Footer { height: 1; }
    Toast { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "attach", "Attach", key_display="↵"),
        Binding("n", "next_needing", "Next"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("r", "order('revive')", "Revive"),
        Binding("s", "order('stop')", "Stop"),
        Binding("a", "order('hand')", "Adopt"),
        Binding("m", "order('mute')", "Mute"),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("q", "quit", "Quit"),
        # From here on only where there is room; `?` has them all.
        *(Binding(key, f"view('{key}')", kind.title) for key, kind in KINDS.items()),
        Binding("w", "order('wrong')", "Wrong"),
        Binding("d", "scroll_detail", "Detail"),
        Binding("t", "look", "Light", show=False),
        Binding("escape", "clear", show=False),
    ]

    def __init__(self, places: Places, *, now: Callable[[], float] = wall_now) -> None:
        super().__init__()
        for theme in themes():
            self.register_theme(theme)
        self.theme = next(iter(PALETTES))
        self._places = places
        self._client = Client(places)
        self._now = now
        self.board = Board()
        self._linking: Worker[None] | None = None
        self._link = Link(places.socket, self, lambda: whole_list(DaemonDesk(self._client), {}))
        self._overview: Overview | None = None
        self._agents: dict[str, str] = {}
        self._is_lost = True
        self._proven_at = ""
        self._trouble = ""
        self._filter = ""
        self._banner_lines = 0
        self._told: Told | None = None
        self._explaining: Timer | None = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return {key: PALETTES["wakeful-dark"][key] for key in ("quiet", "lost", "cursor")}

    def compose(self) -> ComposeResult:
        yield Static(id="banner", markup=False)
        with Container(id="middle"):
            yield SessionTable(self.board, self._now)
            yield Static(id="empty", markup=False)
            with VerticalScroll(id="detail", can_focus=True):
                yield Static(id="about", markup=False)
        yield Filter(id="filter", placeholder="project, id, state, command …", select_on_focus=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.table.focus()
        self._show()
        # Ages go on by themselves; nobody is asked for them.
        self.set_interval(1.0, self.table.refresh)
        self._linking = self.run_worker(self._link.run(), name="link", exit_on_error=True)

    async def on_unmount(self) -> None:
        """Hang up before the loop ends: whoever is cut off in that leaves its socket open."""
        if self._linking is not None:
            self._linking.cancel()
            with suppress(WorkerCancelled, WorkerFailed):
                await self._linking.wait()

    @property
    def table(self) -> SessionTable:
        return self.query_one(SessionTable)

    # What the link tells.

    def _stirred(self) -> None:
        if isinstance(self.screen, View):
            self.screen.redraw()
            self.screen.stir()

    def _lost_words(self) -> str:
        return lost_text(self._proven_at, self._trouble) if self._is_lost else ""

    def greeted(self, overview: Overview) -> None:
        self._overview = overview
        self._agents = {each.id: each.state for each in overview.agents.agents}
        self._prove()
        self._show_banner()
        self._stirred()

    def listed(self, page: Sessions) -> None:
        self.board.replace(page.sessions, page.older)
        self._prove()
        self._show()
        self._show_detail()
        self._explain_soon()

    def changed(self, records: list[SessionRecord]) -> None:
        self.board.change(records)
        self._prove()
        self._show()
        chosen = self.table.chosen
        if chosen is not None and any(each.id == chosen.id for each in records):
            self._explain_soon()
        self._stirred()

    def agent_changed(self, name: str, state: str) -> None:
        self._agents[name] = state
        self._show_banner()
        self._stirred()

    def lost(self, reason: str) -> None:
        self._is_lost = True
        self._trouble = reason
        self._show()
        self._show_detail()
        self._stirred()

    # Keys.

    def action_next_needing(self) -> None:
        place = self.board.next_needing(self.table.place)
        if place is None:
            self.notify("Nobody needs you.", timeout=2)
            return
        self.table.focus()
        self.table.choose(place)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the filter `/` is a letter."""
        del parameters
        return action != "filter" or not isinstance(self.focused, Filter)

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("-open")
        field.focus()

    def action_clear(self) -> None:
        """Back to the whole list."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("-open")
        self.table.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter = event.value
        self.board.filter(event.value)
        self._show()

    def on_input_submitted(self) -> None:
        field = self.query_one("#filter", Input)
        field.remove_class("-open")
        self.table.focus()

    def action_scroll_detail(self) -> None:
        """To and from the detail, for arrows that scroll it."""
        pane = self.query_one("#detail")
        (self.table if pane.has_focus else pane).focus()

    def action_look(self) -> None:
        dark, light = PALETTES
        self.theme = light if self.theme == dark else dark
        self._show()
        self._show_detail()

    def action_attach(self) -> None:
        record = self.table.chosen
        if record is None:
            return
        argv = [sys.executable, "-P", "-m", "wakeful", "attach", str(record.id)]
        with self.suspend():
            # Its complaints are shown here afterwards: the terminal they would stand in is covered again.
            done = subprocess.run(argv, env=helper_environ(os.environ), stderr=subprocess.PIPE, check=False)
        if done.returncode:
            said = plain(done.stderr.decode(errors="replace").removeprefix("wakeful: "), ATTACH_WORDS_MAX)
            self.notify(said, severity="warning", timeout=8, markup=False)
        self.refresh(layout=True)

    @work(group="orders")
    async def action_order(self, act: str) -> None:
        record = self.table.chosen
        if record is None:
            return
        if act == "hand":
            act = "release" if record.managed else "adopt"
        why_not = refusal(act, record)
        if why_not == HELD:
            await self.give(looked_order(record))
            return
        if why_not:
            self.notify(f"Not now: {plain(why_not)}", severity="warning", timeout=5, markup=False)
            return
        expected = await self.push_screen_wait(_wrong_choice(record)) if act == "wrong" else "ok"
        if act == "wrong" and expected is not None:
            await self._carry_out(order_of(act, record, expected))
        elif expected is not None:
            await self.give(order_of(act, record))

    def action_keys(self) -> None:
        self.push_screen(Keys())

    @work(group="views")
    async def action_view(self, key: str) -> None:
        """One after the other, until the person is back at the sessions."""
        chosen: str | None = key
        while chosen is not None:
            view = View(
                chosen,
                self._client,
                now=self._now,
                give=self.give,
                lost_words=self._lost_words,
                mode=lambda: self._overview.mode if self._overview is not None else "",
            )
            chosen = await self.push_screen_wait(view)

    async def give(self, order: Order) -> None:
        """Ask the person, then the daemon; say what came of it."""
        if await self.push_screen_wait(Question(order.asked, order.told)):
            await self._carry_out(order)

    async def _carry_out(self, order: Order) -> None:
        try:
            said = await asyncio.to_thread(give, self._client, order)
        except WakefulError as refused:
            again = approval_of(order, refused)
            if again is not None:
                await self.give(again)
                return
            self.notify(plain(str(refused), 300), severity="warning", timeout=8, markup=False)
        else:
            self.notify(said, timeout=5, markup=False)

    # Drawing.

    def on_session_table_chosen(self, event: SessionTable.Chosen) -> None:
        del event
        self._told = None
        self._show_detail()
        self._explain_soon()

    def _prove(self) -> None:
        self._is_lost, self._trouble = False, ""
        self._proven_at = f"{datetime.fromtimestamp(self._now(), UTC).astimezone():%H:%M}"

    def _show(self) -> None:
        self.table.is_lost = self._is_lost
        self.table.show_board()
        self._show_banner()
        self._show_empty()

    def _show_empty(self) -> None:
        is_empty = not self.board.rows and self._overview is not None
        self.screen.set_class(is_empty, "-empty")
        if is_empty:
            words = (
                f"No session fits. {len(self.board):,} do not; Escape shows them." if self._filter else NOBODY
            )
            self.query_one("#empty", Static).update(words)

    def _show_banner(self) -> None:
        agents = [f"agent {name} is {state}" for name, state in self._agents.items() if state in _TROUBLED]
        standing = Standing(
            overview=self._overview,
            counts=self.board.counts(),
            older=self.board.older,
            filter=self._filter,
            shown=len(self.board.rows),
            agents=agents,
            is_lost=self._is_lost,
            proven_at=self._proven_at,
            trouble=self._trouble,
        )
        lines = banner(standing)
        shown = assembled(lines, styles(self.theme, is_lost=self._is_lost))
        # Everything is laid out anew only where its height changes.
        self.query_one("#banner", Static).update(shown, layout=len(lines) != self._banner_lines)
        self._banner_lines = len(lines)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_detail)

    def _show_detail(self) -> None:
        if not self.is_running or not self.query(SessionTable):
            # What was asked for may be answered after everything was taken down.
            return
        record = self.table.chosen
        about = self.query_one("#about", Static)
        if record is None:
            about.update("")
            return
        told = self._told if self._told is not None and self._told.why.id == record.id else None
        # By the size itself: its class is set a moment later.
        lines = detail(record, told, self._now(), columns=self.size.width)
        about.update(assembled(lines, styles(self.theme, is_lost=self._is_lost)))

    def _explain_soon(self) -> None:
        if self._explaining is not None:
            self._explaining.stop()
        self._explaining = self.set_timer(EXPLAIN_SECONDS, self._explain)

    @work(exclusive=True, group="why")
    async def _explain(self) -> None:
        record = self.table.chosen
        if record is None or self._is_lost:
            return
        try:
            told = await asyncio.to_thread(told_of, self._client, record.id)
        except WakefulError:
            # The link says what is wrong with the daemon; a session that is gone leaves the list by itself.
            return
        self._told = told
        self._show_detail()


# As the page asks it.
_EXPECTED: Final = (
    ("ok", "it was fine"),
    ("dead", "it was dead"),
    ("silent", "it had gone silent"),
    ("loop", "it ran in circles"),
    ("error_cascade", "it failed again and again"),
    ("runaway", "it ran away"),
)


def _wrong_choice(record: SessionRecord) -> Choosing:
    said = f"Wakeful said {record.state}, {record.health}. {order_of('wrong', record).told}"
    return Choosing("What should Wakeful have said?", said, _EXPECTED)
