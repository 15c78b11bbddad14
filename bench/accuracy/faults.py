"""Faults with a known onset, planted into recordings; and healthy waits that only look like faults.

Everything drawn is drawn from one seeded generator: the same kind, recording and seed give the same events.
Calls and results are the recording's own. Nothing here judges.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from bench.accuracy.pen import GUESSED, Pen, Planted
from bench.accuracy.recordings import Exchange, Recording
from wakeful.judging import events as e
from wakeful.judging.thresholds import Policy
from wakeful.sources.parsing import declared_timeout_seconds

POLICY: Final = Policy()
# Rounds planted: twice what any rule here asks for.
ROUNDS: Final = 10
# The documented minimum of each rule: a call made four times, a cycle of calls gone round three times, six errors.
EQUAL_CALLS_MIN: Final = 4
CYCLE_ROUNDS_MIN: Final = 3
ERRORS_MIN: Final = 6
TIMEOUTS_SECONDS: Final = (900.0, 1800.0, 3600.0)
PERSON_AWAY_SECONDS: Final = 12 * 3600.0
# Broader than any rule about polls: what looks like waiting is not repeated as if it were work.
_WAITING_TOOL: Final = re.compile(r"wait|poll|stdin|output|monitor", re.IGNORECASE)
_WAITING_COMMAND: Final = re.compile(r"sleep|wait|poll|watch|stdin|tail -f", re.IGNORECASE)
_SILENT: Final = frozenset({"silent", "tool_wedged"})

Plant = Callable[[Recording, Pen], Planted | None]


def plant(kind: str, recording: Recording, seed: int) -> Planted | None:
    """The recording up to an onset inside one of its turns, then the fault. None where it has no room for it."""
    if not recording.places:
        return None
    rng = random.Random(f"{kind}/{recording.id}/{seed}")
    onset = rng.choice(recording.places) + 1
    return KINDS[kind](recording, Pen(kind, recording, seed, onset, rng))


def _working(recording: Recording) -> list[Exchange]:
    """Different calls that are work and not waiting."""
    different = {(each.started.tool, each.started.input): each for each in recording.exchanges}
    return [each for each in different.values() if not _is_waiting(each.started)]


def _is_waiting(started: e.CallStarted) -> bool:
    """Whether the tool or its command waits; what is written into files may speak of waiting."""
    if _WAITING_TOOL.search(started.tool):
        return True
    fields = _fields(started.input)
    script = started.input.decode("utf-8", "replace") if not fields else ""
    command = str(fields.get("command") or fields.get("cmd") or script)
    return _WAITING_COMMAND.search(command) is not None


def _cycle(size: int) -> Plant:
    """The same calls with the same results, over and over."""
    rounds_min = EQUAL_CALLS_MIN if size == 1 else CYCLE_ROUNDS_MIN

    def planted(recording: Recording, pen: Pen) -> Planted | None:
        working = _working(recording)
        if len(working) < size:
            return None
        steps = pen.rng.sample(working, size)
        for number in range(ROUNDS):
            for step in steps:
                pen.exchange(step.started, step.ended)
            if number + 1 == rounds_min:
                pen.mark()
        return pen.planted({"loop"})

    return planted


def _reworded(recording: Recording, pen: Pen) -> Planted | None:
    """The same command with other words beside it; its result differs in clock, duration and pid only."""
    commands = [
        each for each in _working(recording) if _fields(each.started.input).keys() & {"command", "cmd"}
    ]
    if not commands:
        return None
    step = pen.rng.choice(commands)
    for number in range(ROUNDS):
        given = _fields(step.started.input) | {"description": f"try {pen.rng.getrandbits(32)}"}
        took, pid = pen.rng.uniform(0.1, 9.0), pen.rng.randrange(1000, 30_000)
        clock = f"2026-03-04T{number:02d}:{pen.rng.randrange(60):02d}:07Z"
        result = f'"{clock} FAIL in {took:.2f}s (pid {pid})"'.encode()
        pen.exchange(
            msgspec.structs.replace(step.started, input=msgspec.json.encode(given)),
            msgspec.structs.replace(step.ended, result=result),
        )
        if number + 1 == EQUAL_CALLS_MIN:
            pen.mark()
    return pen.planted({"loop"})


def _fields(given: bytes) -> dict[str, object]:
    try:
        decoded = msgspec.json.decode(given)
    except (msgspec.DecodeError, UnicodeDecodeError):  # some tools are given a script, not JSON
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _errors(recording: Recording, pen: Pen) -> Planted | None:
    """The recording's own calls, each failing in its own way."""
    return _failing(recording, pen, {"error_cascade"}, refused=False)


