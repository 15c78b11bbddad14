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
    LOOKS,
    WRAPPERS,
    behind_options,
    by_verb,
    filled,
    forge_api,
    git_options,
    names_afar,
    operands,
    runs_by_option,
    task_rule,
    tasks_rule,
)
from wakeful.effects.rules import ALIASES, PROGRAMS, RANK, VERBS, Rule
from wakeful.effects.shell_parser import HELD, LOOSE, OPENERS, Command, is_open, read_script

# Four times the longest recorded command. Of a longer one the beginning is judged, and the rest is unknown.
TEXT_CHARS_MAX: Final = 65_536
# Commands inside commands: `sudo env bash -c "xargs sh -c ..."`.
DEPTH_MAX: Final = 8
WORDS_CHARS_MAX: Final = 200

_ASSIGNMENT: Final = re.compile(r"(\w+)(?:\[[^]]*\])?\+?=(.*)", re.DOTALL)
# Variables whose value some program runs as a command, or takes for settings that can.
_RUNS_VALUE: Final = re.compile(
    r"EDITOR|PAGER|COMMAND|ASKPASS|BASH_ENV|GIT_SSH|BROWSER|GIT_EXTERNAL|_WRAPPER$|^PS[0-4]$"
)
_HIDES: Final = re.compile(
    r"^(?:LD_PRELOAD|DYLD_INSERT_\w+|LESSOPEN|LESSCLOSE|PERL5OPT|RUBYOPT|GIT_CONFIG\w*|\w+_RUNNER)$"
)
_CLOSERS: Final = frozenset({"}", "done", "esac", "fi"})
_TOOL_FOLDER: Final = re.compile(
    r"(?:/usr(?:/local)?|/opt/homebrew)?/s?bin/|(?:.*/)?(?:\.?venv|\.tox/[\w.-]+|\.nox/[\w.-]+|node_modules/\.bin)/(?:bin/)?"
    r"|(?:.*/)?vendor/bin/|.*/\.cargo/bin/|.*/go/bin/"
)
_NAMED_FREELY: Final = re.compile(r"[*?\[{]")
_SHELLS: Final = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"})
_SCRIPTS: Final = frozenset(
    {"Rscript", "deno", "elixir", "groovy", "java", "julia", "lua", "osascript", "php", "ruby", "tclsh"}
)
_TASK_RUNNERS: Final = frozenset(
    {"ant", "doit", "gradle", "grunt", "gulp", "inv", "invoke", "just", "mage", "make", "ninja", "rake", "task"}
)  # fmt: skip


class Ruling(Struct, frozen=True):
    """Which rule spoke, and the words it spoke about."""

    rule: Rule
    words: str = ""


class _Place(Struct, frozen=True):
    """Where a command stands: how deep, and which functions the text around it defines."""

    depth: int = 0
    functions: frozenset[str] = frozenset()

    @property
    def deeper(self) -> "_Place":
        return _Place(self.depth + 1, self.functions)


_NOTHING: Final = Ruling(Rule.READS)
_HERE: Final = _Place()


def judge_text(text: str) -> Ruling:
    """The ruling for a shell text. Never raises; takes time in proportion to the text, up to a bound."""
    ruling = _text(_unmarked(text[:TEXT_CHARS_MAX]), _HERE)
    if not ruling.words:  # nothing in it deserved a word
        ruling = Ruling(ruling.rule, _shown([text]))
    return _worst([ruling, Ruling(Rule.UNREADABLE)]) if len(text) > TEXT_CHARS_MAX else ruling


def judge_command(command: Command) -> Ruling:
    """The ruling for one command of a text that defines no functions, as `read_script` gave it."""
    return _command(command, _HERE)


def judge_words(words: Sequence[str]) -> Ruling:
    """The ruling for an argument list, which no shell expands."""
    return _words([_unmarked(word[:TEXT_CHARS_MAX]) for word in words], None, _HERE)


def _unmarked(text: str) -> str:
    """Our marks mean something only where we put them."""
    return text.replace(HELD, "?").replace(LOOSE, "?")


def _worst(rulings: Sequence[Ruling]) -> Ruling:
    return max(rulings, key=lambda ruling: RANK[ruling.rule], default=_NOTHING)


def _text(text: str, place: _Place) -> Ruling:
    if place.depth > DEPTH_MAX:
        return Ruling(Rule.HIDDEN_COMMAND, _shown([text]))
    if is_open(text):
        known = _text(text.replace(HELD, "$x").replace(LOOSE, "$x"), place.deeper)
        return _worst([known, Ruling(Rule.HIDDEN_COMMAND, _shown([text]))])
    script = read_script(text)
    inside = _Place(place.depth, place.functions | script.functions)
    rulings = [_command(command, inside) for command in script.commands]
    if not script.whole:
        rulings.append(Ruling(Rule.HIDDEN_COMMAND, _shown([text])))
    return _worst(rulings)


