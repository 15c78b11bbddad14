"""A question with a yes and a no, over everything else; Enter is neither, so that nobody says yes by habit."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static


class Question(ModalScreen[bool]):
    """True for `y`, False for `n` and Escape."""

    CSS = """
    Question { align: center middle; background: $background 60%; }
    Question > Vertical {
        width: 64; max-width: 90%; height: auto; padding: 1 2; background: $surface; border: round $warning;
    }
    Question .asked { text-style: bold; }
    Question .told { color: $quiet; margin-top: 1; }
    Question .keys { margin-top: 1; color: $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("n,escape,q", "answer(False)", "No", show=False),
    ]

    def __init__(self, asked: str, told: str) -> None:
        super().__init__()
        self._asked = asked
        self._told = told

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._asked, classes="asked", markup=False)
            yield Static(self._told, classes="told", markup=False)
            yield Static("y  yes      n  no", classes="keys", markup=False)

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)
