"""Classifies code on a command line by the names it uses, and finds the tool calls in Codex scripts.

Code is local only if every module it loads is on a list, and no word in it reaches the network, another
program, or a way to compute such a name. Codex lets its model write JavaScript that calls tools. A script
that calls tools in another way than `tools.name(...)`, or builds its texts at run time, is not `whole`.
Code is never run, only split into words.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from unicodedata import normalize

from msgspec import Struct, field

from wakeful.effects.rules import EffectRule
from wakeful.effects.shell_parser import has_unknown_part

# Longer code is not analysed; the longest recorded had 6 KB.
CODE_CHARS_MAX: Final = 65_536


class Language(Struct, frozen=True):
    """How a language loads modules, which modules are local, and which words can do too much to be classified."""

    loads: re.Pattern[str]
    modules: frozenset[str]
    mighty: re.Pattern[str]


_PYTHON_MODULES: Final = frozenset(
    {
        "argparse", "array", "base64", "bisect", "calendar", "collections", "collections.abc", "configparser",
        "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch", "fractions", "functools",
        "glob", "gzip", "hashlib", "heapq", "html", "io", "itertools", "json", "locale", "logging", "math", "numpy",
        "os", "os.path", "pathlib", "platform", "pprint", "random", "re", "shutil", "sqlite3", "statistics",
        "string", "struct", "sys", "tarfile", "tempfile", "textwrap", "time", "tokenize", "toml", "tomllib",
        "traceback", "unicodedata", "uuid", "xml.etree.ElementTree", "yaml", "zipfile", "zlib",
    }
)  # fmt: skip
_PYTHON: Final = Language(
    re.compile(r"\bfrom\s+([\w.]+)\s+import\b|\bimport\s+([\w., \t]+)|\bimport\b\s*(\(|\\)"),
    _PYTHON_MODULES,
    re.compile(
        r"\b(?:system|popen\w*|exec\w*|spawn\w*|posix_spawn\w*|startfile|eval|compile|__import__|import_module|getattr"
        r"|globals|locals|vars|builtins|modules|load_extension|fork\w*"
        r"|__(?!name__|file__|main__|init__|version__|doc__|len__|str__)\w+__)\b"
        r"|yaml\.(?:unsafe_)?load\b|https?://"
    ),
)
_NODE: Final = Language(
    re.compile(
        r"\brequire\s*\(\s*(?:['\"](?:node:)?([\w./-]+)['\"]|(.))|\bfrom\s*['\"](?:node:)?([\w./-]+)['\"]"
    ),
    frozenset(
        {"assert", "crypto", "events", "fs", "fs/promises", "os", "path", "readline", "url", "util", "zlib"}
    ),
    re.compile(
        r"\b(?:fetch|XMLHttpRequest|WebSocket|EventSource|https?|http2|net|tls|dgram|child_process|exec\w*|spawn\w*|eval"
        r"|Function|constructor|globalThis|global|this|Reflect|binding|dlopen|import|vm|Worker|cluster|sendBeacon"
        r"|createRequire|mainModule|module|Bun|Deno)\b|\\[ux]|\brequire\b(?!\s*\()"
        # A member whose name is computed.
        r"|[\w)\]]\s{0,9}\[[^\]]{0,99}[+(`]"
    ),
)
_PERL: Final = Language(
    re.compile(r"\b(?:use|require|no)\s+([\w:.]+)"),
    frozenset(
        {"strict", "warnings", "utf8", "POSIX", "List::Util", "JSON::PP", "Data::Dumper", "Time::HiRes"}
    ),
    re.compile(
        r"`|\b(?:system|exec|qx|open\w*|socket|eval|do\s+['\"$]|fork|syscall|readpipe|glob|connect|send|bind|pipe)\b"
        # Computed names, patterns that contain code, replacements that are evaluated twice.
        r"|&\s*[{$]|->\s*[($]|\(\?\??\{|[^\w\s][a-z]*e[a-z]*e[a-z]*\s*(?:;|$)"
    ),
)
LANGUAGES: Final[Mapping[str, Language]] = {"python": _PYTHON, "node": _NODE, "perl": _PERL}
# Names in code that changes something remote.
_REMOTE_WRITES: Final = re.compile(
    r"\.\s*(?:post|put|patch|delete|sendmail|send_message)\s*\(|method\s*[:=]\s*['\"](?:post|put|patch|delete)"
    r"|git['\", ]+push|urlopen\([^)]{0,300}data",
    re.IGNORECASE,
)


def code_rule(language: str, code: str | None) -> EffectRule:
    """The rule for a text of code; `None`, or a text with parts that only the shell knows, is unseen code."""
    known = LANGUAGES.get(language)
    if code is None or known is None or len(code) > CODE_CHARS_MAX:
        return EffectRule.UNSEEN_CODE
    # Python treats full-width letters like plain ones.
    code = normalize("NFKC", code)
    if known.mighty.search(code) or has_unknown_part(code) or not _modules(known, code) <= known.modules:
        return EffectRule.HTTP_WRITE if _REMOTE_WRITES.search(code) else EffectRule.UNSEEN_CODE
    return EffectRule.INLINE_CODE


def _modules(language: Language, code: str) -> set[str]:
    """The modules a text loads; an unreadable name is a module that is on no list."""
    found: set[str] = set()
    for groups in language.loads.findall(code):
        names = "".join(groups) or "?"
        found |= {part.split()[0] for part in names.split(",") if part.strip()}
    return found


# Modules that are programs of the same name; any other may belong to the project.
_MODULES: Final = frozenset(
    {
        "alembic", "black", "compileall", "coverage", "flake8", "isort", "json.tool", "mkdocs", "mypy", "nox", "pip",
        "py_compile", "pyflakes", "pylint", "pytest", "ruff", "tox", "twine", "unittest", "venv", "virtualenv",
    }
)  # fmt: skip
_FROM_INPUT: Final = frozenset({"-", "/dev/stdin"})


def python_line(words: Sequence[str], stdin: str | None) -> tuple[EffectRule, list[str]]:
    """The rule for a Python command, or the words of the well-known module it runs."""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] not in _FROM_INPUT:
        option, given = words[at], list(words[at + 1 :])
        if re.fullmatch(r"-[a-zA-Z]*c", option):
            return code_rule("python", "".join(given[:1])), []
        if re.fullmatch(r"-[a-zA-Z]*m", option):
            return EffectRule.PROJECT_PROGRAM, given if given and given[0] in _MODULES else []
        if option in {"-V", "--version", "--help", "-h"}:
            return EffectRule.READS, []
        if not re.fullmatch(r"-[bBdEiIOPqsSuvx]+|-[WX]", option):
            return EffectRule.UNSEEN_CODE, []
        at += 2 if option in {"-W", "-X"} else 1
    if at < len(words) and words[at] not in _FROM_INPUT:
        return EffectRule.PROJECT_PROGRAM, []
    return code_rule("python", stdin), []


def node_line(words: Sequence[str], stdin: str | None) -> EffectRule:
    for at, word in enumerate(words[1:], start=1):
        if re.fullmatch(r"-[pe]+|--eval|--print", word):
            return code_rule("node", "".join(words[at + 1 : at + 2]))
        if word in {"-v", "--version", "--help", "--check", "-c"}:
            return EffectRule.READS
        if word == "--test":
            return EffectRule.TEST_OR_BUILD
        if word != "-":
            return EffectRule.UNSEEN_CODE if word.startswith("-") else EffectRule.PROJECT_PROGRAM
    return code_rule("node", stdin)


def perl_line(words: Sequence[str], stdin: str | None) -> EffectRule:
    """The rule for a Perl command. Perl also runs a file name that ends with `|`."""
    code, rest = "", iter(words[1:])
    for word in rest:
        if re.fullmatch(r"-[0-9lnpaiw]*[eE]", word):
            code += "\n" + next(rest, "")
        elif (
            "|" in word
            or has_unknown_part(word[:1])
            or (word.startswith("-") and not re.fullmatch(r"-[0-9lnpaw]+|-[0-9lnpaw]*i(?:\.\w+)?", word))
        ):
            return EffectRule.UNSEEN_CODE
        elif not word.startswith("-") and not code:
            return EffectRule.PROJECT_PROGRAM
    return code_rule("perl", code or stdin)


# Four times the longest recorded script.
SCRIPT_CHARS_MAX: Final = 65_536

_SIGN: Final = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`"
    r"|\.\.\.|[A-Za-z_$][\w$]*|[^\s\w]",
    re.DOTALL,
)
_OPAQUE_NAMES: Final = frozenset(
    {
        "Deno", "Function", "Reflect", "Worker", "XMLHttpRequest", "WebSocket", "constructor", "eval", "fetch", "global",
        "globalThis", "import", "process", "require", "this", "with",
    }
)  # fmt: skip
# The arguments that decide what a call does.
_DECIDING_ARGUMENTS: Final = {"cmd", "command", "chars"}
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")


class ScriptToolCall(Struct, frozen=True):
    """A tool call. `argument`: its command or typed text, if the script has it as a literal."""

    tool: str
    argument: str | None = None


class ToolScript(Struct):
    """The calls of a script, all its texts, and whether all of it was understood."""

    calls: list[ScriptToolCall] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    whole: bool = True


def read_tool_script(code: str) -> ToolScript:
    """The tool calls of a script. Never raises; linear time."""
    signs = [sign for sign in _SIGN.findall(code[:SCRIPT_CHARS_MAX]) if not sign.startswith(("//", "/*"))]
    script = ToolScript(whole=len(code) <= SCRIPT_CHARS_MAX)
    for at, sign in enumerate(signs):
        if sign[0] in "\"'`":
            script.whole = script.whole and len(sign) > 1
            script.texts.append(_text(sign) or "")
        elif sign == "tools" and signs[at - 1 : at] != ["."]:
            _add_call(script, signs, at)
        elif sign in _OPAQUE_NAMES or "\\" in sign:
            script.whole = False
    return script


def _add_call(script: ToolScript, signs: list[str], at: int) -> None:
    dot, name, opening = (*signs[at + 1 : at + 4], "", "", "")[:3]
    if dot != "." or opening != "(":
        script.whole = False
        return
    literal, is_whole = _argument(signs, at + 4)
    script.calls.append(ScriptToolCall(name, literal))
    script.whole = script.whole and is_whole


def _argument(signs: list[str], at: int) -> tuple[str | None, bool]:
    """The deciding argument of a call, and whether it is complete in the script's text."""
    depth = 1
    while at < len(signs) and depth:
        sign = signs[at]
        depth += (sign in _OPEN) - (sign in _CLOSE)
        key = sign.strip("\"'")
        if key in _DECIDING_ARGUMENTS and depth == 2:
            colon, value, following = (*signs[at + 1 : at + 4], "", "", "")[:3]
            text = _text(value) if colon == ":" else None
            plain = text is not None and following in {",", "}"} and not (value[0] == "`" and "${" in value)
            return text, plain
        if sign == "...":
            return None, False
        at += 1
    return None, True


_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "\n": ""}


def _text(sign: str) -> str | None:
    """The text of a literal; placeholders of a template become shell variables."""
    if not sign or sign[0] not in "\"'`" or len(sign) < 2:
        return None
    body = sign[1:-1]
    if sign[0] == "`":
        body = re.sub(r"(?<!\\)\$\{[^}`]*\}", "$filled", body)
    return _ESCAPE.sub(_unescape, body)


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, code)
