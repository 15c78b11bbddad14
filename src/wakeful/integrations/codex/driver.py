"""Drives Codex by `codex exec` and `codex exec resume`: one process per turn, which ends by itself.

`Turn` parses the output of `codex exec --json`; it is pure. A prompt is passed in an unnamed file, never as
an argument: arguments are limited in length, and every user of the host can read them. Wakeful tracks the
native process below npm's wrapper: it does the work, holds the writer lock and survives the wrapper's death.
"""

import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.driver import (
    Begun,
    ConversationUnknown,
    Order,
    PromptRefused,
    Question,
    Reply,
    Seen,
    unannounced,
)
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import StartFailed
from wakeful.core.ids import ConversationId, SessionId, is_uuid, parse_session_id
from wakeful.core.managed_session import SESSION_VARIABLE, Hosting
from wakeful.core.process import Process, Sight
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.integrations.driver_support import (
    CHOSEN_BY_WAKEFUL,
    Fate,
    Patience,
    RunFolder,
    absence,
    agent_of,
    check_arguments,
    check_prompt,
    marked,
    stop_hosted,
)
from wakeful.linux import proc
from wakeful.linux.launch import launch
from wakeful.linux.terminate import end, sweep
from wakeful.sources.follow import Following
from wakeful.storage.base import Outcome

WORDS_CHARS_MAX: Final = 300
# As version 0.166 words it: a refused key, or none where the provider's configuration names one.
_LOGIN_WORDS: Final = re.compile(r"status 40[13]\b|Missing environment variable|not logged in", re.IGNORECASE)


class _Failure(Struct, gc=False):
    message: str = ""


class _Line(Struct, gc=False):
    """Only what is read."""

    type: str = ""
    thread_id: str | None = None
    error: _Failure | None = None


_decode: Final = json_decoder(_Line)


class Turn:
    """One process's turn."""

    def __init__(self) -> None:
        self.thread_id: str | None = None
        self.begun = False
        self.over = False
        # Whether the model, or a tool it called, was heard.
        self.heard = False
        self.failure: str | None = None

    @property
    def needs_login(self) -> bool:
        return self.failure is not None and _LOGIN_WORDS.search(self.failure) is not None

    def feed(self, line: bytes) -> None:
        """Lines that are torn, unknown or of another shape change nothing."""
        try:
            said = _decode(line)
        except msgspec.DecodeError:
            return
        match said.type:
            case "thread.started":
                self.thread_id = said.thread_id
            case "turn.started":
                self.begun = True
            case "turn.completed":
                self.over = True
            case "turn.failed":
                self.over = True
                self.failure = plain(redact(said.error.message if said.error else ""), WORDS_CHARS_MAX)
            case "item.started" | "item.completed":
                # A warning may come before the turn begins: that is not the model.
                self.heard = self.begun


TOOL_VARIABLE: Final = "CODEX_THREAD_ID"
# What says where a conversation lies: with others a later turn would not find it.
PLACES: Final = ("HOME", "CODEX_HOME")
REFUSED: Final = dict.fromkeys(
    (
        *("resume", "fork", "review", "-", "--last", "--all", "--ephemeral", "--color", "-C", "--cd"),
        *("-h", "--help", "-V", "--version"),
    ),
    CHOSEN_BY_WAKEFUL,
)
UNKNOWN_CONVERSATION: Final = "no rollout found for thread id"
# After its last word a process took 0.1 to 0.3 s to end, unless a command in the background keeps it.
LEAVING_SECONDS: Final = 3.0
# A process says its name within a second of its start; a busy machine may take longer, and a daemon waits for it.
NAMING_SECONDS: Final = 10.0


