"""Routes for login codes, login, logout, decisions and shutdown. The gate decides who may use them."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Clock, iso
from wakeful.http.auth import Authenticator, cookie_in
from wakeful.http.errors import LoginCodeWrong, PageNotServed
from wakeful.http.gate import FailureLimiter, caller_of
from wakeful.http.logins import CODE_SECONDS_MAX, LOGIN_SECONDS_MAX, LoginRecord
from wakeful.http.responses import (
    Acknowledgement,
    EncodedResponse,
    LoginAnswer,
    LoginCode,
    LoginRequest,
    encode_response,
)
from wakeful.http.routing import HttpRequest, Route, get, post

_COOKIE: Final = "{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds:.0f}"


class LoginList(Struct, frozen=True):
    """The open logins of the page, the oldest first."""

    logins: list[LoginRecord]


class LoginRevocation(Struct, frozen=True, forbid_unknown_fields=True):
    """The id of the login to end; without one, every login and every unused link."""

    id: str | None = None


class RevokedLogins(Struct, frozen=True):
    """How many logins were ended."""

    revoked: int


class LoginRoutes:
    def __init__(
        self,
        authenticator: Authenticator,
        limiter: FailureLimiter,
        clock: Clock,
        shut_down: Callable[[], None],
    ) -> None:
        self._authenticator = authenticator
        self._failure_limiter = limiter
        self._clock = clock
        self._shut_down = shut_down

    def routes(self) -> Sequence[Route]:
        return (
            post("/api/login", self.log_in, LoginAnswer, body=LoginRequest),
            post("/api/logout", self.log_out, Acknowledgement),
            get("/api/logins", self.logins, LoginList),
            post("/api/logins/revoke", self.revoke, RevokedLogins, body=LoginRevocation),
            post("/api/login-codes", self.new_code, LoginCode, status=201),
            post("/api/decisions", self.may_decide, Acknowledgement),
            post("/api/shutdown", self.shut_down, Acknowledgement, status=202),
        )

    async def log_in(self, request: HttpRequest[LoginRequest]) -> EncodedResponse[LoginAnswer]:
        """Exchange a one-time code for a login: a cookie, and the value for the x-wakeful-csrf header."""
        try:
            browser = request.header(b"user-agent") or ""
            login = await self._authenticator.logins.log_in(request.input.code, browser)
        except LoginCodeWrong:
            await self._failure_limiter.delay(caller_of(request.scope))
            raise
        return encode_response(LoginAnswer(login.csrf), headers=self._cookie(login.cookie, LOGIN_SECONDS_MAX))

    async def log_out(self, request: HttpRequest[None]) -> EncodedResponse[Acknowledgement]:
        cookie = cookie_in(request.header(b"cookie") or "", self._authenticator.cookie_name)
        if cookie is not None:
            await self._authenticator.logins.log_out(cookie)
        return encode_response(Acknowledgement(done=True), headers=self._cookie("", 0))

    async def logins(self, _request: HttpRequest[None]) -> EncodedResponse[LoginList]:
        """The open logins of the page."""
        return encode_response(LoginList(self._authenticator.logins.records()))

    async def revoke(self, request: HttpRequest[LoginRevocation]) -> EncodedResponse[RevokedLogins]:
        """End one login by its id, or all of them. Their pages are logged out at once. Needs a person."""
        logins, login_id = self._authenticator.logins, request.input.id
        count = await (logins.revoke_all() if login_id is None else logins.revoke(login_id))
        return encode_response(RevokedLogins(count))

    async def new_code(self, _request: HttpRequest[None]) -> EncodedResponse[LoginCode]:
        """A new one-time code for the page, valid for ten minutes."""
        if self._authenticator.url is None:
            raise PageNotServed
        code = self._authenticator.logins.new_code()
        until = iso(self._clock.now().plus(CODE_SECONDS_MAX).wall)
        return encode_response(LoginCode(code, f"{self._authenticator.url}#code={code}", until))

    async def may_decide(self, _request: HttpRequest[None]) -> EncodedResponse[Acknowledgement]:
        """Whether this caller may decide. Changes nothing; a refusal alerts a person, as for every decision."""
        return encode_response(Acknowledgement(done=True))

    async def shut_down(self, _request: HttpRequest[None]) -> EncodedResponse[Acknowledgement]:
        """Stop the daemon; agents go on. Needs a person: supervised agents are refused."""
        self._shut_down()
        return encode_response(Acknowledgement(done=True))

    def _cookie(self, value: str, seconds: float) -> dict[str, str]:
        name = self._authenticator.cookie_name
        return {"set-cookie": _COOKIE.format(name=name, value=value, seconds=seconds)}
