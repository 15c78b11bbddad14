"""Routes for orders to sessions: run, send, answer, interrupt, resume, stop, adopt, release.

The controller decides whether an order is allowed.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from wakeful.control.controller import SessionController
from wakeful.control.driver import PROMPT_BYTES_MAX, PermissionReply
from wakeful.control.gate import ActionRecord
from wakeful.control.idempotency import IdempotentController
from wakeful.control.start import RunRequest
from wakeful.core.managed_session import ManagedSession
from wakeful.core.query_result import QueryResult
from wakeful.http.errors import PROBLEMS
from wakeful.http.responses import EncodedResponse, encode_response
from wakeful.http.routing import HttpRequest, Route, get, post
from wakeful.storage.base import ActionOutcome
from wakeful.views.records import ManagedRecord, PaneRecord, QuestionList

# "No" and "unknown" are answers, as everywhere.
EXIT_CODES: Final = {
    ActionOutcome.CONFIRMED: 0,
    ActionOutcome.UNVERIFIED: 5,
    ActionOutcome.INEFFECTIVE: 1,
    ActionOutcome.DECLINED: 1,
}
CONFLICTS: Final = PROBLEMS | {409: "Its state or its owner forbids it."}


class PromptOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`environ` is for clients that run one process per prompt; default: the daemon's own."""

    prompt: Annotated[str, Meta(max_length=PROMPT_BYTES_MAX)]
    environ: dict[str, str] | None = None


class ResumeOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`environ` is the environment of the agent; default: the daemon's own.

    `prompt_follows`: the chat gateway has the next message for it: an interrupted turn is not continued before.
    """

    environ: dict[str, str] | None = None
    prompt_follows: bool = False


class QuestionAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    question_id: str
    reply: PermissionReply


class AdoptOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`name` is the name by which the session can be woken from now on."""

    name: str | None = None


class Stopping(Struct, frozen=True, forbid_unknown_fields=True):
    """`by_gateway`: the chat gateway stops it by itself, for room or memory; otherwise a person wants it stopped."""

    by_gateway: bool = False


class ControlRoutes:
    def __init__(self, controller: SessionController, once: IdempotentController) -> None:
        self._controller = controller
        self._idempotent = once

    def routes(self) -> Sequence[Route]:
        one = "/api/sessions/{session_id}"
        return (
            post("/api/sessions", self.run, ActionRecord, body=RunRequest, status=201, problems=CONFLICTS),
            get(f"{one}/questions", self.questions, QuestionList, problems=CONFLICTS),
            get(f"{one}/attach", self.attach, PaneRecord, problems=CONFLICTS),
            post(f"{one}/send", self.send, ActionRecord, body=PromptOrder, problems=CONFLICTS),
            post(f"{one}/answer", self.answer, ActionRecord, body=QuestionAnswer, problems=CONFLICTS),
            post(f"{one}/interrupt", self.interrupt, ActionRecord, problems=CONFLICTS),
            post(f"{one}/resume", self.resume, ActionRecord, body=ResumeOrder, problems=CONFLICTS),
            post(f"{one}/stop", self.stop, ActionRecord, optional_body=Stopping, problems=CONFLICTS),
            post(f"{one}/adopt", self.adopt, ManagedRecord, optional_body=AdoptOrder, problems=CONFLICTS),
            post(f"{one}/release", self.release, ManagedRecord, problems=CONFLICTS),
        )

    async def run(self, request: HttpRequest[RunRequest]) -> EncodedResponse[ActionRecord]:
        """Start a managed session, in a tmux session of its own or without a terminal. With an
        `Idempotency-Key`, once."""
        key = request.idempotency_key()
        if key is None:
            return action_response(await self._controller.run(request.input))
        return action_response(await self._idempotent.run(request.input, key))

    async def questions(self, request: HttpRequest[None]) -> EncodedResponse[QuestionList]:
        return encode_response(QuestionList(tuple(await self._controller.questions(request.id))))

    async def attach(self, request: HttpRequest[None]) -> EncodedResponse[PaneRecord]:
        """Where a person can see a session and type into it, managed or not."""
        return encode_response(PaneRecord(self._controller.pane(request.id)))

    async def send(self, request: HttpRequest[PromptOrder]) -> EncodedResponse[ActionRecord]:
        """Send a prompt to a managed session and verify that it arrived. With an `Idempotency-Key`, once."""
        key, given = request.idempotency_key(), request.input
        if key is None:
            return action_response(await self._controller.deliver(request.id, given.prompt, given.environ))
        return action_response(await self._idempotent.deliver(request.id, given.prompt, given.environ, key))

    async def answer(self, request: HttpRequest[QuestionAnswer]) -> EncodedResponse[ActionRecord]:
        """Answer the permission question with this id. Needs a person: an agent could answer its own."""
        given = request.input
        return action_response(await self._controller.answer(request.id, given.question_id, given.reply))

    async def interrupt(self, request: HttpRequest[None]) -> EncodedResponse[ActionRecord]:
        """Interrupt the running turn; the agent stays."""
        return action_response(await self._controller.interrupt(request.id))

    async def resume(self, request: HttpRequest[ResumeOrder]) -> EncodedResponse[ActionRecord]:
        """Continue a conversation whose agent is gone."""
        order = request.input
        return action_response(
            await self._controller.resume(request.id, order.environ, prompt_follows=order.prompt_follows)
        )

    async def stop(self, request: HttpRequest[Stopping | None]) -> EncodedResponse[ActionRecord]:
        """End the agent, gently first, and the tools it left behind."""
        by_gateway = request.input is not None and request.input.by_gateway
        return action_response(await self._controller.stop(request.id, by_gateway=by_gateway))

    async def adopt(self, request: HttpRequest[AdoptOrder | None]) -> EncodedResponse[ManagedRecord]:
        """Make a session managed that Wakeful only watches. Needs a person: supervised agents are refused."""
        name = request.input.name if request.input is not None else None
        return _managed_response(await self._controller.adopt(request.id, name=name), managed=True)

    async def release(self, request: HttpRequest[None]) -> EncodedResponse[ManagedRecord]:
        """Stop managing a session; its agent goes on. Needs a person."""
        return _managed_response(await self._controller.release(request.id), managed=False)


def action_response(record: ActionRecord) -> EncodedResponse[ActionRecord]:
    return EncodedResponse(QueryResult(msgspec.json.encode(record), EXIT_CODES[record.outcome]))


def _managed_response(session: ManagedSession, *, managed: bool) -> EncodedResponse[ManagedRecord]:
    pid = session.process.pid if session.process is not None else None
    return encode_response(ManagedRecord(session.session_id, managed, session.driver, session.epoch, pid))