class CodexDriver:
    """Implements control.driver.Driver. `environ` is for prompts whose sender gave none; see `deliver`."""

    name = "codex"
    per_turn = True

    def __init__(
        self, root: Path, clock: Clock, environ: dict[str, str], patience: Patience | None = None
    ) -> None:
        self._root = root
        self._clock = clock
        self._environ = environ
        self._patience = patience or Patience()

    def is_open(self, hosting: Hosting) -> bool:
        """Nothing of it runs, and what would run for a prompt is there."""
        if hosting.process is not None and proc.sight(hosting.process) is not Sight.DEAD:
            return False
        path = _at_its_places(self._environ, hosting).get("PATH", "")
        # Path.is_dir raises for a name that is too long.
        return os.path.isdir(hosting.cwd) and shutil.which(hosting.argv[0], path=path) is not None  # noqa: PTH112

    def is_lost(self, hosting: Hosting) -> bool:
        """A person's terminal holds it, which does not end with the turn as a process of ours does."""
        return hosting.folder is None and absence(hosting) is None

    async def start(self, order: Order, begun: Begun = unannounced) -> Seen:
        program, *words = order.argv
        flags = [word for word in (words[1:] if words[:1] == ["exec"] else words) if word != "--json"]
        check_arguments((program, *flags), REFUSED)
        if order.resume and not is_uuid(order.conversation_id or ""):
            # Codex would take it for a name, find none and silently begin another conversation.
            raise ConversationUnknown(conversation=(order.conversation_id or "")[:40], folder=order.cwd)
        if order.prompt is None:
            return self._at_rest(order)
        check_prompt(order.prompt)
        return await self._run(order, (program, *flags), order.prompt, begun)

    def places_in(self, environ: Mapping[str, str]) -> dict[str, str]:
        return {name: environ[name] for name in PLACES if name in environ}

    async def find_begun(self, planned: Hosting, intent_id: str, carriers: Sequence[Process]) -> Seen | None:
        folder = RunFolder(self._root, _unnamed(intent_id))
        if not folder.output.is_file():
            return None
        launched = min(carriers, key=lambda process: process.started, default=None)
        thread_id = await _name_in(folder, launched)
        if thread_id is None:
            return None
        session_id = SessionId(f"codex-{thread_id}")
        folder = folder.rename(self._root, session_id)
        native = _native(launched, _codex_home(planned.places), thread_id) if launched is not None else None
        hosting = replace(
            planned,
            session_id=session_id,
            conversation_id=ConversationId(thread_id),
            process=native or folder.process,
            folder=str(folder.path),
        )
        if _has_begun(folder):
            return Seen(Outcome.RECOVERED, "its turn began", hosting)
        words = "it runs and its turn has not begun yet" if carriers else "it ended before its turn began"
        return Seen(Outcome.UNVERIFIED, words, hosting)

    def newest_process(self, hosting: Hosting) -> Process | None:
        return RunFolder(self._root, hosting.session_id).process

    async def resume(self, hosting: Hosting, order: Order) -> Seen:
        return await self.start(replace(order, environ=_at_its_places(order.environ, hosting)))

    async def deliver(self, hosting: Hosting, prompt: str, environ: Mapping[str, str] | None = None) -> Seen:
        """A process of its own for the prompt, with the places of the first one; declined while one lives."""
        return await self._delivered(hosting, prompt, environ, "")

    async def deliver_once(
        self,
        hosting: Hosting,
        prompt: str,
        prompt_id: str,
        *,
        again: bool,
        environ: Mapping[str, str] | None = None,
    ) -> Seen:
        if again and (settled := self._has_had(hosting, prompt_id)) is not None:
            return settled
        return await self._delivered(hosting, prompt, environ, prompt_id)

    def was_given(self, hosting: Hosting, prompt_id: str) -> bool:
        return prompt_id in (RunFolder(self._root, hosting.session_id).prompts or {})

    def _has_had(self, hosting: Hosting, prompt_id: str) -> Seen | None:
        """Whether a process was started for this prompt, by what that one said; None: no turn of it ever began."""
        folder = RunFolder(self._root, hosting.session_id)
        known = folder.prompts
        if known is None:
            return Seen(Outcome.UNVERIFIED, "which prompt its last process had was not written down")
        if known.get(prompt_id, Fate.LOST) is Fate.LOST:
            return None
        if known[prompt_id] is Fate.TAKEN or _has_begun(folder):
            return Seen(Outcome.RECOVERED, "it has had this prompt already")
        alive = proc.carriers(SESSION_VARIABLE, hosting.session_id, os.getuid())
        return Seen(Outcome.UNVERIFIED, "it runs and its turn has not begun yet") if alive else None

    async def _delivered(
        self, hosting: Hosting, prompt: str, environ: Mapping[str, str] | None, prompt_id: str
    ) -> Seen:
        check_prompt(prompt)
        if not await self._has_left(hosting):
            return Seen(Outcome.DECLINED, "it is still at work: Codex takes a prompt between its turns only")
        order = Order(
            session_id=hosting.session_id,
            conversation_id=hosting.conversation_id,
            epoch=hosting.epoch,
            intent_id="",
            cwd=hosting.cwd,
            argv=hosting.argv,
            environ=_at_its_places(self._environ if environ is None else environ, hosting),
            resume=True,
            prompt=prompt,
            prompt_id=prompt_id or None,
        )
        seen = await self.start(order)
        if seen.hosting is None:
            return seen
        return replace(
            seen, hosting=replace(hosting, process=seen.hosting.process, folder=seen.hosting.folder)
        )

    async def questions(self, hosting: Hosting) -> tuple[Question, ...]:
        del hosting  # `codex exec` never asks
        return ()

    async def answer(self, hosting: Hosting, question_id: str, reply: Reply) -> Seen:  # noqa: ARG002 - the port's
        return Seen(Outcome.DECLINED, "`codex exec` never asks")

    async def interrupt(self, hosting: Hosting) -> Seen:
        """Ends the process, in which the turn is written down as interrupted; the next prompt goes on from there."""
        if hosting.process is None or absence(hosting) is not None:
            return Seen(Outcome.DECLINED, "no turn is running")
        meant = agent_of(hosting.session_id, hosting.conversation_id)
        ending = await end(hosting.process, ((signal.SIGINT, self._patience.interrupt),), is_meant=meant)
        if ending.sight is Sight.DEAD:
            return Seen(Outcome.RECOVERED, f"its turn was interrupted within {ending.seconds:.1f} s")
        return Seen(Outcome.INEFFECTIVE, f"process {ending.process.pid} did not react to SIGINT")

    async def stop(self, hosting: Hosting) -> Seen:
        return await stop_hosted(hosting, RunFolder(self._root, hosting.session_id), TOOL_VARIABLE)

    def _at_rest(self, order: Order) -> Seen:
        """Taken over without a prompt: between its turns nothing of it runs."""
        if not order.resume or order.conversation_id is None:
            raise PromptRefused(reason="Codex begins a conversation with a prompt, and none was given")
        if not _has_rollout(_codex_home(order.environ), order.conversation_id):
            raise ConversationUnknown(conversation=order.conversation_id, folder=order.cwd)
        hosting = self._hosting(order, order.conversation_id)
        return Seen(Outcome.RECOVERED, "nothing of it runs until it gets a prompt", hosting)

    async def _run(self, order: Order, command: tuple[str, ...], prompt: str, begun: Begun) -> Seen:
        program, *flags = command
        folder = RunFolder(self._root, order.session_id or _unnamed(order.intent_id))
        _settle_prompts(folder)
        going_on = ("resume", order.conversation_id) if order.resume and order.conversation_id else ()
        with folder.reading(prompt, order.prompt_id or "") as streams:
            process = launch(
                (program, "exec", "--json", *flags, *going_on, "-"),
                cwd=order.cwd,
                environ=marked(order.environ, order.session_id, order.epoch, order.intent_id),
                streams=streams,
            )
            folder.note_process(process)
        async with Following(folder.output, process) as following:
            return await self._see_start(order, folder, following, process, begun)

    async def _see_start(
        self, order: Order, folder: RunFolder, following: Following, process: Process, begun: Begun
    ) -> Seen:
        turn = Turn()
        named = await following.until(turn.feed, lambda: turn.thread_id is not None, self._patience.start)
        if not named and not following.is_alive:
            raise _start_failure(order, folder)
        if turn.thread_id is None or not is_uuid(turn.thread_id):
            return await self._give_up(folder, process, "it did not say which conversation it began")
        if order.resume and turn.thread_id != order.conversation_id:
            seen = await self._give_up(folder, process, f"it began another conversation, {turn.thread_id}")
            await sweep(TOOL_VARIABLE, turn.thread_id)
            return seen
        native = _native(process, _codex_home(order.environ), turn.thread_id)
        hosting = replace(self._hosting(order, ConversationId(turn.thread_id)), process=native)
        if order.session_id is None:
            folder = folder.rename(self._root, hosting.session_id)
        await begun(hosting)
        return replace(await self._see_turn(folder, following, turn), hosting=hosting)

    async def _see_turn(self, folder: RunFolder, following: Following, turn: Turn) -> Seen:
        await following.until(turn.feed, lambda: turn.begun or turn.over, self._patience.take)
        await following.until(turn.feed, lambda: turn.heard or turn.over, self._patience.first_word)
        if turn.needs_login:
            return Seen(Outcome.INEFFECTIVE, f"it is not logged in: {turn.failure}")
        if turn.begun or turn.over:
            return Seen(Outcome.RECOVERED, "its turn began")
        if following.is_alive:
            return Seen(Outcome.UNVERIFIED, "it runs and its turn has not begun yet")
        return Seen(Outcome.INEFFECTIVE, f"it ended before its turn began: {folder.last_words()}")

    async def _give_up(self, folder: RunFolder, process: Process, reason: str) -> Seen:
        """Nothing that runs may be unknown to us: what should not be there is ended, the native process first."""
        for each in (*reversed(proc.descendants(process)), process):
            await end(each, is_meant=lambda _process: True)
        folder.remove()
        return Seen(Outcome.INEFFECTIVE, f"{reason}; it was ended")

    async def _has_left(self, hosting: Hosting) -> bool:
        """Whether its process is gone; one that has said its last word is given time to leave."""
        folder = RunFolder(self._root, hosting.session_id)
        if hosting.process is None or proc.sight(hosting.process) is Sight.DEAD:
            return True
        if not folder.output.is_file():
            return False
        turn = Turn()
        async with Following(folder.output, hosting.process) as following:
            await following.until(turn.feed, lambda: turn.over, 0)
            if turn.over:
                await following.until(turn.feed, lambda: False, LEAVING_SECONDS)
            return not following.is_alive

    def _hosting(self, order: Order, conversation: ConversationId) -> Hosting:
        session_id = order.session_id or SessionId(f"codex-{conversation}")
        return Hosting(
            session_id=session_id,
            conversation_id=conversation,
            driver=self.name,
            cwd=order.cwd,
            argv=order.argv,
            epoch=order.epoch,
            since=self._clock.now().wall,
            folder=str(RunFolder(self._root, session_id).path),
            name=order.name,
            places=self.places_in(order.environ),
        )


