"""Orders about sessions: start one, speak to it, end it, hand it over. What may be done is decided by the hands."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import Request
from litestar.handlers import HTTPRouteHandler, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody
from msgspec import Meta, Struct

from wakeful.domain.answer import Answer
from wakeful.domain.hosting import Hosting, PaneAddress
from wakeful.domain.ids import SessionId
from wakeful.interfaces.http.answers import Encoded
from wakeful.interfaces.http.problems import MEDIA_TYPE, Problem
from wakeful.interfaces.http.session_routes import PROBLEMS
from wakeful.interfaces.http.work_routes import idempotency_key
from wakeful.ports.hands import PROMPT_BYTES_MAX, Question, Reply
from wakeful.ports.store import Outcome
from wakeful.services.acts import Deed
from wakeful.services.hands import Hands
from wakeful.services.once import OnceHands
from wakeful.services.starts import RunRequest

# "No" and "nobody knows" are answers, as everywhere.
EXIT_CODES: Final = {
    Outcome.RECOVERED: 0,
    Outcome.UNVERIFIED: 5,
    Outcome.INEFFECTIVE: 1,
    Outcome.DECLINED: 1,
}
CONFLICTS: Final = PROBLEMS | {
    409: ResponseSpec(
        Problem,
        generate_examples=False,
        media_type=MEDIA_TYPE,
        description="Its state or its owner forbids it.",
    )
}


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

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        one = "/api/sessions/{session_id:str}"
        orders: dict[str, Callable[..., Any]] = {
            f"{one}/send": self.send,
            f"{one}/answer": self.answer,
            f"{one}/interrupt": self.interrupt,
            f"{one}/resume": self.resume,
            f"{one}/stop": self.stop,
            f"{one}/adopt": self.adopt,
            f"{one}/release": self.release,
        }
        return (
            post("/api/sessions", status_code=201, responses=CONFLICTS)(self.run),
            get(f"{one}/questions", responses=CONFLICTS)(self.questions),
            get(f"{one}/attach", responses=CONFLICTS, sync_to_thread=False)(self.attach),
            *(post(path, status_code=200, responses=CONFLICTS)(fn) for path, fn in orders.items()),
        )

    async def run(self, request: Request[Any, Any, Any], data: JSONBody[RunRequest]) -> Encoded[Deed]:
        """Start a managed session: in a tmux of its own, or without a terminal. With an `Idempotency-Key`, once."""
        key = idempotency_key(request)
        deed = self._hands.run(data) if key is None else self._once.run(data, key)
        return answer_deed(await deed, status_code=201)

    async def questions(self, session_id: FromPath[str]) -> Encoded[QuestionList]:
        """The permission questions a managed session asks now."""
        asked = QuestionList(tuple(await self._hands.questions(session_id)))
        return Encoded(Answer(msgspec.json.encode(asked)))

    def attach(self, session_id: FromPath[str]) -> Encoded[Showing]:
        """Where a session can be seen and typed into, managed or found."""
        return Encoded(Answer(msgspec.json.encode(Showing(self._hands.pane(session_id)))))

    async def send(
        self, request: Request[Any, Any, Any], session_id: FromPath[str], data: JSONBody[Prompt]
    ) -> Encoded[Deed]:
        """Give a managed session a prompt, and see that it took it. With an `Idempotency-Key`, once."""
        key = idempotency_key(request)
        if key is None:
            return answer_deed(await self._hands.deliver(session_id, data.prompt, data.environ))
        return answer_deed(await self._once.deliver(session_id, data.prompt, data.environ, key))

    async def answer(self, session_id: FromPath[str], data: JSONBody[QuestionAnswer]) -> Encoded[Deed]:
        """Answer the permission question with this id. A person's decision: an agent could answer its own."""
        return answer_deed(await self._hands.answer(session_id, data.question_id, data.reply))

    async def interrupt(self, session_id: FromPath[str]) -> Encoded[Deed]:
        """Cut the running turn short; the agent stays."""
        return answer_deed(await self._hands.interrupt(session_id))

    async def resume(self, session_id: FromPath[str], data: JSONBody[Resumption]) -> Encoded[Deed]:
        """Continue a conversation whose agent is gone."""
        return answer_deed(await self._hands.resume(session_id, data.environ))

    async def stop(self, session_id: FromPath[str]) -> Encoded[Deed]:
        """End the agent, gently first, and the tools it left behind."""
        return answer_deed(await self._hands.stop(session_id))

    async def adopt(
        self,
        session_id: FromPath[str],
        data: JSONBody[Adoption | None] = None,
    ) -> Encoded[Handover]:
        """Hand a found session over to Wakeful. A person's decision: refused to supervised agents."""
        return _handover(
            await self._hands.adopt(session_id, name=data.name if data is not None else None), managed=True
        )

    async def release(self, session_id: FromPath[str]) -> Encoded[Handover]:
        """Let go of a managed session; its agent goes on. A person's decision."""
        return _handover(await self._hands.release(session_id), managed=False)


def answer_deed(deed: Deed, *, status_code: int = 200) -> Encoded[Deed]:
    return Encoded(Answer(msgspec.json.encode(deed), EXIT_CODES[deed.outcome]), status_code=status_code)


def _handover(hosting: Hosting, *, managed: bool) -> Encoded[Handover]:
    pid = hosting.process.pid if hosting.process is not None else None
    handover = Handover(hosting.session_id, managed, hosting.driver, hosting.epoch, pid)
    return Encoded(Answer(msgspec.json.encode(handover)))
