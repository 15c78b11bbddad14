"""Claims about lessons: each covers one command, makes unknown local, and remote only if it says so."""

import asyncio

import msgspec
import pytest

from wakeful.checkpoints.user_rules import Lessons
from wakeful.core.clock import Instant
from wakeful.effects.rules import Effect, EffectRule
from wakeful.judging.interrupted_calls import InterruptedCall, classify
from wakeful.judging.user_effect_rules import BadLesson, Lesson, apply_lessons
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock

NOW = Instant(0.0, 0.0)


def effect_of(
    command: str | list[str], *prefixes: str, even_remote: bool = False, tool: str = "Bash"
) -> Effect:
    given = msgspec.json.encode({"command": command})
    call = InterruptedCall("c", tool, NOW, classify(tool, given), given)
    lessons = [Lesson("shop", each, even_remote, "ann", 0.0) for each in prefixes]
    (learned,) = apply_lessons([call], lessons)
    return learned.verdict.effect


@pytest.mark.parametrize(
    "command",
    [
        "./sync.sh --all",
        "cd api && ./sync.sh && make test",
        "./sync.sh > /dev/null 2>&1",
        ["bash", "-lc", "./sync.sh"],
        "./sync.sh; ./sync.sh again",
    ],
)
def test_unknown_becomes_local(command: str | list[str]) -> None:
    """Wherever the taught command stands in its line, as long as nothing else in it is in doubt."""
    assert effect_of(command) is Effect.UNKNOWN
    assert effect_of(command, "./sync.sh") is Effect.LOCAL


@pytest.mark.parametrize(
    "command",
    [
        "./sync.sh && ./deploy.sh",
        "./sync.sh $(./deploy.sh)",
        "./sync.sh `./deploy.sh`",
        "./sync.sh | sh",
        "./sync.shx",
        "$x/sync.sh",
        'X=1; eval "$Y"; ./sync.sh',
        "f() { ./deploy.sh; }; ./sync.sh; f",
        "./sync.sh 'unclosed",
        "./other.sh ./sync.sh",
    ],
)
def test_what_stands_beside_it_is_judged_as_ever(command: str) -> None:
    """A lesson never covers another command of the same line."""
    assert effect_of(command, "./sync.sh") is not Effect.LOCAL


def test_remote_needs_its_own_word() -> None:
    """What a rule knows to be remote stays so, unless the lesson means even that; a connection never becomes local."""
    push = "git push ../mirror main"
    assert effect_of(push, "git push ../mirror") is Effect.REMOTE
    assert effect_of(push, "git push ../mirror", even_remote=True) is Effect.LOCAL
    assert effect_of("git push origin main", "git push ../mirror", even_remote=True) is Effect.REMOTE
    assert effect_of("./sync.sh > /dev/tcp/h/1", "./sync.sh", even_remote=True) is Effect.REMOTE
    assert effect_of("./sync.sh && git push", "./sync.sh") is Effect.REMOTE


def test_other_tools_are_not_taught() -> None:
    """Lessons are about commands; an unknown tool stays unknown."""
    assert effect_of("./sync.sh", "./sync.sh", tool="mcp__x__send") is Effect.UNKNOWN


def test_the_verdict_names_the_lesson() -> None:
    """A person who reads why finds the lesson."""
    given = msgspec.json.encode({"command": "./sync.sh"})
    call = InterruptedCall("c", "Bash", NOW, classify("Bash", given), given)
    (learned,) = apply_lessons([call], [Lesson("shop", "./sync.sh", even_remote=False, by="ann", at=0.0)])
    assert learned.verdict.rule is EffectRule.TAUGHT


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "  ",
        "bash",
        "bash -c",
        "sh -lc x",
        "sudo",
        "timeout 5",
        "python3",
        "'open",
        "a && b",
        "a $(b)",
        "x" * 301,
    ],
)
def test_too_wide_or_broken_lessons_are_refused(prefix: str) -> None:
    """A lesson that would cover nearly everything, or that is no beginning of a command, is not taken."""
    lessons = Lessons(MemoryStore(), VirtualClock())
    with pytest.raises(BadLesson):
        asyncio.run(lessons.teach("shop", prefix, "ann"))


async def test_lessons_are_kept_for_their_project() -> None:
    """Another project is asked about, a restart remembers, and what is forgotten is judged by the rules again."""
    store = MemoryStore()
    await Lessons(store, VirtualClock()).teach("shop", "./sync.sh", "ann")
    following = Lessons(store, VirtualClock())
    await following.load()
    assert [each.prefix for each in following.of("shop")] == ["./sync.sh"]
    assert following.of("bank") == ()
    assert await following.forget("shop", "./sync.sh") is True
    assert await following.forget("shop", "./sync.sh") is False
    assert following.of("shop") == ()
