"""What one command may have changed, by its words: subcommands, tasks, wrappers, and the scripts of sed and awk.

Only the words are looked at; whoever runs another command inside is the business of shell_effects. A word that only
the running shell knows decides nothing in favour of a command.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from wakeful.effects.rules import RANK, TASK_WORDS, TASK_WORDS_AFAR, Rule, Verbs
from wakeful.effects.shell_words import LOOSE, computes, is_open

# Longer scripts of sed, awk and SQL are not searched: their patterns take time that grows with the square.
SCRIPT_CHARS_MAX: Final = 2048


def worst(rules: Iterator[Rule]) -> Rule:
    """Of several parts the one that speaks for the whole."""
    return max(rules, key=RANK.__getitem__, default=Rule.READS)


def operands(words: Sequence[str], valued: frozenset[str] = frozenset()) -> list[str]:
    """The words behind the program that are no options, nor the values of options that take one."""
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
    """Each word with the one behind it, the last one with none."""
    return pairwise([*words, ""])


def by_verb(words: Sequence[str], verbs: Verbs) -> tuple[Rule | None, list[str]]:
    """The rule of a subcommand, and the words from the subcommand on; no rule: the rest runs a command or a task."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in verbs.valued else 1
    if any(LOOSE in word for word in words[1:at]):
        return Rule.HIDDEN_COMMAND, []
    if at >= len(words):
        # Without a subcommand a program shows its help, but these two install.
        return (Rule.INSTALL if len(words) == 1 and words[0] in {"bundle", "yarn"} else Rule.READS), []
    return _rule_of(list(words[at:]), verbs)


def _rule_of(rest: list[str], verbs: Verbs) -> tuple[Rule | None, list[str]]:
    two, one = " ".join(rest[:2]), rest[0]
    for verb, count in ((two, 2), (one, 1)):
        if verb in verbs.runs or verb in verbs.tasks:
            return None, [verb.split()[-1], *rest[count:]]
        if verb in verbs.rules:
            return verbs.rules[verb], rest
    return (Rule.HIDDEN_COMMAND if is_open(one) else verbs.otherwise), rest


_TASK_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


def task_rule(name: str) -> Rule:
    """A task is known by its name alone."""
    if is_open(name):
        return Rule.HIDDEN_COMMAND
    parts = {part.lower() for part in _TASK_PART.findall(name[:200])}
    local = parts & TASK_WORDS and not parts & TASK_WORDS_AFAR
    return Rule.NAMED_TASK if local else Rule.UNNAMED_TASK


def tasks_rule(words: Sequence[str]) -> Rule:
    """The tasks given to make and its kin; without one the default is built."""
    valued = frozenset({"-C", "-f", "-j", "--directory", "--file", "--justfile", "-d", "--jobs", "-I", "-o"})
    if any("$(" in word or "`" in word for word in words):
        return Rule.HIDDEN_COMMAND
    names = [word for word in operands(words, valued) if "=" not in word]
    if not names:
        return Rule.NAMED_TASK
    return worst(task_rule(name) for name in names)


class Wrapper(Struct, frozen=True):
    """A program that runs the command behind it: its options that take a value, and its operands before that."""

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


def filled(inner: list[str], options: Sequence[str]) -> list[str]:
    """A command that gets words from its input: at its end, and wherever its placeholder stands."""
    marks = {"{}"} | {
        following
        if option in {"-I", "-J", "--replace"}
        else re.sub(r"^(?:-[IiJ]|--replace=)", "", option, count=1)
        for option, following in with_next(options)
        if option.startswith(("-I", "-i", "-J", "--replace"))
    }
    for mark in filter(None, marks):
        inner = [word.replace(mark, LOOSE) for word in inner]
    return [*inner, LOOSE]


_RUN_VALUED: Final = frozenset(
    {
        "--with", "-p", "--python", "--extra", "--group", "--package", "-w", "--workspace", "--prefix", "--directory",
        "-C", "--cd",
    }
)  # fmt: skip


def behind_options(rest: list[str]) -> list[str]:
    """What follows `run` and its options; behind `--` in any case, for `mise x node@20 -- npm test`."""
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
_GIT_OPTIONS_RUN: Final = (
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "--extcmd",
    "--open-files-in-pager",
    "ext::",
)
_GIT_SETTINGS_HARMLESS: Final = frozenset({"", "cat", "less", "true", "false"})


