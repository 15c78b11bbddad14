"""Writes the reference pages that are made from tables in the code: `python -m bench.reference`.

A test compares the pages in `docs/` with what this prints, so that neither can be changed alone.
"""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from wakeful.config import KEYS
from wakeful.domain.evidence import Rung
from wakeful.domain.findings import EXIT_CODES, MEANINGS, Code, Health, State
from wakeful.domain.incident import SENTENCES, Cause
from wakeful.domain.plan import BUDGET_SECONDS, RULES, Step as PlanStep, revive_rule as _revive
from wakeful.domain.turn import OPEN, TRANSITIONS, Phase, Step
from wakeful.domain.waits import WAIT_WORDS
from wakeful.interfaces.cli.app import root

DOCS = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- made by `make docs` from the tables in src/wakeful/domain; do not edit -->\n"


def states() -> str:
    """Every phase of a turn and where each step leads."""
    lines = [MADE, "# Where a turn stands", ""]
    lines += [
        "A log's events become steps; a step moves the turn to its next phase. Every pair has an answer.",
        "",
        f"Inside a turn: {', '.join(f'`{phase}`' for phase in Phase if phase in OPEN)}.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        *_diagram(),
        "```",
        "",
        "| phase \\ step | " + " | ".join(Step) + " |",
        "|---" * (len(Step) + 1) + "|",
    ]
    lines += [
        f"| **{phase}** | " + " | ".join(TRANSITIONS[phase, step] for step in Step) + " |" for phase in Phase
    ]
    lines += [
        "",
        "# The ladder",
        "",
        "From the ground up: " + " > ".join(f"`{rung}`" for rung in Rung) + ".",
        "",
    ]
    return "\n".join(lines)


def _diagram() -> Iterator[str]:
    moves: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, step), after in TRANSITIONS.items():
        if phase is not after:
            moves.setdefault((phase, after), []).append(step)
    for (phase, after), steps in moves.items():
        yield f"    {phase} --> {after}: {', '.join(steps)}"


def findings() -> str:
    """What every finding means in every state."""
    lines = [
        MADE,
        "# Findings",
        "",
        f"The first finding names a session's trouble; the worst health wins ({' < '.join(Health)}).",
        "",
        "| finding | in state | health | severity | notice | act | attention | exit code |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for code in Code:
        grouped: dict[object, list[State]] = {}
        for state in State:
            grouped.setdefault(MEANINGS[code, state], []).append(state)
        for states_with in grouped.values():
            meaning = MEANINGS[code, states_with[0]]
            shown = "any" if len(grouped) == 1 else ", ".join(states_with)
            lines.append(
                f"| `{code}` | {shown} | {meaning.health} | {meaning.severity} | {meaning.notice} "
                f"| {meaning.act} | {meaning.attention} | {meaning.exit_code} |"
            )
    lines += ["", "Exit codes of `wakeful session health` by health:", ""]
    lines += [f"- `{health}`: {code}" for health, code in EXIT_CODES.items()]
    return "\n".join([*lines, "", *_waits(), ""])


def _waits() -> Iterator[str]:
    yield from (
        "# Expected waits",
        "",
        "Silence is judged only against these. Numbers are keys of `[detect]`.",
        "",
    )
    yield from ("| wait | rests on | runs out |", "|---|---|---|")
    for kind, (evidence, end) in WAIT_WORDS.items():
        yield f"| `{kind}` | {evidence} | {end} |"


def configuration() -> str:
    """Every key, its default and what it may be."""
    lines = [
        MADE,
        "# Configuration",
        "",
        "`wakeful.toml` is looked for at `--config`, `$WAKEFUL_CONFIG`, then the XDG config folder. Every key is also",
        "an environment variable: `daemon.port` is `WAKEFUL_DAEMON__PORT`. `wakeful config show` says where each value",
        "came from, `wakeful config check` what is wrong. A `./wakeful.toml` is ignored until `wakeful config trust`.",
        "",
        "| key | default | may be |",
        "|---|---|---|",
    ]
    lines += [f"| `{key.name}` | `{_default(key.default)}` | {key.allowed} |" for key in KEYS.values()]
    return "\n".join([*lines, ""])


def _default(value: object) -> str:
    return msgspec.json.encode(value).decode()


def commands() -> str:
    """What every command says about itself."""
    lines = [
        MADE,
        "# Commands",
        "",
        "Exit codes: 0 fine; 1 the answer is no; 2 the operator's mistake; 3 the world's;",
    ]
    lines += ["4 a bug of ours; 5 unknown; 6 (`session wait` only) a person is needed.", ""]
    for context in _walk(root, None):
        lines += [f"## `{context.command_path}`", "", "```", context.command.get_help(context), "```", ""]
    return "\n".join(lines)


def _walk(command: click.Command, parent: click.Context | None) -> Iterator[click.Context]:
    settings = {"terminal_width": 100, "max_content_width": 100, **command.context_settings}
    context = click.Context(command, parent, info_name=command.name if parent else "wakeful", **settings)
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, f"{name} is listed"
            yield from _walk(inner, context)


def healing() -> str:
    """What is done about a trouble: the rules of the plan in their order."""
    lines = [MADE, "# What is done about a trouble", ""]
    lines += [
        "The first rule that has an answer decides; nobody acts without it. Steps, from the gentlest: "
        + ", ".join(f"`{step}`" for step in PlanStep)
        + ".",
        "",
        "| | rule |",
        "|---|---|",
    ]
    lines += [f"| {number} | {rule.__doc__} |" for number, rule in enumerate(RULES, 1)]
    lines += [
        f"| {len(RULES) + 1} | {_revive.__doc__} |",
        "",
        f"One revival for each work, remembered for {BUDGET_SECONDS / 86_400:.0f} days.",
        "A work is what was asked until a turn ends well.",
        "",
        "# Incidents",
        "",
        "Trouble with a shared cause is one incident, one alert and one issue.",
        "",
        "| cause | what the alert says |",
        "|---|---|",
    ]
    lines += [f"| `{cause}` | {SENTENCES[cause].format(scope='…')} |" for cause in Cause]
    return "\n".join([*lines, ""])


PAGES = {
    "healing.md": healing,
    "states.md": states,
    "findings.md": findings,
    "configuration.md": configuration,
    "commands.md": commands,
}


def main() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
        print(f"docs/reference/{name}")


if __name__ == "__main__":
    main()
