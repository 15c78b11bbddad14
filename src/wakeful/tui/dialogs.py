"""Modal dialogs of `wakeful top`: a question, a choice, the keys. Enter never confirms."""

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Static

_Answer = TypeVar("_Answer")

_DIALOG_CSS = """
    align: center middle; background: $background 60%;
    & > Vertical {
        width: 64; max-width: 90%; height: auto; max-height: 90%; padding: 1 2; background: $surface;
        border: round $warning; overflow-y: auto;
    }
    .asked { text-style: bold; }
    .told { color: $quiet; margin-top: 1; }
    .keys { margin-top: 1; color: $accent; }
"""


class _KeysDialog(ModalScreen[_Answer]):
    """A question that one key answers."""

    KEYS: ClassVar[str]

    def __init__(self, question: str, explanation: str) -> None:
        super().__init__()
        self._question = question
        self._explanation = explanation

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, classes="asked", markup=False)
            yield Static(self._explanation, classes="told", markup=False)
            yield Static(self.KEYS, classes="keys", markup=False)


class ConfirmDialog(_KeysDialog[bool]):
    """True for `y`, False for `n` and Escape."""

    CSS = f"ConfirmDialog {{ {_DIALOG_CSS} }}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("n,escape,q", "answer(False)", "No", show=False),
    ]

    KEYS = "y  yes      n  no"

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


class AnswerDialog(_KeysDialog[str | None]):
    """`allow` for `y`, `deny` for `n`; None for Escape."""

    CSS = f"AnswerDialog {{ {_DIALOG_CSS} }}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('allow')", "Allow", show=False),
        Binding("n", "answer('deny')", "Deny", show=False),
        Binding("escape,q", "dismiss", "Leave", show=False),
    ]

    KEYS = "y  allow      n  deny      Esc  not now"

    def action_answer(self, reply: str) -> None:
        self.dismiss(reply)


class ChoiceDialog(ModalScreen[str | None]):
    """The name of the choice; None for Escape."""

    CSS = f"ChoiceDialog {{ {_DIALOG_CSS} }}"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,n", "leave", show=False)]

    def __init__(self, question: str, explanation: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._question = question
        self._explanation = explanation
        self._choices = choices

    def compose(self) -> ComposeResult:
        lines = [f"{number}  {words}" for number, (_, words) in enumerate(self._choices, 1)]
        with Vertical():
            yield Static(self._question, classes="asked", markup=False)
            yield Static(self._explanation, classes="told", markup=False)
            yield Static("\n".join([*lines, "", "Esc  cancel"]), classes="keys", markup=False)

    def on_key(self, event: Key) -> None:
        if event.key.isdecimal() and 0 < int(event.key) <= len(self._choices):
            self.dismiss(self._choices[int(event.key) - 1][0])

    def action_leave(self) -> None:
        self.dismiss(None)


_KEYS_TEXT = """\
arrows, j k, page keys, g G   move
n         next session that needs you; after the last, the first
Enter     attach to its terminal; detach to come back
s         send a prompt
y         answer what it asks: y allows, n denies
r  x      resume, stop
l         its whole conversation
a         adopt; releases a managed session
m         mute for 2 hours
w         the verdict was wrong: choose the right one
d         details and evidence, scrolled with arrows; again: back
/         filter by words; Enter keeps it, Escape clears it
2 3 4 5   decisions, incidents, agents, events; 1: sessions
t         light or dark
q         quit"""


class KeysDialog(ModalScreen[None]):
    CSS = f"KeysDialog {{ {_DIALOG_CSS} }}\nKeysDialog > Vertical {{ width: 72; }}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "dismiss", show=False),
    ]

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("Keys", classes="asked", markup=False)
            yield Static(_KEYS_TEXT, classes="told", markup=False)
            yield Static("Esc  back", classes="keys", markup=False)
