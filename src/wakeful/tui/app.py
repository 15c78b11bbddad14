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
from wakeful.cli.commands.ls import NO_SESSIONS, whole_list
from wakeful.cli.output import wall_now
from wakeful.cli.read import DaemonReader
from wakeful.client.client import DaemonClient, decode_body
from wakeful.client.feed import FeedConnection
from wakeful.config.paths import StatePaths
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId
from wakeful.core.text import plain
from wakeful.judging.available_actions import INTERRUPTED_CALL
from wakeful.judging.session_record import SessionRecord
from wakeful.linux.child_environment import helper_environ
from wakeful.tui.commands import (
    ActionRequest,
    approved_again,
    approved_revival,
    refusal_reason,
    send_action,
    session_request,
)
from wakeful.tui.detail import (
    WIDE,
    BannerState,
    SessionDetail,
    banner,
    detail,
    disconnected_text,
    fetch_detail,
    to_rich_text,
)
from wakeful.tui.dialogs import ChoiceDialog, ConfirmDialog, KeysDialog
from wakeful.tui.session_table import SessionListModel, SessionTable
from wakeful.tui.theme import PALETTES, styles, themes
from wakeful.tui.views import VIEW_KINDS, View
from wakeful.views.records import Overview, SessionList

# While an arrow key is held down, the rows that it passes are not explained.
EXPLAIN_SECONDS: Final = 0.08
ATTACH_ERROR_CHARS_MAX: Final = 200
_PROBLEM_STATES: Final = frozenset({AgentState.STALE, AgentState.UNKNOWN, AgentState.ERROR})


