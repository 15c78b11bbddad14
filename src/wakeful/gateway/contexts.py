"""Connects the intake and the follow-ups of one gateway with its other parts."""

from wakeful.alerts.failed_parts import FailedParts
from wakeful.config.schema import Config
from wakeful.gateway.intake import Intake
from wakeful.gateway.people import People
from wakeful.gateway.rules.access import stranger_line
from wakeful.gateway.rules.follow_ups import PROMPTS, cue_of
from wakeful.gateway.rules.messages import (
    ButtonPress,
    ConversationKey,
    IncomingMessage,
    with_context,
)
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.telegram import TelegramChat
from wakeful.gateway.turn_store import TurnStore
from wakeful.gateway.workspaces import Workspaces
from wakeful.linux.files import ProblemFile


class GatewayProblems:
    """Writes the present problems of the gateway to the file that `status` and `doctor` show."""

    def __init__(self, file: ProblemFile, failures: FailedParts) -> None:
        self._file = file
        self._failures = failures
        # Why no updates arrive, if they do not.
        self._update_problem = ""

    def set_update_problem(self, words: str) -> None:
        self._update_problem = words
        self.write()

    def write(self) -> None:
        words = (self._update_problem, *self._failures.lines)
        self._file.write("; ".join(each for each in words if each))


class ChatIntakeContext:
    """The people, the prompts and the problems of one gateway, for its intake."""

    def __init__(self, config: Config, people: People, chat: TelegramChat, problems: GatewayProblems) -> None:
        self._config = config
        self._people = people
        self._chat = chat
        self._problems = problems

    def is_allowed(self, update: IncomingMessage | ButtonPress) -> bool:
        return self._people.is_allowed(update)

    async def try_pairing(self, message: IncomingMessage) -> bool:
        return await self._people.try_pairing(message)

    def stranger_line(self, user_id: int) -> str:
        return stranger_line(user_id, frozenset(self._config.gateway.allow))

    def prompt_of(self, message: IncomingMessage) -> str:
        action = cue_of(message.text)
        if action is not None:
            return PROMPTS[action]
        conversation = self._config.conversation
        quoted = message.quoted if conversation.enable_reply_context_injection else None
        return with_context(message.text, quoted, conversation.reply_context_max_chars)

    def own_name(self) -> str:
        return self._chat.name

    def report_problem(self, words: str) -> None:
        self._problems.set_update_problem(words)


class ChatTurns:
    """The stored turns, for follow-ups. Presses arrive through the intake, so it joins when it is built."""

    def __init__(self, turn_store: TurnStore, workspaces: Workspaces) -> None:
        self._turn_store = turn_store
        self._workspaces = workspaces
        self._intakes: list[Intake] = []

    def add_intake(self, intake: Intake) -> None:
        self._intakes.append(intake)

    async def find(self, update_id: int) -> Turn | None:
        return await self._turn_store.find(update_id)

    async def newest_answer(self, key: ConversationKey) -> Turn | None:
        return await self._turn_store.newest_answer(key)

    async def queue(self, turn: Turn) -> None:
        stored = await self._turn_store.save(turn)
        for intake in self._intakes:
            await intake.queue(stored)

    def describe(self, turn: Turn) -> str:
        workspace = self._workspaces.workspace(turn.key)
        lines = [f"Provider: {turn.provider}", f"Session: {turn.session_id}", f"Folder: {workspace.cwd}"]
        if any(turn.tokens):
            lines.append(f"Tokens of this answer: {turn.tokens[0]} in, {turn.tokens[1]} out")
        if turn.cost_usd is not None:
            lines.append(f"Cost of this answer: {turn.cost_usd:.4f} USD")
        return "\n".join(lines)
