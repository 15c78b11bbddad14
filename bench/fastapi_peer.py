"""`python -m bench.fastapi_peer SOCKET FILE`: the list of sessions as FastAPI and pydantic serve it.

The same records, the same server (uvicorn with httptools on a Unix socket), the usual way to write it.
"""

import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, Field


class Finding(BaseModel):
    code: str
    severity: str
    since: str
    summary: str
    evidence: list[str]
    untrusted: list[str]


class Wait(BaseModel):
    kind: str
    since: str
    until: str | None
    evidence: str
    untrusted: str
    probable: bool


class Error(BaseModel):
    code: str
    at: str
    untrusted: str


class Ask(BaseModel):
    at: str
    untrusted: str


class Words(BaseModel):
    project: str
    cwd: str | None
    name: str | None


class Action(BaseModel):
    name: str
    allowed: bool
    reason: str
    argv: list[str]
    reversible: bool


class Session(BaseModel):
    # BaseModel has a method of this name.
    schema_version: int = Field(alias="schema")
    id: str
    project: str
    agent: str | None
    provider: str
    host: str
    source: str
    conversation_id: str | None
    attempt: int
    managed: bool
    state: str
    health: str
    active_prompt: bool
    attachable: bool
    eligible_for_wake: bool
    ineligibility_reason: str | None
    session_alive: bool
    attention: str
    findings: list[Finding]
    expected_waits: list[Wait]
    alive_to: str
    broken_at: str | None
    actions: list[Action]
    last_activity_at: str | None
    last_presence_at: str | None
    last_error: Error | None
    started_at: str | None
    judged_at: str
    valid_until: str | None
    updated_at: str
    cwd: str | None
    pid: int | None
    rules: str
    name: str | None
    asks: Ask | None
    untrusted: Words | None
    short_name: str


class Pause(BaseModel):
    by: str
    since: str
    reason: str


class Sessions(BaseModel):
    sessions: list[Session]
    older: int
    next_cursor: str | None
    paused: Pause | None


def app_of(sessions: Sessions) -> FastAPI:
    app = FastAPI()

    @app.get("/api/sessions")
    def list_sessions() -> Sessions:
        return sessions

    return app


def main(socket: str, body: bytes) -> None:
    app = app_of(Sessions.model_validate_json(body))
    uvicorn.run(app, uds=socket, http="httptools", log_level="critical", access_log=False)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).read_bytes())
