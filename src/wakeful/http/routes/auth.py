"""Routes for login codes, login, logout, decisions and shutdown. The gate decides who may use them."""

from collections.abc import Callable, Sequence
from typing import Final

from wakeful.core.clock import Instant, iso
from wakeful.http.auth import CODE_SECONDS_MAX, LOGIN_SECONDS_MAX, Access, cookie_in
from wakeful.http.errors import LoginCodeWrong, NoPage
from wakeful.http.gate import Penalties, caller_of
from wakeful.http.responses import Done, Encoded, LoginAnswer, LoginCode, LoginRequest, encoded
from wakeful.http.routing import Request, Route, post

_COOKIE: Final = "{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds:.0f}"


class EntryRoutes:
    """The few orders a door takes for itself."""

    def __init__(
        self,
        access: Access,
        penalties: Penalties,
        now: Callable[[], Instant],
        shut_down: Callable[[], None],
    ) -> None:
        self._access = access
        self._penalties = penalties
        self._now = now
        self._shut_down = shut_down

    def routes(self) -> Sequence[Route]:
        return (
            post("/api/login", self.log_in, LoginAnswer, body=LoginRequest),
            post("/api/logout", self.log_out, Done),
            post("/api/login-codes", self.new_code, LoginCode, status=201),
            post("/api/decisions", self.may_decide, Done),
            post("/api/shutdown", self.shut_down, Done, status=202),
        )

    async def log_in(self, request: Request[LoginRequest]) -> Encoded[LoginAnswer]:
        """Spend a one-time code for a login: a cookie, and the value for the x-wakeful-csrf header."""
        try:
            login = self._access.logins.log_in(request.input.code)
        except LoginCodeWrong:
            await self._penalties.pay(caller_of(request.scope))
            raise
        return encoded(LoginAnswer(login.csrf), headers=self._cookie(login.cookie, LOGIN_SECONDS_MAX))

    async def log_out(self, request: Request[None]) -> Encoded[Done]:
        """End the login this cookie belongs to."""
        cookie = cookie_in(request.header(b"cookie") or "", self._access.cookie_name)
        if cookie is not None:
            self._access.logins.log_out(cookie)
        return encoded(Done(done=True), headers=self._cookie("", 0))

    async def new_code(self, _request: Request[None]) -> Encoded[LoginCode]:
        """A fresh one-time code for the page, valid for ten minutes."""
        if self._access.url is None:
            raise NoPage
        code = self._access.logins.new_code()
        until = iso(self._now().plus(CODE_SECONDS_MAX).wall)
        return encoded(LoginCode(code, f"{self._access.url}#code={code}", until))

    async def may_decide(self, _request: Request[None]) -> Encoded[Done]:
        """Whether this caller may decide. It changes nothing; where it is refused, a person is told as of every decision."""
        return encoded(Done(done=True))

    async def shut_down(self, _request: Request[None]) -> Encoded[Done]:
        """Let the daemon go down; agents live on. A person's decision: refused to supervised agents."""
        self._shut_down()
        return encoded(Done(done=True))

    def _cookie(self, value: str, seconds: float) -> dict[str, str]:
        name = self._access.cookie_name
        return {"set-cookie": _COOKIE.format(name=name, value=value, seconds=seconds)}
