"""`python -m bench.effects`: how the recorded calls are classed, per client, and the page with the rules.

Exits 1 if more of them are unknown than asked for. The page holds counts and rules, never a recorded word.
"""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from bench.accuracy.recordings import READERS, SMALL, Recording, load
from wakeful.core.clock import Instant
from wakeful.effects.rules import MEANINGS, PROGRAMS, RANK, VERBS, Effect, EffectRule, Verbs
from wakeful.judging import events as e
from wakeful.judging.activity import Activity
from wakeful.judging.folding import fold
from wakeful.judging.interrupted_calls import TOOLS, EffectVerdict, classify, interrupted_calls

ROOT: Final = Path(__file__).parents[1]
UNKNOWN_SHARE_MAX: Final = 0.05
# Of fewer calls a share says nothing: the repository's own recordings have seventeen.
CALLS_MIN: Final = 200
PROGRAMS_SHOWN: Final = 20
MADE: Final = "<!-- made by `python -m bench.effects --write` from src/wakeful/effects; do not edit -->"
INTRODUCTION: Final = """
# Effects of an interrupted call

When a session dies inside a tool call, it is unknown how far the call got. What may be done next depends on where it
could have left something half done: `local` work can be looked at and done again; `remote` work may have reached
other people and cannot be taken back; `unknown` is treated as remote. A call has the class of its worst part.

The rules read what the log says a call was asked to do: the tool's name, and for shells, code and scripts every command
in the text. They never run or fetch anything and never trust a program because it is inside the project.

## What they cannot see

- Tests, builds, package installs and tasks named after them are local by convention. A test that writes to a live
  service, a `make test` that deploys, an install script or a git hook that reaches out is not seen.
- A GET that changes something, a `PATH` that puts another program behind a known name, a server on this machine that
  passes a request on: not seen.
- The calls of a subagent are in its own log. A poll (`write_stdin` without text, `TaskOutput`) is harmless; the command
  it waits for is listed beside it if its beginning was seen, and the poll is unknown if not.
"""


class Shares(Struct):
    """Counts for one client: of its calls by rule, and by class of the moments in which one had just begun."""

    rules: Counter[EffectRule] = field(default_factory=Counter)
    moments: Counter[Effect] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    @property
    def effects(self) -> Counter[Effect]:
        counts: Counter[Effect] = Counter()
        for rule, count in self.rules.items():
            counts[MEANINGS[rule].effect] += count
        return counts

    @property
    def calls(self) -> int:
        return self.rules.total()


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    shares = measure(load(options.corpus))
    print(*_lines(shares), sep="\n")
    if options.write is not None:
        options.write.write_text(page(shares))
    counted = shares["all"]
    return 1 if counted.calls >= CALLS_MIN and _unknown_share(counted) > UNKNOWN_SHARE_MAX else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.effects", description=__doc__)
    corpus = Path(os.environ.get("WAKEFUL_CORPUS", SMALL))
    parser.add_argument("--corpus", type=Path, default=corpus, help="recordings; default: $WAKEFUL_CORPUS")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    return parser.parse_args(arguments)


def measure(recordings: Sequence[Recording]) -> Mapping[str, Shares]:
    """The shares per client, and of all together."""
    shares = {name: Shares() for name in (*READERS, "all")}
    for recording in recordings:
        for verdict, moment in _verdicts(recording.events):
            for share in (shares[recording.dialect], shares["all"]):
                _count(share, verdict, moment)
    return shares


def _verdicts(events: Sequence[e.Event]) -> Iterator[tuple[EffectVerdict, EffectVerdict]]:
    """Each call, and the worst a session would have left behind that died right after the call began."""
    activity = Activity()
    for event in events:
        fold(activity, event, Instant(event.at, event.at))
        if isinstance(event, e.CallStarted):
            left = [call.verdict for call in interrupted_calls(activity)]
            yield classify(event.tool, event.input), max(left, key=lambda verdict: RANK[verdict.rule])


