"""The Textual app of `wakeful top`: sessions, what the selected one says and does, other views, and keys."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import ClassVar, Final

from msgspec.structs import replace
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.events import Resize
from textual.geometry import Size
from textual.widgets import Input, Static
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
from wakeful.judging.state_words import state_health_text
from wakeful.linux.child_environment import helper_environ
from wakeful.tui.commands import (
    ActionRequest,
    answer_request,
    approved_again,
    approved_revival,
    prompt_request,
    question_text,
    refusal_reason,
    send_action,
    session_request,
    shown_name,
)
from wakeful.tui.conversation import (
    MESSAGES_MAX,
    RECENT_MESSAGES_MAX,
    ConversationTail,
    LogsView,
    SessionConversation,
)
from wakeful.tui.detail import (
    CALLS_SHOWN_MAX,
    WIDE,
    BannerState,
    SessionDetail,
    banner,
    detail,
    disconnected_text,
    fetch_detail,
    head_line,
    to_rich_text,
    why_lines,
)
from wakeful.tui.dialogs import AnswerDialog, ChoiceDialog, ConfirmDialog, KeysDialog
from wakeful.tui.key_bar import KeyBar
from wakeful.tui.session_table import SessionListModel, SessionTable
from wakeful.tui.theme import PALETTES, styles, themes
from wakeful.tui.views import VIEW_KINDS, View
from wakeful.views.records import Overview, QuestionList, SessionList

# While an arrow key is held down, the rows that it passes are not read. Changes come in bursts, too.
READ_DELAY_SECONDS: Final = 0.08
ATTACH_ERROR_CHARS_MAX: Final = 200
_PROBLEM_STATES: Final = frozenset({AgentState.STALE, AgentState.UNKNOWN, AgentState.ERROR})
# With fewer lines than this, only the list is shown.
LOW: Final = 18
# From this height on, a wide screen has the details below the list.
HIGH: Final = 32
# From this width on, list and conversation have the same width.
WIDER: Final = 160
# Where there is room, as many calls are shown beside the conversation; the rest of the details take these lines.
CALLS_BESIDE_MAX: Final = 24
EVIDENCE_LINES: Final = 22
# The shares of the list, if something is below it.
_LIST_SHARE: Final = 0.5
_LIST_SHARE_WIDE: Final = 0.6


class Filter(Input):
    """The line in which filter words are typed; the footer shows the keys that leave it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep", key_display="↵"),
        Binding("escape", "app.clear", "Show all", key_display="Esc"),
    ]


