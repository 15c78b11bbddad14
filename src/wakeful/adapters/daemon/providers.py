"""Every client whose turns can be heard, in one table. A third one is a file that reads its output, and a row here."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from wakeful.adapters.claude_code.hearing import ClaudeHearing
from wakeful.adapters.codex.hearing import CodexHearing
from wakeful.domain.gateway.heard import Heard


class Hearing(Protocol):
    """Reads one turn out of a client's output. Pure: it never opens anything."""

    def feed(self, line: bytes) -> Sequence[Heard]:
        """What this line tells; nothing if it is torn, unknown or of another shape."""

    def caught_up(self) -> Sequence[Heard]:
        """All that was there has been read; what is known of the turn now."""

    def begin_anew(self) -> None:
        """Another process goes on in this conversation, with a file of its own."""


class Provider(Struct, frozen=True):
    """`hearing` is made for the id of a prompt. `subcommand` stands between the program and its flags at a start."""

    hearing: Callable[[str], Hearing]
    subcommand: tuple[str, ...] = ()


PROVIDERS: Final[Mapping[str, Provider]] = {
    "claude": Provider(ClaudeHearing),
    "codex": Provider(CodexHearing, ("exec",)),
}
