"""Redacts secrets that only their name reveals: `PGPASSWORD=x`, `"client_secret": "…"`, `--token …`. Pure.

A pattern finds the name and the separator before its value. The kind of name decides how short and plain a
value may be. Then the value is read to its end, with quotes, blanks and escapes. Each character is read once,
so a hostile text costs no more than another.
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from functools import cache, lru_cache
from typing import Final

from wakeful.core.secret_formats import with_escaped_breaks

SECRET: Final = "[secret]"  # noqa: S105 - the replacement, no secret
# Every checked name contains one of these, in lower case.
HINTS: Final = (
    "pass", "pw", "secret", "token", "key", "credential", "auth", "cookie", "psk", "jwt", "mnemonic", "seed", "dsn",
    "_pat", "connection", "webhook", "sid", "kennwort", "senha", "contrase",
)  # fmt: skip
# Longer values are cut here; a private key in one line has some 3,300 characters.
VALUE_CHARS_MAX: Final = 4000
BEGINNING_CHARS_MAX: Final = 300
# A shorter value is no token, unless its name is certain.
LIKELY_CHARS_MIN: Final = 6

# A name with one of the words, its closing quote, and the separator before its value. Quotes may be escaped any
# number of times, as in JSON within JSON.
_NAME: Final = (
    r"(?P<core>pass|pwd?|secret|token|key|credential|auth|cookie|psk|jwt|mnemonic|seed|dsn|_pat|connection|webhook|sid|kennwort|senha|contrase[n\u00f1]a)"
    r"(?P<rest>[a-z0-9_.-]{0,40}+)"
    r"(?P<close>\\{0,127}+[\"'`]|%22|%27|&quot;|\)|\]|\}|)\]?"
    r"(?P<gap>"
    r"(?:(?:[ \t]|\\t){0,20}+|\s{0,3}+)(?::=|=>|\+=|===?|->|[=:\uff1d\uff1a]|%3d|%3a|&#61;)"
    # The pair of a name and its value in Kubernetes and task definitions.
    r"|(?:[ \t,\r\n]|\\+[nr]){1,40}+(?:\\{0,127}+[\"'])?value(?:\\{0,127}+[\"'])?[ \t]{0,3}[:=]"
    r"|,(?=[ \t]{0,20}\\{0,127}[\"'`])"
    r"|(?:<[^<>\s]{1,40}>|>)(?=[^<>\s])"
    r"|(?=[ \t]))"
)
_WORKING_DIRECTORY: Final = frozenset({"pwd", "oldpwd"})
_PASS_VALUE: Final = re.compile(r"[ \t]{0,3}\\{0,127}[\"']")
_FULL_WIDTH: Final = str.maketrans("\uff1d\uff1a", "=:")
_BLANKS: Final = re.compile(r"[ \t]{0,20}")
# The value is on the next line: a folded text of YAML, or a continued line. An empty variable has none there.
_NEXT_LINE: Final = re.compile(r"[|>]?[+-]?[ \t]*\\?(?:\r?\n|\\+n)[ \t]+(?:- )?")
_SPREAD: Final = re.compile(r"\s{0,3}")
_CONTINUED: Final = re.compile(r"\\(?:\r?\n|\\{2,}n)[ \t]*")
_OPENING: Final = re.compile(r"(?:[rbuf]{1,2}|\$)?(?P<escape>\\*)(?P<quote>[\"'`])|(?P<other>%22|%27|&quot;)")
_UNQUOTED: Final = re.compile(
    r"(?:\\+[ '\"$&|;<>()!#](?!\s|\Z)|[^\s\"'`,;&|<>\\)}\]]|\\(?![nr\"'])|[)}\]](?=\w))+"
)
_UNQUOTED_TO: Final = re.compile(r"(?:[^\s\"'`\\]|\\(?![nr\"']))+")
_LINE: Final = re.compile(r"(?:[^\r\n\"\\]|\\(?![nr\"]))+")
_LAST_LINE: Final = re.compile(r"\n|\\+n")
_UNTIL_SEMICOLON: Final = re.compile(r"[^;\r\n\"\\]+")

# What stands in place of a secret that another rule found.
_REPLACED: Final = re.compile(r"\[[a-z ]{3,20}\](?=[\s\"'`,;:&|<>\\)}\]]|\Z)")
# No secrets, whatever their name: variables, placeholders, types, calls, Wakeful's replacements, empty values.
_HARMLESS: Final = (
    r"\[[a-z ]{1,30}\]"
    r"|(?:Bearer|Basic|Token|Digest|SSWS|ApiKey|AWS4-HMAC-SHA256)(?: (?:\[[a-z ]{1,30}\]|\*+|\$\S{1,80}|<.{0,60}|\{.{0,60}))?"
    r"|\$(?-i:[A-Z_][A-Z0-9_]*|\d)|\$\{\{?[^}]{0,80}\}{0,2}|\$\([^)]{0,80}\)?|%(?-i:[A-Z_][A-Z0-9_]*)%|\{\{.{0,80}|\{[a-z_.]{0,40}\}?|\$\w{0,40}\.\w{1,40}"
    r"|<[^<>]{0,60}>?|x{3,}|[*•.…_-]+|\(?(?:none|null|nil|true|false|undefined|void|str|string|strings|int|integer|number|bool|boolean|bytes|any"
    r"|object|optional|required|empty|unset|missing|default|secretstr|redacted|hidden|masked|todo|tbd|n/a|yes|no|on|off)[?,.;)]*"
)
# Source code instead of a value: a call, an index, an attribute.
_CODE: Final = re.compile(
    r"(?:await |new |not |lambda)|(?:str|int|bool|bytes|string|any|none|null|secretstr)\b\s*(?:[|=,);?]|\Z)|!?[A-Za-z_]+(?:(?:\.|::|->)[A-Za-z_]+){0,6}(?:[(\[{<]|!(?!\w))|(?:self|cls|this|config|settings|args|options|opts|request"
    r"|req|res|response|process|os|env|environ|user|data|params|props|state|ctx|context|event|input|secrets|vars|local|module|const|var|let"
    r"|[a-z_]{1,30})\.[A-Za-z_.?!]*\W?\Z"
)
# The name of a variable, in a list of such names.
_A_NAME: Final = re.compile(r"[A-Z0-9]+(?:_[A-Z0-9]+)+")
# A value in a sentence: "the password is …", "use the token …", "signing key …".
_PROSE: Final = (
    r"\b(?:(?P<word>passw(?:or[dt])?|passwd|passphrase|passcode|kennwort)|(?P<kind>(?:api|access|secret|signing|encryption|private|master|auth|session)[ _-])?(?:token|key|secret))"
    r"[ \t]{1,3}(?P<verb>(?:is|was|ist|to|now)[ \t]{1,3}(?:now[ \t]{1,3})?)?(?:\\{0,3}[\"'`\u201c\u2018]|\\u201[8c])?"
    r"(?P<value>[A-Za-z0-9!#$%&*+^_~.@-]{6,200}+)(?![/(=\[{]|:\S)"
)
_RUNS: Final = re.compile(r"[a-z]+|[A-Z]+|[0-9]+")
# How often the characters change their class. Without a verb the word may be an identifier, such as `ArrowLeft2`.
_RANDOM_SHARE_MIN: Final = 0.4
_RANDOM_ALONE_SHARE_MIN: Final = 0.6
_HEX: Final = re.compile(r"(?=[0-9a-f]*[a-f])[0-9a-f]{32,}", re.IGNORECASE)
_WORD_BORDERS: Final = re.compile(r"[\s_/.-]+")
_WORDS: Final = re.compile(r"[A-Za-z]{1,30}[,.;:!?)]{0,3}")


class _Grade(Enum):
    """How certain a name is: `SURE` for any value, `LIKELY` for a value that is no word, `LINE` for a header."""

    NONE = auto()
    LIKELY = auto()
    SURE = auto()
    LINE = auto()


# Names of facts about a secret: its name, its length, where it is, when it ends.
_ABOUT: Final = (
    r"(?:^|_)(?:ids?|files?|filename|paths?|dir|names?|urls?|uris?|length|len|counts?|types?|kinds?|limits?|ttl|expir\w*|at|endpoint|policy|fields?"
    r"|headers?|prefix|suffix|usage|used|size|index|pattern|patterns|regex|env|vars?|sources?|provider|required|enabled|disabled|min|max|age|hint|labels?|placeholder|title"
    r"|refs?|version|total|budget|window|store|manager|helper|errors?|form|prompt|reset|strength|algorithm|alg|bits|seconds|minutes|hours|ms|stdin|fd|mode|status|state|valid"
    r"|validator|check|checks|rotation|scopes?|owner|user|username|email|by|class|method|function|func|test|tests|spec|handler|service|module|map|maps|list|set|sets|exists|missing|format|encoding|example|docs|help|schema|column|table|sort|order|word|words|board|frame|frames|press|down|up|code|codes|event|events|value_from|cache|binding|bindings|point|points|er|ers|izer|ization|ed|ing|information|info|manager|management|agent|agents|key_id|log|logs|line|lines|only|mask|masks|digest|fingerprint|hash)$"
)
_SURE: Final = r"passw(?:or)?[dt]|passwd|kennwort|(?:^|_)senha$|contrase[n\u00f1]a|passphrase|passcode|(?:^|_|sql)pwd$|(?:^|_)pw$|private_?key|client_?secret|secret_?access_?key|secret_?key|access_?key$|api_?key$|account_?key|shared_?access_?key|(?:^|_)psk$|pre_?shared_?key|mnemonic|seed_?phrase|recovery_?phrase|client_key_data|auth_?token$|access_?token$|refresh_?token$|id_?token$|bot_?token$|session_?token$|encryption_?key$|signing_?key$|routing_?key$|integration_?key$|master_?key$|subscription_?key$|app_?key$|_auth$|storepass$|keypass$"
_LIKELY: Final = r"token$|secrets?$|credentials?$|(?:^|_)auth$|(?:^|_)jwt$|(?:^|_)pat$|connection_?string$|(?:^|_)dsn$|webhook_?url$|(?:^|_)sid$|(?:^|_)(?:auth|service|session|client|deploy|storage|primary|secondary|consumer|hmac|aes|jwt|license|function|write|read|admin|root|host|server|integration|tls|ssl|ssh|gpg|hash|crypto|security|root|device|login|user|team|org|bot|stripe|google|aws|azure|openai|anthropic|sendgrid|twilio)_?key$|(?:^|_)seed$|(?:^|_)pass$|keys?_?data$|secret_?value$|secret_string$"
_LINES: Final = r"(?:^|_)(?:set_)?cookie$|authorization$"
_ENVIRONMENT: Final = r"(?:TOKEN|SECRET|PASS|PASSWORD|PWD|PAT|KEY|AUTH|CREDENTIALS?|PSK|JWT|DSN|COOKIE|SALT|WEBHOOK_URL|CONNECTION_STRING|DATABASE_URL)(?:_?\d{1,2})?"
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME_CHARS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_BEFORE_CHARS_MAX: Final = 40


def redact_named(text: str) -> str:
    """`text` with the values of secret names replaced."""
    return _compiled(_PROSE, re.IGNORECASE).sub(_redact_unless_word, "".join(_parts(text)))


def names_a_secret(name: str, value: str) -> bool:
    """Whether a value is secret because of its name, for separate names and values, as in a JSON object."""
    grade = _grade(name)
    if grade is _Grade.NONE or not value or _is_harmless(value):
        return False
    return grade is not _Grade.LIKELY or (len(value) >= LIKELY_CHARS_MIN and not _reads_like_words(value))


def _parts(text: str) -> Iterator[str]:
    done = 0
    lower = text.lower()
    # A few letters have a longer lower case; then positions in both texts would differ.
    for found in _compiled(_NAME).finditer(lower if len(lower) == len(text) else text):
        if found.start() < done:
            continue
        span = _value_span(text, found)
        if span is not None:
            yield text[done : span[0]]
            yield SECRET
            done = span[1]
    yield text[done:]


@cache
def _compiled(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    return re.compile(with_escaped_breaks(pattern), flags)


def _redact_unless_word(found: re.Match[str]) -> str:
    """In a sentence, a password is a word with a digit; a token or key is a word that looks random."""
    value = found["value"].rstrip(".:!?*_")
    has_digit = any(map(str.isdigit, value)) and not value.isdigit()
    runs = len(_RUNS.findall(value))
    share = _RANDOM_SHARE_MIN if found["verb"] is not None else _RANDOM_ALONE_SHARE_MIN
    is_random = has_digit and not value.islower() and runs >= share * len(value)
    is_password = found["word"] is not None and found["verb"] is not None and has_digit
    is_hex = found["kind"] is not None and _HEX.fullmatch(value) is not None
    if len(value) < LIKELY_CHARS_MIN or not (is_random or is_password or is_hex):
        return found[0]
    return found[0][: found.start("value") - found.start()] + SECRET + found["value"][len(value) :]


def _value_span(text: str, found: re.Match[str]) -> tuple[int, int] | None:
    """Where the value of a name begins and ends; None without a secret value."""
    name = _whole_name(text, found)
    grade = _grade(name)
    if grade is _Grade.NONE or (gap := _separator(text, found, name, grade)) is None:
        return None
    if gap == ":" and found["close"] == "]" and _REPLACED.match(text, _name_start(found, name) - 1):
        return None
    if name.lower() == "pass" and not _is_pass_set(text, found, name, gap):
        # Test runners print `PASS: test_x`.
        return None
    blanks = _BLANKS.match(text, found.end())
    assert blanks is not None, "it matches an empty text, too"
    start = blanks.end()
    is_spread = "\n" in found["gap"]
    below = (_SPREAD if is_spread else _NEXT_LINE if gap == ":" else _CONTINUED).match(text, start)
    if below is not None:
        start = below.end()
    opening = _OPENING.match(text, start)
    first = text[(at := opening.end() if opening is not None else start) : at + 1]
    if (name.lower() in _WORKING_DIRECTORY and first in {"/", "~"}) or (
        name.lower() == "pw" and first == "{"
    ):
        return None
    if opening is not None:
        return _quoted_span(text, opening, grade)
    span = _unquoted_span(text, start, found, grade, gap)
    if span is not None and gap == "=" and (end := _end_of_setting(text, found, name, start)) is not None:
        return start, max(end, span[1])
    return span


def _is_pass_set(text: str, found: re.Match[str], name: str, gap: str) -> bool:
    """Whether `pass` is a name here: in quotes, before `=`, or before a value in quotes."""
    quoted = found["close"] or _PASS_VALUE.match(text, found.end())
    return name.islower() and (gap == "=" or (gap in {":", "=>"} and bool(quoted)))


def _end_of_setting(text: str, found: re.Match[str], name: str, start: int) -> int | None:
    """If one pair of quotes has name and value, as in `-e 'PASSWORD=a b'`: the second quote ends the value."""
    before = _name_start(found, name) - 1
    quote = text[before] if before >= 0 else ""
    if quote not in {"'", '"'} or found["close"]:
        return None
    line = text.find("\n", start, start + VALUE_CHARS_MAX)
    end = text.find(quote, start, line if line >= 0 else start + VALUE_CHARS_MAX)
    # In JSON the quote has a backslash before it.
    return end - (end > start and text[end - 1] == "\\") if end >= 0 else None


def _name_start(found: re.Match[str], name: str) -> int:
    return found.start() - (len(name) - len(found["core"]) - len(found["rest"]))


def _whole_name(text: str, found: re.Match[str]) -> str:
    """The name, including the characters before the matched word."""
    first = last = found.start()
    while first > 0 and last - first < _BEFORE_CHARS_MAX and text[first - 1] in _NAME_CHARS:
        if text[first - 1] in "nrt" and text[first - 2 : first - 1] == "\\":
            # The line break before the name, as JSON writes it.
            break
        first -= 1
    return (
        text[first : found.end("rest")].strip(".-")
        if text[first : first + 1] in "-."
        else text[first : found.end("rest")]
    )


def _separator(text: str, found: re.Match[str], name: str, grade: _Grade) -> str | None:
    """The separator of name and value: a sign, or a blank after an option or a word of .netrc."""
    gap: str = found["gap"].strip().translate(_FULL_WIDTH).removeprefix("+")
    if gap == ",":
        # A list of names contains no values.
        is_option = text[found.start() - 1 : found.start()] == "-" or "-" in name
        return gap if is_option or name.isupper() or grade is _Grade.LINE else None
    if _is_element(gap):
        before = _name_start(found, name) - 1
        return gap if text[before : before + 1] == "<" else None
    if gap:
        return gap
    if found["close"]:
        return None
    return " " if _takes_blank(text, found, name, grade) else None


_NETRC: Final = re.compile(
    with_escaped_breaks(r"\blogin\s{1,3}\S{1,100}\s{1,20}\Z|\bmachine\s{1,3}\S{1,100}\s{1,20}\Z")
)
_SETTING: Final = re.compile(
    with_escaped_breaks(
        r"(?:\b(?:ENV|ARG|setx?|export|setenv|config set|secrets? set|-x|--var)|-D|-e)\s{1,3}(?:-\w{1,3}\s)?\Z"
    )
)


def _takes_blank(text: str, found: re.Match[str], name: str, grade: _Grade) -> bool:
    first = _name_start(found, name)
    before = text[max(0, first - 140) : first]
    if before.endswith("-") or "--" in name:
        return grade is not _Grade.LINE
    if found["core"] == "pass" and name == "password" and _NETRC.search(before) is not None:
        return True
    return name.isupper() and _SETTING.search(before) is not None


def _quoted_span(text: str, opening: re.Match[str], grade: _Grade) -> tuple[int, int] | None:
    """From the opening quote to the same quote with the same escapes; to the line's end if there is none."""
    start, limit = opening.end(), min(len(text), opening.end() + VALUE_CHARS_MAX)
    close = opening["other"] or opening["escape"] + opening["quote"]
    if _closes(text, opening, close):
        return None
    if not opening["other"] and text.startswith(close * 2, start):
        # Triple quotes of Python and TOML.
        start, close = start + 2 * len(close), close * 3
    end = text.find(close, start, limit)
    while end > start and _is_doubled(text, end, close):
        end = text.find(close, end + 2 * len(close), limit)
    while not opening["other"] and end > start and text[end - 1] == "\\":
        # Escaped once more than the opening quote: it belongs to the value.
        end = text.find(close, end + len(close), limit)
    # No password spans two lines: without an end in this line the text was cut.
    line = text.find("\n", start, limit)
    if end < 0 or 0 <= line < end:
        end = line if line >= 0 else limit
    value = text[start:end]
    if (
        not value
        or _is_harmless(value)
        or (text[opening.start() - 1 : opening.start()] in {",", " "} and _A_NAME.fullmatch(value))
    ):
        return None
    if grade is _Grade.LIKELY and (len(value) < LIKELY_CHARS_MIN or _reads_like_words(value)):
        return None
    after = end + len(close)
    # A shell goes on with the value behind the quote, as in 'it'\''s'.
    if text[after : after + 2] in {"\\'", '\\"'} and text[after + 2 : after + 3] in {"'", '"'}:
        rest = _GLUED.match(text, after)
        return start, rest.end() if rest is not None else after
    return start, end