def git_options(words: Sequence[str], verb_at: int) -> Rule:
    """What git's options and settings make it run; the subcommand stands at `verb_at`."""
    verb = "".join(words[verb_at : verb_at + 1])
    settings = words if verb == "clone" else words[:verb_at]
    for option, value in with_next(settings):
        given = (
            value
            if option in {"-c", "--config-env", "--config"}
            else option[2:]
            if option.startswith("-c")
            else ""
        )
        key, _, setting = given.partition("=")
        if is_open(key) or (_GIT_RUNS.search(key) and setting not in _GIT_SETTINGS_HARMLESS):
            return Rule.HIDDEN_COMMAND
    runs = (*_GIT_OPTIONS_RUN, *{"rebase": ("-x",), "grep": ("-O",)}.get(verb, ()))
    return Rule.HIDDEN_COMMAND if any(word.startswith(runs) for word in words) else Rule.READS


# Options by which a program that is harmless otherwise runs another; long ones may be shortened.
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
# The shell computes an index in brackets, and a substitution in it runs, even where the word was quoted.
_COMPUTING: Final = frozenset(
    {"[", "declare", "export", "let", "local", "printf", "read", "readonly", "test", "typeset", "unset"}
)


def runs_by_option(name: str, words: Sequence[str]) -> bool:
    """Whether an option or a word makes a harmless program run something else."""
    if name in OPTIONS_RUN and any(word.startswith(OPTIONS_RUN[name]) for word in words[1:]):
        return True
    return name in _COMPUTING and any(computes(word) for word in words[1:])


_TARGET_TOOLS: Final = frozenset({"cmake", "nox", "tox"})


def names_afar(name: str, words: Sequence[str]) -> bool:
    """Whether a build tool is asked for something named after deploying: `tox -e publish`."""
    if name not in _TARGET_TOOLS:
        return False
    parts = {part.lower() for word in words[1:] for part in _TASK_PART.findall(word[:200])}
    return bool(parts & TASK_WORDS_AFAR)


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


def sed(words: Sequence[str], _stdin: str | None) -> Rule:
    """GNU sed has a command and a flag that run programs."""
    scripts, files, strange = _sed_line(words)
    if (
        strange
        or sum(map(len, scripts)) > SCRIPT_CHARS_MAX
        or any(LOOSE in word[:1] for word in [*scripts, *files])
    ):
        return Rule.HIDDEN_COMMAND
    if any(map(_sed_runs, scripts)):
        return Rule.HIDDEN_COMMAND
    return (
        Rule.LOCAL_WRITE if any(re.match(r"-[nErsuz]*i|--in-place", word) for word in words) else Rule.READS
    )


def _sed_line(words: Sequence[str]) -> tuple[list[str], list[str], bool]:
    """Its scripts, its files, and whether there is an option nobody knows. Without -e the first operand is the script."""
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
    """Without replacements, patterns and texts no letter e may be left: it would be the command that runs another."""
    if any(found[4] for found in _SED_REPLACES.finditer(script)):
        return True
    left = _SED_ADDRESS.sub("1", _SED_REPLACES.sub("", script))
    return "e" in _SED_TEXT.sub(r"\1", left)


# A slash begins a pattern only where no value can stand before it; anything else may be a division.
_AWK_LITERAL: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?:^|(?<=[({,;!~&}\n]))\s*/(?:[^/\\\n]|\\.)*/|\|\|')
_AWK_RUNS: Final = re.compile(r"\bsystem\b|\bgetline\b|\||@load|@include|@\w+\s*\(")


def awk(words: Sequence[str], _stdin: str | None) -> Rule:
    if any(
        word.startswith(("-f", "-i", "-l", "-E", "--file", "--exec", "--include", "--load")) for word in words
    ):
        return Rule.PROJECT_PROGRAM
    if sum(map(len, words)) > SCRIPT_CHARS_MAX:
        return Rule.HIDDEN_COMMAND
    for word in words[1:]:
        if "/inet" in word or LOOSE in word[:1]:
            return Rule.HIDDEN_COMMAND
        if _AWK_RUNS.search(_AWK_LITERAL.sub('""', word)):
            return Rule.HIDDEN_COMMAND
    return Rule.LOCAL_WRITE if any(">" in word for word in words[1:]) else Rule.READS
