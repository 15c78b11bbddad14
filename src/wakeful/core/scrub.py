"""Whole documents made fit for a stranger's eyes: every line and every string of JSON redacted, known secrets cut out.

What `redact` is for one text of a sink, this is for a file. Pure. What cannot be read is withheld, never passed on.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import msgspec

from wakeful.core.decoding import decode_json
from wakeful.core.named_secrets import SECRET, names_a_secret
from wakeful.core.redact import REDACTED_CHARS_MAX, WITHHELD, redact

# Shorter ones would cut holes into ordinary words, and are no secrets.
SECRET_CHARS_MIN: Final = 6
KNOWN: Final = "[secret of this machine]"
_KEY_BEGINS: Final = "PRIVATE KEY"


class Scrub:
    """Redacts by pattern, and by value what is known to be secret here."""

    def __init__(self, secrets: Collection[str]) -> None:
        # The longest first: one may be the beginning of another.
        self._secrets = sorted(
            (each for each in secrets if len(each) >= SECRET_CHARS_MIN), key=len, reverse=True
        )

    def text(self, text: str) -> str:
        """All of it, however long. A private key goes as a whole, however many lines it has."""
        return "\n".join(map(self._piece, _pieces(_without_keys(text.split("\n")))))

    def json(self, body: bytes) -> bytes:
        """The same document, indented, with every string of it redacted; withheld if it is none."""
        try:
            document = decode_json(body)
        except msgspec.DecodeError:
            return msgspec.json.encode(WITHHELD)
        return msgspec.json.format(msgspec.json.encode(self.value(document)), indent=2)

    def _piece(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, KNOWN)
        return redact(text)

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(name): self._named(name, each) for name, each in value.items()}
        return value

    def _named(self, name: str, value: Any) -> Any:
        """A value is also what its name says: alone, a password looks like any other word."""
        if isinstance(value, str) and names_a_secret(name, value):
            return SECRET
        return self.value(value)


def _without_keys(lines: Iterable[str]) -> Iterator[str]:
    in_key = False
    for line in lines:
        if not in_key and "-----BEGIN " in line and _KEY_BEGINS in line:
            in_key = True
            yield "[private key]"
        elif not in_key:
            yield line
        if in_key:
            # Also one that begins and ends in a single line, as JSON writes it.
            in_key = "-----END " not in line or line.rfind("-----END ") < line.rfind("-----BEGIN ")


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """Lines together, as many as are redacted at once: the name of a secret may stand in the line before it."""
    piece: list[str] = []
    chars = 0
    for line in lines:
        if piece and chars + len(line) + 1 > REDACTED_CHARS_MAX:
            yield "\n".join(piece)
            piece, chars = [], 0
        piece.append(line)
        chars += len(line) + 1
    yield "\n".join(piece)