def _command(command: Command, place: _Place) -> Ruling:
    # Of two inputs the last one counts, and of a file nothing is seen.
    stdin = HELD if command.reads_file and command.stdin is not None else command.stdin
    rulings = [_words(command.words, stdin, place)]
    for target in command.targets:
        if "/dev/tcp" in target or "/dev/udp" in target:
            rulings.append(Ruling(Rule.OTHER_HOST, _shown([*command.words, ">", target])))
        elif is_open(target) and target.startswith("/dev"):
            rulings.append(Ruling(Rule.HIDDEN_COMMAND, _shown([*command.words, ">", target])))
        elif target not in {"/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty"}:
            rulings.append(Ruling(Rule.LOCAL_WRITE, _shown([*command.words, ">", target])))
    return _worst(rulings)


def _words(words: Sequence[str], stdin: str | None, place: _Place) -> Ruling:
    """The ruling for one simple command, whatever stands before its program."""
    start, before = 0, [_NOTHING]
    while start < len(words):
        assigned = _ASSIGNMENT.fullmatch(words[start])
        if assigned:
            before.append(_assigned(assigned[1], assigned[2], place))
        elif words[start] not in OPENERS and words[start] not in _CLOSERS:
            break
        start += 1
    rest = list(words[start:])
    if not rest or rest[0] in {"for", "select", "case"}:
        return _worst(before)
    return _worst([*before, _program(rest, stdin, place.deeper)])


def _assigned(name: str, value: str, place: _Place) -> Ruling:
    """A variable is harmless unless some program runs what it holds."""
    if not value or value == "/dev/null":
        return _NOTHING
    if name == "DOCKER_HOST":
        return Ruling(Rule.OTHER_HOST, name)
    loads = name == "NODE_OPTIONS" and re.search(r"-r\b|require|import|loader", value)
    if _HIDES.search(name) or loads or "proxycommand" in value.lower():
        return Ruling(Rule.HIDDEN_COMMAND, name)
    # Git adds the host itself, and the subcommand says what it does there.
    harmless = not _RUNS_VALUE.search(name) or re.match(r"ssh( |$)", value)
    return _NOTHING if harmless else _text(value, place.deeper)


def _program(words: list[str], stdin: str | None, place: _Place) -> Ruling:
    if place.depth > DEPTH_MAX:
        return Ruling(Rule.HIDDEN_COMMAND, _shown(words))
    name = words[0]
    if is_open(name) or (_NAMED_FREELY.search(name) and name not in PROGRAMS) or not name:
        return Ruling(Rule.HIDDEN_COMMAND, _shown(words))
    folder, _, name = name.rpartition("/")
    name = name.removesuffix(".exe")
    ruling = _known(ALIASES.get(name, name), [name, *words[1:]], stdin, place)
    if ruling.rule is Rule.UNKNOWN_PROGRAM and words[0] in place.functions:
        return _NOTHING  # the commands of its body are judged where they stand
    if not folder or _TOOL_FOLDER.fullmatch(f"{folder}/") or name in {"gradlew", "mvnw"}:
        return ruling
    its_own = Ruling(Rule.PROJECT_PROGRAM, _shown(words))
    return its_own if ruling.rule is Rule.UNKNOWN_PROGRAM else _worst([ruling, its_own])


def _known(name: str, words: list[str], stdin: str | None, place: _Place) -> Ruling:
    """A program by its name: one that runs others, one whose words decide, or one that is known as it is."""
    name = "python" if re.fullmatch(r"(?:python|pypy)[\d.]*", name) else name
    runs = _RUNNERS.get(name)
    if name in WRAPPERS:
        return _wrapped(name, words, stdin, place)
    if runs is not None:
        return runs(words, stdin, place)
    if name in VERBS:
        return _subcommand(name, words, stdin, place)
    return Ruling(_plain_rule(name, words, stdin), _shown(words))


def _plain_rule(name: str, words: list[str], stdin: str | None) -> Rule:
    if runs_by_option(name, words):
        return Rule.HIDDEN_COMMAND
    if names_afar(name, words):
        return Rule.UNNAMED_TASK
    if name in LOOKS:
        return LOOKS[name](words, stdin)
    if name in _TASK_RUNNERS:
        return tasks_rule(words)
    if name in _SCRIPTS:
        return Rule.PROJECT_PROGRAM if operands(words) else Rule.UNSEEN_CODE
    if words[1:] in (["--version"], ["--help"]):
        return Rule.READS
    return PROGRAMS.get(name, Rule.UNKNOWN_PROGRAM)


