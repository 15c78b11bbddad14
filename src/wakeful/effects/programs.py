"""Classifies one command by its words: subcommands, tasks, wrappers, sed and awk, and clients of servers.

For clients of servers, methods, bodies, verbs and statements decide; a database command is remote unless
every statement on the line only reads. A word that only the running shell knows never makes a command
harmless. Commands that run other commands are in `effects/shell.py`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from wakeful.effects.rules import RANK, TASK_WORDS, TASK_WORDS_REMOTE, EffectRule, Verbs
from wakeful.effects.shell_parser import UNQUOTED_UNKNOWN, has_computed_index, has_unknown_part

# Longer scripts of sed, awk and SQL are not searched: their patterns take time that grows with the square.
SCRIPT_CHARS_MAX: Final = 2048


def worst(rules: Iterator[EffectRule]) -> EffectRule:
    return max(rules, key=RANK.__getitem__, default=EffectRule.READS)


def operands(words: Sequence[str], valued: frozenset[str] = frozenset()) -> list[str]:
    """The words after the program without options and their values."""
    found: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if word == "--":
            found += rest
        elif word in valued:
            next(rest, None)
        elif not word.startswith("-") or word == "-":
            found.append(word)
    return found


def with_next(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each word with the next one; the last one with an empty word."""
    return pairwise([*words, ""])