def _count(shares: Shares, verdict: EffectVerdict, moment: EffectVerdict) -> None:
    shares.rules[verdict.rule] += 1
    shares.moments[moment.effect] += 1
    if verdict.effect is Effect.UNKNOWN:
        shares.unknown[f"{verdict.rule}: {' '.join(verdict.words.split()[:2])}"] += 1


def _unknown_share(shares: Shares) -> float:
    return shares.effects[Effect.UNKNOWN] / shares.calls


def _lines(shares: Mapping[str, Shares]) -> Iterator[str]:
    yield headline()
    for name, share in shares.items():
        yield f"{name:<7} {share.calls:>6} calls   " + "  ".join(_parts(share.effects, share.calls))
        yield f"{'':<7} {'':>6} if cut off there   " + "  ".join(_parts(share.moments, share.calls))
    yield ""
    yield from (
        f"{count:>6}  {MEANINGS[rule].effect:<8} {rule}" for rule, count in shares["all"].rules.most_common()
    )
    yield "\nmost frequent unknown:"
    yield from (f"{count:>6}  {words}" for words, count in shares["all"].unknown.most_common(PROGRAMS_SHOWN))


def _parts(counts: Counter[Effect], total: int) -> list[str]:
    return [f"{effect} {_percent(counts[effect], total)}" for effect in Effect]


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} %" if total else "-"


def headline() -> str:
    argv = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return f"{time.strftime('%Y-%m-%d', time.gmtime())}, commit {said.stdout.strip() or 'unknown'}"


def page(shares: Mapping[str, Shares]) -> str:
    """The reference page: what is measured, then the rules."""
    return "\n".join([MADE, INTRODUCTION, *_measured(shares), rule_tables()])


def _measured(shares: Mapping[str, Shares]) -> Iterator[str]:
    yield "## Measured\n"
    yield f"{headline()}. Target: at most {UNKNOWN_SHARE_MAX:.0%} of the recorded calls unknown.\n"
    yield "| client | calls | local | unknown | remote | cut off there: local | unknown | remote |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, share in shares.items():
        cells = [
            _percent(counts[effect], share.calls)
            for counts in (share.effects, share.moments)
            for effect in Effect
        ]
        yield f"| {name} | {share.calls:,} | {' | '.join(cells)} |"
    yield "\n`cut off there`: the worst a session would have left if it had died right after the call began, with what it"
    yield "left running behind earlier calls.\n"


def rule_tables() -> str:
    """The rules as the code has them."""
    lines = ["## Rules\n", "From harmless to worst.\n", "| rule | class | says |", "|---|---|---|"]
    lines += [f"| `{rule}` | {meaning.effect} | {meaning.says} |" for rule, meaning in MEANINGS.items()]
    lines += ["", "## Tools\n", *_by_rule(TOOLS)]
    lines += [
        "",
        "## Programs\n",
        "With any arguments; a few are checked further.\n",
        *_by_rule(PROGRAMS),
    ]
    lines += [
        "",
        "## Subcommands\n",
        f"Any other subcommand is `{EffectRule.UNKNOWN_PROGRAM}` if nothing else is given.\n",
    ]
    lines += [f"- `{name}`: {'; '.join(_subcommands(verbs))}" for name, verbs in VERBS.items()]
    return "\n".join(lines) + "\n"


def _by_rule(names: Mapping[str, EffectRule]) -> Iterator[str]:
    for rule in MEANINGS:
        found = sorted(name for name, each in names.items() if each is rule)
        if found:
            yield f"- `{rule}`: " + ", ".join(f"`{name}`" for name in found)


def _subcommands(verbs: Verbs) -> Iterator[str]:
    for rule in MEANINGS:
        found = sorted(verb for verb, each in verbs.rules.items() if each is rule)
        if found:
            yield f"`{rule}` {', '.join(found)}"
    for handed, meaning in ((verbs.runs, "command behind it"), (verbs.tasks, "task's name")):
        if handed:
            yield f"by the {meaning} {', '.join(sorted(handed))}"
    if verbs.otherwise is not EffectRule.UNKNOWN_PROGRAM:
        yield f"any other `{verbs.otherwise}`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
