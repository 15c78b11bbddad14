"""Routes for tasks and leases, and the structs of their bodies. The store decides who owns what."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from wakeful.alerts.mute_pause import PauseQuery
from wakeful.core.leases import LEASE_SECONDS, ConversationHeld, WorkState
from wakeful.core.process import Process
from wakeful.core.query_result import QueryResult
from wakeful.http.errors import MEDIA_TYPE, PROBLEMS, ProblemDocument, problem_of
from wakeful.http.responses import EncodedResponse
from wakeful.http.routing import HttpRequest, Route, get, post
from wakeful.work.service import (
    ClaimedRun,
    LeaseRecord,
    ReleasedLease,
    RenewedLease,
    WorkDetail,
    WorkList,
    WorkQueue,
    WorkRecord,
    WorkRequest,
)

PROMPT_CHARS_MAX: Final = 1_000_000
CONTEXT_CHARS_MAX: Final = 100_000
# An agent's answer; whole transcripts have their own files.
RESULT_CHARS_MAX: Final = 100_000
NAME_CHARS_MAX: Final = 200
# A person approves each further attempt with the budget: more than this is a loop.
ATTEMPTS_MAX: Final = 10
DELAY_SECONDS_MAX: Final = 30 * 86_400
TTL_SECONDS_MAX: Final = 3600
# SQLite's integers end here.
_EPOCH_MAX: Final = 2**63 - 1

_Owner = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX, pattern=r"\S")]
_Name = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
_Epoch = Annotated[int, Meta(ge=1, le=_EPOCH_MAX)]
_Ttl = Annotated[float, Meta(ge=1, le=TTL_SECONDS_MAX)]


class NewWork(Struct, frozen=True, forbid_unknown_fields=True):
    """A new task. `session_id` is the conversation it continues; `attempts_max` its whole budget."""

    prompt: Annotated[str, Meta(min_length=1, max_length=PROMPT_CHARS_MAX)]
    project: _Name = ""
    session_id: _Name | None = None
    context: Annotated[str, Meta(max_length=CONTEXT_CHARS_MAX)] = ""
    attempts_max: Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)] = 1
    delay_seconds: Annotated[float, Meta(ge=0, le=DELAY_SECONDS_MAX)] = 0.0


class RunClaim(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for the next run. `holder` is the process that will do it."""

    owner: _Owner
    project: _Name | None = None
    ttl_seconds: _Ttl = LEASE_SECONDS
    holder: Process | None = None


class LeaseClaim(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a conversation. `holder` is the process that will run it."""

    owner: _Owner
    ttl_seconds: _Ttl = LEASE_SECONDS
    holder: Process | None = None


class LeaseHeartbeat(Struct, frozen=True, forbid_unknown_fields=True):
    """The owner with this epoch is alive."""

    epoch: _Epoch
    ttl_seconds: _Ttl = LEASE_SECONDS


class RunCompletion(Struct, frozen=True, forbid_unknown_fields=True):
    epoch: _Epoch
    result: Annotated[str, Meta(max_length=RESULT_CHARS_MAX)] = ""


class RunFailure(Struct, frozen=True, forbid_unknown_fields=True):
    epoch: _Epoch
    reason: Annotated[str, Meta(max_length=RESULT_CHARS_MAX)] = ""


class LeaseReturn(Struct, frozen=True, forbid_unknown_fields=True):
    epoch: _Epoch


class ConversationHeldProblem(ProblemDocument, frozen=True, kw_only=True):
    """The problem `conversation-held`, with the lease's owner."""

    owner: str
    since: str
    until: str


LIST_MAX: Final = 1000
# SQLite's integers end here.
_SEQ_MAX: Final = 2**63 - 1
_PROBLEMS: Final = PROBLEMS | {409: "Another process owns it."}


class WorkQuery(Struct, frozen=True):
    state: WorkState | None = None
    after: Annotated[int, Meta(ge=0, le=_SEQ_MAX)] = 0
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX)] = 100


