"""The conversation of one session in `wakeful top`: read on after changes, its last lines, and a view of its whole.

Nothing is read twice, and only for a session that is shown.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from wakeful.cli.format.conversation import ConversationLayout, conversation_lines, day_of, message_lines
from wakeful.cli.format.explanation import Line
from wakeful.client.async_client import AsyncDaemonClient
from wakeful.client.client import decode_body
from wakeful.client.conversation import join_messages
from wakeful.core.text import plain
from wakeful.judging.findings import State
from wakeful.judging.session_record import SessionRecord
from wakeful.tui.detail import to_rich_text
from wakeful.views.records import ConversationPart, MessageRecord

READ_SECONDS_MAX: Final = 10.0
# Two screens of the largest terminals.
RECENT_MESSAGES_MAX: Final = 100
MESSAGES_MAX: Final = 500
NO_LOG: Final = "No conversation: nothing was written yet, or its log was deleted."
NO_MESSAGES: Final = "Nothing was said yet."


class Conversation:
    """The messages of one session. Each reading begins where the last one ended."""

    def __init__(self, socket: str, record: SessionRecord, count_max: int) -> None:
        self._client = AsyncDaemonClient(socket)
        self._count_max = count_max
        self._cursor = ""
        self.record = record
        self.messages: tuple[MessageRecord, ...] = ()
        self.is_read = False

    async def read(self) -> None:
        """Raises DaemonAway, DaemonRefused or DaemonVersionMismatch."""
        target = f"/api/sessions/{self.record.id}/messages?limit={self._count_max}&after={self._cursor}"
        part = decode_body(await self._client.get(target, READ_SECONDS_MAX), ConversationPart)
        self.messages = join_messages(self.messages, part, self._count_max)
        self._cursor, self.is_read = part.cursor, True

    @property
    def note(self) -> str:
        """What is said instead of messages."""
        if self.messages:
            return ""
        if not self.is_read:
            return "…"
        return NO_MESSAGES if self._cursor else NO_LOG

    def lines(self, cells: int) -> list[Line]:
        """All lines at this width."""
        if self.note:
            return [((self.note, "quiet"),)]
        return [*conversation_lines(self.messages, self._layout(cells))]

    def last_lines(self, cells: int, count: int) -> list[Line]:
        """The last lines at this width; of older messages no line is made."""
        if self.note:
            return [((self.note, "quiet"),)]
        layout, found = self._layout(cells), list[Line]()
        day = day_of(self.messages[-1].at)
        for message in reversed(self.messages):
            own_day = day_of(message.at)
            if own_day and own_day != day:
                found.insert(0, ((day, "quiet"),))
                day = own_day
            found[:0] = message_lines(message, layout)
            if len(found) >= count:
                break
        return found[-count:] if count > 0 else []

    def _layout(self, cells: int) -> ConversationLayout:
        record = self.record
        return ConversationLayout(
            record.provider, cells, is_alive=record.session_alive, asks=record.state is State.WAITING
        )


class ConversationTail(Static):
    """As many of the last lines as there is room for."""

    DEFAULT_CSS = "ConversationTail { height: 1fr; padding: 0 1; text-wrap: nowrap; }"

    def __init__(self) -> None:
        super().__init__(id="tail", markup=False)
        self._conversation: Conversation | None = None
        self._styles: dict[str, str] = {}
        self._otherwise: list[Line] = []

    def show(
        self, conversation: Conversation | None, styles: dict[str, str], otherwise: Sequence[Line] = ()
    ) -> None:
        """Without a conversation the other lines are shown."""
        self._conversation, self._styles, self._otherwise = conversation, styles, list(otherwise)
        self.refresh()

    def render(self) -> Text:
        if self._conversation is None:
            return Text()
        size = self.content_size
        if self._conversation.note and self._conversation.is_read and self._otherwise:
            return to_rich_text(self._otherwise[: size.height], self._styles)
        return to_rich_text(self._conversation.last_lines(size.width, size.height), self._styles)


class LogsView(ModalScreen[None]):
    """The whole conversation, with what follows; it stays at its end until it is scrolled."""

    CSS = """
    LogsView { background: $background; }
    LogsView #log-head { height: 1; background: $surface; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    LogsView #log { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    LogsView #log-text { text-wrap: nowrap; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,l", "dismiss", "Back", key_display="Esc"),
        Binding("j", "scroll(1)", "Down", key_display="↓"),
        Binding("k", "scroll(-1)", "Up", key_display="↑"),
        Binding("g", "first", "First"),
        Binding("G", "last", "Last"),
    ]

    def __init__(self, conversation: Conversation, styles: dict[str, str]) -> None:
        super().__init__()
        self.conversation = conversation
        self._colours = styles

    def compose(self) -> ComposeResult:
        yield Static(id="log-head", markup=False)
        with VerticalScroll(id="log", can_focus=True):
            yield Static(id="log-text", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#log").focus()
        self.draw(self._colours)

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw, self._colours)

    def draw(self, styles: dict[str, str]) -> None:
        """Show what was read."""
        self._colours = styles
        if not self.query("#log-text"):
            # The screen is not mounted.
            return
        record, log = self.conversation.record, self.query_one("#log", VerticalScroll)
        head: Line = (
            (plain(record.short_name) or str(record.id), "title"),
            (f"  {record.state}, {record.health}  {record.id}", "quiet"),
        )
        self.query_one("#log-head", Static).update(to_rich_text([head], styles))
        is_at_end = log.scroll_offset.y >= log.max_scroll_y
        cells = max(20, self.size.width - 3)
        lines = self.conversation.lines(cells)
        self.query_one("#log-text", Static).update(to_rich_text(lines, styles))
        if is_at_end:
            self.call_after_refresh(log.scroll_end, animate=False)

    def action_scroll(self, lines: int) -> None:
        self.query_one("#log").scroll_relative(y=lines, animate=False)

    def action_first(self) -> None:
        self.query_one("#log").scroll_home(animate=False)

    def action_last(self) -> None:
        self.query_one("#log").scroll_end(animate=False)
