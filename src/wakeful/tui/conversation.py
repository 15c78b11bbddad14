"""The conversation of one session in `wakeful top`: read on after changes, its last lines, and a view of its whole.

Nothing is read twice, and only for a session that is shown.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from wakeful.cli.format.conversation import ConversationLayout, day_of, message_lines
from wakeful.cli.format.explanation import Line
from wakeful.client.async_client import AsyncDaemonClient
from wakeful.client.client import decode_body
from wakeful.client.conversation import join_messages
from wakeful.core.text import plain
from wakeful.judging.findings import State
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.state_words import state_health_text
from wakeful.tui.detail import to_rich_text
from wakeful.tui.key_bar import KeyBar
from wakeful.views.records import CallEnd, ConversationPart, MessageRecord

READ_SECONDS_MAX: Final = 10.0
# Two screens of the largest terminals.
RECENT_MESSAGES_MAX: Final = 100
MESSAGES_MAX: Final = 500
NO_LOG: Final = "No conversation: nothing was written yet, or its log was deleted."
NO_MESSAGES: Final = "Nothing was said yet."


class SessionConversation:
    """The messages of one session. Each reading begins where the last one ended."""

    def __init__(self, socket: str, record: SessionRecord, count_max: int) -> None:
        self._client = AsyncDaemonClient(socket)
        self._count_max = count_max
        self._cursor = ""
        self.record = record
        self.messages: tuple[MessageRecord, ...] = ()
        self.is_read = False
        self._made: dict[MessageRecord, list[Line]] = {}
        self._made_for = 0

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
        """All lines at this width. Of messages that were shown before no line is made again."""
        if self.note:
            return [((self.note, "quiet"),)]
        layout, made = self._layout(cells), dict[MessageRecord, list[Line]]()
        known = self._made if cells == self._made_for else {}
        found, day = list[Line](), ""
        for message in self.messages:
            own_day = day_of(message.at)
            if own_day and own_day != day:
                day = own_day
                found.append(((day, "quiet"),))
            lines = known.get(message) or [*message_lines(message, layout)]
            if message.call is None or message.call.end is not CallEnd.OPEN:
                # What is known of an open call depends on its session.
                made[message] = lines
            found += lines
        self._made, self._made_for = made, cells
        return found

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
        self._conversation: SessionConversation | None = None
        self._styles: dict[str, str] = {}
        self._otherwise: list[Line] = []

    def show(
        self, conversation: SessionConversation | None, styles: dict[str, str], otherwise: Sequence[Line] = ()
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


class ConversationLog(ScrollView, can_focus=True):
    """The lines of a whole conversation; only visible ones are rendered. At its end it stays there."""

    DEFAULT_CSS = "ConversationLog { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("g", "scroll_home", "First"),
        Binding("G", "scroll_end", "Last"),
    ]

    def __init__(self) -> None:
        super().__init__(id="log")
        self._lines: list[Line] = []
        self._styles: dict[str, Style] = {}

    def show(self, lines: list[Line], styles: Mapping[str, str]) -> None:
        is_at_end = self.scroll_offset.y >= self.max_scroll_y
        self._lines = lines
        self._styles = {name: Style.parse(style) for name, style in styles.items()}
        self.virtual_size = Size(self.size.width, len(lines))
        if is_at_end:
            self.scroll_end(animate=False, immediate=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, place = self.size.width, self.scroll_offset.y + y
        if place >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        segments = [Segment(" ", self.rich_style)]
        for text, style in self._lines[place]:
            segments.append(Segment(text, self.rich_style + self._styles.get(style, Style.null())))
        return Strip(segments).adjust_cell_length(width, self.rich_style)


class LogsView(ModalScreen[None]):
    """The whole conversation, with what follows."""

    CSS = """
    LogsView { background: $background; }
    LogsView #log-head { height: 1; background: $surface; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,l", "dismiss", "Back", key_display="Esc"),
    ]

    def __init__(self, conversation: SessionConversation, styles: dict[str, str]) -> None:
        super().__init__()
        self.conversation = conversation
        self._colours = styles

    def compose(self) -> ComposeResult:
        yield Static(id="log-head", markup=False)
        yield ConversationLog()
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(ConversationLog).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw, self._colours)

    def draw(self, styles: dict[str, str]) -> None:
        """Show what was read."""
        self._colours = styles
        if not self.query(ConversationLog):
            # The screen is not mounted.
            return
        record = self.conversation.record
        head: Line = (
            (plain(record.short_name) or str(record.id), "title"),
            (f"  {state_health_text(record.state, record.health)}  {record.id}", "quiet"),
        )
        self.query_one("#log-head", Static).update(to_rich_text([head], styles))
        log = self.query_one(ConversationLog)
        log.show(self.conversation.lines(max(20, log.size.width - 2)), styles)