def by_verb(words: Sequence[str], verbs: Verbs) -> tuple[EffectRule | None, list[str]]:
    """The rule of a subcommand, and the words from it on; without a rule the rest is a command or a task."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in verbs.valued else 1
    if any(UNQUOTED_UNKNOWN in word for word in words[1:at]):
        return EffectRule.HIDDEN_COMMAND, []
    if at >= len(words):
        # Without a subcommand a program shows its help, but these two install.
        installs = len(words) == 1 and words[0] in {"bundle", "yarn"}
        return EffectRule.INSTALL if installs else EffectRule.READS, []
    rest = list(words[at:])
    two, one = " ".join(rest[:2]), rest[0]
    for verb, count in ((two, 2), (one, 1)):
        if verb in verbs.runs or verb in verbs.tasks:
            return None, [verb.split()[-1], *rest[count:]]
        if verb in verbs.rules:
            return verbs.rules[verb], rest
    return (EffectRule.HIDDEN_COMMAND if has_unknown_part(one) else verbs.otherwise), rest


_TASK_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


def task_rule(name: str) -> EffectRule:
    """Only the name of a task is known."""
    if has_unknown_part(name):
        return EffectRule.HIDDEN_COMMAND
    parts = {part.lower() for part in _TASK_PART.findall(name[:200])}
    local = parts & TASK_WORDS and not parts & TASK_WORDS_REMOTE
    return EffectRule.NAMED_TASK if local else EffectRule.UNNAMED_TASK


def tasks_rule(words: Sequence[str]) -> EffectRule:
    """The tasks given to make and similar tools; without one they build the default."""
    valued = frozenset({"-C", "-f", "-j", "--directory", "--file", "--justfile", "-d", "--jobs", "-I", "-o"})
    if any("$(" in word or "`" in word for word in words):
        return EffectRule.HIDDEN_COMMAND
    names = [word for word in operands(words, valued) if "=" not in word]
    return worst(task_rule(name) for name in names) if names else EffectRule.NAMED_TASK


class Wrapper(Struct, frozen=True):
    """A program that runs the command after it: its options with values, and its operands before the command."""

    valued: str = ""
    operands: int = 0


WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "arch": Wrapper(), "builtin": Wrapper(), "caffeinate": Wrapper("-t -w"), "chronic": Wrapper(), "chrt": Wrapper(operands=1),
    "command": Wrapper(), "doas": Wrapper("-u -C"), "env": Wrapper("-u -C --unset --chdir"), "exec": Wrapper("-a"),
    "flock": Wrapper("-w -E", 1), "ionice": Wrapper("-c -n -p"), "nice": Wrapper("-n"), "nohup": Wrapper(),
    "npx": Wrapper("-p --package"), "bunx": Wrapper(), "uvx": Wrapper("--from --with -p --python"), "parallel": Wrapper("-j"),
    "pnpx": Wrapper(), "setsid": Wrapper(), "ssh-agent": Wrapper(), "stdbuf": Wrapper("-i -o -e"), "strace": Wrapper("-o -e -s"),
    "sudo": Wrapper("-u -g -h -p -C -D -R -T -U -r -t"), "taskset": Wrapper(operands=1), "time": Wrapper("-o -f"),
    "timeout": Wrapper("-s -k --signal --kill-after", 1), "unbuffer": Wrapper(), "watch": Wrapper("-n --interval"),
    "xargs": Wrapper("-I -n -P -L -d -E -s -a -J -R --max-args --max-procs --delimiter --arg-file --replace"),
}  # fmt: skip


def with_input_words(inner: list[str], options: Sequence[str]) -> list[str]:
    """A command that gets words from its input: at its end, and in place of its placeholder."""
    marks = {"{}"} | {
        following
        if option in {"-I", "-J", "--replace"}
        else re.sub(r"^(?:-[IiJ]|--replace=)", "", option, count=1)
        for option, following in with_next(options)
        if option.startswith(("-I", "-i", "-J", "--replace"))
    }
    for mark in filter(None, marks):
        inner = [word.replace(mark, UNQUOTED_UNKNOWN) for word in inner]
    return [*inner, UNQUOTED_UNKNOWN]


_RUN_VALUED: Final = frozenset(
    {
        "--with", "-p", "--python", "--extra", "--group", "--package", "-w", "--workspace", "--prefix", "--directory",
        "-C", "--cd",
    }
)  # fmt: skip


def after_options(rest: list[str]) -> list[str]:
    """The words after `run` and its options; after `--` in any case, for `mise x node@20 -- npm test`."""
    if rest[0] in {"x", "exec"} and "--" in rest:
        return rest[rest.index("--") + 1 :]
    at = 1
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "--":
        if rest[at] in {"-m", "--module", "-s", "--script"}:
            return []  # a module or script, not a program of that name
        at += 2 if rest[at] in _RUN_VALUED else 1
    return rest[at + 1 :] if rest[at : at + 1] == ["--"] else rest[at:]


# A key of git's configuration whose value is a program.
_GIT_RUNS: Final = re.compile(
    r"alias\.|pager|sshcommand|editor|external|textconv|hookspath|fsmonitor|helper|proxy|cmd|program|command|askpass"
    r"|uploadpack|receivepack|insteadof|filter\.|driver|include",
    re.IGNORECASE,
)
_GIT_OPTIONS_RUN: Final = ("--upload-pack", "--receive-pack", "--exec", "--extcmd", "--open-files-in-pager", "ext::")  # fmt: skip
_GIT_SETTINGS_HARMLESS: Final = frozenset({"", "cat", "less", "true", "false"})


def git_options(words: Sequence[str], verb_at: int) -> EffectRule:
    """Whether git's options and settings make it run a program; the subcommand is at `verb_at`."""
    verb = "".join(words[verb_at : verb_at + 1])
    settings = words if verb == "clone" else words[:verb_at]
    for option, value in with_next(settings):
        takes_next = option in {"-c", "--config-env", "--config"}
        given = value if takes_next else option.removeprefix("-c") if option.startswith("-c") else ""
        key, _, setting = given.partition("=")
        if has_unknown_part(key) or (_GIT_RUNS.search(key) and setting not in _GIT_SETTINGS_HARMLESS):
            return EffectRule.HIDDEN_COMMAND
    runs = (*_GIT_OPTIONS_RUN, *{"rebase": ("-x",), "grep": ("-O",)}.get(verb, ()))
    return EffectRule.HIDDEN_COMMAND if any(word.startswith(runs) for word in words) else EffectRule.READS