def _is_doubled(text: str, end: int, close: str) -> bool:
    """Whether the quote is an escaped quote of YAML and SQL: 'it''s'. At the end of a word it closes two texts."""
    after = end + 2 * len(close)
    return text.startswith(close, end + len(close)) and text[after : after + 1].isalnum()


_GLUED: Final = re.compile(r"[^\s;&|]{0,200}")
_AFTER_A_STRING: Final = re.compile(r"\s*(?:[),;\]}+.:|]|\Z)|\s*\n")


def _closes(text: str, opening: re.Match[str], close: str) -> bool:
    """Whether the quote ends a text that contains a name, as in `print("password:")`, and opens no value."""
    line = text.rfind("\n", max(0, opening.start() - 500), opening.start()) + 1
    before = text[max(line, opening.start() - 500) : opening.start()]
    return before.count(close) % 2 == 1 and _AFTER_A_STRING.match(text, opening.end()) is not None


def _unquoted_span(
    text: str, start: int, found: re.Match[str], grade: _Grade, gap: str
) -> tuple[int, int] | None:
    if _REPLACED.match(text, start) and _pattern_of(text, start, found, grade, gap) is _UNQUOTED:
        return None
    # The beginning decides first, so a text of names and signs alone is not read to its end for each of them.
    end = _unquoted_end(text, start, found, grade, gap, BEGINNING_CHARS_MAX)
    value = text[start:end]
    # Includes the character behind the value: a name before a bracket is a call.
    is_tight = gap == "=" and text[found.start() : start].endswith(
        f"{text[found.start() : found.end('rest')].upper()}="
    )
    is_tight = is_tight or _in_connection_string(text, found)
    if not value or value.startswith("-") or _is_harmless(value):
        return None
    if not _is_secret(text[start : end + 1], grade, tight=is_tight):
        return None
    return start, _unquoted_end(text, start, found, grade, gap, VALUE_CHARS_MAX)


