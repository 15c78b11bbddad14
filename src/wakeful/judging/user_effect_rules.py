"""Applies lessons: command prefixes that a person taught as local in a project. Pure.

A lesson applies to one simple command, never to the rest of its line, which is classified as usual. It turns
unknown into local. A command that a rule knows to be remote stays remote, unless the lesson covers remote ones.
"""

import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.errors import OperatorError
from wakeful.core.text import has_hidden_characters
from wakeful.effects.programs import WRAPPERS
from wakeful.effects.rules import MEANINGS, RANK, Effect, EffectRule
from wakeful.effects.shell import Ruling, classify_command
from wakeful.effects.shell_parser import Command, has_unknown_part, read_script
from wakeful.judging.activity import INPUT_BYTES_KEPT_MAX
from wakeful.judging.interrupted_calls import SHELL_TOOLS, EffectVerdict, InterruptedCall, shell_command

PREFIX_CHARS_MAX: Final = 300
# Programs that run any command: a lesson must name it.
_RUN_ANYTHING: Final = frozenset(
    {"ash", "bash", "dash", "fish", "ksh", "sh", "zsh", "eval", "exec", "source", ".", "ssh", "python", "python3"}
    | {"node", "perl", "ruby", "php", "docker", "podman", "kubectl", *WRAPPERS}
)  # fmt: skip
_WITH_TEXT: Final = 3


class BadLesson(OperatorError):
    """{shown!r} cannot be marked as local: {reason}."""

    code = "bad-lesson"


class Lesson(Struct, frozen=True):
    """In this project, commands that begin with these words are local."""

    project: str
    prefix: str
    even_remote: bool
    by: str
    at: float


def prefix_words(prefix: str) -> list[str]:
    """The words a command must begin with. Raises BadLesson if they are invalid or match nearly everything."""
    if len(prefix) > PREFIX_CHARS_MAX or has_hidden_characters(prefix):
        raise BadLesson(shown=prefix[:60], reason="it is too long or has invisible characters")
    try:
        words = shlex.split(prefix)
    except ValueError as error:
        raise BadLesson(shown=prefix, reason="its quotes do not close") from error
    if not words:
        raise BadLesson(shown=prefix, reason="it is empty")
    if any(sign in prefix for sign in "$`;&|<>()\n"):
        raise BadLesson(shown=prefix, reason="it is more than the beginning of one command")
    program = _name(words[0])
    needed = 2 + (WRAPPERS[program].operands if program in WRAPPERS else 0)
    if program in _RUN_ANYTHING and (len(words) < needed or words[1].startswith("-")):
        raise BadLesson(shown=prefix, reason=f"{words[0]} runs any command; include that command as well")
    return words


def apply_lessons(calls: Iterable[InterruptedCall], lessons: Sequence[Lesson]) -> tuple[InterruptedCall, ...]:
    """The same calls, reclassified by lessons where no rule is certain."""
    if not lessons:
        return tuple(calls)
    taught = [(prefix_words(each.prefix), each.even_remote) for each in lessons]
    return tuple(_reclassify(call, taught) for call in calls)


def _reclassify(call: InterruptedCall, taught: Sequence[tuple[list[str], bool]]) -> InterruptedCall:
    text = _text_of(call) if call.verdict.effect is not Effect.LOCAL else None
    script = read_script(text) if text is not None else None
    if script is None or not script.whole or script.functions:
        return call
    rulings = [_ruling_for(command, taught) for command in script.commands]
    worst = max(rulings, key=lambda each: RANK[each.rule], default=None)
    if worst is None or EffectRule.TAUGHT not in {each.rule for each in rulings}:
        return call
    return replace(call, verdict=EffectVerdict(MEANINGS[worst.rule].effect, worst.rule, worst.words))


def _text_of(call: InterruptedCall) -> str | None:
    """The shell text of a call whose input was not cut."""
    if call.tool not in SHELL_TOOLS or len(call.given) >= INPUT_BYTES_KEPT_MAX:
        return None
    try:
        command = shell_command(call.given)
    except ValueError:
        return None
    if not isinstance(command, list):
        return command
    # `bash -lc TEXT`: Codex runs everything this way.
    runs_text = len(command) == _WITH_TEXT and command[1] in {"-c", "-lc"}
    return command[2] if runs_text and _name(command[0]) in {"bash", "sh", "zsh"} else None


def _ruling_for(command: Command, taught: Sequence[tuple[list[str], bool]]) -> Ruling:
    ruling = classify_command(command)
    effect = MEANINGS[ruling.rule].effect
    if effect is Effect.LOCAL or any(map(_is_connection, command.targets)):
        return ruling
    fits = any(
        command.words[: len(words)] == words and (even_remote or effect is Effect.UNKNOWN)
        for words, even_remote in taught
    )
    return Ruling(EffectRule.TAUGHT, ruling.words) if fits else ruling


def _name(program: str) -> str:
    return program.rpartition("/")[2]


def _is_connection(target: str) -> bool:
    """Whether the file is a network connection: then a write of any program is remote."""
    return (
        "/dev/tcp" in target
        or "/dev/udp" in target
        or (has_unknown_part(target) and target.startswith("/dev"))
    )