# Options with which an otherwise harmless program runs another; long ones may be abbreviated.
OPTIONS_RUN: Final[Mapping[str, tuple[str, ...]]] = {
    "ag": ("--pager",),
    "bat": ("--pager",),
    "cmake": ("-P", "-E"),
    "go": ("-toolexec", "--toolexec", "-exec", "--exec", "-vettool", "--vettool"),
    "install": ("--strip-p",),
    "make": ("--ev", "-E"),
    "rg": ("--pre", "--hostname-bin"),
    "sort": ("--comp",),
    "split": ("--filt",),
    "zip": ("-TT", "--unzip-command"),
    **dict.fromkeys(("c++", "cc", "clang", "clang++", "g++", "gcc"), ("-wrapper", "-fplugin", "-specs")),
}
# The shell computes an index in brackets and runs a substitution in it, even in a quoted word.
_COMPUTING: Final = frozenset(
    {"[", "declare", "export", "let", "local", "printf", "read", "readonly", "test", "typeset", "unset"}
)


def runs_by_option(name: str, words: Sequence[str]) -> bool:
    """Whether an option or a word makes a harmless program run something else."""
    if name in OPTIONS_RUN and any(word.startswith(OPTIONS_RUN[name]) for word in words[1:]):
        return True
    return name in _COMPUTING and any(has_computed_index(word) for word in words[1:])


_TARGET_TOOLS: Final = frozenset({"cmake", "nox", "tox"})


def names_remote_target(name: str, words: Sequence[str]) -> bool:
    """Whether a build tool gets a target named after deploying: `tox -e publish`."""
    if name not in _TARGET_TOOLS:
        return False
    parts = {part.lower() for word in words[1:] for part in _TASK_PART.findall(word[:200])}
    return bool(parts & TASK_WORDS_REMOTE)


_SED_OPTION: Final = re.compile(
    r"-[nErsuz]*(?:i.*)?|--(?:quiet|silent|regexp-extended|in-place.*|null-data|zero-terminated|separate|unbuffered|posix"
    r"|debug|sandbox|follow-symlinks|version|help)",
    re.DOTALL,
)
_SED_SCRIPT: Final = re.compile(r"-[nErsuz]*e|--expression=?")
_SED_REPLACES: Final = re.compile(
    r"([sy])([^\w\s\\;])(?:\\.|(?!\2)[^\\])*\2(?:\\.|(?!\2)[^\\])*\2([gpimIM0-9]*)(e?)", re.DOTALL
)
_SED_ADDRESS: Final = re.compile(r"/(?:\\.|[^/\\\n])*/")
_SED_TEXT: Final = re.compile(r"((?:^|[;{}\n\d$!])\s*)[aic](?:\\\n|[^\n])*")


def sed(words: Sequence[str], _stdin: str | None) -> EffectRule:
    """GNU sed has a command and a flag that run programs."""
    scripts, files, strange = _sed_line(words)
    if (
        strange
        or sum(map(len, scripts)) > SCRIPT_CHARS_MAX
        or any(UNQUOTED_UNKNOWN in word[:1] for word in [*scripts, *files])
    ):
        return EffectRule.HIDDEN_COMMAND
    if any(map(_sed_runs, scripts)):
        return EffectRule.HIDDEN_COMMAND
    in_place = any(re.match(r"-[nErsuz]*i|--in-place", word) for word in words)
    return EffectRule.LOCAL_WRITE if in_place else EffectRule.READS


def _sed_line(words: Sequence[str]) -> tuple[list[str], list[str], bool]:
    """Its scripts, its files, and whether it has an unknown option. Without -e the first operand is the script."""
    scripts: list[str] = []
    files: list[str] = []
    strange = False
    rest = iter(words[1:])
    for word in rest:
        given = _SED_SCRIPT.match(word)
        if given:
            scripts.append(word[given.end() :] or next(rest, ""))
        elif not word.startswith("-") or word == "-":
            files.append(word)
        else:
            strange = strange or not _SED_OPTION.fullmatch(word)
    return (scripts, files, strange) if scripts else (files[:1], files[1:], strange)


