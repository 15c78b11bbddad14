"""A whole HEARTBEAT.md: Markdown, with fields in front of it or without. Bytes in, a policy or a line out."""

from typing import Final

from wakeful.core.text import plain
from wakeful.heartbeat.domain_heartbeat import Bounds, HeartbeatInvalid, HeartbeatPolicy
from wakeful.heartbeat.fields import FindZone, policy_of
from wakeful.heartbeat.front_matter import FIRST_LINE, Entries, Wrong, read

# Every field with twenty windows of each kind has 3 KB; reading this much takes 10 ms.
FRONT_MATTER_BYTES_MAX: Final = 4 * 1024
_FENCE: Final = "---"
_NO_FIELDS: Final = Entries(1, {}, {})


def parse(content: bytes, path: str, bounds: Bounds, find_zone: FindZone) -> HeartbeatPolicy:
    """The policy a file expresses, not yet held to the bounds. Raises HeartbeatInvalid with file, line and reason."""
    try:
        text = _decoded(content)
        front, body, first = _parted(text)
        entries = _NO_FIELDS if front is None else read(front)
        return policy_of(entries, _guidance(body, first, bounds), find_zone)
    except Wrong as wrong:
        raise HeartbeatInvalid(file=plain(path), line=wrong.line, reason=wrong.reason) from wrong


def bytes_max(bounds: Bounds) -> int:
    """What a file may have at most: twice the guidance's bound, for its line breaks may be normalised away."""
    return 2 * bounds.body_bytes_max + FRONT_MATTER_BYTES_MAX


def _decoded(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise Wrong(content.count(b"\n", 0, problem.start) + 1, "not text in UTF-8") from problem
    text = text.replace("\r\n", "\n")
    for number, line in enumerate(text.split("\n"), 1):
        if not line.replace("\t", " ").isprintable() and (odd := _control(line)) is not None:
            raise Wrong(number, f"a control character (U+{ord(odd):04X}): this is no text")
    return text


def _control(line: str) -> str | None:
    """The first character that is neither shown nor a kind of space nor part of a script."""
    return next((each for each in line if (each < " " and each != "\t") or "\x7f" <= each <= "\x9f"), None)


def _parted(text: str) -> tuple[str | None, str, int]:
    """Front matter, guidance, and the guidance's first line in the file."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        _refuse_late_fence(lines)
        return None, text, 1
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() == _FENCE), None)
    if end is None:
        raise Wrong(1, "front matter begins here and never ends: a line with --- is missing")
    front = "\n".join(lines[1:end])
    if len(front.encode()) > FRONT_MATTER_BYTES_MAX:
        raise Wrong(FIRST_LINE, f"front matter of more than {FRONT_MATTER_BYTES_MAX} bytes")
    return front, "\n".join(lines[end + 1 :]), end + 2


def _refuse_late_fence(lines: list[str]) -> None:
    """Fields that are taken for guidance would be quiet hours that nobody keeps."""
    for number, line in enumerate(lines, 1):
        written = line.strip("\ufeff \t")
        if written and not written.strip("-") and len(written) >= len(_FENCE):
            raise Wrong(number, "front matter begins with --- alone in the first line, guidance with words")
        if written:
            return


def _guidance(body: str, first: int, bounds: Bounds) -> str:
    """The body without blanks around it and at the ends of its lines."""
    lines = [line.rstrip() for line in body.split("\n")]
    length = 0
    for number, line in enumerate(lines, first):
        length += len(line.encode()) + 1
        if length > bounds.body_bytes_max:
            raise Wrong(number, f"more than {bounds.body_bytes_max} bytes of guidance (max_body_bytes)")
    return "\n".join(lines).strip("\n")
