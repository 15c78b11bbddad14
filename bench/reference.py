"""Writes the reference pages that are made from tables in the code: `python -m bench.reference`.

A test compares the pages in `docs/` with what this prints, so that neither can be changed alone.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, product
from pathlib import Path

import click
import msgspec

from bench.alert_examples import EXAMPLES
from bench.gateway_reference import gateway as gateway_page
from wakeful.agents.model import AGENT_TRANSITIONS, AgentEvent, AgentState, accepts
from wakeful.cli.app import root
from wakeful.config.gateway import CHAT_KEYS, CHATS
from wakeful.config.schema import AGENT_KEYS, KEYS
from wakeful.core.environment_allowlist import AGENT, GH, HELPER, USUAL
from wakeful.core.process import ProcessState
from wakeful.core.redaction import FORMATS
from wakeful.healing.plan import BUDGET_SECONDS, RULES, HealingStep as PlanStep, revive_rule as _revive
from wakeful.incidents.model import CAUSE_TEXTS, Cause
from wakeful.journal.model import OnAlive, StepEffects, StepStatus
from wakeful.journal.recovery_rules import (
    ATTEMPTS_MAX,
    RULES as RECOVERY_RULES,
    STATUS_OF,
    RecoveryRule,
    RemoteAnswer,
    StepAction,
    StepFacts,
    action_for_running,
    decide,
)
from wakeful.judging.evidence import LivenessLevel
from wakeful.judging.findings import EXIT_CODES, MEANINGS, FindingCode, FindingMeaning, Health, State
from wakeful.judging.turn_state import OPEN, TRANSITIONS, TurnPhase, TurnStep
from wakeful.judging.waits import WAIT_TEXTS
from wakeful.judging.wake_eligibility import RULES as WAKE_RULES, IneligibilityReason
from wakeful.metrics.model import FAMILIES, SECONDS_BOUNDS, MetricKind
from wakeful.sessions.health_fields import WRITERS, HealthTrigger

DOCS = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- made by `make docs` from the tables in src/wakeful; do not edit -->\n"
_JSON_OPTION = re.compile(r"^  --json +Answer in JSON\. Same as -o json\.\n", re.MULTILINE)
_COMMON_OPTION = re.compile(
    f"{_JSON_OPTION.pattern}|^  -h, --help +Show this message and exit\\.\n?", re.MULTILINE
)
_CONFIG_OPTION = re.compile(r"^  --config FILE +Read only this configuration file\.\n?", re.MULTILINE)
_EXAMPLE = re.compile(r"^  Example: .*(?:\n   .*)*\n?", re.MULTILINE)
# The lists of a group's commands: each is described below it.
_SUBCOMMANDS = re.compile(r"^(?!Options:)\w[\w ]*:\n(?:  .*\n?)+", re.MULTILINE)


def states() -> str:
    """Where each step leads a turn from each phase."""
    lines = [
        MADE,
        "# Phases of a turn",
        "",
        "A log's events become steps; a step moves the turn to its next phase. Every pair of phase and step has a result.",
        "",
        f"Inside a turn: {_phases(TurnPhase, inside=True)}. Outside: {_phases(TurnPhase, inside=False)}.",
        "",
        "| step | leads to | but does not change | or leads from |",
        "|---|---|---|---|",
    ]
    for step in TurnStep:
        results = {phase: TRANSITIONS[phase, step] for phase in TurnPhase}
        usual, _ = Counter(results.values()).most_common(1)[0]
        kept = ", ".join(f"`{each}`" for each, after in results.items() if each is after is not usual)
        others = (f"`{each}` to `{after}`" for each, after in results.items() if after not in {each, usual})
        lines.append(f"| {step} | `{usual}` | {kept} | {', '.join(others)} |")
    lines += [
        "",
        "# Liveness levels",
        "",
        "From the lowest to the highest: " + " > ".join(f"`{rung}`" for rung in LivenessLevel) + ".",
        "",
    ]
    return "\n".join(lines)


def _phases(phases: Iterable[TurnPhase], *, inside: bool) -> str:
    return ", ".join(f"`{each}`" for each in phases if (each in OPEN) is inside)


def findings() -> str:
    """What every finding means in every state."""
    lines = [
        MADE,
        "# Findings",
        "",
        f"The first finding is shown as the session's problem; the worst health counts ({' < '.join(Health)}). Exit codes of",
        f"`wakeful session health`: {', '.join(f'`{health}` {code}' for health, code in EXIT_CODES.items())}.",
        "",
        "| finding | in state | health | severity | notice | act | attention |",
        "|---|---|---|---|---|---|---|",
    ]
    for rows, codes in groupby(FindingCode, _meaning_rows):
        names = ", ".join(f"`{code}`" for code in codes)
        lines += [f"| {names} | {row} |" for row in rows]
    return "\n".join([*lines, "", *_waits(), ""])


def _meaning_rows(code: FindingCode) -> list[str]:
    """What a finding means, one row for all states in which it means the same."""
    grouped: dict[FindingMeaning, list[State]] = {}
    for state in State:
        grouped.setdefault(MEANINGS[code, state], []).append(state)
    rows = []
    for meaning, found in grouped.items():
        assert meaning.exit_code == EXIT_CODES[meaning.health], f"{code} has its own exit code"
        cells = (meaning.health, meaning.severity, meaning.notice, meaning.act, meaning.attention)
        rows.append(" | ".join((_states(found), *cells)))
    return rows


def _states(found: Sequence[State]) -> str:
    missing = [state for state in State if state not in found]
    if len(missing) < len(found):
        return "any but " + ", ".join(missing) if missing else "any"
    return ", ".join(found)


def _waits() -> Iterator[str]:
    yield from (
        "# Expected waits",
        "",
        "A session is silent only when all of these have run out. Names such as `silence_seconds` are keys of `[detect]`.",
        "",
    )
    yield from ("| wait | evidence | ends |", "|---|---|---|")
    for kind, (evidence, end) in WAIT_TEXTS.items():
        yield f"| `{kind}` | {evidence} | {end} |"


def configuration() -> str:
    """Every key, its default and what it may be."""
    lines = [
        MADE,
        "# Configuration",
        "",
        "Wakeful looks for `wakeful.toml` at `--config`, `$WAKEFUL_CONFIG`, then the XDG config folder. Every key is also",
        "an environment variable: `daemon.port` is `WAKEFUL_DAEMON__PORT`. `wakeful config show` shows where each value",
        "came from, `wakeful config check` what is wrong. A `./wakeful.toml` is ignored until `wakeful config trust`.",
        "In a variable a list is JSON, or separated by commas; a list of folders by colons.",
        "",
        "A running daemon reads the file again when it changes. `alerts`, `heal`, `detect` and `session.supervision` take effect",
        "at once, except `alerts.ping_url` and `detect.fold_after_seconds`; with `redis.url` also `detect` and the Telegram keys",
        "wait for a restart, as all other keys do. `wakeful status` and `doctor` name the keys that wait. An invalid file changes nothing.",
        "",
        "Every key is set to its default here; what it may be follows. Words in italics:",
        "",
        *(f"- *{short}*: {long}" for long, short in _COMMON_VALUES.items()),
    ]
    for section, keys in groupby(KEYS.values(), lambda key: key.name.rpartition(".")[0]):
        values: dict[str, list[str]] = {}
        for key in keys:
            default = _default(key.format_value(key.default))
            values.setdefault(_value(key.allowed), []).append(f"`{key.name.rpartition('.')[2]} = {default}`")
        lines += ["", f"`[{section}]`", ""]
        lines += [f"- {', '.join(settings)}: {value}" for value, settings in values.items()]
    return "\n".join([*lines, "", *_agent_keys(), "", *_chat_keys(), "", *_environments(), ""])


# What several keys may be, and the word for it in the tables.
_COMMON_VALUES = {
    "a number of seconds above 0, 315360000 at most": "seconds",
    "a number of seconds above 0, 86400 at most": "seconds, a day at most",
    "a whole number from 1 to 1000000000": "count",
    "a whole number from 1 to 1000": "count to 1000",
    'a duration like "5m", or a number of seconds above 0, 315360000 at most': "duration",
    "a number of dollars from 0 to 1000000": "dollars",
    'a list of paths that begin with / or ~/, like ["~/logs"]': "folders",
    "empty, or a path that begins with / or ~/": "path",
    'a list of words, the program first, like ["notify-send", "health"]': "command",
    "a list of numeric user ids, like [123456789]": "user ids",
}


def _value(allowed: str) -> str:
    return f"*{_COMMON_VALUES[allowed]}*" if allowed in _COMMON_VALUES else allowed


def _agent_keys() -> Iterator[str]:
    yield from (
        "# Agents",
        "",
        "One table for each, `[agents.NAME]`: small letters, digits, `_` and `-`, 40 at most. `heartbeat` and the subcommands of",
        "`wakeful agent` are reserved. They can be set in files only, not in the environment.",
        "",
        "| key | default | may be | meaning |",
        "|---|---|---|---|",
    )
    for name, key in AGENT_KEYS.items():
        default = "" if key.default is None else f"`{_default(key.default)}`"
        yield f"| `{name}` | {default} | {_value(key.allowed)} | {key.meaning} |"


def _chat_keys() -> Iterator[str]:
    yield from (
        "# Chats of the gateway",
        "",
        f'A table each, `[{CHATS}."chat:<id>:thread:<id or main>"]`; `[{CHATS}.default]` is for all the others. They stand in',
        "files only.",
        "",
        "| key | default | may be | meaning |",
        "|---|---|---|---|",
    )
    for name, key in CHAT_KEYS.items():
        default = "" if key.default is None else f"`{_default(key.default)}`"
        yield f"| `{name}` | {default} | {_value(key.allowed)} | {key.meaning} |"


def _environments() -> Iterator[str]:
    added = [name for name in AGENT if name not in HELPER]
    rows = {
        "an agent of `[agents.NAME]`": (USUAL, "and what its `env` names"),
        "tmux, git, docker, systemctl, a browser": (HELPER, ""),
        "a hook": ((), "what tmux gets, and `daemon.pass_environment`"),
        "`gh`": ([name for name in GH if name not in HELPER], "and what tmux gets"),
        "an agent that the daemon or the gateway starts": (
            added,
            "and what tmux gets, and `daemon.pass_environment`",
        ),
    }
    yield from (
        "# Variables that programs get",
        "",
        "A program that Wakeful starts gets the variables of this table and no others. An agent that you start or resume by",
        "a command gets the environment of that command. No program gets a setting of Wakeful (`WAKEFUL_…__…`), nor a",
        "variable whose value contains one of its secrets: a bot token, an alert or ping address, the Redis address, the HTTP",
        "token. The daemon and the gateway themselves get all variables.",
        "",
        "| program | variables |",
        "|---|---|",
    )
    for program, (names, more) in rows.items():
        yield f"| {program} | {' '.join(f'`{name}`' for name in names)} {more} |"


def _default(value: object) -> str:
    return msgspec.json.encode(value).decode()


def commands() -> str:
    """What every command says about itself, without the words that many of them share."""
    lines = [
        MADE,
        "# Commands",
        "",
        "Exit codes: 0 success; 1 the answer is no; 2 a mistake in the command or configuration; 3 a problem of the environment;",
        "4 a bug in Wakeful; 5 unknown; 6 (`session wait` only) the session needs a person.",
        "",
        "`wakeful` alone is `top`, or `ls` in a pipe. NAME is a session: its name, agent, tmux session, project, id, or a part of it.",
        "Every command has `--help` (`-h`), which also shows an example. `--json` answers in JSON, as `-o json` does. `--config FILE`",
        "alone means: read only this configuration file.",
    ]
    described: dict[str, str] = {}
    for section, contexts in _sections():
        lines += ["", f"## {section}", "", "```"]
        for context in contexts:
            usage, description = _own_help(context)
            command = context.command_path.removeprefix("wakeful ")
            earlier = described.setdefault(description, command)
            lines += ["", usage] if lines[-1] != "```" else [usage]
            lines.append(description if earlier == command else f"  Same as `{earlier}`.")
        lines.append("```")
    return "\n".join([*lines, ""])


def _sections() -> Iterator[tuple[str, list[click.Context]]]:
    """The commands that stand alone, then every group with its own, without the screen of `wakeful` itself."""
    all_contexts = [context for context in command_contexts(root) if context.parent is not None]
    groups = [each for each in all_contexts if isinstance(each.command, click.Group)]
    outer = [group for group in groups if group.parent is not None and group.parent.parent is None]
    below = {
        id(group): [each for each in all_contexts if each is group or _is_below(each, group)]
        for group in outer
    }
    grouped = {id(each) for contexts in below.values() for each in contexts}
    yield "Commands without subcommands", [each for each in all_contexts if id(each) not in grouped]
    for group in outer:
        yield f"`{group.command_path}`", below[id(group)]


def _is_below(context: click.Context, group: click.Context) -> bool:
    return context.parent is not None and (context.parent is group or _is_below(context.parent, group))


def _own_help(context: click.Context) -> tuple[str, str]:
    """A usage line, and the description and options that only this command has."""
    usage, _, rest = context.command.get_help(context).partition("\n")
    words = usage.removeprefix("Usage: wakeful ").replace(" [OPTIONS]", "").replace(" [ARGS]...", "")
    if _JSON_OPTION.search(rest):
        words += " [--json]"
    if _CONFIG_OPTION.search(rest):
        words += " [--config FILE]"
    for shared in (_COMMON_OPTION, _CONFIG_OPTION, _EXAMPLE, _SUBCOMMANDS):
        rest = shared.sub("", rest)
    kept = [line for line in rest.splitlines() if line.strip() and line != "Options:"]
    if context.parent is not None and context.parent.parent is not None:
        _, above = _own_help(context.parent)
        shared_options = {line for line in above.splitlines() if line.startswith("  -")} & {*kept}
        if shared_options:
            kept = [line for line in kept if line not in shared_options]
            words += f" [options of {context.parent.info_name}]"
    return words, "\n".join(kept)


def command_contexts(
    command: click.Command, parent: click.Context | None = None, name: str = "wakeful"
) -> Iterator[click.Context]:
    """A command and all below it, also the hidden ones, each under the name a person types.

    Each has the settings of its group: click keeps the help option that a command had in its first context.
    """
    settings = {"terminal_width": 100, "max_content_width": 100, **command.context_settings}
    context = click.Context(command, parent, info_name=name, **settings)
    yield context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            inner = command.get_command(context, below)
            assert inner is not None, f"{below} is listed"
            yield from command_contexts(inner, context, below)


def healing() -> str:
    """What Wakeful does about a problem: the rules of the plan in their order."""
    lines = [MADE, "# What Wakeful does about a problem", ""]
    lines += [
        "The first rule that applies decides; no action is taken without one. Steps, from the mildest: "
        + ", ".join(f"`{step}`" for step in PlanStep)
        + ".",
        "",
    ]
    lines += [f"{number}. {rule.__doc__}" for number, rule in enumerate(RULES, 1)]
    lines += [
        f"{len(RULES) + 1}. {_revive.__doc__}",
        "",
        f"One resume for each task, remembered for {BUDGET_SECONDS / 86_400:.0f} days.",
        "A task is what a person asked for, until a turn ends well.",
        "",
        "# Incidents",
        "",
        "Problems with one cause are one incident, one alert and one issue. The causes, with what the alert says:",
        "",
    ]
    lines += [f"- `{cause}`: {CAUSE_TEXTS[cause].format(scope='…')}" for cause in Cause]
    return "\n".join([*lines, ""])


def agents() -> str:
    """Every state of an agent, and what leads from one to the next."""
    lines = [
        MADE,
        "# States of an agent",
        "",
        "`running` needs the container, the tmux session and the agent's own process seen alive. `stale`: the container",
        "is up (in the tmux runtime: it was started and not stopped), and the session or the agent in it is gone.",
        "If the evidence is missing, the state is `unknown`, with the reason and the time; Wakeful then takes no action by itself.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        *_agent_moves(),
        "```",
        "",
        "What has no arrow changes nothing; a command without one is refused (409). Commands are accepted in:",
        "",
    ]
    for order, word in ((AgentEvent.START, "start"), (AgentEvent.STOP, "stop")):
        taken = ", ".join(f"`{state}`" for state in AgentState if accepts(state, order))
        lines.append(f"- `{word}`: {taken}")
    return "\n".join(
        [
            *lines,
            "- `restart-session`: `stale`",
            "",
            "While a command is in progress, observations do not change the state.",
            "",
        ]
    )


def _agent_moves() -> Iterator[str]:
    yield f"    [*] --> {AgentState.STOPPED}"
    steps: dict[tuple[AgentState, AgentState], list[str]] = {}
    for (state, event), after in AGENT_TRANSITIONS.items():
        steps.setdefault((state, after), []).append(event)
    for (state, after), moves in steps.items():
        yield f"    {state} --> {after}: {', '.join(moves)}"


def recovery() -> str:
    """What happens to an interrupted step: the decision matrix, rule by rule and question by question."""
    lines = [
        MADE,
        "# What happens to an interrupted step",
        "",
        "The first rule that fits decides; empty means anything. `living` is the second table. A step is run again only if",
        f"it was interrupted {ATTEMPTS_MAX} times at most; after that a person is asked.",
        "",
        "| | last action | process | effects | key | other side says | then | because |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {number} | {_rule_cells(rule)} |" for number, rule in enumerate(RECOVERY_RULES, 1)]
    lines += [
        "",
        "# A live process",
        "",
        "| detachable | orphanable | on_alive | then |",
        "|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(cells)} |" for cells in _living_rows()]
    lines += [
        "",
        "# How a recovery ends",
        "",
        "The worst result of its steps decides.",
        "",
    ]
    statuses: dict[str, list[StepAction]] = {}
    for action in StepAction:
        if action is not StepAction.LIVING:
            statuses.setdefault(STATUS_OF[action], []).append(action)
    lines += [f"- {status}: {', '.join(f'`{each}`' for each in all_)}" for status, all_ in statuses.items()]
    return "\n".join([*lines, "", *_every_question(), ""])


def _rule_cells(rule: RecoveryRule) -> str:
    conditions = [
        ", ".join(f"`{word}`" for word in sorted(words)) for words in (rule.last, rule.sight, rule.effects)
    ]
    conditions.append(", ".join(_yes(each) for each in rule.keyed))
    conditions.append(", ".join(f"`{word}`" for word in sorted(rule.answer)))
    return " | ".join([*conditions, f"`{rule.course}`", rule.reason])


def _every_question() -> Iterator[str]:
    """The complete table for what was started or failed; the other last actions have one answer each."""
    yield from (
        "# Every question",
        "",
        "For a step that was started or that failed: both are treated alike. Columns: what the other side says.",
        "",
        "| process | effects | key | " + " | ".join(f"`{each}`" for each in RemoteAnswer) + " |",
        "|---" * (3 + len(RemoteAnswer)) + "|",
    )
    for state in ProcessState:
        alike: dict[tuple[StepAction, ...], list[tuple[StepEffects, bool]]] = {}
        for effects, keyed in product(StepEffects, (False, True)):
            answers = tuple(
                decide(StepFacts(StepStatus.STARTED, state, effects, keyed, each)).course
                for each in RemoteAnswer
            )
            alike.setdefault(answers, []).append((effects, keyed))
        for answers, cases in alike.items():
            classes = dict.fromkeys(effects for effects, _ in cases)
            keys = dict.fromkeys(keyed for _, keyed in cases)
            assert len(cases) == len(classes) * len(keys), "a row stands for all its combinations"
            yield (
                f"| `{state}` | {', '.join(f'`{each}`' for each in classes)} | {' or '.join(map(_yes, keys))} | "
                + " | ".join(f"`{action}`" for action in answers)
                + " |"
            )


def _living_rows() -> Iterator[tuple[str, str, str, str]]:
    for detachable, orphanable in product((True, False), repeat=2):
        chosen: dict[StepAction, list[str]] = {}
        for on_alive in OnAlive:
            action = action_for_running(detachable=detachable, orphanable=orphanable, on_alive=on_alive)
            chosen.setdefault(action, []).append(f"`{on_alive}`")
        for action, settings in chosen.items():
            yield _yes(detachable), _yes(orphanable), " or ".join(settings), f"`{action}`"


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


def alerts() -> str:
    """Every kind of alert, by an example."""
    lines = [MADE, "# What an alert looks like", ""]
    lines.append(
        "A message has eight lines at most: what, where, since when, the action and its result, what happens "
        "until you act, and one command. [Set up alerts](../how-to/alerts.md). Each problem has the lines Where and Since; "
        "below they are left out where they are as in the first one."
    )
    usual: set[str] = set()
    for title, example in EXAMPLES.items():
        message = example().splitlines()
        shown = [line for line in message if line not in usual]
        usual = usual or {line for line in message if line.startswith(("Where: ", "Since: "))}
        lines += ["", f"**{title}**", "", "```", *shown, "```"]
    return "\n".join([*lines, ""])


def wake() -> str:
    """Who may be woken: the rules in their order of precedence."""
    lines = [
        MADE,
        "# Who may be woken",
        "",
        f"A refused wake has exactly one of {len(IneligibilityReason)} reasons; one of them has two rules. The first rule",
        "that applies is the answer. Order: whether Wakeful may act on the session at all, what lasts until a person",
        "changes it, the session's condition, what passes by itself, and what only an attempt shows.",
        "",
        "| | reason | when | in the session's record |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {number} | `{rule.reason}` | {rule.text} | {_yes(rule.reason in RECORD_REASONS)} |"
        for number, rule in enumerate(WAKE_RULES, 1)
    ]
    lines += [
        "",
        "`eligible_for_wake` and `ineligibility_reason` of a session's record come from the same function, applied to the session",
        "and the configuration only. HEARTBEAT.md, the hour and earlier wakes are checked in addition:",
        "`wakeful agent heartbeat status NAME` and `wakeful session inspect ID` show the result now. No edit of",
        "a file and no clock changes a record.",
        "",
    ]
    return "\n".join(lines)


RECORD_REASONS = frozenset(
    {
        IneligibilityReason.SESSION_NOT_ATTACHABLE,
        IneligibilityReason.HEARTBEAT_DISABLED,
        IneligibilityReason.SESSION_UNHEALTHY,
        IneligibilityReason.SESSION_PROMPT_ACTIVE,
    }
)


def health_writers() -> str:
    """Which trigger writes which field of a session's health."""
    letters = dict(zip(HealthTrigger, "ABCDEF", strict=True))
    lines = [
        MADE,
        "# Who writes health",
        "",
        "Every field of a session's health has a closed list of writers. A writer is evidence; one function makes a record of",
        "it, and records cannot be changed. Triggers come together: the end of an agent is a stop, an end of presence",
        "and a verdict at once.",
        "",
        "| | trigger |",
        "|---|---|",
    ]
    lines += [f"| {letter} | {trigger} |" for trigger, letter in letters.items()]
    lines += ["", "| field | " + " | ".join(letters.values()) + " |", "|---" * (len(letters) + 1) + "|"]
    lines += [
        f"| `{field}` | " + " | ".join("x" if each in writers else "" for each in letters) + " |"
        for field, writers in WRITERS.items()
    ]
    lines += [
        "",
        "`eligible_for_wake` and `ineligibility_reason` follow from them and from the configuration by [one function](wake.md);",
        "`updated_at` is the time of the last change. Timers of `[session.supervision]`, a `HEARTBEAT.md`, wakes, leases and hooks",
        "write nothing here. `wakeful session repair` corrects the stored record of a session from the evidence, or to",
        "`stopped` and `unknown` if there is none.",
        "",
    ]
    return "\n".join(lines)


