"""Command `wakeful completion bash|zsh|fish`, and the candidates: names and ids from the daemon.

The daemon is asked for at most a second; without an answer there are no candidates. Every candidate has the
form of an id and every explanation uses fixed words, because a shell may interpret text in its own way.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem, get_completion_class
from msgspec import Struct

from wakeful.cli.output import print_json
from wakeful.client.client import own_daemon
from wakeful.core.decoding import decode_json
from wakeful.core.errors import BadSessionId, WakefulError
from wakeful.core.ids import PROVIDER_PREFIXES, parse_session_id
from wakeful.judging.state_words import health_text, state_column_text

# The completion script sets it; `app` checks it.
VARIABLE = "_WAKEFUL_COMPLETE"


@click.command(epilog='Example: eval "$(wakeful completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> int:
    """Print the completion script for a shell. It completes commands, options, ids and names.

    \b
    bash: eval "$(wakeful completion bash)"        in ~/.bashrc
    zsh:  eval "$(wakeful completion zsh)"         in ~/.zshrc, after compinit
    fish: wakeful completion fish > ~/.config/fish/completions/wakeful.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows the offered shells"
    script = found(context.find_root().command, {}, "wakeful", VARIABLE).source()
    # click's script for fish would end every explanation at its first comma.
    print_json(script.replace('(string split ","', '(string split -m 1 ","').encode())
    return 0


# A person waits for the candidates.
ASK_SECONDS_MAX: Final = 1.0
# A longer list is not read; one more letter leaves fewer.
CANDIDATES_MAX: Final = 100

T = TypeVar("T")


class SessionCandidate(Struct, frozen=True):
    """Six fields of a SessionRecord: fewer fields decode faster, and a person waits."""

    id: str
    name: str | None
    project: str
    state: str
    health: str
    short_name: str = ""


class SessionCandidateList(Struct, frozen=True):
    sessions: tuple[SessionCandidate, ...]


class AgentCandidate(Struct, frozen=True):
    id: str
    state: str


class AgentCandidateList(Struct, frozen=True):
    agents: tuple[AgentCandidate, ...]


def sessions_like(incomplete: str) -> list[CompletionItem]:
    """Names and ids of sessions that begin so; none if no daemon answers in time."""
    found = _fetch("/api/sessions?include_health=true", SessionCandidateList)
    return _completion_items(
        incomplete, _names_and_ids(found.sessions, incomplete) if found is not None else ()
    )


def agents_like(incomplete: str) -> list[CompletionItem]:
    """The same for managed agents."""
    found = _fetch("/api/agents", AgentCandidateList)
    return _completion_items(
        incomplete, ((each.id, each.state) for each in found.agents) if found is not None else ()
    )


def places_like(incomplete: str) -> list[CompletionItem]:
    """Everything that has a terminal: agents, then sessions."""
    return [*agents_like(incomplete), *sessions_like(incomplete)]


def _names_and_ids(sessions: Iterable[SessionCandidate], incomplete: str) -> Iterator[tuple[str, str]]:
    for each in sessions:
        # No commas: fish ends an explanation there; no colons: zsh does.
        project = each.project if _is_id(each.project) and ":" not in each.project else ""
        words = " ".join(filter(None, (project, state_column_text(each.state), health_text(each.health))))
        name = each.name or each.short_name
        if _is_id(name):
            yield name, words
        # A person who types an id began it.
        if incomplete or not _is_id(name):
            yield each.id, words
        bare = next(
            (each.id.removeprefix(start) for start in PROVIDER_PREFIXES if each.id.startswith(start)), None
        )
        if incomplete and bare is not None:
            yield bare, words


def _completion_items(incomplete: str, candidates: Iterable[tuple[str, str]]) -> list[CompletionItem]:
    fitting = {value: words for value, words in candidates if value.startswith(incomplete) and _is_id(value)}
    return [CompletionItem(value, help=words) for value, words in list(fitting.items())[:CANDIDATES_MAX]]


def _fetch(target: str, shape: type[T]) -> T | None:
    try:
        answer = own_daemon().get(target, timeout_seconds=ASK_SECONDS_MAX)
        return decode_json(answer.body, shape)
    except (WakefulError, msgspec.DecodeError):
        # The command that is being typed will report the problem.
        return None


def _is_id(text: str) -> bool:
    try:
        return parse_session_id(text) == text
    except BadSessionId:
        return False
