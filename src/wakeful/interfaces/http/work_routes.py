"""Orders about work and leases. What the work desk answers is sent as it is; the store decides who owns what."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody, QueryParameter

from wakeful.domain.errors import OperatorError
from wakeful.domain.work import ConversationHeld, WorkState
from wakeful.interfaces.http.answers import Encoded
from wakeful.interfaces.http.problems import MEDIA_TYPE, Problem, problem_headers, problem_of
from wakeful.interfaces.http.session_routes import PROBLEMS
from wakeful.interfaces.http.work_shapes import (
    Completion,
    Failing,
    Heartbeat,
    HeldProblem,
    LeaseClaim,
    LeaseYield,
    NewWork,
    RunClaim,
)
from wakeful.services.calm import Paused
from wakeful.services.work import (
    Claimed,
    LeaseRecord,
    Order,
    Renewed,
    WorkDesk,
    WorkDetail,
    WorkList,
    WorkRecord,
    Yielded,
)

LIST_MAX: Final = 1000
KEY_CHARS_MAX: Final = 200
# SQLite's integers end here.
_SEQ_MAX: Final = 2**63 - 1
_PROBLEMS: Final = PROBLEMS | {
    409: ResponseSpec(
        Problem, generate_examples=False, media_type=MEDIA_TYPE, description="Somebody else owns it."
    )
}


class BadKey(OperatorError):
    """An Idempotency-Key has {chars_max} printable characters at most."""

    code = "bad-idempotency-key"


class WorkRoutes:
    """Work, its runs, and the leases of conversations."""

    def __init__(self, desk: WorkDesk, paused: Paused) -> None:
        self._desk = desk
        self._paused = paused

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        orders: dict[str, Callable[..., Any]] = {
            "/api/work/claim": self.claim,
            "/api/work/{work_id:str}/heartbeat": self.heartbeat,
            "/api/work/{work_id:str}/complete": self.complete,
            "/api/work/{work_id:str}/fail": self.fail,
            "/api/sessions/{session_id:str}/claim": self.claim_session,
            "/api/sessions/{session_id:str}/renew": self.renew_session,
            "/api/sessions/{session_id:str}/yield": self.yield_session,
        }
        return (
            get("/api/work", responses=_PROBLEMS)(self.works),
            post("/api/work", status_code=201, responses=_PROBLEMS)(self.add),
            get("/api/work/{work_id:str}", responses=_PROBLEMS)(self.work),
            *(_order(path, fn) for path, fn in orders.items()),
        )

    async def works(
        self,
        # `state` means something else to Litestar.
        in_state: Annotated[WorkState | None, QueryParameter(name="state")] = None,
        after: Annotated[int, QueryParameter(ge=0, le=_SEQ_MAX)] = 0,
        limit: Annotated[int, QueryParameter(ge=1, le=LIST_MAX)] = 100,
    ) -> Encoded[WorkList]:
        """A page of works, oldest first; prompts are cut to a summary."""
        return Encoded(await self._desk.works(in_state, after=after, limit=limit, paused=self._paused()))

    async def add(self, request: Request[Any, Any, Any], data: JSONBody[NewWork]) -> Encoded[WorkRecord]:
        """Keep a work until somebody claims it. With an `Idempotency-Key` header it is kept once."""
        order = Order(
            data.prompt, data.project, data.session_id, data.context, data.attempts_max, data.delay_seconds
        )
        key = idempotency_key(request)
        return Encoded(await self._desk.add(order, key), status_code=201)

    async def work(self, work_id: FromPath[str]) -> Encoded[WorkDetail]:
        """One work with its whole prompt and every attempt."""
        return Encoded(await self._desk.work(work_id))

    async def claim(self, data: JSONBody[RunClaim]) -> Encoded[Claimed]:
        """Begin an attempt of the oldest work that is due; `run` is null when there is none."""
        return Encoded(
            await self._desk.claim(
                data.owner, project=data.project, ttl_seconds=data.ttl_seconds, holder=data.holder
            )
        )

    async def heartbeat(self, work_id: FromPath[str], data: JSONBody[Heartbeat]) -> Encoded[Renewed]:
        """Keep a run's lease."""
        return Encoded(await self._desk.heartbeat(work_id, data.epoch, data.ttl_seconds))

    async def complete(self, work_id: FromPath[str], data: JSONBody[Completion]) -> Encoded[WorkRecord]:
        """The run succeeded."""
        return Encoded(await self._desk.complete(work_id, data.epoch, data.result))

    async def fail(self, work_id: FromPath[str], data: JSONBody[Failing]) -> Encoded[WorkRecord]:
        """The run failed; the work is pending again while it has attempts left."""
        return Encoded(await self._desk.fail(work_id, data.epoch, data.reason))

    async def claim_session(
        self, session_id: FromPath[str], data: JSONBody[LeaseClaim]
    ) -> Encoded[LeaseRecord]:
        """Take a conversation, as its one owner."""
        return Encoded(
            await self._desk.claim_session(
                session_id, data.owner, ttl_seconds=data.ttl_seconds, holder=data.holder
            )
        )

    async def renew_session(self, session_id: FromPath[str], data: JSONBody[Heartbeat]) -> Encoded[Renewed]:
        """Keep a conversation."""
        return Encoded(await self._desk.renew_session(session_id, data.epoch, data.ttl_seconds))

    async def yield_session(self, session_id: FromPath[str], data: JSONBody[LeaseYield]) -> Encoded[Yielded]:
        """Give a conversation back."""
        return Encoded(await self._desk.yield_session(session_id, data.epoch))


def _order(path: str, fn: Callable[..., Any]) -> HTTPRouteHandler:
    return post(
        path, status_code=200, responses=_PROBLEMS, exception_handlers={ConversationHeld: _answer_held}
    )(fn)


def _answer_held(_request: Request[Any, Any, Any], error: ConversationHeld) -> Response[bytes]:
    """The usual document, and in members of their own what a program wants to know."""
    problem = HeldProblem(
        **msgspec.structs.asdict(problem_of(error)),
        owner=str(error.facts["owner"]),
        since=str(error.facts["since"]),
        until=str(error.facts["until"]),
    )
    return Response(
        msgspec.json.encode(problem),
        status_code=error.http_status,
        media_type=MEDIA_TYPE,
        headers=problem_headers(error),
    )


def idempotency_key(request: Request[Any, Any, Any]) -> str | None:
    """The key of an order, if it has one. Raises BadKey."""
    given = request.headers.get("idempotency-key")
    if given is not None and not (0 < len(given) <= KEY_CHARS_MAX and given.isprintable()):
        raise BadKey(chars_max=KEY_CHARS_MAX)
    return given