class PromptLine(Input):
    """The line in which a prompt for one session is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", key_display="↵"),
        Binding("escape", "app.close_prompt", "Cancel", key_display="Esc"),
    ]


class TopApp(App[None]):
    """Shows what the daemon pushes, and sends orders to the daemon."""

    TITLE = "Wakeful"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: $background; }
    * { scrollbar-background: $background; scrollbar-background-hover: $background;
        scrollbar-background-active: $background; scrollbar-color: $cursor; scrollbar-color-hover: $cursor;
        scrollbar-color-active: $cursor; }
    #banner { height: auto; max-height: 6; background: $surface; text-wrap: nowrap; text-overflow: ellipsis; }
    #middle { height: 1fr; layout: vertical; }
    #left { height: auto; width: 100%; }
    #table { height: 1fr; }
    #empty { height: 1fr; padding: 2 4; color: $quiet; display: none; }
    #detail { height: 1fr; border-top: solid $cursor; padding: 0 1; scrollbar-size-vertical: 1; display: none; }
    #work { height: 1fr; width: 100%; border-top: solid $cursor; display: none; }
    #head, #why { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #why { height: 3; border-top: solid $cursor; }
    Screen.-beside #middle { layout: horizontal; }
    Screen.-beside #left { width: 3fr; height: 1fr; }
    Screen.-beside #work { width: 2fr; height: 1fr; border-top: none; border-left: solid $cursor; }
    Screen.-beside #why { height: 5; text-wrap: wrap; }
    Screen.-even #left, Screen.-even #work { width: 1fr; }
    Screen.-details #left { height: 1fr; }
    Screen.-details #detail { display: block; }
    Screen.-working #work { display: block; }
    Screen.-empty #table, Screen.-empty #detail, Screen.-empty #work { display: none; }
    Screen.-empty #left { width: 1fr; height: 1fr; }
    Screen.-empty #empty { display: block; }
    #filter, #prompt { display: none; height: 1; border: none; padding: 0 1; background: $surface; }
    #filter.-open, #prompt.-open { display: block; }
    KeyBar { height: 1; }
    Toast { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "attach", "Attach", key_display="↵"),
        Binding("s", "prompt", "Send"),
        Binding("y", "answer", "Answer"),
        Binding("r", "order('revive')", "Resume"),
        Binding("x", "order('stop')", "Stop"),
        Binding("l", "logs", "Logs"),
        Binding("n", "next_needing", "Next"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        # The footer shows the following only where there is room; `?` shows all.
        Binding("q", "quit", "Quit"),
        Binding("m", "order('mute')", "Mute"),
        *(Binding(key, f"view('{key}')", kind.title) for key, kind in VIEW_KINDS.items()),
        Binding("a", "order('hand')", "Adopt"),
        Binding("d", "details", "Details"),
        Binding("w", "order('wrong')", "Wrong"),
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
        self._conversation: SessionConversation | None = None
        self._logs: LogsView | None = None
        self._is_detail_open = False
        self._prompted: SessionRecord | None = None
        self._unsent: tuple[SessionId | None, str] = (None, "")
        # What is read next: the explanation, and what changes only with the session itself.
        self._unread = asyncio.Event()
        self._has_changed = False
        self._moves = 0
        self._reader: Worker[None] | None = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return {key: PALETTES["wakeful-dark"][key] for key in ("quiet", "lost", "cursor")}

    def compose(self) -> ComposeResult:
        yield Static(id="banner", markup=False)
        with Container(id="middle"):
            with Vertical(id="left"):
                yield SessionTable(self.session_list, self._now)
                yield Static(id="empty", markup=False)
                with VerticalScroll(id="detail", can_focus=True):
                    yield Static(id="about", markup=False)
            with Vertical(id="work"):
                yield Static(id="head", markup=False)
                yield ConversationTail()
                yield Static(id="why", markup=False)
        yield Filter(id="filter", placeholder="project, id, state, command …", select_on_focus=False)
        yield PromptLine(id="prompt", select_on_focus=False)
        yield KeyBar()

    def on_mount(self) -> None:
        self.table.focus()
        self._show_all()
        # Ages grow without a request.
        self.set_interval(1.0, self.table.refresh)
        self._feed_worker = self.run_worker(self._feed_connection.run(), name="link", exit_on_error=True)
        self._reader = self.run_worker(self._keep_reading(), name="reader", exit_on_error=True)

    async def on_unmount(self) -> None:
        """Close the connection before the loop ends: otherwise its socket stays open."""
        for worker in (self._feed_worker, self._reader):
            if worker is not None:
                worker.cancel()
                with suppress(WorkerCancelled, WorkerFailed):
                    await worker.wait()

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
        self._unread.set()
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
        self._read_soon()

    def on_feed_changes(self, records: list[SessionRecord]) -> None:
        self.session_list.change(records)
        self._mark_connected()
        self._show_all()
        shown = {each.record.id for each in self._shown_conversations()}
        if any(each.id in shown for each in records):
            self._read_soon()
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
        """In a line that is typed `/` is text."""
        del parameters
        return action != "filter" or not isinstance(self.focused, Input)

    def action_filter(self) -> None:
        self._open_line(self.query_one("#filter", Filter))

    def action_clear(self) -> None:
        """Back to the whole list."""
        self.query_one("#filter", Filter).value = ""
        self._close_line(self.query_one("#filter", Filter))

    def _open_line(self, line: Input) -> None:
        line.add_class("-open")
        line.focus()
        self._arrange()

    def _close_line(self, line: Input) -> None:
        line.remove_class("-open")
        self.table.focus()
        self._arrange()

    def on_input_changed(self, event: Input.Changed) -> None:
        if isinstance(event.input, Filter):
            self._filter = event.value
            self.session_list.filter(event.value)
            self._show_all()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._close_line(event.input)
        record, self._prompted = self._prompted, None
        if isinstance(event.input, PromptLine) and record is not None and event.value.strip():
            self._unsent = None, ""
            self._send_prompt(record, event.value)

    def action_prompt(self) -> None:
        """Type a prompt for the selected session; it stays with this session."""
        record = self.table.selected
        if record is None:
            return
        why_not = refusal_reason("send", record)
        if why_not:
            self._warn(f"Unavailable: {why_not}")
            return
        self._prompted = record
        line = self.query_one("#prompt", PromptLine)
        line.placeholder = f"prompt for {shown_name(record)}"
        unsent_to, text = self._unsent
        line.value = text if unsent_to == record.id else ""
        self._open_line(line)

    def action_close_prompt(self) -> None:
        self._prompted = None
        self._close_line(self.query_one("#prompt", PromptLine))

    @work(group="orders")
    async def _send_prompt(self, record: SessionRecord, text: str) -> None:
        if not await self._send(prompt_request(record, text)):
            # What was typed is not lost: `s` shows it again, for this session.
            self._unsent = record.id, text

    @work(group="orders")
    async def action_answer(self) -> None:
        record = self.table.selected
        if record is None:
            return
        try:
            body = await asyncio.to_thread(self._client.get, f"/api/sessions/{record.id}/questions")
            questions = decode_body(body.body, QuestionList).questions
        except WakefulError as refused:
            self._warn(str(refused))
            return
        if not questions:
            self._warn("Nothing to allow or deny. Enter opens its terminal.")
            return
        first, count = questions[0], len(questions)
        asked = f"Allow {question_text(first)}?"
        told = shown_name(record) + (
            f" asks {count} questions; this is the first." if count > 1 else " asks."
        )
        reply = await self.push_screen_wait(AnswerDialog(asked, told))
        if reply is not None:
            await self._send(answer_request(record, first.id, reply))

    @work(group="views")
    async def action_logs(self) -> None:
        """The whole conversation of the selected session, live."""
        record = self.table.selected
        if record is None:
            return
        conversation = SessionConversation(self._paths.socket, record, MESSAGES_MAX)
        self._logs = LogsView(conversation, self._styles())
        self._read_soon()
        await self.push_screen_wait(self._logs)
        self._logs = None

    def action_details(self) -> None:
        """Show the details with the focus, so that arrows scroll them; back to the list."""
        pane = self.query_one("#detail")
        is_shown = self.default_screen.has_class("-details")
        if is_shown and not pane.has_focus:
            pane.focus()
            return
        self._is_detail_open = not is_shown
        self._arrange()
        (pane if self._is_detail_open else self.table).focus()
        self._read_soon()

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
            said = done.stderr.decode(errors="replace").removeprefix("wakeful: ")
            self._warn(plain(said, ATTACH_ERROR_CHARS_MAX))
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
            self._warn(f"Unavailable: {why_not}")
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

    def session_name(self, subject: str) -> str:
        """What the list calls this session; anything else stays as it is."""
        record = self.session_list.get(SessionId(subject))
        return record.short_name or subject if record is not None else subject

    async def confirm_and_send(self, order: ActionRequest) -> None:
        """Ask for confirmation, send the order, show the result."""
        if await self.push_screen_wait(ConfirmDialog(order.asked, order.told)):
            await self._send(order)

    async def _send(self, order: ActionRequest) -> bool:
        """Whether it was taken; the result is shown."""
        try:
            said = await asyncio.to_thread(send_action, self._client, order)
        except WakefulError as refused:
            again = approved_again(order, refused)
            if again is not None:
                await self.confirm_and_send(again)
                return True
            self._warn(str(refused))
            return False
        self.notify(said, timeout=5, markup=False)
        return True

    def _warn(self, text: str) -> None:
        self.notify(plain(text, 300), severity="warning", timeout=8, markup=False)

    # Drawing.

    def on_session_table_chosen(self, event: SessionTable.Chosen) -> None:
        del event
        record = self.table.selected
        self._session_detail = None
        self._conversation = (
            SessionConversation(self._paths.socket, record, RECENT_MESSAGES_MAX)
            if record is not None
            else None
        )
        self._show_detail()
        self._moves += 1
        self._read_soon()

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
        self.default_screen.set_class(is_empty, "-empty")
        self._arrange()
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
            problem=self._disconnect_reason,
        )
        lines = banner(state)
        shown = to_rich_text(lines, styles(self.theme, is_lost=self._is_disconnected))
        # Only a changed height needs a new layout.
        self.query_one("#banner", Static).update(shown, layout=len(lines) != self._banner_lines)
        self._banner_lines = len(lines)

    def on_resize(self, event: Resize) -> None:
        # The app itself takes the new size only after this.
        self._arrange(event.size)
        self.call_after_refresh(self._show_detail)

    def _arrange(self, size: Size | None = None) -> None:
        """Give the list the lines that it needs, and the rest to what the selected session does.

        By the size: the classes of the screen would follow a moment later.
        """
        screen, (width, height) = self.default_screen, size or self.size
        lines = sum(bool(self.query(f"{name}.-open")) for name in ("#filter", "#prompt"))
        room = height - self._banner_lines - 1 - lines
        is_low, is_wide = height < LOW, width >= WIDE
        has_details = not is_low and (self._is_detail_open or (is_wide and height >= HIGH))
        has_work = not is_low and (is_wide or not self._is_detail_open)
        for name, is_set in (
            ("-beside", is_wide and not is_low),
            ("-even", width >= WIDER and not is_low),
            ("-details", has_details),
            ("-working", has_work),
        ):
            screen.set_class(is_set, name)
        wanted = len(self.session_list.rows) + 1
        share = _LIST_SHARE_WIDE if is_wide else _LIST_SHARE
        is_whole = is_low or (is_wide and not has_details)
        self.table.styles.height = max(1, room if is_whole else min(wanted, int(room * share)))

    def _styles(self) -> dict[str, str]:
        return styles(self.theme, is_lost=self._is_disconnected)

    def _show_detail(self) -> None:
        if not self._is_drawn():
            return
        record, drawn = self.table.selected, self._styles()
        head, why, about = (self.query_one(f"#{name}", Static) for name in ("head", "why", "about"))
        tail = self.query_one(ConversationTail)
        for each in self._shown_conversations():
            each.record = self.session_list.get(each.record.id) or each.record
        if self._logs is not None:
            self._logs.draw(drawn)
        fetched = self._session_detail
        if record is None or (fetched is not None and fetched.why.id != record.id):
            fetched = None
        tail.show(self._conversation if record is not None else None, drawn)
        if record is None:
            for pane in (head, why, about):
                pane.update("", layout=False)
            return
        # Their heights are fixed: only the details need a new layout.
        head.update(to_rich_text([head_line(record, self._now())], drawn), layout=False)
        if fetched is None:
            why.update("…", layout=False)
            about.update("…", layout=False)
            return
        why.update(to_rich_text(why_lines(record, fetched.why), drawn), layout=False)
        has_work, has_details = (self.default_screen.has_class(name) for name in ("-working", "-details"))
        size = self.query_one("#detail" if has_details else "#tail").content_size
        # Beside the conversation, calls are shown where there is room.
        calls_max = min(CALLS_BESIDE_MAX, size.height - EVIDENCE_LINES) if has_work else CALLS_SHOWN_MAX
        lines = detail(
            record,
            fetched,
            self._now(),
            cells=max(20, size.width),
            with_head=not has_work,
            calls_max=calls_max,
        )
        if has_details:
            about.update(to_rich_text(lines, drawn))
        else:
            tail.show(self._conversation, drawn, lines)

    def _shown_conversations(self) -> list[SessionConversation]:
        logs = self._logs.conversation if self._logs is not None else None
        return [each for each in (self._conversation, logs) if each is not None]

    def _read_soon(self) -> None:
        """Read what is new of the sessions that are shown."""
        self._has_changed = True
        self._unread.set()

    async def _keep_reading(self) -> None:
        """Read after changes, one after the other: only of the selected session, and only what is shown of it."""
        while True:
            await self._unread.wait()
            moves = self._moves
            await asyncio.sleep(READ_DELAY_SECONDS)
            if moves != self._moves:
                continue
            self._unread.clear()
            has_changed, self._has_changed = self._has_changed, False
            try:
                await self._read(has_changed=has_changed)
            except WakefulError:
                # The connection reports problems of the daemon; the list drops a session that is gone.
                continue
            self._show_detail()

    async def _read(self, *, has_changed: bool) -> None:
        record = self.table.selected if self._is_drawn() else None
        if record is None or self._is_disconnected or self.default_screen.has_class("-empty"):
            return
        screen = self.default_screen
        if has_changed and self._logs is not None:
            await self._logs.conversation.read()
        conversation = self._conversation
        if has_changed and conversation is not None and screen.has_class("-working"):
            await conversation.read()
        if not screen.has_class("-working") and not screen.has_class("-details"):
            return
        known = self._session_detail
        past = known.past if known is not None and known.why.id == record.id and not has_changed else None
        with_past = screen.has_class("-details") and past is None
        fetched = await asyncio.to_thread(fetch_detail, self._client, record.id, with_past=with_past)
        self._session_detail = fetched if past is None else replace(fetched, past=past)


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
    said = f"Wakeful reported {state_health_text(record.state, record.health)}. {session_request('wrong', record).told}"
    return ChoiceDialog("What should Wakeful have reported?", said, _EXPECTED_VERDICTS)
