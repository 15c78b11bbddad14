"""What the drivers of Claude Code and Codex share: what they refuse, the marks a process carries, and how one is ended."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from wakeful.control.briefs import unfit
from wakeful.control.driver import PROMPT_BYTES_MAX, ArgumentRefused, PromptRefused, Seen
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import EPOCH_VARIABLE, INTENT_VARIABLE, SESSION_VARIABLE, Hosting
from wakeful.core.process import Process, Sight
from wakeful.integrations.claude_code.claude_status import entry_of
from wakeful.integrations.run_folder import RunFolder
from wakeful.linux import proc
from wakeful.linux.client_processes import is_client
from wakeful.linux.terminate import Ending, Meant, Swept, end, sweep
from wakeful.storage.store import Outcome

CHOSEN_BY_WAKEFUL: Final = "Wakeful chooses this one itself."
NOT_A_COMMAND: Final = "Only options can be given; a prompt is given apart from them."
NOT_AN_ARGUMENT: Final = "No argument can hold a NUL."


class Patience(Struct, frozen=True):
    """How long each sight is waited for, in seconds."""

    # Sixteen starts at once took 45 s on two cores.
    start: float = 60.0
    write: float = 5.0
    take: float = 20.0
    # A refused login came 0.2 s after the prompt; the model's first word comes about as fast.
    first_word: float = 1.0
    interrupt: float = 10.0


def check_prompt(prompt: str) -> None:
    """Raises PromptRefused."""
    reason = unfit(prompt, PROMPT_BYTES_MAX)
    if reason is not None:
        raise PromptRefused(reason=reason)


def check_arguments(argv: Sequence[str], refused: Mapping[str, str]) -> None:
    """Raises ArgumentRefused for an option that contradicts the driver, and for what is no option.

    Where a later word belongs to the option before it only the client can tell; a first one never does.
    """
    program, *words = argv
    for place, word in enumerate(words):
        option = word.partition("=")[0]
        advice = refused.get(option)
        if word == "--" or (place == 0 and not word.startswith("-")):
            advice = NOT_A_COMMAND
        if "\0" in word:
            advice = NOT_AN_ARGUMENT
        if advice is not None:
            raise ArgumentRefused(program=program, argument=option, advice=advice)


def marked(
    environ: Mapping[str, str], session_id: SessionId | None, epoch: int, intent_id: str
) -> dict[str, str]:
    """The environment with whose process it will be; what it said before about another one is taken out."""
    marks = {SESSION_VARIABLE: session_id, EPOCH_VARIABLE: str(epoch), INTENT_VARIABLE: intent_id}
    unmarked = {name: value for name, value in environ.items() if name not in marks}
    return unmarked | {name: value for name, value in marks.items() if value}


def absence(hosting: Hosting) -> Seen | None:
    """Why nothing can be said to this session's process; None if it was seen alive."""
    process = hosting.process
    match proc.sight(process) if process is not None else Sight.DEAD:
        case Sight.ALIVE:
            return None
        case Sight.DEAD:
            return Seen(Outcome.INEFFECTIVE, "its process is gone")
        case Sight.UNKNOWN:
            return Seen(Outcome.INEFFECTIVE, "whether its process lives cannot be seen")


def agent_of(session_id: SessionId, conversation: str) -> Meant:
    """Meant is the process that works for this session: it carries our mark, or it is the client that holds it.

    A kept number alone proves nothing: records and files can name any process.
    """
    provider = session_id.partition("-")[0]

    def is_meant(process: Process) -> bool:
        if proc.environ_value(process.pid, SESSION_VARIABLE) == session_id:
            return True
        return is_client(process.pid, provider) and _holds(process, provider, conversation)

    return is_meant


def _holds(process: Process, provider: str, conversation: str) -> bool:
    """Whether a client says of itself that it holds this conversation, or says nothing."""
    entry = entry_of(process) if provider == "claude" else None
    return entry is None or entry.session_id == conversation


async def stop_hosted(hosting: Hosting, folder: RunFolder, tool_variable: str) -> Seen:
    """End the agent, then what it left behind; the folder goes when nothing of it is left."""
    meant = agent_of(hosting.session_id, hosting.conversation_id)
    ending = await end(hosting.process, is_meant=meant) if hosting.process is not None else None
    if ending is not None and ending.sight is not Sight.DEAD:
        return Seen(_outcome_of(ending), f"process {ending.process.pid} was signalled and not seen dead")
    swept = await _sweep_session(hosting, tool_variable)
    if swept.left:
        pids = ", ".join(str(each.pid) for each in swept.left)
        return Seen(Outcome.INEFFECTIVE, f"{_ended_words(ending)}, but these still run: {pids}")
    folder.remove()
    return Seen(Outcome.RECOVERED, f"{_ended_words(ending)}{_swept_words(swept)}")


async def _sweep_session(hosting: Hosting, tool_variable: str) -> Swept:
    """Both marks: our own is missing from what we did not start, the client's from what is no tool."""
    by_client = await sweep(tool_variable, hosting.conversation_id, epoch_max=hosting.epoch)
    by_us = await sweep(SESSION_VARIABLE, hosting.session_id, epoch_max=hosting.epoch)
    spared = {*by_client.spared, *by_us.spared}
    return Swept((*by_client.endings, *by_us.endings), tuple(spared))


def _outcome_of(ending: Ending) -> Outcome:
    return Outcome.INEFFECTIVE if ending.sight is Sight.ALIVE else Outcome.UNVERIFIED


def _ended_words(ending: Ending | None) -> str:
    if ending is None or ending.signal is None:
        return "its process had ended already"
    return f"process {ending.process.pid} ended after {ending.signal.name} within {ending.seconds:.1f} s"


def _swept_words(swept: Swept) -> str:
    ended = f", {len(swept.endings)} processes it left behind were ended" if swept.endings else ""
    spared = (
        f", left alone because a terminal or a newer claim has them: {_pids(swept.spared)}"
        if swept.spared
        else ""
    )
    return ended + spared


def _pids(processes: Sequence[Process]) -> str:
    return ", ".join(str(each.pid) for each in processes)