def _subcommand(name: str, words: list[str], stdin: str | None, place: _Place) -> Ruling:
    verbs = VERBS[name]
    rule, rest = by_verb(words, verbs)
    shown = _shown(words)
    if rule is None:
        behind = behind_options(rest)
        if rest[0] in verbs.tasks:
            return Ruling(_tasks(behind), shown)
        ruling = _words(behind, stdin, place) if behind else Ruling(Rule.UNKNOWN_PROGRAM, shown)
        return _of_package(ruling) if name in _PACKAGE_RUNNERS else ruling
    if name in {"gh", "glab"} and rest[:1] == ["api"]:
        return Ruling(forge_api(rest, stdin), shown)
    if name == "git":
        return _worst([Ruling(rule, shown), Ruling(git_options(words, len(words) - len(rest)), shown)])
    if name == "docker":
        return _docker(rule, words, rest, stdin, place)
    if name in {"yarn", "pnpm", "bun"} and rule is Rule.UNKNOWN_PROGRAM:
        is_tool = PROGRAMS.get(rest[0]) is Rule.TEST_OR_BUILD
        return Ruling(Rule.TEST_OR_BUILD if is_tool else task_rule(rest[0]), shown)
    if name == "mvn":
        return Ruling(tasks_rule([name, *rest]) if rule is Rule.UNKNOWN_PROGRAM else rule, shown)
    if runs_by_option(name, words):
        return Ruling(Rule.HIDDEN_COMMAND, shown)
    if name == "terraform" and any(
        word.lstrip("-").startswith(("migrate-state", "force-copy")) for word in rest
    ):
        return Ruling(Rule.CLOUD_WRITE, shown)
    return Ruling(rule, shown)


def _tasks(behind: list[str]) -> Rule:
    """`mise run a ::: b`, `npm run test -- -x`: the first word of each part is a task."""
    if not behind:
        return Rule.READS
    names = [behind[0], *(name for mark, name in pairwise(behind) if mark == ":::")]
    return max((task_rule(name) for name in names), key=RANK.__getitem__)


def _docker(rule: Rule, words: list[str], rest: list[str], stdin: str | None, place: _Place) -> Ruling:
    shown = _shown(words)
    if any(
        word.startswith(("-H", "--host", "--context")) or word == "-c"
        for word in words[1 : len(words) - len(rest)]
    ):
        return Ruling(Rule.OTHER_HOST, shown)
    if rule is Rule.TEST_OR_BUILD and any("push" in word or "registry" in word for word in rest):
        return Ruling(Rule.PUBLISH, shown)
    if rest[:1] == ["exec"]:
        inner = operands(rest, frozenset({"-e", "--env", "-u", "--user", "-w", "--workdir"}))
        place_of = rest.index(inner[0]) + 1 if inner else len(rest)
        return (
            _words(rest[place_of:], stdin, place) if rest[place_of:] else Ruling(Rule.HIDDEN_COMMAND, shown)
        )
    return Ruling(rule, shown)


def _wrapped(name: str, words: list[str], stdin: str | None, place: _Place) -> Ruling:
    wrapper, at = WRAPPERS[name], 1
    valued = frozenset(wrapper.valued.split())
    while at < len(words) and words[at].startswith("-"):
        if name == "command" and words[at] in {"-v", "-V"}:
            return Ruling(Rule.READS, _shown(words))
        if name in {"env", "npx"} and words[at].startswith(("-S", "--split-string", "-c", "--call")):
            return Ruling(Rule.HIDDEN_COMMAND, _shown(words))
        at += 2 if words[at] in valued else 1
    if any(LOOSE in word for word in words[1:at]):
        return Ruling(Rule.HIDDEN_COMMAND, _shown(words))
    inner = words[at + wrapper.operands :]
    if not inner:
        return Ruling(Rule.READS, _shown(words))
    if name == "watch":
        inner = ["sh", "-c", " ".join(inner)]
    elif name in {"xargs", "parallel"}:
        inner = filled(inner, words[1:at])
    ruling = _words(inner, stdin, place)
    return _of_package(ruling) if name in _PACKAGE_RUNNERS else ruling


_PACKAGE_RUNNERS: Final = frozenset({"bunx", "npx", "pnpx", "uvx", "npm", "pnpm", "yarn", "bun", "pipx"})


def _of_package(ruling: Ruling) -> Ruling:
    """A package fetched by its name may have the name of anything: only well-known tools are believed."""
    if ruling.rule is Rule.TEST_OR_BUILD:
        return ruling
    return _worst([ruling, Ruling(Rule.UNKNOWN_PROGRAM, ruling.words)])