def gateway() -> str:
    """The tables of the chat gateway."""
    return gateway_page(MADE)


def metrics() -> str:
    """Every figure of /metrics."""
    suffixes = {MetricKind.COUNTER: "_total", MetricKind.INFO: "_info"}
    lines = [
        MADE,
        "# Metrics",
        "",
        "What `GET /metrics` shows ([set up Prometheus](../how-to/metrics.md)). Counters count since the daemon",
        "started. Labels come from closed lists or from the configuration: no session, project or path is named. Labels are in brackets.",
        "",
    ]
    for kind in MetricKind:
        lines += [f"- {kind}:"]
        for family in (each for each in FAMILIES if each.kind is kind):
            labels = f" ({', '.join(f'`{label}`' for label in family.labels)})" if family.labels else ""
            lines.append(f"  - `{family.name}{suffixes.get(kind, '')}`{labels}: {family.meaning}")
    lines += [
        "",
        "There are also the `process_…` metrics of the Prometheus client: CPU time, memory, descriptors, start time.",
        "",
        f"Bounds of the histograms: {', '.join(f'{bound:g}' for bound in SECONDS_BOUNDS)} seconds and above.",
        "",
    ]
    return "\n".join(lines)


def redaction() -> str:
    """Every kind of secret that is known by its format."""
    lines = [
        MADE,
        "# Secrets that are redacted",
        "",
        "One redactor checks every text from an agent, a tool or a log before Wakeful shows, sends or stores it",
        "([why](../decisions/0015-redaction.md)). It removes:",
        "",
        f"- {len(FORMATS)} kinds with a known format, in the list below.",
        "- Values with a name: `password`, `*_TOKEN`, `client_secret`, `Authorization`, `Cookie` and the like, in shell, `.env`,",
        "  JSON (also within JSON), YAML, TOML, INI, XML, URLs, connection strings, headers, options, `.netrc`, code.",
        "- Long random words: 24 characters or more that mix letters, capitals and digits like random text.",
        "",
        "Digests, UUIDs, paths, variables (`$TOKEN`) and the ids of sessions, calls and messages stay. Colours, zero-width",
        "characters, UTF-16, `\\u0070` and `%70` hide nothing. A secret is replaced by the mark before its kind:",
        "",
    ]
    shown: dict[str, list[str]] = {}
    for each in FORMATS:
        shown.setdefault(_MARK_IN.findall(each.shown)[-1], []).append(each.name)
    lines += [f"- `{mark}`: {'; '.join(names)}." for mark, names in shown.items()]
    return "\n".join([*lines, ""])


_MARK_IN = re.compile(r"\[[a-z ]+\]")


PAGES = {
    "redaction.md": redaction,
    "metrics.md": metrics,
    "gateway.md": gateway,
    "alerts.md": alerts,
    "wake.md": wake,
    "health-writers.md": health_writers,
    "recovery.md": recovery,
    "agents.md": agents,
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
