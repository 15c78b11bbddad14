"""What a client of a server may have changed there, by its words: methods, bodies, verbs and statements.

A word that only the running shell knows decides nothing in favour of a command. Databases are remote unless every
statement on the line only reads.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from wakeful.effects.command_effects import SCRIPT_CHARS_MAX, awk, operands, sed, with_next
from wakeful.effects.rules import Rule
from wakeful.effects.shell_words import LOOSE, is_open

Look = Callable[[Sequence[str], str | None], Rule]

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
# Addresses where even asking acts.
_ASKING_ACTS: Final = re.compile(
    r"api\.telegram\.org/bot|/(?:hooks?|notify|send\w*|trigger\w*|webhooks?)(?:[/?]|$)", re.IGNORECASE
)
_SCHEME_AFAR: Final = re.compile(r"(?!https?:|file:)[a-z]+://", re.IGNORECASE)


def _curl(words: Sequence[str], _stdin: str | None) -> Rule:
    method, body, as_query = "", False, False
    for option, value in _curl_options(words):
        if value[:1] == LOOSE or _SCHEME_AFAR.match(value) or _ASKING_ACTS.search(value):
            return Rule.HIDDEN_COMMAND
        if option in {"-X", "--request"}:
            method = value
        elif _CURL_BODY.match(option):
            body = True
        elif option in {"-K", "-:"} or (option.startswith("--") and option not in _CURL_KNOWN):
            return Rule.HIDDEN_COMMAND
        as_query = as_query or option in {"-G", "--get"}
    return _http(method, body=body and not as_query)


def _curl_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option with its value, also from a bundle such as `-sXPOST`; operands under no name."""
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


def _http(method: str, *, body: bool) -> Rule:
    if is_open(method):
        return Rule.HIDDEN_COMMAND
    if method.upper() in _READING_METHODS or (not method and not body):
        return Rule.NETWORK_READ
    return Rule.HTTP_WRITE


def _wget(words: Sequence[str], _stdin: str | None) -> Rule:
    method, body = "", False
    for word, following in with_next(words):
        if word[:1] == LOOSE or word.startswith(("--use-askpass", "-e", "--execute")):
            return Rule.HIDDEN_COMMAND
        if word.startswith("--met"):
            method = word.partition("=")[2] or following
        body = body or word.startswith(("--post", "--bo")) or _ASKING_ACTS.search(word) is not None
    return _http(method, body=body)


_HTTPIE_ITEM: Final = re.compile(r"[^:/=@\s]+(?::?=|=?@)")


def _httpie(words: Sequence[str], stdin: str | None) -> Rule:
    given = operands(words, frozenset({"-a", "--auth", "-o", "--output", "--session", "--timeout"}))
    if not given or given[0][:1] == LOOSE:
        return Rule.HIDDEN_COMMAND
    method = given[0] if given[0].isalpha() and given[0].isupper() else ""
    body = stdin is not None or any(_HTTPIE_ITEM.match(item) and "==" not in item for item in given[1:])
    body = body or any(word.startswith(("--raw", "-f", "--form", "--multipart")) for word in words)
    # Without a method it depends on whether something is piped in.
    return _http(method, body=body) if method or body else Rule.HIDDEN_COMMAND


_GRAPHQL_MUTATES: Final = re.compile(r"\b(?:mutation|subscription)\b", re.IGNORECASE)


def forge_api(rest: Sequence[str], stdin: str | None) -> Rule:
    """`gh api`: GET unless a field, a body or another method is given; of GraphQL only a visible query reads."""
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
        elif word[:1] == LOOSE:
            return Rule.HIDDEN_COMMAND
    if "graphql" in rest[1:3] or any(word.endswith("graphql") for word in rest):
        return _graphql(fields, stdin)
    rule = _http(method, body=bool(fields))
    return Rule.FORGE_WRITE if rule is Rule.HTTP_WRITE else rule


def _graphql(fields: Sequence[str], stdin: str | None) -> Rule:
    queries = [field.partition("=")[2] for field in fields if field.startswith("query=")]
    text = " ".join(queries) + (stdin or "")
    if _GRAPHQL_MUTATES.search(text):
        return Rule.FORGE_WRITE
    seen = bool(queries) and all(re.match(r"\s*(?:query\b|\{|fragment\b|#)", query) for query in queries)
    return Rule.NETWORK_READ if seen else Rule.FORGE_WRITE


_CLOUD_READS: Final = re.compile(
    r"(?:list|describe|show|get|search|ls|head|info|version|help|whoami)(?:-[a-z-]+)?$"
)
_CLOUD_WRITES: Final = re.compile(
    r"(?:create|delete|update|set|add|remove|put|apply|deploy|run-|start|stop|restart|reset|replace|patch|import|cp|mv|rm"
    r"|sync|submit|ssh|scp|invoke|publish|enable|disable|attach|detach|tag|untag|terminate|reboot|upload|resize|call"
    r"|send|purge|restore|rotate|move|copy|promote|rollback|execute|assign|grant|revoke|exec|push|register)(?:-|$)"
)


