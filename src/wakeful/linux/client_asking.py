"""Asking an agent's client a short question: its status, or one word of its model. Never longer than a deadline."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from wakeful.core.errors import WorldError
from wakeful.linux.inquiry import Answer, ask
from wakeful.linux.launch import find_program

# A client starts within 1.1 s, and a status command asks nobody.
STATUS_SECONDS_MAX: Final = 15.0
# Codex tries a refused request for 7 s.
PROBE_SECONDS_MAX: Final = 60.0
PROBE_PROMPT: Final = "Reply with the word OK and nothing else."
_NO_ANSWER: Final = Answer(None, b"", b"")


class ClientAsking:
    """One client, as it is configured."""

    def __init__(self, argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        assert argv, "a program first"
        self._argv = tuple(argv)
        self._folder = folder
        self._environ = environ

    async def ask_status(self, *words: str) -> Answer:
        """Without the operator's own flags: they are for turns. A client that cannot be run gave no answer."""
        return await self._ask((self._argv[0], *words), STATUS_SECONDS_MAX)

    async def ask_probe(self, *words: str) -> Answer:
        return await self._ask((*self._argv, *words), PROBE_SECONDS_MAX)

    async def ask_model(self, prompt: str, seconds_max: float, *words: str) -> Answer:
        """The prompt goes in by standard input: everybody may read arguments."""
        return await self._ask((*self._argv, *words), seconds_max, prompt.encode())

    async def _ask(self, argv: Sequence[str], seconds_max: float, given: bytes = b"") -> Answer:
        try:
            words = (self._program(argv[0]), *argv[1:])
            return await ask(
                words, seconds_max, environ=self._environ, with_children=True, cwd=self._folder, given=given
            )
        except (WorldError, OSError):
            return _NO_ANSWER

    def _program(self, name: str) -> str:
        Path(self._folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        return find_program(name, cwd=self._folder, path=self._environ.get("PATH", ""))


def stamp(paths: Sequence[str], environ: Mapping[str, str], names: Sequence[str]) -> str:
    """A mark over files, by their age and size, and over variables, by their digest: no secret is in it."""
    digest = sha256()
    for path in paths:
        digest.update(_age(path))
    for name in names:
        digest.update(environ.get(name, "").encode(errors="surrogateescape") + b"\0")
    return digest.hexdigest()


def _age(path: str) -> bytes:
    try:
        seen = Path(path).stat()
    except OSError:
        return b"none\0"
    return f"{seen.st_mtime_ns}:{seen.st_size}:{seen.st_ino}\0".encode()
