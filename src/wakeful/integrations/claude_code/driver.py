"""Drives Claude Code in stream-json: one long-lived process per conversation, through its run folder.

The process reads a FIFO that it holds open itself and appends to a file, so it works on while Wakeful is
down. Each action is confirmed in that file by an id of its own: a prompt by its replay, a question or
interrupt by its answer.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

from msgspec import Raw
from msgspec.structs import replace

from wakeful.control.driver import Begun, ConversationUnknown, Order, Question, Reply, Seen, unannounced
from wakeful.core.clock import Clock
from wakeful.core.errors import StartFailed
from wakeful.core.ids import ConversationId, is_uuid, parse_session_id
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process, Sight
from wakeful.integrations.claude_code.stream_json import AskedCall, Stream, Talk
from wakeful.integrations.driver_support import (
    CHOSEN_BY_WAKEFUL,
    Fate,
    Patience,
    RunFolder,
    Written,
    absence,
    check_arguments,
    check_prompt,
    marked,
    stop_hosted,
)
from wakeful.judging.resuming import project_folder
from wakeful.judging.session_record import safe
from wakeful.linux import proc
from wakeful.linux.launch import launch
from wakeful.storage.base import Outcome

TOOL_VARIABLE: Final = "CLAUDE_CODE_SESSION_ID"
OPTIONS: Final = (
    *("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
    # Signs of life while the model speaks, questions asked of us, and every line we wrote seen again.
    *("--include-partial-messages", "--permission-prompt-tool", "stdio", "--replay-user-messages"),
)
REFUSED: Final = dict.fromkeys(
    (
        *("-p", "--print", "--input-format", "--output-format", "--permission-prompt-tool"),
        *("-c", "--continue", "-r", "--resume", "--session-id", "--fork-session", "--from-pr"),
        *("--no-session-persistence", "--bg", "--tmux", "-h", "--help", "-v", "--version"),
    ),
    CHOSEN_BY_WAKEFUL,
)
UNKNOWN_CONVERSATION: Final = "No conversation found"
NOT_LOGGED_IN: Final = "authentication_failed"
DENIAL: Final = "A person refused this."
# A harmless question. Lines are read in their order: once it is answered, everything before it has arrived.
PING: Final = "mcp_status"
# The client shortens longer names in a way of its own; then only it can say whether the conversation is there.
PROJECT_FOLDER_CHARS_MAX: Final = 200


class ClaudeDriver:
    """Implements control.driver.Driver. Run folders lie below `root`."""

    name = "claude"
    per_turn = False

    def __init__(self, root: Path, clock: Clock, patience: Patience | None = None) -> None:
        self._root = root
        self._clock = clock
        self._patience = patience or Patience()

    def is_open(self, hosting: Hosting) -> bool:
        """Its process runs and somebody has its input open."""
        process = hosting.process
        return process is not None and proc.runs(process) and self._folder(hosting).has_reader()

    def is_lost(self, hosting: Hosting) -> bool:
        """Nobody reads what would be written for it: it closed its input, or was started in a terminal of its own."""
        return absence(hosting) is None and not self._folder(hosting).has_reader()

    async def start(self, order: Order, begun: Begun = unannounced) -> Seen:
        check_arguments(order.argv, REFUSED)
        if order.prompt is not None:
            check_prompt(order.prompt)
        conversation = order.conversation_id or ConversationId(str(uuid4()))
        _check_conversation(order, conversation)
        session_id = order.session_id or parse_session_id(f"claude-{conversation}")
        hosting = Hosting(
            session_id=session_id,
            conversation_id=conversation,
            driver=self.name,
            cwd=order.cwd,
            argv=order.argv,
            epoch=order.epoch,
            since=self._clock.now().wall,
            folder=str(RunFolder(self._root, session_id).path),
            name=order.name,
        )
        return await self._launch(order, hosting, begun)

    def newest_process(self, hosting: Hosting) -> Process | None:
        return RunFolder(self._root, hosting.session_id).process

    async def resume(self, hosting: Hosting, order: Order) -> Seen:
        del hosting  # its place is its run folder, wherever it was before
        return await self.start(order)

    async def deliver(self, hosting: Hosting, prompt: str, environ: Mapping[str, str] | None = None) -> Seen:
        del environ  # its process lives already
        check_prompt(prompt)
        if (missing := self._missing(hosting)) is not None:
            return missing
        async with self._talk(hosting) as talk:
            self._trim(talk)
            return await self._give(talk, prompt, str(uuid4()))

    async def deliver_once(
        self,
        hosting: Hosting,
        prompt: str,
        prompt_id: str,
        *,
        again: bool,
        environ: Mapping[str, str] | None = None,
    ) -> Seen:
        del environ  # its process lives already
        check_prompt(prompt)
        if again and (settled := self._by_earlier(hosting, prompt_id)) is not None:
            return settled
        if (missing := self._missing(hosting)) is not None:
            # Nothing took it: whoever brings the session back may give it the prompt.
            return replace(missing, outcome=Outcome.DECLINED)
        async with self._talk(hosting) as talk:
            if (settled := await self._has_had(talk, prompt_id, again=again)) is not None:
                return settled
            self._trim(talk)
            return await self._give(talk, prompt, prompt_id)

    def was_given(self, hosting: Hosting, prompt_id: str) -> bool:
        """A conversation that a key began is known by its name."""
        del hosting, prompt_id
        return False

    def _by_earlier(self, hosting: Hosting, prompt_id: str) -> Seen | None:
        """What a process that is gone did with the prompt; None: none had it, or the one that lives says that itself."""
        folder = self._folder(hosting)
        sight = proc.sight(hosting.process) if hosting.process is not None else Sight.DEAD
        known = folder.prompts
        if sight is Sight.UNKNOWN:
            return Seen(Outcome.UNVERIFIED, "whether its process lives cannot be seen")
        if known is None:
            lives = sight is Sight.ALIVE
            return None if lives else Seen(Outcome.UNVERIFIED, "which prompts it had was not written down")
        if sight is Sight.DEAD:
            _settle_prompts(folder)
        fate = (folder.prompts or known).get(prompt_id, Fate.LOST)
        if fate is Fate.TAKEN:
            return Seen(Outcome.RECOVERED, "it has had this prompt already", by_earlier=True)
        if fate is Fate.UNKNOWN:
            return Seen(
                Outcome.UNVERIFIED, "its process ended, and it had not said whether it took the prompt"
            )
        return None

    def _trim(self, talk: Talk) -> None:
        _settle(talk.folder, talk.stream, lives=True)
        talk.trim()

    async def _has_had(self, talk: Talk, prompt_id: str, *, again: bool) -> Seen | None:
        """Whether it has the prompt; None: surely not.

        Lines are read in their order: once a question is answered, a prompt written before it was read. A busy client
        may say that it has one only at the end of its first words.
        """
        ping_id, written = await talk.request(PING)
        if written is not Written.WHOLE:
            return Seen(Outcome.DECLINED, written)
        unknown = Outcome.UNVERIFIED if again else Outcome.DECLINED
        if not await talk.until(lambda stream: ping_id in stream.answered, self._patience.take):
            return Seen(unknown, "it does not answer now, so it was not given the prompt")
        if again:
            await talk.until(
                lambda stream: prompt_id in stream.taken or not stream.is_busy, self._patience.take
            )
        if prompt_id in talk.stream.taken:
            return Seen(Outcome.RECOVERED, "it has had this prompt already")
        if again and talk.stream.is_busy:
            return Seen(unknown, "it is at work, and has not said on which prompt")
        return None

    async def answer(self, hosting: Hosting, question_id: str, reply: Reply) -> Seen:
        if (missing := self._missing(hosting)) is not None:
            return missing
        async with self._talk(hosting) as talk:
            question = talk.stream.questions.get(question_id)
            if question is None:
                return Seen(Outcome.DECLINED, "this question is not open any more")
            written = await talk.say(_answer(question, reply))
            if written is not Written.WHOLE:
                return Seen(Outcome.INEFFECTIVE, written)
            taken = await talk.until(lambda stream: question_id in stream.answered, self._patience.take)
            return _seen(talk, taken, f"its question about {question.tool} was answered: {reply}")

    async def interrupt(self, hosting: Hosting) -> Seen:
        if (missing := self._missing(hosting)) is not None:
            return missing
        async with self._talk(hosting) as talk:
            return await self._interrupt(talk)

    async def stop(self, hosting: Hosting) -> Seen:
        # Interrupted first, it ends its tools itself and writes down that it was interrupted.
        if self._missing(hosting) is None:
            await self.interrupt(hosting)
        return await stop_hosted(hosting, self._folder(hosting), TOOL_VARIABLE)

    async def questions(self, hosting: Hosting) -> tuple[Question, ...]:
        """The permission questions that are open now, oldest first."""
        if self._missing(hosting) is not None:
            return ()
        async with self._talk(hosting) as talk:
            return tuple(_question(each) for each in talk.stream.questions.values())

    async def _launch(self, order: Order, hosting: Hosting, begun: Begun) -> Seen:
        folder = self._folder(hosting)
        if folder.has_reader():
            return Seen(Outcome.DECLINED, "another process of this session still reads its input")
        conversation = ("--resume" if order.resume else "--session-id", hosting.conversation_id)
        program, *words = order.argv
        environ = marked(order.environ, hosting.session_id, order.epoch, order.intent_id)
        _settle_prompts(folder)
        with folder.talking() as streams:
            process = launch(
                (program, *OPTIONS, *conversation, *words),
                cwd=order.cwd,
                environ={**environ, "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"},
                streams=streams,
            )
            folder.note_process(process)
        hosting = replace(hosting, process=process)
        await begun(hosting)
        async with self._talk(hosting) as talk:
            return await self._see_start(talk, order, hosting)

    async def _see_start(self, talk: Talk, order: Order, hosting: Hosting) -> Seen:
        request_id, _ = await talk.request("initialize")
        answered = await talk.until(lambda stream: request_id in stream.answered, self._patience.start)
        if not answered and not talk.is_alive:
            raise _start_failure(talk, order, hosting)
        if not answered:
            unsaid = "" if order.prompt is None else "; it was given no prompt"
            return Seen(Outcome.UNVERIFIED, f"it runs and has not answered yet{unsaid}", hosting)
        if order.prompt is None:
            return Seen(Outcome.RECOVERED, "it runs and answers", hosting)
        seen = await self._give(talk, order.prompt, order.prompt_id or str(uuid4()))
        return replace(await self._first_word(talk, seen), hosting=hosting)

    async def _give(self, talk: Talk, prompt: str, prompt_id: str) -> Seen:
        was_busy = talk.stream.is_busy
        talk.folder.note_prompt(prompt_id)
        written = await talk.say(
            {"type": "user", "uuid": prompt_id, "message": {"role": "user", "content": prompt}}
        )
        if written is not Written.WHOLE:
            return Seen(Outcome.DECLINED if written is Written.NO_READER else Outcome.INEFFECTIVE, written)
        ping_id, _ = await talk.request(PING)

        def is_taken(stream: Stream) -> bool:
            return prompt_id in stream.taken or (ping_id in stream.answered and stream.is_busy)

        taken = await talk.until(is_taken, self._patience.take)
        if not taken and not was_busy and not talk.is_alive and not talk.stream.is_busy:
            # It ended between its turns, and no turn began: the prompt went with its input.
            return Seen(Outcome.DECLINED, "its process ended before it took the prompt")
        return _seen(talk, taken, "it has the prompt and works on" if was_busy else "its turn began")

    async def _first_word(self, talk: Talk, seen: Seen) -> Seen:
        """Whether the first turn failed at once for want of a login; other failures are told by the eyes."""
        stream = talk.stream
        heard = stream.heard
        await talk.until(lambda stream: stream.heard > heard or stream.results > 0, self._patience.first_word)
        if stream.failure != NOT_LOGGED_IN:
            return seen
        await talk.until(lambda stream: stream.results > 0, self._patience.first_word)
        return Seen(Outcome.INEFFECTIVE, f"it runs, but it is not logged in: {stream.last_words}")

    async def _interrupt(self, talk: Talk) -> Seen:
        if not talk.stream.is_busy:
            return Seen(Outcome.DECLINED, "no turn is running")
        results = talk.stream.results
        request_id, written = await talk.request("interrupt")
        if written is not Written.WHOLE:
            return Seen(Outcome.INEFFECTIVE, written)

        def is_over(stream: Stream) -> bool:
            # A turn that was just ending has said its result before, and only comes to rest.
            return request_id in stream.answered and (stream.results > results or not stream.is_busy)

        over = await talk.until(is_over, self._patience.interrupt)
        return _seen(talk, over, "its turn was interrupted")

    def _talk(self, hosting: Hosting) -> Talk:
        assert hosting.process is not None, "looked for before"
        return Talk(self._folder(hosting), hosting.process, self._patience.write)

    def _folder(self, hosting: Hosting) -> RunFolder:
        return RunFolder(self._root, hosting.session_id)

    def _missing(self, hosting: Hosting) -> Seen | None:
        """Why there is nobody to talk to."""
        if (absent := absence(hosting)) is not None:
            return absent
        if not self._folder(hosting).output.is_file():
            return Seen(Outcome.DECLINED, _deaf(hosting))
        return None


def _settle_prompts(folder: RunFolder) -> None:
    """What became of the prompts of a process that is gone: the next one begins another file."""
    if folder.prompts and folder.output.is_file():
        stream = Stream()
        for line in folder.output.read_bytes().splitlines():
            stream.feed(line)
        _settle(folder, stream, lives=False)


def _settle(folder: RunFolder, stream: Stream, *, lives: bool) -> None:
    """A prompt is taken once it is replayed. In a turn that a client died in, it may have been about to say so."""
    for prompt_id, fate in (folder.prompts or {}).items():
        if fate is not Fate.OPEN:
            continue
        if prompt_id in stream.taken:
            folder.note_prompt(prompt_id, Fate.TAKEN)
        elif not lives:
            folder.note_prompt(prompt_id, Fate.UNKNOWN if stream.is_busy else Fate.LOST)


def _deaf(hosting: Hosting) -> str:
    """Why a process that somebody else started cannot be spoken to, by the words it was started with."""
    words = proc.command(hosting.process.pid) if hosting.process is not None else ()
    if not {"-p", "--print"} & set(words):
        return "it runs in a terminal that Wakeful cannot type into: only in tmux it can"
    back = f"`wakeful session resume {hosting.session_id}` goes on with its conversation"
    return f"it was started for one prompt (claude -p) and takes no more; once it has ended, {back}"


def _check_conversation(order: Order, conversation: ConversationId) -> None:
    """`--resume` looks only below the project of the working directory. Raises ConversationUnknown."""
    if not is_uuid(conversation) or (order.resume and not _may_exist(order, conversation)):
        raise ConversationUnknown(conversation=conversation[:40], folder=order.cwd)


def _may_exist(order: Order, conversation: ConversationId) -> bool:
    project = project_folder(os.path.realpath(order.cwd))
    own = order.environ.get("CLAUDE_CONFIG_DIR") or f"{order.environ.get('HOME', '~')}/.claude"
    transcript = Path(own).expanduser() / "projects" / project / f"{conversation}.jsonl"
    return len(project) > PROJECT_FOLDER_CHARS_MAX or transcript.is_file()


def _start_failure(talk: Talk, order: Order, hosting: Hosting) -> ConversationUnknown | StartFailed:
    words = talk.folder.last_words() or talk.stream.last_words or "it said nothing"
    talk.folder.remove()
    if UNKNOWN_CONVERSATION in words:
        return ConversationUnknown(conversation=hosting.conversation_id, folder=order.cwd)
    return StartFailed(program=order.argv[0], reason=words)


def _question(asked: AskedCall) -> Question:
    """What a person must know to answer: the client's words for it and the call itself."""
    return Question(asked.id, asked.tool, safe(f"{asked.words} {asked.input.decode(errors='replace')}"))


def _answer(question: AskedCall, reply: Reply) -> dict[str, object]:
    decision = (
        {"behavior": "allow", "updatedInput": Raw(question.input)}
        if reply is Reply.ALLOW
        else {"behavior": "deny", "message": DENIAL}
    )
    return {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": question.id, "response": decision},
    }


def _seen(talk: Talk, reached: bool, words: str) -> Seen:
    if reached:
        return Seen(Outcome.RECOVERED, words)
    if talk.is_alive:
        return Seen(Outcome.UNVERIFIED, "it lives and has not reacted yet")
    return Seen(
        Outcome.INEFFECTIVE, f"its process ended before: {talk.folder.last_words() or 'it said nothing'}"
    )
