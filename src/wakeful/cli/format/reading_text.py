"""Records as text for people: every field of the JSON, in its order, nothing renamed."""

from collections.abc import Iterator
from typing import Any

from wakeful.core.decoding import decode_json
from wakeful.core.text import plain
from wakeful.judging.resuming import command_line


def record_lines(body: bytes) -> list[str]:
    """The fields of a JSON object, one to a line, nested ones indented."""
    return list(_lines(decode_json(body, dict[str, Any]), indent=""))


def ending_lines(body: bytes) -> list[str]:
    """How waiting ended, in one line."""
    answer = decode_json(body, dict[str, Any])
    ending, session = answer["ending"].replace("_", " "), answer["session"]
    return [plain(f"{ending}: {session['id']} is {session['state']}, {session['health']}")]


def kept_lines(body: bytes) -> list[str]:
    """What became of a report of a wrong verdict."""
    kept = decode_json(body, dict[str, Any])
    said = ", ".join(kept["verdict"]["findings"]) or kept["verdict"]["health"]
    return [
        plain(f"kept: {kept['id']} with {kept['events']} events; said {said}, expected {kept['expect']}"),
        plain(f"`wakeful replay {kept['path']}` judges it again"),
    ]


def _lines(fields: dict[str, Any], indent: str) -> Iterator[str]:
    width = max(map(len, fields), default=0)
    for key, value in fields.items():
        if isinstance(value, dict):
            yield f"{indent}{plain(key)}"
            yield from _lines(value, f"{indent}  ")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{indent}{plain(key)}"
            for each in value:
                first, *others = _lines(each, f"{indent}    ")
                yield f"{indent}  - {first.strip()}"
                yield from others
        else:
            yield f"{indent}{plain(key).ljust(width)}  {scalar(value, key)}"


def scalar(value: Any, key: str = "") -> str:
    """One value as people read it."""
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        texts = [plain(str(each)) for each in value]
        return command_line(texts) if key == "argv" else " | ".join(texts)
    return plain(str(value))
