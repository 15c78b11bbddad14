"""Redacts table columns whose heading names a secret, as `psql`, `mysql` and Markdown print them. Pure.

The heading is in another line than the value, so the rules for names do not find it. Each line is read once.
"""

import re
from collections.abc import Iterator
from typing import Final

from wakeful.core.named_secrets import SECRET, names_a_secret

# A quote, too: in JSON a text ends there, and the next one begins in the same line.
_LINES: Final = re.compile(r"(\r?\n|(?:\\{1,127}+r)?\\{1,127}+n|\\{0,127}+\")")
_RULE: Final = frozenset("-+|: \t")
# A plain word in such a column is the text of a manual.
_SECRET_VALUE: Final = re.compile(r"(?=\S*[0-9!#$%^&*])\S{4,200}")
# Stands for any secret: whether a heading names one does not depend on the value.
_SOME_VALUE: Final = "Q7z-example-1"
_CELLS_MAX: Final = 40


def redact_columns(text: str) -> str:
    """`text` with the cells replaced whose column is headed by the name of a secret."""
    return "".join(_parts(text)) if "|" in text else text


def _parts(text: str) -> Iterator[str]:
    columns: tuple[int, ...] = ()
    count = 0
    for part in _LINES.split(text):
        cells = part.split("|", _CELLS_MAX)
        if len(cells) == 1:
            # A line's end, a rule, or the end of the table.
            columns = columns if _RULE.issuperset(part) or _LINES.fullmatch(part) else ()
            yield part
        elif columns and len(cells) == count:
            yield "|".join(_redact_cell(cell) if at in columns else cell for at, cell in enumerate(cells))
        else:
            count = len(cells)
            columns = tuple(at for at, cell in enumerate(cells) if _is_heading(cell.strip()))
            yield part


def _is_heading(name: str) -> bool:
    return 0 < len(name) <= _CELLS_MAX and " " not in name and names_a_secret(name, _SOME_VALUE)


def _redact_cell(cell: str) -> str:
    value = cell.strip()
    if _SECRET_VALUE.fullmatch(value) is None or (value.startswith("[") and value.endswith("]")):
        return cell
    return cell.replace(value, SECRET)