def _sed_runs(script: str) -> bool:
    """Whether a letter e is left without replacements, patterns and texts: it is the command that runs a program."""
    if any(found[4] for found in _SED_REPLACES.finditer(script)):
        return True
    left = _SED_ADDRESS.sub("1", _SED_REPLACES.sub("", script))
    return "e" in _SED_TEXT.sub(r"\1", left)


# A slash begins a pattern only where no value can precede it; otherwise it may be a division.
_AWK_LITERAL: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?:^|(?<=[({,;!~&}\n]))\s*/(?:[^/\\\n]|\\.)*/|\|\|')
_AWK_RUNS: Final = re.compile(r"\bsystem\b|\bgetline\b|\||@load|@include|@\w+\s*\(")


def awk(words: Sequence[str], _stdin: str | None) -> EffectRule:
    if any(
        word.startswith(("-f", "-i", "-l", "-E", "--file", "--exec", "--include", "--load")) for word in words
    ):
        return EffectRule.PROJECT_PROGRAM
    if sum(map(len, words)) > SCRIPT_CHARS_MAX:
        return EffectRule.HIDDEN_COMMAND
    for word in words[1:]:
        if "/inet" in word or UNQUOTED_UNKNOWN in word[:1]:
            return EffectRule.HIDDEN_COMMAND
        if _AWK_RUNS.search(_AWK_LITERAL.sub('""', word)):
            return EffectRule.HIDDEN_COMMAND
    return EffectRule.LOCAL_WRITE if any(">" in word for word in words[1:]) else EffectRule.READS


ProgramClassifier = Callable[[Sequence[str], str | None], EffectRule]

_READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_CURL_SHORT_VALUED: Final = "AbcCDeEFHKmoPQrtTuUwxXyYzd"
_CURL_LONG_VALUED: Final = frozenset(
    {
        "--cacert", "--cert", "--connect-timeout", "--cookie", "--cookie-jar", "--dump-header", "--header", "--key",
        "--limit-rate", "--max-redirs", "--max-time", "--output", "--output-dir", "--proxy", "--range", "--referer",
        "--request", "--resolve", "--retry", "--retry-delay", "--retry-max-time", "--unix-socket", "--url", "--user",
        "--user-agent", "--write-out",
    }
)  # fmt: skip
_CURL_FLAGS: Final = frozenset(
    {
        "", "--compressed", "--create-dirs", "--fail", "--fail-with-body", "--get", "--globoff", "--head", "--help",
        "--http1.1", "--http2", "--include", "--insecure", "--ipv4", "--ipv6", "--location", "--netrc", "--no-buffer",
        "--no-progress-meter", "--progress-bar", "--remote-name", "--remote-header-name", "--retry-all-errors",
        "--retry-connrefused", "--show-error", "--silent", "--tlsv1.2", "--tlsv1.3", "--verbose", "--version",
    }
)  # fmt: skip
_CURL_KNOWN: Final = _CURL_FLAGS | _CURL_LONG_VALUED
_CURL_BODY: Final = re.compile(r"-[dFTQ]$|--(?:data|form|json|upload-file|mail-|quote)")
# Addresses where even a GET request acts.
_ACTING_ADDRESSES: Final = re.compile(
    r"api\.telegram\.org/bot|/(?:hooks?|notify|send\w*|trigger\w*|webhooks?)(?:[/?]|$)", re.IGNORECASE
)
_REMOTE_SCHEME: Final = re.compile(r"(?!https?:|file:)[a-z]+://", re.IGNORECASE)


def _curl(words: Sequence[str], _stdin: str | None) -> EffectRule:
    method, body, as_query = "", False, False
    for option, value in _curl_options(words):
        if value[:1] == UNQUOTED_UNKNOWN or _REMOTE_SCHEME.match(value) or _ACTING_ADDRESSES.search(value):
            return EffectRule.HIDDEN_COMMAND
        if option in {"-X", "--request"}:
            method = value
        elif _CURL_BODY.match(option):
            body = True
        elif option in {"-K", "-:"} or (option.startswith("--") and option not in _CURL_KNOWN):
            return EffectRule.HIDDEN_COMMAND
        as_query = as_query or option in {"-G", "--get"}
    return _http(method, body=body and not as_query)