def _refusals(recording: Recording, pen: Pen) -> Planted | None:
    """A person said no, again and again: that is an answer, not an error."""
    return _failing(recording, pen, set(), refused=True)


def _failing(recording: Recording, pen: Pen, expected: set[str], *, refused: bool) -> Planted | None:
    working = _working(recording)
    if len(working) < ROUNDS:
        return None
    first = pen.rng.randrange(len(working))
    for number in range(ROUNDS):
        step = working[(first + number) % len(working)]
        result = f'"Error: {pen.rng.getrandbits(48):x} failed at line {number}"'.encode()
        ended = e.CallEnded(0.0, step.started.call, is_error=True, refused=refused, result=result)
        pen.exchange(step.started, ended)
        if number + 1 == ERRORS_MIN:
            pen.mark()
    return pen.planted(expected)


def _stream_cut(_recording: Recording, pen: Pen) -> Planted:
    """The model's answer never comes; the process lives."""
    pen.due(POLICY.silence_seconds)
    return pen.planted({"silent"})


def _wedged(recording: Recording, pen: Pen) -> Planted | None:
    """A call that never comes back; its client's own limit, if it has one, is what was recorded."""
    return _open_call(recording, pen, None, _SILENT | {GUESSED})


def _wedged_declared(recording: Recording, pen: Pen) -> Planted | None:
    """A call that never comes back although it declared how long it may take."""
    return _open_call(recording, pen, pen.rng.choice(TIMEOUTS_SECONDS), _SILENT | {GUESSED})


def _open_call(
    recording: Recording, pen: Pen, declared_seconds: float | None, expected: frozenset[str]
) -> Planted | None:
    working = _working(recording)
    if not working:
        return None
    started = pen.rng.choice(working).started
    allowed_seconds = declared_seconds if declared_seconds is not None else started.timeout_seconds
    pen.start(msgspec.structs.replace(started, timeout_seconds=allowed_seconds))
    is_agent = started.kind is e.CallKind.SUBAGENT
    patience_seconds = POLICY.subagent_seconds if is_agent else POLICY.tool_seconds
    if allowed_seconds is not None:
        patience_seconds = allowed_seconds + POLICY.tool_grace_seconds
    pen.due(max(patience_seconds, POLICY.silence_seconds), not_before_seconds=allowed_seconds or 0.0)
    return pen.planted(expected)


def _death(recording: Recording, pen: Pen) -> Planted | None:
    """The process is gone while a call is open."""
    working = _working(recording)
    if not working:
        return None
    pen.start(pen.rng.choice(working).started)
    pen.die(pen.rng.uniform(0.5, 60.0))
    return pen.planted({"session_dead"})


def _gone_after_turn(_recording: Recording, pen: Pen) -> Planted:
    """The turn ended, later the program did."""
    pen.write(e.TurnEnded(0.0))
    pen.die(pen.rng.uniform(1.0, 3000.0))
    return pen.planted(set())


def _permission(recording: Recording, pen: Pen) -> Planted | None:
    """A call that needs a person's permission, and the person went home."""
    working = _working(recording)
    if not working:
        return None
    started = pen.rng.choice(working).started
    pen.start(started)
    pen.write(e.QuestionAsked(0.0, started.tool))
    pen.wait(PERSON_AWAY_SECONDS)
    return pen.planted(set())


def _question(_recording: Recording, pen: Pen) -> Planted:
    """The agent asks, and no answer comes."""
    pen.start(e.CallStarted(0.0, "", "AskUserQuestion", e.CallKind.PERSON, b'{"questions":[]}'))
    pen.wait(PERSON_AWAY_SECONDS)
    return pen.planted(set())


def _long_tool(_recording: Recording, pen: Pen) -> Planted:
    """A build that said how long it may take, and takes most of it."""
    seconds = pen.rng.choice(TIMEOUTS_SECONDS)
    given = f'{{"command":"make world","timeout":{seconds * 1000:.0f}}}'.encode()
    return _returning(pen, given, seconds, seconds * pen.rng.uniform(0.7, 0.99))


def _sleeping_tool(_recording: Recording, pen: Pen) -> Planted:
    """A command that says itself how long it sleeps; whatever the readers make of that is declared."""
    seconds = pen.rng.choice(TIMEOUTS_SECONDS)
    given = f'{{"command":"sleep {seconds:.0f} && tail build.log"}}'.encode()
    return _returning(pen, given, declared_timeout_seconds(given), seconds)


