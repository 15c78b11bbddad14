"""The last line of `wakeful top`: the keys that fit whole. The key `?` shows the others."""

from textual.app import ComposeResult
from textual.events import Resize
from textual.widgets import Footer
from textual.widgets._footer import FooterKey


class KeyBar(Footer):
    """The footer of a screen, without keys that its width would cut."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)

    def compose(self) -> ComposeResult:
        cells_left = self.app.size.width
        for key in super().compose():
            assert isinstance(key, FooterKey), "no key of Wakeful is in a group"
            # A blank on both sides of the key, and one after its word.
            cells_left -= len(key.key_display) + len(key.description) + 3
            if cells_left < 0:
                return
            yield key

    def on_resize(self, event: Resize) -> None:
        del event  # the width of the terminal counts
        self.call_after_refresh(self.recompose)
