"""Decodes stored notes. A note that cannot be decoded (damaged store, other version) is logged and skipped."""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from wakeful.storage.base import Note

T = TypeVar("T")

log = logging.getLogger("wakeful")


def decode_notes(notes: Iterable[Note], decode: Callable[[bytes], T]) -> Iterator[tuple[Note, T]]:
    for note in notes:
        try:
            value = decode(note.body)
        except msgspec.DecodeError as problem:
            log.warning("a stored note is left out: %s %s: %s", note.kind, note.key, problem)
        else:
            yield note, value


def decode_note_values(notes: Iterable[Note], decode: Callable[[bytes], T]) -> list[T]:
    return [value for _, value in decode_notes(notes, decode)]