def _returning(pen: Pen, given: bytes, declared_seconds: float | None, took_seconds: float) -> Planted:
    pen.start(e.CallStarted(0.0, "", "Bash", input=given, timeout_seconds=declared_seconds))
    pen.wait(took_seconds)
    pen.end(e.CallEnded(0.0, "", result=b'"done"'))
    return pen.planted(set())


def _poll(*, news: bool) -> Plant:
    """Asking a background command for its output: new lines every time, or none for three minutes."""

    def planted(_recording: Recording, pen: Pen) -> Planted:
        asked = e.CallStarted(0.0, "", "BashOutput", input=b'{"bash_id":"b1"}')
        for number in range(ROUNDS):
            line = f'"compiled {number * 7} of 300"'.encode() if news else b'"no new output"'
            pen.exchange(asked, e.CallEnded(0.0, "", result=line))
            pen.wait(10.0)
        return pen.planted(set())

    return planted


def _stagnation(_recording: Recording, pen: Pen) -> Planted:
    """Other searches, and always the same answer."""
    answer = e.CallEnded(
        0.0, "", result=b'"Search is not available: the index is being built. Try again later."'
    )
    for number in range(ROUNDS):
        given = f'{{"pattern":"part{number}"}}'.encode()
        pen.exchange(e.CallStarted(0.0, "", "Grep", input=given), answer)
        if number == POLICY.alike_results_max:
            pen.mark()
    return pen.planted({"loop"})


def _plan_churn(_recording: Recording, pen: Pen) -> Planted:
    """A plan in other words, and nothing else."""
    for number in range(ROUNDS):
        steps = [{"content": f"step {step}, version {number}", "status": "pending"} for step in range(3)]
        given = msgspec.json.encode({"todos": steps})
        pen.exchange(e.CallStarted(0.0, "", "TodoWrite", input=given), e.CallEnded(0.0, "", result=b'"ok"'))
        if number == POLICY.plan_writes_max:
            pen.mark()
    return pen.planted({"loop"})


def _spawn_storm(_recording: Recording, pen: Pen) -> Planted:
    """More and more agents, and none comes back."""
    for number in range(POLICY.spawns_open_max + ROUNDS):
        given = f'{{"prompt":"look at part {number}"}}'.encode()
        pen.start(e.CallStarted(0.0, "", "Task", e.CallKind.SUBAGENT, given))
        if number == POLICY.spawns_open_max:
            pen.mark()
    return pen.planted({"runaway"})


def _spaced_look(_recording: Recording, pen: Pen) -> Planted:
    """The same page every five minutes, for less than half an hour."""
    asked = e.CallStarted(0.0, "", "Bash", input=b'{"command":"curl -s https://ci.example.org/builds/7"}')
    for _ in range(5):
        pen.exchange(asked, e.CallEnded(0.0, "", result=b'"build 7: red"'))
        pen.wait(300.0)
    return pen.planted(set())


def _one_message(recording: Recording, pen: Pen) -> Planted | None:
    """Eight equal calls of one message: the answer to the first was not there yet."""
    working = _working(recording)
    if not working:
        return None
    step = pen.rng.choice(working)
    pen.together(step.started, msgspec.structs.replace(step.ended, is_error=False), 8)
    return pen.planted(set())


FAULTS: Final[Mapping[str, Plant]] = {
    "step repeated": _cycle(1),
    "step repeated, reworded": _reworded,
    "alternating pair": _cycle(2),
    "cycle of three": _cycle(3),
    "cycle of five": _cycle(5),
    "other searches, one answer": _stagnation,
    "plan reworded": _plan_churn,
    "agents sent out": _spawn_storm,
    "errors in place of results": _errors,
    "stream cut": _stream_cut,
    "tool never returns": _wedged,
    "tool never returns, timeout declared": _wedged_declared,
    "death inside a call": _death,
}
"""What must be found."""

HEALTHY: Final[Mapping[str, Plant]] = {
    "permission asked, person away": _permission,
    "question asked, person away": _question,
    "long tool, timeout declared": _long_tool,
    "tool that sleeps": _sleeping_tool,
    "refusals of a person": _refusals,
    "gone after its turn": _gone_after_turn,
    "poll with news": _poll(news=True),
    "poll without news, 3 min": _poll(news=False),
    "look every 5 min": _spaced_look,
    "8 equal calls of one message": _one_message,
}
"""What must not be accused of anything."""

KINDS: Final[Mapping[str, Plant]] = {**FAULTS, **HEALTHY}


def plant_all(kind: str, recordings: Sequence[Recording], seeds: int) -> list[Planted]:
    """One planted session for each recording and seed that has room for it."""
    tried = (plant(kind, recording, seed) for recording in recordings for seed in range(seeds))
    return [planted for planted in tried if planted is not None]
