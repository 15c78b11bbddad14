"""Routes for orders to sessions: run, send, answer, interrupt, resume, stop, adopt, release.

The controller decides what may be done.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from wakeful.control.controller import Hands
from wakeful.control.driver import PROMPT_BYTES_MAX, Question, Reply
from wakeful.control.gate import Deed
from wakeful.control.idempotency import OnceHands
from wakeful.control.start import RunRequest
from wakeful.core.answer import Answer
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import Hosting, PaneAddress
from wakeful.http.errors import PROBLEMS
from wakeful.http.responses import Encoded, encoded
from wakeful.http.routes.work import idempotency_key
from wakeful.http.routing import Request, Route, get, post
from wakeful.storage.base import Outcome

# "No" and "nobody knows" are answers, as everywhere.
EXIT_CODES: Final = {
    Outcome.RECOVERED: 0,
    Outcome.UNVERIFIED: 5,
    Outcome.INEFFECTIVE: 1,
    Outcome.DECLINED: 1,
}
CONFLICTS: Final = PROBLEMS | {409: "Its state or its owner forbids it."}


class Prompt(Struct, frozen=True, forbid_unknown_fields=True):
    """`environ` is for clients that run one process per prompt; without it, the daemon's own."""

    prompt: Annotated[str, Meta(max_length=PROMPT_BYTES_MAX)]
    environ: dict[str, str] | None = None


class Resumption(Struct, frozen=True, forbid_unknown_fields=True):
    """`environ` is what the agent will have; without it, the daemon's own."""

    environ: dict[str, str] | None = None


class QuestionAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    question_id: str
    reply: Reply


class Adoption(Struct, frozen=True, forbid_unknown_fields=True):
    """What a person calls the session from now on, if anything: the name it is woken by."""

    name: str | None = None


class Stopping(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the chat gateway stops it by itself, for room or memory; else somebody wants it stopped."""

    by_gateway: bool = False


class Handover(Struct, frozen=True):
    """A session that is, or was, managed."""

    session_id: SessionId
    managed: bool
    driver: str
    epoch: int
    pid: int | None


class Showing(Struct, frozen=True):
    """The pane a session is shown in, if it is in one."""

    pane: PaneAddress | None


class QuestionList(Struct, frozen=True):
    questions: tuple[Question, ...]


class ActRoutes:
    """Everything that changes a session."""

    def __init__(self, hands: Hands, once: OnceHands) -> None:
        self._hands = hands
        self._once = once

    def routes(self) -> Sequence[Route]:
        one = "/api/sessions/{session_id}"
        return (
            post("/api/sessions", self.run, Deed, body=RunRequest, status=201, problems=CONFLICTS),
            get(f"{one}/questions", self.questions, QuestionList, problems=CONFLICTS),
            get(f"{one}/attach", self.attach, Showing, problems=CONFLICTS),
            post(f"{one}/send", self.send, Deed, body=Prompt, problems=CONFLICTS),
            post(f"{one}/answer", self.answer, Deed, body=QuestionAnswer, problems=CONFLICTS),
            post(f"{one}/interrupt", self.interrupt, Deed, problems=CONFLICTS),
            post(f"{one}/resume", self.resume, Deed, body=Resumption, problems=CONFLICTS),
            post(f"{one}/stop", self.stop, Deed, optional_body=Stopping, problems=CONFLICTS),
            post(f"{one}/adopt", self.adopt, Handover, optional_body=Adoption, problems=CONFLICTS),
            post(f"{one}/release", self.release, Handover, problems=CONFLICTS),
        )

    async def run(self, request: Request[RunRequest]) -> Encoded[Deed]:
        """Start a managed session: in a tmux of its own, or without a terminal. With an `Idempotency-Key`, once."""
        key = idempotency_key(request)
        deed = self._hands.run(request.input) if key is None else self._once.run(request.input, key)
        return answer_deed(await deed)

    async def questions(self, request: Request[None]) -> Encoded[QuestionList]:
        """The permission questions a managed session asks now."""
        return encoded(QuestionList(tuple(await self._hands.questions(request.id))))

    async def attach(self, request: Request[None]) -> Encoded[Showing]:
        """Where a session can be seen and typed into, managed or found."""
        return encoded(Showing(self._hands.pane(request.id)))

    async def send(self, request: Request[Prompt]) -> Encoded[Deed]:
        """Give a managed session a prompt, and see that it took it. With an `Idempotency-Key`, once."""
        key, given = idempotency_key(request), request.input
        if key is None:
            return answer_deed(await self._hands.deliver(request.id, given.prompt, given.environ))
        return answer_deed(await self._once.deliver(request.id, given.prompt, given.environ, key))

    async def answer(self, request: Request[QuestionAnswer]) -> Encoded[Deed]:
        """Answer the permission question with this id. A person's decision: an agent could answer its own."""
        given = request.input
        return answer_deed(await self._hands.answer(request.id, given.question_id, given.reply))

    async def interrupt(self, request: Request[None]) -> Encoded[Deed]:
        """Cut the running turn short; the agent stays."""
        return answer_deed(await self._hands.interrupt(request.id))

    async def resume(self, request: Request[Resumption]) -> Encoded[Deed]:
        """Continue a conversation whose agent is gone."""
        return answer_deed(await self._hands.resume(request.id, request.input.environ))

    async def stop(self, request: Request[Stopping | None]) -> Encoded[Deed]:
        """End the agent, gently first, and the tools it left behind."""
        by_gateway = request.input is not None and request.input.by_gateway
        return answer_deed(await self._hands.stop(request.id, by_gateway=by_gateway))

    async def adopt(self, request: Request[Adoption | None]) -> Encoded[Handover]:
        """Hand a found session over to Wakeful. A person's decision: refused to supervised agents."""
        name = request.input.name if request.input is not None else None
        return _handover(await self._hands.adopt(request.id, name=name), managed=True)

    async def release(self, request: Request[None]) -> Encoded[Handover]:
        """Let go of a managed session; its agent goes on. A person's decision."""
        return _handover(await self._hands.release(request.id), managed=False)


def answer_deed(deed: Deed) -> Encoded[Deed]:
    return Encoded(Answer(msgspec.json.encode(deed), EXIT_CODES[deed.outcome]))


def _handover(hosting: Hosting, *, managed: bool) -> Encoded[Handover]:
    pid = hosting.process.pid if hosting.process is not None else None
    return encoded(Handover(hosting.session_id, managed, hosting.driver, hosting.epoch, pid))