def _in_connection_string(text: str, found: re.Match[str]) -> bool:
    """Whether the name follows a semicolon and its value follows the sign at once: `;Password=`."""
    before = text[max(0, found.start() - _BEFORE_CHARS_MAX) : found.start()].rstrip("".join(_NAME_CHARS))
    return found["gap"] == "=" and before.rstrip(" ").endswith(";")


def _unquoted_end(
    text: str, start: int, found: re.Match[str], grade: _Grade, gap: str, chars_max: int
) -> int:
    limit = min(len(text), start + chars_max)
    if _is_element(gap):
        end = text.find("<", start, limit)
        return end if end >= 0 else limit
    ended = _pattern_of(text, start, found, grade, gap).match(text, start, limit)
    return ended.end() if ended is not None else start


def _is_element(gap: str) -> bool:
    """Whether the name is an XML element, closed by its own bracket."""
    return gap.endswith(">") and not gap.startswith(("=", "-"))


def _pattern_of(text: str, start: int, found: re.Match[str], grade: _Grade, gap: str) -> re.Pattern[str]:
    if grade is _Grade.LINE:
        return _LINE
    before = text[max(0, found.start() - 200) : found.start()]
    if ";" in text[start : start + 300].partition("\n")[0] and ";" in before and gap == "=":
        # A connection string: blanks and commas belong to a value.
        return _UNTIL_SEMICOLON
    if gap == ":" and _starts_line(text, found) and grade is _Grade.SURE:
        return _LINE
    if gap in {"=", " "} and "?" not in before[-100:] and "&" not in before[-100:]:
        return _UNQUOTED_TO if text[start : start + 1] not in "([{" else _UNQUOTED
    return _UNQUOTED