def _curl_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option with its value, also from a bundle such as `-sXPOST`; operands with an empty name."""
    rest = iter(words[1:])
    for word in rest:
        if word.startswith("--"):
            option, glued, value = word.partition("=")
            takes_next = not glued and option in _CURL_LONG_VALUED
            yield option, next(rest, "") if takes_next else value
        elif word.startswith("-"):
            yield from _bundle(word, rest)
        else:
            yield "", word


def _bundle(word: str, rest: Iterator[str]) -> Iterator[tuple[str, str]]:
    for place, letter in enumerate(word[1:], start=2):
        if letter in _CURL_SHORT_VALUED:
            yield f"-{letter}", word[place:] or next(rest, "")
            return
        yield f"-{letter}", ""


def _http(method: str, *, body: bool) -> EffectRule:
    if has_unknown_part(method):
        return EffectRule.HIDDEN_COMMAND
    if method.upper() in _READING_METHODS or (not method and not body):
        return EffectRule.NETWORK_READ
    return EffectRule.HTTP_WRITE


def _wget(words: Sequence[str], _stdin: str | None) -> EffectRule:
    method, body = "", False
    for word, following in with_next(words):
        if word[:1] == UNQUOTED_UNKNOWN or word.startswith(("--use-askpass", "-e", "--execute")):
            return EffectRule.HIDDEN_COMMAND
        if word.startswith("--met"):
            method = word.partition("=")[2] or following
        body = body or word.startswith(("--post", "--bo")) or _ACTING_ADDRESSES.search(word) is not None
    return _http(method, body=body)


_HTTPIE_ITEM: Final = re.compile(r"[^:/=@\s]+(?::?=|=?@)")


def _httpie(words: Sequence[str], stdin: str | None) -> EffectRule:
    given = operands(words, frozenset({"-a", "--auth", "-o", "--output", "--session", "--timeout"}))
    if not given or given[0][:1] == UNQUOTED_UNKNOWN:
        return EffectRule.HIDDEN_COMMAND
    method = given[0] if given[0].isalpha() and given[0].isupper() else ""
    body = stdin is not None or any(_HTTPIE_ITEM.match(item) and "==" not in item for item in given[1:])
    body = body or any(word.startswith(("--raw", "-f", "--form", "--multipart")) for word in words)
    # Without a method the request depends on piped input.
    return _http(method, body=body) if method or body else EffectRule.HIDDEN_COMMAND


_GRAPHQL_MUTATES: Final = re.compile(r"\b(?:mutation|subscription)\b", re.IGNORECASE)


def gh_api_rule(rest: Sequence[str], stdin: str | None) -> EffectRule:
    """`gh api`: GET unless it has a field, a body or another method; in GraphQL only a visible query reads."""
    method, fields = "", []
    for word, following in with_next(rest):
        if word in {"-X", "--method"}:
            method = following
        elif word.startswith(("-X", "--method=")):
            method = word.removeprefix("--method=").removeprefix("-X").removeprefix("=")
        elif word in {"-f", "-F", "--field", "--raw-field", "--input"}:
            fields.append(following)
        elif word.startswith(("-f", "-F", "--field=", "--raw-field=", "--input=")):
            fields.append(re.sub(r"^(?:-[fF]|--[a-z-]+)=?", "", word, count=1))
        elif word[:1] == UNQUOTED_UNKNOWN:
            return EffectRule.HIDDEN_COMMAND
    if "graphql" in rest[1:3] or any(word.endswith("graphql") for word in rest):
        queries = [field.partition("=")[2] for field in fields if field.startswith("query=")]
        text = " ".join(queries) + (stdin or "")
        if _GRAPHQL_MUTATES.search(text):
            return EffectRule.FORGE_WRITE
        reads = bool(queries) and all(re.match(r"\s*(?:query\b|\{|fragment\b|#)", query) for query in queries)
        return EffectRule.NETWORK_READ if reads else EffectRule.FORGE_WRITE
    rule = _http(method, body=bool(fields))
    return EffectRule.FORGE_WRITE if rule is EffectRule.HTTP_WRITE else rule


_CLOUD_READS: Final = re.compile(
    r"(?:list|describe|show|get|search|ls|head|info|version|help|whoami)(?:-[a-z-]+)?$"
)
_CLOUD_WRITES: Final = re.compile(
    r"(?:create|delete|update|set|add|remove|put|apply|deploy|run-|start|stop|restart|reset|replace|patch|import|cp|mv|rm"
    r"|sync|submit|ssh|scp|invoke|publish|enable|disable|attach|detach|tag|untag|terminate|reboot|upload|resize|call"
    r"|send|purge|restore|rotate|move|copy|promote|rollback|execute|assign|grant|revoke|exec|push|register)(?:-|$)"
)


def _cloud(words: Sequence[str], _stdin: str | None) -> EffectRule:
    """aws, gcloud, az: the first verb of the command path decides; without a reading verb it is a change."""
    valued = frozenset(
        {"--profile", "--region", "--project", "--output", "-o", "--subscription", "--endpoint-url"}
    )
    path = operands(words, valued)
    for word in path[1:2] if words[0] == "aws" else path[:6]:
        if has_unknown_part(word):
            return EffectRule.HIDDEN_COMMAND
        if _CLOUD_WRITES.match(word):
            break
        if _CLOUD_READS.match(word):
            return EffectRule.NETWORK_READ
    reads = words[1:] and words[1] in {"--version", "version", "help"}
    return EffectRule.NETWORK_READ if reads else EffectRule.CLOUD_WRITE


_SQL_READS: Final = re.compile(
    r"\s*(?:select|show|explain(?!\s+\(?\s*analy)|describe|desc|use|\\[dlz]|\\conninfo|$)", re.IGNORECASE
)
_SQL_CHANGES: Final = re.compile(
    r"\b(?:insert|update|delete|drop|alter|create|truncate|grant|revoke|call|do|into|copy|merge|replace|lock|vacuum"
    r"|set|execute|perform|load|import|\w*(?:nextval|setval|dblink|pg_\w+|lo_\w+|sleep|notify))\b|\\(?![dlz])|!",
    re.IGNORECASE,
)
_SQL_OPTION: Final = re.compile(r"-[A-Za-z]*[ce]|--command|--execute")
_SQL_FUNCTION: Final = re.compile(r"(\w+)\s*\(")
_SQL_FUNCTIONS_READ: Final = frozenset(
    {
        "abs", "and", "any", "array_agg", "avg", "by", "cast", "coalesce", "concat", "count", "date", "date_trunc", "extract",
        "exists", "from", "group_concat", "in", "join", "json_agg", "length", "lower", "max", "min", "not", "now", "or",
        "round", "string_agg", "substr", "substring", "sum", "to_char", "trim", "upper", "values", "version", "where",
    }
)  # fmt: skip


def _database(words: Sequence[str], stdin: str | None) -> EffectRule:
    """psql, mysql: reads if every statement on the line reads, and there is no other input."""
    if stdin is not None or any(
        re.match(r"-[A-Za-z0-9]*f|--file|(?:-o|--output=)?\s*\|", word) for word in words[1:]
    ):
        return EffectRule.DATABASE
    given = [
        following if _SQL_OPTION.fullmatch(word) else re.sub(r"^(?:-[ce]|--\w+=)", "", word, count=1)
        for word, following in with_next(words)
        if _SQL_OPTION.match(word)
    ]
    if words[1:] in (["--version"], ["--help"], ["-V"], ["-l"], ["--list"]):
        return EffectRule.NETWORK_READ
    return EffectRule.NETWORK_READ if given and all(map(_sql_reads, given)) else EffectRule.DATABASE


def _sql_reads(text: str) -> bool:
    if has_unknown_part(text) or len(text) > SCRIPT_CHARS_MAX or _SQL_CHANGES.search(text):
        return False
    functions = {name.lower() for name in _SQL_FUNCTION.findall(text)}
    return functions <= _SQL_FUNCTIONS_READ and all(map(_SQL_READS.match, text.split(";")))


_REDIS_READS: Final = frozenset(
    {
        "get", "mget", "keys", "scan", "ttl", "pttl", "type", "info", "ping", "llen", "lrange", "lindex", "hget",
        "hgetall", "hkeys", "hvals", "hlen", "hmget", "exists", "smembers", "scard", "sismember", "zrange", "zcard",
        "zscore", "xlen", "xrange", "xinfo", "xpending", "dbsize", "strlen", "time", "object",
    }
)  # fmt: skip


def _redis(words: Sequence[str], stdin: str | None) -> EffectRule:
    valued = frozenset({"-h", "-p", "-n", "-a", "-u", "-s", "--user", "--pass"})
    given = operands(words, valued)
    if any(word.startswith(("--pipe", "--eval", "-x", "-X", "-r", "-i")) for word in words):
        return EffectRule.DATABASE
    reads = bool(given) and given[0].lower() in _REDIS_READS and stdin is None
    return EffectRule.NETWORK_READ if reads else EffectRule.DATABASE


def _sqlite(words: Sequence[str], stdin: str | None) -> EffectRule:
    """The database is a local file, but its client can run programs."""
    if "-init" in words or (stdin is None and len(operands(words, frozenset({"-cmd", "-separator"}))) < 2):
        return EffectRule.HIDDEN_COMMAND
    text = " ".join([*words, stdin or ""])
    runs = re.search(r"\.(?:sh|sy|imp|re|o|ex|lo)|load_extension|install", text)
    return EffectRule.HIDDEN_COMMAND if runs else EffectRule.LOCAL_WRITE


_HOST: Final = re.compile(r"[^/\s]*:(?!\\)|(?:rsync|scp|sftp)://")


def _tar(words: Sequence[str], _stdin: str | None) -> EffectRule:
    """tar can run a compressor or command, and takes `host:file` for another machine."""
    bundles = [word for at, word in enumerate(words[1:]) if re.match(r"-(?!-)", word) or at == 0]
    if any("I" in word or "F" in word for word in bundles) or any(
        word.startswith(_TAR_RUNS) for word in words
    ):
        return EffectRule.HIDDEN_COMMAND
    return EffectRule.OTHER_HOST if any(_HOST.match(word) for word in words[1:]) else EffectRule.LOCAL_WRITE


_TAR_RUNS: Final = ("--to-", "--checkpoint-", "--use-c", "--info-s", "--new-v", "--rsh", "--rmt")


def _copy(words: Sequence[str], _stdin: str | None) -> EffectRule:
    """scp, rsync: only copying to a host changes something there."""
    given = operands(words, frozenset({"-e", "--rsh", "-i", "-P", "-p", "-o", "-F", "-l", "-c", "-J", "-S"}))
    if any(word.startswith(("-e", "--rsh", "-S", "--remove-source", "--rsync-path")) for word in words):
        return EffectRule.OTHER_HOST
    if (
        not given
        or any(UNQUOTED_UNKNOWN in word for word in given)
        or has_unknown_part(given[-1].split("/", 1)[0])
    ):
        return EffectRule.OTHER_HOST
    return EffectRule.OTHER_HOST if _HOST.match(given[-1]) else EffectRule.LOCAL_WRITE


PROGRAM_CLASSIFIERS: Final[Mapping[str, ProgramClassifier]] = {
    "awk": awk, "aws": _cloud, "az": _cloud, "curl": _curl, "gcloud": _cloud, "gsutil": _cloud, "http": _httpie,
    "https": _httpie, "mariadb": _database, "mysql": _database, "psql": _database, "redis-cli": _redis, "rsync": _copy,
    "scp": _copy, "sed": sed, "sqlite3": _sqlite,
    "tar": _tar, "duckdb": _sqlite, "wget": _wget, "xh": _httpie,
}  # fmt: skip