def _shell(words: list[str], stdin: str | None, place: _Place) -> Ruling:
    """A shell with its text on the line or in a heredoc; any other text is not seen."""
    at = 1
    while at < len(words) and words[at].startswith(("-", "+")) and words[at] != "-":
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", words[at]):
            # Options may stand between -c and its text.
            text = next((word for word in words[at + 1 :] if not word.startswith("-")), "")
            return _text(text, place.deeper)
        if re.fullmatch(r"-[a-z]*n[a-z]*|--version|--help", words[at]):
            return Ruling(Rule.READS, _shown(words))
        at += 2 if re.fullmatch(r"[-+][a-z]*[oO]|--rcfile|--init-file", words[at]) else 1
    if at < len(words) and words[at] not in {"-", "/dev/stdin"}:
        return Ruling(Rule.PROJECT_PROGRAM, _shown(words))
    return _text(stdin, place.deeper) if stdin is not None else Ruling(Rule.HIDDEN_COMMAND, _shown(words))


def _eval(words: list[str], _stdin: str | None, place: _Place) -> Ruling:
    return _text(" ".join(words[1:]), place.deeper)


def _trap(words: list[str], _stdin: str | None, place: _Place) -> Ruling:
    return _text(next(iter(operands(words)), ""), place.deeper)


def _alias(words: list[str], _stdin: str | None, place: _Place) -> Ruling:
    """What an alias stands for is judged where it is made."""
    values = [word.partition("=")[2] for word in words[1:] if "=" in word]
    return _worst([_text(value, place.deeper) for value in values])


def _export(words: list[str], _stdin: str | None, place: _Place) -> Ruling:
    if runs_by_option(words[0], words):
        return Ruling(Rule.HIDDEN_COMMAND, _shown(words))
    found = [assigned for word in words[1:] if (assigned := _ASSIGNMENT.fullmatch(word))]
    return _worst([_assigned(assigned[1], assigned[2], place) for assigned in found])


def _source(words: list[str], _stdin: str | None, _place: _Place) -> Ruling:
    known = len(words) > 1 and words[1].endswith(("/bin/activate", "/.cargo/env", "/.nvm/nvm.sh"))
    return Ruling(Rule.READS if known else Rule.PROJECT_PROGRAM, _shown(words))


_FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "-X", "--exec-batch"})


def _find(words: list[str], _stdin: str | None, place: _Place) -> Ruling:
    """find and fd with the commands they run on what they found."""
    writes = any(word in {"-delete", "-fprint", "-fls", "-fprintf"} for word in words)
    rulings = [Ruling(Rule.LOCAL_WRITE if writes else Rule.READS, _shown(words))]
    rest = iter(words)
    for word in rest:
        if word in _FIND_RUNS:
            inner = [part.replace("{}", LOOSE) for part in takewhile(_goes_on, rest)]
            rulings.append(_words(inner, None, place))
        elif word[:1] == LOOSE or (is_open(word) and word.startswith("-")) or word.startswith("--exec"):
            rulings.append(Ruling(Rule.HIDDEN_COMMAND, _shown(words)))
    return _worst(rulings)


def _goes_on(word: str) -> bool:
    return word not in {";", "+"}


def _python(words: list[str], stdin: str | None, place: _Place) -> Ruling:
    rule, module = python_line(words, stdin)
    return _words(module, stdin, place) if module else Ruling(rule, _shown(words))


def _node(words: list[str], stdin: str | None, _place: _Place) -> Ruling:
    return Ruling(node_line(words, stdin), _shown(words))


def _perl(words: list[str], stdin: str | None, _place: _Place) -> Ruling:
    return Ruling(perl_line(words, stdin), _shown(words))


_Run = Callable[[list[str], str | None, _Place], Ruling]
_RUNNERS: Final[Mapping[str, _Run]] = {
    **dict.fromkeys(_SHELLS, _shell), **dict.fromkeys(("declare", "export", "local", "readonly", "typeset"), _export), ".": _source, "alias": _alias, "eval": _eval, "fd": _find, "fdfind": _find, "find": _find,
    "node": _node, "nodejs": _node, "perl": _perl, "python": _python, "source": _source, "trap": _trap,
}  # fmt: skip


def _shown(words: Sequence[str]) -> str:
    """The words as they are shown to a person: one line, bounded, with `$…` where only the shell knew."""
    text = " ".join(word[:WORDS_CHARS_MAX] for word in words[:WORDS_CHARS_MAX])
    text = " ".join(text.replace(HELD, "$…").replace(LOOSE, "$…").split())
    return text[:WORDS_CHARS_MAX]