def _cloud(words: Sequence[str], _stdin: str | None) -> Rule:
    """aws, gcloud, az: the first word of the path that is a verb decides; none that reads means a change."""
    valued = frozenset(
        {"--profile", "--region", "--project", "--output", "-o", "--subscription", "--endpoint-url"}
    )
    path = operands(words, valued)
    for word in path[1:2] if words[0] == "aws" else path[:6]:
        if is_open(word):
            return Rule.HIDDEN_COMMAND
        if _CLOUD_WRITES.match(word):
            break
        if _CLOUD_READS.match(word):
            return Rule.NETWORK_READ
    return (
        Rule.NETWORK_READ if words[1:] and words[1] in {"--version", "version", "help"} else Rule.CLOUD_WRITE
    )


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


def _database(words: Sequence[str], stdin: str | None) -> Rule:
    """psql, mysql: reads if every statement on the line does, and nothing comes from elsewhere."""
    if stdin is not None or any(
        re.match(r"-[A-Za-z0-9]*f|--file|(?:-o|--output=)?\s*\|", word) for word in words[1:]
    ):
        return Rule.DATABASE
    given = [
        following if _SQL_OPTION.fullmatch(word) else re.sub(r"^(?:-[ce]|--\w+=)", "", word, count=1)
        for word, following in with_next(words)
        if _SQL_OPTION.match(word)
    ]
    if words[1:] in (["--version"], ["--help"], ["-V"], ["-l"], ["--list"]):
        return Rule.NETWORK_READ
    return Rule.NETWORK_READ if given and all(map(_sql_reads, given)) else Rule.DATABASE


def _sql_reads(text: str) -> bool:
    if is_open(text) or len(text) > SCRIPT_CHARS_MAX or _SQL_CHANGES.search(text):
        return False
    functions = {name.lower() for name in _SQL_FUNCTION.findall(text)}
    return functions <= _SQL_FUNCTIONS_READ and all(map(_SQL_READS.match, text.split(";")))


_REDIS_READS: Final = frozenset(
    {
        "get",
        "mget",
        "keys",
        "scan",
        "ttl",
        "pttl",
        "type",
        "info",
        "ping",
        "llen",
        "lrange",
        "lindex",
        "hget",
        "hgetall",
        "hkeys",
        "hvals",
        "hlen",
        "hmget",
        "exists",
        "smembers",
        "scard",
        "sismember",
        "zrange",
        "zcard",
        "zscore",
        "xlen",
        "xrange",
        "xinfo",
        "xpending",
        "dbsize",
        "strlen",
        "time",
        "object",
    }
)


def _redis(words: Sequence[str], stdin: str | None) -> Rule:
    valued = frozenset({"-h", "-p", "-n", "-a", "-u", "-s", "--user", "--pass"})
    given = operands(words, valued)
    if any(word.startswith(("--pipe", "--eval", "-x", "-X", "-r", "-i")) for word in words):
        return Rule.DATABASE
    reads = bool(given) and given[0].lower() in _REDIS_READS and stdin is None
    return Rule.NETWORK_READ if reads else Rule.DATABASE


def _sqlite(words: Sequence[str], stdin: str | None) -> Rule:
    """A file of this machine; but its client can run programs."""
    if "-init" in words or (stdin is None and len(operands(words, frozenset({"-cmd", "-separator"}))) < 2):
        return Rule.HIDDEN_COMMAND
    text = " ".join([*words, stdin or ""])
    return (
        Rule.HIDDEN_COMMAND
        if re.search(r"\.(?:sh|sy|imp|re|o|ex|lo)|load_extension|install", text)
        else Rule.LOCAL_WRITE
    )


_HOST: Final = re.compile(r"[^/\s]*:(?!\\)|(?:rsync|scp|sftp)://")


def _tar(words: Sequence[str], _stdin: str | None) -> Rule:
    """tar runs a compressor or a command it is given, and takes `host:file` for another machine."""
    bundles = [word for at, word in enumerate(words[1:]) if re.match(r"-(?!-)", word) or at == 0]
    if any("I" in word or "F" in word for word in bundles) or any(
        word.startswith(_TAR_RUNS) for word in words
    ):
        return Rule.HIDDEN_COMMAND
    return Rule.OTHER_HOST if any(_HOST.match(word) for word in words[1:]) else Rule.LOCAL_WRITE


_TAR_RUNS: Final = ("--to-", "--checkpoint-", "--use-c", "--info-s", "--new-v", "--rsh", "--rmt")


def _copy(words: Sequence[str], _stdin: str | None) -> Rule:
    """scp, rsync: copying from a host changes nothing there, copying to it does."""
    given = operands(words, frozenset({"-e", "--rsh", "-i", "-P", "-p", "-o", "-F", "-l", "-c", "-J", "-S"}))
    if any(word.startswith(("-e", "--rsh", "-S", "--remove-source", "--rsync-path")) for word in words):
        return Rule.OTHER_HOST
    if not given or any(LOOSE in word for word in given) or is_open(given[-1].split("/", 1)[0]):
        return Rule.OTHER_HOST
    return Rule.OTHER_HOST if _HOST.match(given[-1]) else Rule.LOCAL_WRITE


LOOKS: Final[Mapping[str, Look]] = {
    "awk": awk, "aws": _cloud, "az": _cloud, "curl": _curl, "gcloud": _cloud, "gsutil": _cloud, "http": _httpie,
    "https": _httpie, "mariadb": _database, "mysql": _database, "psql": _database, "redis-cli": _redis, "rsync": _copy,
    "scp": _copy, "sed": sed, "sqlite3": _sqlite,
    "tar": _tar, "duckdb": _sqlite, "wget": _wget, "xh": _httpie,
}  # fmt: skip