def _unnamed(intent_id: str) -> SessionId:
    """What the folder of a start is called until the client has named its conversation."""
    return parse_session_id(f"new-{intent_id}")


async def _name_in(folder: RunFolder, process: Process | None) -> str | None:
    """The conversation that the newest process of this folder names; one that lives is given time to do so."""
    turn = Turn()
    if process is None:
        for line in folder.output.read_bytes().splitlines():
            turn.feed(line)
    else:
        async with Following(folder.output, process) as following:
            await following.until(turn.feed, lambda: turn.thread_id is not None, NAMING_SECONDS)
    return turn.thread_id if turn.thread_id is not None and is_uuid(turn.thread_id) else None


def _settle_prompts(folder: RunFolder) -> None:
    """What became of the prompt of the process before: the next one begins another file."""
    newest = next(reversed(folder.prompts or {}), "")
    if newest:
        folder.note_prompt(newest, Fate.TAKEN if _has_begun(folder) else Fate.LOST)


def _has_begun(folder: RunFolder) -> bool:
    """Whether the newest process began its turn, by what it said."""
    turn = Turn()
    if folder.output.is_file():
        for line in folder.output.read_bytes().splitlines():
            turn.feed(line)
    return turn.begun or turn.over


def _at_its_places(environ: Mapping[str, str], hosting: Hosting) -> Mapping[str, str]:
    """The environment with the places of the session's first process; as it is, for one that was adopted."""
    if not hosting.places:
        return environ
    return {name: value for name, value in environ.items() if name not in PLACES} | hosting.places


def _codex_home(environ: Mapping[str, str]) -> Path:
    own = environ.get("CODEX_HOME") or f"{environ.get('HOME', '~')}/.codex"
    return Path(own).expanduser()


def _has_rollout(home: Path, conversation: ConversationId) -> bool:
    return any((home / "sessions").glob(f"*/*/*/rollout-*-{conversation}.jsonl"))


def _native(launched: Process, home: Path, thread_id: str) -> Process:
    """The process that does the work: it holds the thread's lock. What was launched, if that one cannot be seen."""
    family = {each.pid: each for each in (launched, *proc.descendants(launched))}
    lock = home / "thread-writer-locks" / f"{thread_id}.lock"
    try:
        found = lock.lstat()
    except OSError:
        return launched
    key = (found.st_dev, found.st_ino)
    holder = proc.flock_holders([key]).get(key)
    return launched if holder is None else family.get(holder, launched)


def _start_failure(order: Order, folder: RunFolder) -> ConversationUnknown | StartFailed:
    words = folder.last_words() or "it said nothing"
    folder.remove()
    if UNKNOWN_CONVERSATION in words:
        return ConversationUnknown(conversation=order.conversation_id, folder=order.cwd)
    return StartFailed(program=order.argv[0], reason=words)
