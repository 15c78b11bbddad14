"""Secrets are removed at every sink. What is removed is named, so that a reader knows something stood there.

If redaction itself fails the text is withheld: a lost line is better than a leaked key. A secret is looked for in
the text as it reads: colours, zero-width characters and NULs around it or within it do not hide it.
"""

import re
from functools import cache
from typing import Final

from wakeful.domain.plaintext import hides_something, without_hidden

WITHHELD: Final = "[withheld: could not be redacted]"
REDACTED_CHARS_MAX: Final = 20_000

# A name that says what its value is, as .env lines, JSON (also inside a string), YAML and options spell it.
_NAMED_VALUE: Final = (
    r"((?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|passphrase|credential|private[_-]?key|authorization)"
    r"[A-Za-z0-9_-]{0,40}[\\\"']{0,4}\s{0,3}[:=]\s{0,3}[\\\"']{0,4})([^\s\\\"',;&]{6,})"
)
# Before each pattern what every match of it holds, in lower case: looking for that first takes a tenth of the time.
_PATTERNS: Final = (
    (
        ("private key",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
        "[private key]",
    ),
    # Behind a letter only what cannot be an ordinary word: `disk-usage` holds `sk-`, too.
    (
        ("k-",),
        r"\b[spr]k-[A-Za-z0-9_-]{8,}|[spr]k-(?:(?:ant|proj|live|test)-[A-Za-z0-9_-]{8,}|[A-Za-z0-9]{20,})",
        "[key]",
    ),
    (("k_",), r"(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{8,}", "[key]"),
    (
        ("gh", "github_pat_", "glpat-"),
        r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}",
        "[token]",
    ),
    (("xox",), r"xox[abeprs]-[A-Za-z0-9-]{10,}", "[token]"),
    (("npm_", "pypi-", "hf_"), r"(?:npm_|hf_)[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,}", "[token]"),
    (
        ("akia", "asia", "aiza"),
        r"(?-i:AKIA|ASIA)[A-Z0-9]{16}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|AIza[A-Za-z0-9_-]{30,}",
        "[key]",
    ),
    # Bounded: a text of nothing but beginnings would be looked through once for each of them.
    (("eyj",), r"eyJ[A-Za-z0-9_-]{8,2000}+\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", "[token]"),
    ((":",), r"(?:bot)?[0-9]{6,12}:[A-Za-z0-9_-]{30,}", "[bot token]"),
    (("://",), r"([a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,100}:)[^\s/@]{1,200}@", r"\1[password]@"),
    (("bearer", "basic"), r"(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", r"\1 [token]"),
    (("key", "secret", "token", "pass", "credential", "authorization"), _NAMED_VALUE, r"\1[secret]"),
    (
        ("token", "password", "secret", "key"),
        r"(--?[a-z0-9-]{0,40}(?:token|password|secret|api-?key)\s{1,3}[\"']?)([^\s\"']{6,})",
        r"\1[secret]",
    ),
)


# A sequence that was cut off, or whose end is not certain, and a secret or its name behind it: a terminal would take
# the first letter for the sequence's end, we do not.
_CUT_SEQUENCE: Final = re.compile(
    r"((?:\x1b\[|\x9b)[0-?]*[ -/]*|\x1b(?:[78=>cDEHMZ]|[ -/]*))(?=[spr]k[-_]|gh[pousr]_|github_|glpat-|xox|npm_|pypi-|hf_|a[ks]ia|aiza|eyj"
    r"|bot[0-9]|[0-9]{6,12}:|bearer|basic|api|access|secret|token|passw|passphrase|credential|private|authorization|---)",
    re.IGNORECASE,
)
# As JSON spells what nobody sees; several backslashes where JSON stands within JSON. Halves of a pair are no character.
_SPELLED_OUT: Final = re.compile(r"\\+u(?!d[89a-f])([0-9a-f]{4})", re.IGNORECASE)
_MARK: Final = "\0"
# A short key behind a letter is none, unless something stood between the two.
_SHORT_KEY_BEHIND: Final = re.compile(r"(?<!\0)\0++(?=[spr]\0*k\0*-)", re.IGNORECASE)


def redact(text: str) -> str:
    """`text` without anything that looks like a credential; bounded, and withheld whole on failure."""
    shown = text[:REDACTED_CHARS_MAX]
    try:
        if "\\u" in shown:
            shown = _SPELLED_OUT.sub(_hidden_or_as_it_was, shown)
        if hides_something(shown):
            shown = _as_it_reads(shown)
        lower = shown.lower()
        for hints, pattern, replacement in _PATTERNS:
            if any(hint in lower for hint in hints):
                shown = _compiled(pattern).sub(replacement, shown)
    except (re.error, RecursionError, MemoryError):
        return WITHHELD
    return shown


# Where its hint is first met: compiling all of them takes longer than importing everything that is imported here.
@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _as_it_reads(text: str) -> str:
    """The visible text in one piece, apart from what would be glued to the front of a key."""
    marked = without_hidden(_CUT_SEQUENCE.sub(r"\1\0", text.replace(_MARK, "\x01")), _MARK)
    return _SHORT_KEY_BEHIND.sub(" ", marked).replace(_MARK, "")


def _hidden_or_as_it_was(spelled: re.Match[str]) -> str:
    char = chr(int(spelled[1], 16))
    return char if hides_something(char) else spelled[0]
