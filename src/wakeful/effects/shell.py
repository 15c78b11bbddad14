"""Classifies a shell text by the worst of its commands, with those that other commands run.

A command whose program, subcommand or text is only known at run time is never local. A program is not trusted
because it is inside the project.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Final

from msgspec import Struct

from wakeful.effects.inline_code import node_line, perl_line, python_line
from wakeful.effects.programs import (
    PROGRAM_CLASSIFIERS,
    WRAPPERS,
    after_options,
    by_verb,
    gh_api_rule,
    git_options,
    names_remote_target,
    operands,
    runs_by_option,
    task_rule,
    tasks_rule,
    with_input_words,
)
from wakeful.effects.rules import ALIASES, PROGRAMS, RANK, VERBS, EffectRule
from wakeful.effects.shell_parser import (
    OPENERS,
    QUOTED_UNKNOWN,
    UNQUOTED_UNKNOWN,
    Command,
    has_unknown_part,
    read_script,
)

# Four times the longest recorded command. Of a longer one the beginning is classified, and the rest is unknown.
TEXT_CHARS_MAX: Final = 65_536
# Commands inside commands: `sudo env bash -c "xargs sh -c ..."`.
DEPTH_MAX: Final = 8
WORDS_CHARS_MAX: Final = 200

_ASSIGNMENT: Final = re.compile(r"(\w+)(?:\[[^]]*\])?\+?=(.*)", re.DOTALL)
# Variables whose value some program runs as a command, or reads as settings that can.
_RUNS_VALUE: Final = re.compile(
    r"EDITOR|PAGER|COMMAND|ASKPASS|BASH_ENV|GIT_SSH|BROWSER|GIT_EXTERNAL|_WRAPPER$|^PS[0-4]$"
)
_HIDDEN_EFFECT_VARIABLE: Final = re.compile(
    r"^(?:LD_PRELOAD|DYLD_INSERT_\w+|LESSOPEN|LESSCLOSE|PERL5OPT|RUBYOPT|GIT_CONFIG\w*|\w+_RUNNER)$"
)
_CLOSERS: Final = frozenset({"}", "done", "esac", "fi"})
_TOOL_FOLDER: Final = re.compile(
    r"(?:/usr(?:/local)?|/opt/homebrew)?/s?bin/|(?:.*/)?(?:\.?venv|\.tox/[\w.-]+|\.nox/[\w.-]+|node_modules/\.bin)/(?:bin/)?"
    r"|(?:.*/)?vendor/bin/|.*/\.cargo/bin/|.*/go/bin/"
)
_GLOB: Final = re.compile(r"[*?\[{]")
_SHELLS: Final = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"})
_SCRIPTS: Final = frozenset(
    {"Rscript", "deno", "elixir", "groovy", "java", "julia", "lua", "osascript", "php", "ruby", "tclsh"}
)
_TASK_RUNNERS: Final = frozenset(
    {"ant", "doit", "gradle", "grunt", "gulp", "inv", "invoke", "just", "mage", "make", "ninja", "rake", "task"}
)  # fmt: skip


class Ruling(Struct, frozen=True):
    """The rule that applies, and the words it applies to."""

    rule: EffectRule
    words: str = ""


class _Context(Struct, frozen=True):
    """Nesting depth of a command, and the functions that the surrounding text defines."""

    depth: int = 0
    functions: frozenset[str] = frozenset()

    @property
    def nested(self) -> "_Context":
        return _Context(self.depth + 1, self.functions)


_HARMLESS: Final = Ruling(EffectRule.READS)
_TOP_LEVEL: Final = _Context()


def classify_text(text: str) -> Ruling:
    """The ruling for a shell text. Never raises; takes time in proportion to the text, up to a bound."""
    ruling = _text(_strip_marks(text[:TEXT_CHARS_MAX]), _TOP_LEVEL)
    if not ruling.words:
        ruling = Ruling(ruling.rule, _format_words([text]))
    return _worst([ruling, Ruling(EffectRule.UNREADABLE)]) if len(text) > TEXT_CHARS_MAX else ruling


def classify_command(command: Command) -> Ruling:
    """The ruling for one command of `read_script`, from a text that defines no functions."""
    return _command(command, _TOP_LEVEL)


def classify_words(words: Sequence[str]) -> Ruling:
    """The ruling for an argument list, which no shell expands."""
    return _words([_strip_marks(word[:TEXT_CHARS_MAX]) for word in words], None, _TOP_LEVEL)


def _strip_marks(text: str) -> str:
    """Remove marks from input: only the parser may set them."""
    return text.replace(QUOTED_UNKNOWN, "?").replace(UNQUOTED_UNKNOWN, "?")


def _worst(rulings: Sequence[Ruling]) -> Ruling:
    return max(rulings, key=lambda ruling: RANK[ruling.rule], default=_HARMLESS)


def _text(text: str, place: _Context) -> Ruling:
    if place.depth > DEPTH_MAX:
        return Ruling(EffectRule.HIDDEN_COMMAND, _format_words([text]))
    if has_unknown_part(text):
        known = _text(text.replace(QUOTED_UNKNOWN, "$x").replace(UNQUOTED_UNKNOWN, "$x"), place.nested)
        return _worst([known, Ruling(EffectRule.HIDDEN_COMMAND, _format_words([text]))])
    script = read_script(text)
    inside = _Context(place.depth, place.functions | script.functions)
    rulings = [_command(command, inside) for command in script.commands]
    if not script.whole:
        rulings.append(Ruling(EffectRule.HIDDEN_COMMAND, _format_words([text])))
    return _worst(rulings)


def _command(command: Command, place: _Context) -> Ruling:
    # Of two inputs the last one counts, and the content of a file is unknown.
    stdin = QUOTED_UNKNOWN if command.reads_file and command.stdin is not None else command.stdin
    rulings = [_words(command.words, stdin, place)]
    for target in command.targets:
        if "/dev/tcp" in target or "/dev/udp" in target:
            rulings.append(Ruling(EffectRule.OTHER_HOST, _format_words([*command.words, ">", target])))
        elif has_unknown_part(target) and target.startswith("/dev"):
            rulings.append(Ruling(EffectRule.HIDDEN_COMMAND, _format_words([*command.words, ">", target])))
        elif target not in {"/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty"}:
            rulings.append(Ruling(EffectRule.LOCAL_WRITE, _format_words([*command.words, ">", target])))
    return _worst(rulings)


def _words(words: Sequence[str], stdin: str | None, place: _Context) -> Ruling:
    """The ruling for one simple command, with the assignments and keywords before its program."""
    start, before = 0, [_HARMLESS]
    while start < len(words):
        assigned = _ASSIGNMENT.fullmatch(words[start])
        if assigned:
            before.append(_assignment(assigned[1], assigned[2], place))
        elif words[start] not in OPENERS and words[start] not in _CLOSERS:
            break
        start += 1
    rest = list(words[start:])
    if not rest or rest[0] in {"for", "select", "case"}:
        return _worst(before)
    return _worst([*before, _program(rest, stdin, place.nested)])


def _assignment(name: str, value: str, place: _Context) -> Ruling:
    """A variable is harmless unless some program runs its value."""
    if not value or value == "/dev/null":
        return _HARMLESS
    if name == "DOCKER_HOST":
        return Ruling(EffectRule.OTHER_HOST, name)
    loads = name == "NODE_OPTIONS" and re.search(r"-r\b|require|import|loader", value)
    if _HIDDEN_EFFECT_VARIABLE.search(name) or loads or "proxycommand" in value.lower():
        return Ruling(EffectRule.HIDDEN_COMMAND, name)
    # Git adds the host itself, and its subcommand decides what happens there.
    harmless = not _RUNS_VALUE.search(name) or re.match(r"ssh( |$)", value)
    return _HARMLESS if harmless else _text(value, place.nested)


def _program(words: list[str], stdin: str | None, place: _Context) -> Ruling:
    if place.depth > DEPTH_MAX:
        return Ruling(EffectRule.HIDDEN_COMMAND, _format_words(words))
    name = words[0]
    if has_unknown_part(name) or (_GLOB.search(name) and name not in PROGRAMS) or not name:
        return Ruling(EffectRule.HIDDEN_COMMAND, _format_words(words))
    folder, _, name = name.rpartition("/")
    name = name.removesuffix(".exe")
    ruling = _known_program(ALIASES.get(name, name), [name, *words[1:]], stdin, place)
    if ruling.rule is EffectRule.UNKNOWN_PROGRAM and words[0] in place.functions:
        return _HARMLESS  # the commands of its body are classified at its definition
    if not folder or _TOOL_FOLDER.fullmatch(f"{folder}/") or name in {"gradlew", "mvnw"}:
        return ruling
    project = Ruling(EffectRule.PROJECT_PROGRAM, _format_words(words))
    return project if ruling.rule is EffectRule.UNKNOWN_PROGRAM else _worst([ruling, project])


def _known_program(name: str, words: list[str], stdin: str | None, place: _Context) -> Ruling:
    """A program by its name: one that runs others, one whose words decide, or one of fixed class."""
    name = "python" if re.fullmatch(r"(?:python|pypy)[\d.]*", name) else name
    runs = _RUNNERS.get(name)
    if name in WRAPPERS:
        return _wrapper(name, words, stdin, place)
    if runs is not None:
        return runs(words, stdin, place)
    if name in VERBS:
        return _subcommand(name, words, stdin, place)
    return Ruling(_plain_rule(name, words, stdin), _format_words(words))


def _plain_rule(name: str, words: list[str], stdin: str | None) -> EffectRule:
    if runs_by_option(name, words):
        return EffectRule.HIDDEN_COMMAND
    if names_remote_target(name, words):
        return EffectRule.UNNAMED_TASK
    if name in PROGRAM_CLASSIFIERS:
        return PROGRAM_CLASSIFIERS[name](words, stdin)
    if name in _TASK_RUNNERS:
        return tasks_rule(words)
    if name in _SCRIPTS:
        return EffectRule.PROJECT_PROGRAM if operands(words) else EffectRule.UNSEEN_CODE
    if words[1:] in (["--version"], ["--help"]):
        return EffectRule.READS
    return PROGRAMS.get(name, EffectRule.UNKNOWN_PROGRAM)


def _subcommand(name: str, words: list[str], stdin: str | None, place: _Context) -> Ruling:
    verbs = VERBS[name]
    rule, rest = by_verb(words, verbs)
    shown = _format_words(words)
    if rule is None:
        behind = after_options(rest)
        if rest[0] in verbs.tasks:
            return Ruling(_tasks(behind), shown)
        ruling = _words(behind, stdin, place) if behind else Ruling(EffectRule.UNKNOWN_PROGRAM, shown)
        return _package_ruling(ruling) if name in _PACKAGE_RUNNERS else ruling
    if name in {"gh", "glab"} and rest[:1] == ["api"]:
        return Ruling(gh_api_rule(rest, stdin), shown)
    if name == "git":
        return _worst([Ruling(rule, shown), Ruling(git_options(words, len(words) - len(rest)), shown)])
    if name == "docker":
        return _docker(rule, words, rest, stdin, place)
    if name in {"yarn", "pnpm", "bun"} and rule is EffectRule.UNKNOWN_PROGRAM:
        is_tool = PROGRAMS.get(rest[0]) is EffectRule.TEST_OR_BUILD
        return Ruling(EffectRule.TEST_OR_BUILD if is_tool else task_rule(rest[0]), shown)
    if name == "mvn":
        return Ruling(tasks_rule([name, *rest]) if rule is EffectRule.UNKNOWN_PROGRAM else rule, shown)
    if runs_by_option(name, words):
        return Ruling(EffectRule.HIDDEN_COMMAND, shown)
    if name == "terraform" and any(
        word.lstrip("-").startswith(("migrate-state", "force-copy")) for word in rest
    ):
        return Ruling(EffectRule.CLOUD_WRITE, shown)
    return Ruling(rule, shown)


def _tasks(behind: list[str]) -> EffectRule:
    """`mise run a ::: b`, `npm run test -- -x`: the first word of each part is a task."""
    if not behind:
        return EffectRule.READS
    names = [behind[0], *(name for mark, name in pairwise(behind) if mark == ":::")]
    return max((task_rule(name) for name in names), key=RANK.__getitem__)


def _docker(
    rule: EffectRule, words: list[str], rest: list[str], stdin: str | None, place: _Context
) -> Ruling:
    shown = _format_words(words)
    if any(
        word.startswith(("-H", "--host", "--context")) or word == "-c"
        for word in words[1 : len(words) - len(rest)]
    ):
        return Ruling(EffectRule.OTHER_HOST, shown)
    if rule is EffectRule.TEST_OR_BUILD and any("push" in word or "registry" in word for word in rest):
        return Ruling(EffectRule.PUBLISH, shown)
    if rest[:1] == ["exec"]:
        inner = operands(rest, frozenset({"-e", "--env", "-u", "--user", "-w", "--workdir"}))
        place_of = rest.index(inner[0]) + 1 if inner else len(rest)
        return (
            _words(rest[place_of:], stdin, place)
            if rest[place_of:]
            else Ruling(EffectRule.HIDDEN_COMMAND, shown)
        )
    return Ruling(rule, shown)


def _wrapper(name: str, words: list[str], stdin: str | None, place: _Context) -> Ruling:
    wrapper, at = WRAPPERS[name], 1
    valued = frozenset(wrapper.valued.split())
    while at < len(words) and words[at].startswith("-"):
        if name == "command" and words[at] in {"-v", "-V"}:
            return Ruling(EffectRule.READS, _format_words(words))
        if name in {"env", "npx"} and words[at].startswith(("-S", "--split-string", "-c", "--call")):
            return Ruling(EffectRule.HIDDEN_COMMAND, _format_words(words))
        at += 2 if words[at] in valued else 1
    if any(UNQUOTED_UNKNOWN in word for word in words[1:at]):
        return Ruling(EffectRule.HIDDEN_COMMAND, _format_words(words))
    inner = words[at + wrapper.operands :]
    if not inner:
        return Ruling(EffectRule.READS, _format_words(words))
    if name == "watch":
        inner = ["sh", "-c", " ".join(inner)]
    elif name in {"xargs", "parallel"}:
        inner = with_input_words(inner, words[1:at])
    ruling = _words(inner, stdin, place)
    return _package_ruling(ruling) if name in _PACKAGE_RUNNERS else ruling


_PACKAGE_RUNNERS: Final = frozenset({"bunx", "npx", "pnpx", "uvx", "npm", "pnpm", "yarn", "bun", "pipx"})


def _package_ruling(ruling: Ruling) -> Ruling:
    """A package fetched by name may have any name: only well-known tools are trusted."""
    if ruling.rule is EffectRule.TEST_OR_BUILD:
        return ruling
    return _worst([ruling, Ruling(EffectRule.UNKNOWN_PROGRAM, ruling.words)])


def _shell(words: list[str], stdin: str | None, place: _Context) -> Ruling:
    """A shell with its text on the command line or in a heredoc; any other text is unknown."""
    at = 1
    while at < len(words) and words[at].startswith(("-", "+")) and words[at] != "-":
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", words[at]):
            # Options may be between -c and its text.
            text = next((word for word in words[at + 1 :] if not word.startswith("-")), "")
            return _text(text, place.nested)
        if re.fullmatch(r"-[a-z]*n[a-z]*|--version|--help", words[at]):
            return Ruling(EffectRule.READS, _format_words(words))
        at += 2 if re.fullmatch(r"[-+][a-z]*[oO]|--rcfile|--init-file", words[at]) else 1
    if at < len(words) and words[at] not in {"-", "/dev/stdin"}:
        return Ruling(EffectRule.PROJECT_PROGRAM, _format_words(words))
    return (
        _text(stdin, place.nested)
        if stdin is not None
        else Ruling(EffectRule.HIDDEN_COMMAND, _format_words(words))
    )


def _alias(words: list[str], _stdin: str | None, place: _Context) -> Ruling:
    """An alias is classified at its definition."""
    values = [word.partition("=")[2] for word in words[1:] if "=" in word]
    return _worst([_text(value, place.nested) for value in values])


def _export(words: list[str], _stdin: str | None, place: _Context) -> Ruling:
    if runs_by_option(words[0], words):
        return Ruling(EffectRule.HIDDEN_COMMAND, _format_words(words))
    found = [assigned for word in words[1:] if (assigned := _ASSIGNMENT.fullmatch(word))]
    return _worst([_assignment(assigned[1], assigned[2], place) for assigned in found])


def _source(words: list[str], _stdin: str | None, _place: _Context) -> Ruling:
    known = len(words) > 1 and words[1].endswith(("/bin/activate", "/.cargo/env", "/.nvm/nvm.sh"))
    return Ruling(EffectRule.READS if known else EffectRule.PROJECT_PROGRAM, _format_words(words))


_FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "-X", "--exec-batch"})


def _find(words: list[str], _stdin: str | None, place: _Context) -> Ruling:
    """find and fd with the commands they run on their results."""
    writes = any(word in {"-delete", "-fprint", "-fls", "-fprintf"} for word in words)
    rulings = [Ruling(EffectRule.LOCAL_WRITE if writes else EffectRule.READS, _format_words(words))]
    rest = iter(words)
    for word in rest:
        if word in _FIND_RUNS:
            inner = takewhile(lambda part: part not in {";", "+"}, rest)
            rulings.append(_words([part.replace("{}", UNQUOTED_UNKNOWN) for part in inner], None, place))
        elif (
            word[:1] == UNQUOTED_UNKNOWN
            or (has_unknown_part(word) and word.startswith("-"))
            or word.startswith("--exec")
        ):
            rulings.append(Ruling(EffectRule.HIDDEN_COMMAND, _format_words(words)))
    return _worst(rulings)


def _python(words: list[str], stdin: str | None, place: _Context) -> Ruling:
    rule, module = python_line(words, stdin)
    return _words(module, stdin, place) if module else Ruling(rule, _format_words(words))


def _node(words: list[str], stdin: str | None, _place: _Context) -> Ruling:
    return Ruling(node_line(words, stdin), _format_words(words))


_Run = Callable[[list[str], str | None, _Context], Ruling]
_RUNNERS: Final[Mapping[str, _Run]] = {
    **dict.fromkeys(_SHELLS, _shell),
    **dict.fromkeys(("declare", "export", "local", "readonly", "typeset"), _export),
    **dict.fromkeys(("fd", "fdfind", "find"), _find),
    **dict.fromkeys(("node", "nodejs"), _node),
    **dict.fromkeys((".", "source"), _source),
    "alias": _alias,
    "eval": lambda words, _stdin, place: _text(" ".join(words[1:]), place.nested),
    "perl": lambda words, stdin, _place: Ruling(perl_line(words, stdin), _format_words(words)),
    "python": _python,
    "trap": lambda words, _stdin, place: _text(next(iter(operands(words)), ""), place.nested),
}


def _format_words(words: Sequence[str]) -> str:
    """The words for display: one line, bounded, with `$…` for parts that only the shell knows."""
    text = " ".join(word[:WORDS_CHARS_MAX] for word in words[:WORDS_CHARS_MAX])
    text = " ".join(text.replace(QUOTED_UNKNOWN, "$…").replace(UNQUOTED_UNKNOWN, "$…").split())
    return text[:WORDS_CHARS_MAX]