class Filter(Input):
    """The line in which filter words are typed; the footer shows the keys that leave it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep", key_display="↵"),
        Binding("escape", "app.clear", "Show all", key_display="Esc"),
    ]


class TopApp(App[None]):
    """Shows what the daemon pushes, and sends orders to the daemon."""

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
        Binding("r", "order('revive')", "Resume"),
        Binding("s", "order('stop')", "Stop"),
        Binding("a", "order('hand')", "Adopt"),
        Binding("m", "order('mute')", "Mute"),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("q", "quit", "Quit"),
        # The footer shows the following only where there is room; `?` shows all.
        *(Binding(key, f"view('{key}')", kind.title) for key, kind in VIEW_KINDS.items()),
        Binding("w", "order('wrong')", "Wrong"),
        Binding("d", "scroll_detail", "Detail"),
        Binding("t", "look", "Light", show=False),
        Binding("escape", "clear", show=False),
    ]

    def __init__(self, paths: StatePaths, *, now: Callable[[], float] = wall_now) -> None:
        super().__init__()
        for theme in themes():
            self.register_theme(theme)
        self.theme = next(iter(PALETTES))
        self._paths = paths
        self._client = DaemonClient(paths)
        self._now = now
        self.session_list = SessionListModel()
        self._feed_worker: Worker[None] | None = None
        self._feed_connection = FeedConnection(
            paths.socket,
            self,
            lambda: whole_list(DaemonReader(self._client), {}),
            lambda: decode_body(self._client.get("/api/status").body, Overview),
        )
        self._overview: Overview | None = None
        self._agents: dict[str, str] = {}
        self._is_disconnected = True
        self._last_contact = ""
        self._disconnect_reason = ""
        self._filter = ""
        self._banner_lines = 0
        self._session_detail: SessionDetail | None = None
        self._explain_timer: Timer | None = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return {key: PALETTES["wakeful-dark"][key] for key in ("quiet", "lost", "cursor")}

    def compose(self) -> ComposeResult:
        yield Static(id="banner", markup=False)
        with Container(id="middle"):
            yield SessionTable(self.session_list, self._now)
            yield Static(id="empty", markup=False)
            with VerticalScroll(id="detail", can_focus=True):
                yield Static(id="about", markup=False)
        yield Filter(id="filter", placeholder="project, id, state, command …", select_on_focus=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.table.focus()
        self._show_all()
        # Ages grow without a request.
        self.set_interval(1.0, self.table.refresh)
        self._feed_worker = self.run_worker(self._feed_connection.run(), name="link", exit_on_error=True)

    async def on_unmount(self) -> None:
        """Close the connection before the loop ends: otherwise its socket stays open."""
        if self._feed_worker is not None:
            self._feed_worker.cancel()
            with suppress(WorkerCancelled, WorkerFailed):
                await self._feed_worker.wait()

    @property
    def table(self) -> SessionTable:
        return self.query_one(SessionTable)

    # Events of the feed.

    def _refresh_view(self) -> None:
        if isinstance(self.screen, View):
            self.screen.redraw()
            self.screen.fetch_soon()

    def disconnected_text(self) -> str:
        return disconnected_text(self._last_contact, self._disconnect_reason) if self._is_disconnected else ""

    def on_feed_status(self, overview: Overview) -> None:
        self._overview = overview
        self._agents = {each.id: each.state for each in overview.agents.agents}
        self._mark_connected()
        self._show_banner()
        # The times in it grow as well.
        self._explain_soon()
        self._refresh_view()

    def has_sessions_of(self, overview: Overview) -> bool:
        total = overview.sessions["total"]
        known = len(self.session_list), self.session_list.older
        return known == (total["shown"], total["older"])

    def on_feed_sessions(self, page: SessionList) -> None:
        self.session_list.replace(page.sessions, page.older)
        self._mark_connected()
        self._show_all()
        self._show_detail()
        self._explain_soon()

    def on_feed_changes(self, records: list[SessionRecord]) -> None:
        self.session_list.change(records)
        self._mark_connected()
        self._show_all()
        chosen = self.table.selected
        if chosen is not None and any(each.id == chosen.id for each in records):
            self._explain_soon()
        self._refresh_view()

    def on_feed_gone(self, session_id: SessionId) -> None:
        self.session_list.remove(session_id)
        self._show_all()

    def on_feed_agent(self, name: str, state: str) -> None:
        self._agents[name] = state
        self._show_banner()
        self._refresh_view()

    def on_feed_lost(self, reason: str) -> None:
        if not self._is_drawn():
            return
        self._is_disconnected = True
        self._disconnect_reason = reason
        self._show_all()
        self._show_detail()
        self._refresh_view()

    # Keys.

    def action_next_needing(self) -> None:
        place = self.session_list.next_needing_person(self.table.row_number)
        if place is None:
            self.notify("No session needs you.", timeout=2)
            return
        self.table.focus()
        self.table.select_row(place)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the filter line `/` is text."""
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
        self.session_list.filter(event.value)
        self._show_all()

    def on_input_submitted(self) -> None:
        field = self.query_one("#filter", Input)
        field.remove_class("-open")
        self.table.focus()

    def action_scroll_detail(self) -> None:
        """Move the focus to the detail and back, so that arrows scroll it."""
        pane = self.query_one("#detail")
        (self.table if pane.has_focus else pane).focus()

    def action_look(self) -> None:
        dark, light = PALETTES
        self.theme = light if self.theme == dark else dark
        self._show_all()
        self._show_detail()

    def action_attach(self) -> None:
        record = self.table.selected
        if record is None:
            return
        argv = [sys.executable, "-P", "-m", "wakeful", "attach", str(record.id)]
        with self.suspend():
            # Its errors are shown here afterwards: this view covers the terminal again.
            done = subprocess.run(argv, env=helper_environ(os.environ), stderr=subprocess.PIPE, check=False)
        if done.returncode:
            said = plain(
                done.stderr.decode(errors="replace").removeprefix("wakeful: "), ATTACH_ERROR_CHARS_MAX
            )
            self.notify(said, severity="warning", timeout=8, markup=False)
        self.refresh(layout=True)

    @work(group="orders")
    async def action_order(self, act: str) -> None:
        record = self.table.selected
        if record is None:
            return
        if act == "hand":
            act = "release" if record.managed else "adopt"
        why_not = refusal_reason(act, record)
        if why_not == INTERRUPTED_CALL:
            await self.confirm_and_send(approved_revival(record))
            return
        if why_not:
            self.notify(f"Unavailable: {plain(why_not)}", severity="warning", timeout=5, markup=False)
            return
        expected = await self.push_screen_wait(_wrong_verdict_dialog(record)) if act == "wrong" else "ok"
        if act == "wrong" and expected is not None:
            await self._send(session_request(act, record, expected))
        elif expected is not None:
            await self.confirm_and_send(session_request(act, record))

    def action_keys(self) -> None:
        self.push_screen(KeysDialog())

    @work(group="views")
    async def action_view(self, key: str) -> None:
        """One view after the other, until the session list is shown again."""
        chosen: str | None = key
        while chosen is not None:
            chosen = await self.push_screen_wait(View(chosen, self._client, self))

    def wall_time(self) -> float:
        return self._now()

    def daemon_mode(self) -> str:
        """The mode of the daemon; empty while it is not known."""
        return self._overview.mode if self._overview is not None else ""

    async def confirm_and_send(self, order: ActionRequest) -> None:
        """Ask for confirmation, send the order, show the result."""
        if await self.push_screen_wait(ConfirmDialog(order.asked, order.told)):
            await self._send(order)

    async def _send(self, order: ActionRequest) -> None:
        try:
            said = await asyncio.to_thread(send_action, self._client, order)
        except WakefulError as refused:
            again = approved_again(order, refused)
            if again is not None:
                await self.confirm_and_send(again)
                return
            self.notify(plain(str(refused), 300), severity="warning", timeout=8, markup=False)
        else:
            self.notify(said, timeout=5, markup=False)

    # Drawing.

    def on_session_table_chosen(self, event: SessionTable.Chosen) -> None:
        del event
        self._session_detail = None
        self._show_detail()
        self._explain_soon()

    def _mark_connected(self) -> None:
        self._is_disconnected, self._disconnect_reason = False, ""
        self._last_contact = f"{datetime.fromtimestamp(self._now(), UTC).astimezone():%H:%M}"

    def _is_drawn(self) -> bool:
        """An answer may arrive, and the connection may end, after the screen was closed."""
        return self.is_running and bool(self.query(SessionTable))

    def _show_all(self) -> None:
        self.table.is_lost = self._is_disconnected
        self.table.show_rows()
        self._show_banner()
        is_empty = not self.session_list.rows and self._overview is not None
        self.screen.set_class(is_empty, "-empty")
        if is_empty:
            words = (
                f"No session matches the filter. Escape shows all {len(self.session_list):,}."
                if self._filter
                else NO_SESSIONS
            )
            self.query_one("#empty", Static).update(words)

    def _show_banner(self) -> None:
        agents = [
            f"agent {name} is {state}" for name, state in self._agents.items() if state in _PROBLEM_STATES
        ]
        state = BannerState(
            overview=self._overview,
            counts=self.session_list.counts(),
            older=self.session_list.older,
            filter=self._filter,
            shown=len(self.session_list.rows),
            agents=agents,
            is_lost=self._is_disconnected,
            proven_at=self._last_contact,
            trouble=self._disconnect_reason,
        )
        lines = banner(state)
        shown = to_rich_text(lines, styles(self.theme, is_lost=self._is_disconnected))
        # Only a changed height needs a new layout.
        self.query_one("#banner", Static).update(shown, layout=len(lines) != self._banner_lines)
        self._banner_lines = len(lines)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_detail)

    def _show_detail(self) -> None:
        if not self._is_drawn():
            return
        record = self.table.selected
        about = self.query_one("#about", Static)
        if record is None:
            about.update("")
            return
        fetched = self._session_detail
        if fetched is not None and fetched.why.id != record.id:
            fetched = None
        # By the size: the class of the screen is set a moment later.
        lines = detail(record, fetched, self._now(), columns=self.size.width)
        about.update(to_rich_text(lines, styles(self.theme, is_lost=self._is_disconnected)))

    def _explain_soon(self) -> None:
        if self._explain_timer is not None:
            self._explain_timer.stop()
        self._explain_timer = self.set_timer(EXPLAIN_SECONDS, self._explain)

    @work(exclusive=True, group="why")
    async def _explain(self) -> None:
        record = self.table.selected
        if record is None or self._is_disconnected:
            return
        try:
            fetched = await asyncio.to_thread(fetch_detail, self._client, record.id)
        except WakefulError:
            # The connection reports problems of the daemon; the list drops a session that is gone.
            return
        self._session_detail = fetched
        self._show_detail()


# The choices of the page.
_EXPECTED_VERDICTS: Final = (
    ("ok", "it was fine"),
    ("dead", "it was dead"),
    ("silent", "it had gone silent"),
    ("loop", "it was looping"),
    ("error_cascade", "its calls failed repeatedly"),
    ("runaway", "it used too many calls or tokens"),
)


def _wrong_verdict_dialog(record: SessionRecord) -> ChoiceDialog:
    said = f"Wakeful reported {record.state}, {record.health}. {session_request('wrong', record).told}"
    return ChoiceDialog("What should Wakeful have reported?", said, _EXPECTED_VERDICTS)