class WorkRoutes:
    def __init__(self, work: WorkQueue, paused: PauseQuery) -> None:
        self._work = work
        self._get_pause = paused

    def routes(self) -> Sequence[Route]:
        work, session = "/api/work/{work_id}", "/api/sessions/{session_id}"
        return (
            get("/api/work", self.works, WorkList, query=WorkQuery, problems=_PROBLEMS),
            post("/api/work", self.add, WorkRecord, body=NewWork, status=201, problems=_PROBLEMS),
            get(work, self.work, WorkDetail, problems=_PROBLEMS),
            post("/api/work/claim", self.claim, ClaimedRun, body=RunClaim, problems=_PROBLEMS),
            post(f"{work}/heartbeat", self.heartbeat, RenewedLease, body=LeaseHeartbeat, problems=_PROBLEMS),
            post(f"{work}/complete", self.complete, WorkRecord, body=RunCompletion, problems=_PROBLEMS),
            post(f"{work}/fail", self.fail, WorkRecord, body=RunFailure, problems=_PROBLEMS),
            post(f"{session}/claim", self.claim_session, LeaseRecord, body=LeaseClaim, problems=_PROBLEMS),
            post(
                f"{session}/renew", self.renew_session, RenewedLease, body=LeaseHeartbeat, problems=_PROBLEMS
            ),
            post(f"{session}/yield", self.yield_session, ReleasedLease, body=LeaseReturn, problems=_PROBLEMS),
        )

    async def works(self, request: HttpRequest[WorkQuery]) -> EncodedResponse[WorkList]:
        """A page of tasks, oldest first; prompts are cut to a summary."""
        given, paused = request.input, self._get_pause()
        works = await self._work.works(given.state, after=given.after, limit=given.limit, paused=paused)
        return EncodedResponse(works)

    async def add(self, request: HttpRequest[NewWork]) -> EncodedResponse[WorkRecord]:
        """Add a task. With an `Idempotency-Key` header it is added once."""
        new = request.input
        order = WorkRequest(
            new.prompt, new.project, new.session_id, new.context, new.attempts_max, new.delay_seconds
        )
        return EncodedResponse(await self._work.add(order, request.idempotency_key()))

    async def work(self, request: HttpRequest[None]) -> EncodedResponse[WorkDetail]:
        """One task with its whole prompt and every attempt."""
        return EncodedResponse(await self._work.work(request.id))

    async def claim(self, request: HttpRequest[RunClaim]) -> EncodedResponse[ClaimedRun]:
        """Begin an attempt of the oldest task that is due; `run` is null if there is none."""
        claim = request.input
        return EncodedResponse(
            await self._work.claim(
                claim.owner, project=claim.project, ttl_seconds=claim.ttl_seconds, holder=claim.holder
            )
        )

    async def heartbeat(self, request: HttpRequest[LeaseHeartbeat]) -> EncodedResponse[RenewedLease]:
        return EncodedResponse(
            await self._work.heartbeat(request.id, request.input.epoch, request.input.ttl_seconds)
        )

    async def complete(self, request: HttpRequest[RunCompletion]) -> EncodedResponse[WorkRecord]:
        return EncodedResponse(
            await self._work.complete(request.id, request.input.epoch, request.input.result)
        )

    async def fail(self, request: HttpRequest[RunFailure]) -> EncodedResponse[WorkRecord]:
        """The run failed; the task is pending again while it has attempts left."""
        return EncodedResponse(await self._work.fail(request.id, request.input.epoch, request.input.reason))

    async def claim_session(self, request: HttpRequest[LeaseClaim]) -> EncodedResponse[LeaseRecord]:
        """Claim a conversation as its only owner."""
        claim = request.input
        try:
            lease = await self._work.claim_session(
                request.id, claim.owner, ttl_seconds=claim.ttl_seconds, holder=claim.holder
            )
        except ConversationHeld as held:
            return _held_response(held)
        return EncodedResponse(lease)

    async def renew_session(self, request: HttpRequest[LeaseHeartbeat]) -> EncodedResponse[RenewedLease]:
        return EncodedResponse(
            await self._work.renew_session(request.id, request.input.epoch, request.input.ttl_seconds)
        )

    async def yield_session(self, request: HttpRequest[LeaseReturn]) -> EncodedResponse[ReleasedLease]:
        return EncodedResponse(await self._work.yield_session(request.id, request.input.epoch))


def _held_response(error: ConversationHeld) -> EncodedResponse[Any]:
    """The usual document, with the owner and times as members of their own."""
    problem = ConversationHeldProblem(
        **msgspec.structs.asdict(problem_of(error)),
        owner=str(error.facts["owner"]),
        since=str(error.facts["since"]),
        until=str(error.facts["until"]),
    )
    answer = QueryResult(msgspec.json.encode(problem), error.exit_code)
    return EncodedResponse(answer, status=error.http_status, media_type=MEDIA_TYPE)