def _starts_line(text: str, found: re.Match[str]) -> bool:
    """Whether the name is the first of its line, as a YAML key is."""
    before = _LAST_LINE.split(text[max(0, found.start() - 80) : found.start()])[-1]
    return (
        len(before) < 60
        and all(char in _NAME_CHARS or char in " \t\"'" for char in before)
        and " " not in before.strip(" -")
    )


def _is_secret(value: str, grade: _Grade, *, tight: bool) -> bool:
    """Whether an unquoted value is a secret. `tight`: in shell syntax, so it cannot be a program's expression."""
    if grade is _Grade.LINE or (grade is _Grade.SURE and tight):
        return True
    if _CODE.match(value):
        return False
    return grade is _Grade.SURE or (
        len(value) >= LIKELY_CHARS_MIN and not value.isdigit() and not _reads_like_words(value)
    )


def _is_harmless(value: str) -> bool:
    return _compiled(_HARMLESS, re.IGNORECASE | re.DOTALL).fullmatch(value.strip(" \t\\")) is not None


def _reads_like_words(value: str) -> bool:
    """Letters only, as in a sentence; a key has a digit somewhere or mixes its cases."""
    return all(
        not word
        or (
            _WORDS.fullmatch(word)
            and (word.islower() or word.isupper() or word[1:].islower() or len(word) < 16)
        )
        for word in _WORD_BORDERS.split(value)
    )


@lru_cache(maxsize=4096)
def _grade(name: str) -> _Grade:
    if (
        name.isupper()
        and re.search(rf"(?:^|[_-]|[A-Z]){_ENVIRONMENT}\Z", name)
        and name not in {"KEY", "AUTH", "PASS", "PAT", "TOKEN", "SECRET"}
    ):
        return _Grade.SURE
    plain = _CAMEL.sub("_", name.rpartition(".")[2]).lower().replace("-", "_")
    if re.search(_LINES, plain):
        return _Grade.LINE
    if re.search(_ABOUT, plain):
        return _Grade.NONE
    if re.search(_SURE, plain):
        return _Grade.SURE
    return _Grade.LIKELY if re.search(_LIKELY, plain) else _Grade.NONE
