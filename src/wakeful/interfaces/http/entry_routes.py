"""Coming and going: one-time codes, logins, and the order to go down. Who may ask is the gate's decision."""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from litestar import Request
from litestar.handlers import HTTPRouteHandler, post
from litestar.params import JSONBody

from wakeful.domain.moment import Instant, iso
from wakeful.interfaces.http.access import Access, cookie_in
from wakeful.interfaces.http.answers import Encoded, encoded
from wakeful.interfaces.http.asgi import Scope
from wakeful.interfaces.http.gate import caller_of
from wakeful.interfaces.http.logins import CODE_SECONDS_MAX, LOGIN_SECONDS_MAX
from wakeful.interfaces.http.penalties import Penalties
from wakeful.interfaces.http.refusals import LoginCodeWrong, NoPage
from wakeful.interfaces.http.session_routes import PROBLEMS
from wakeful.interfaces.http.shapes import Done, LoginAnswer, LoginCode, LoginRequest

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

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        return (
            post("/api/login", status_code=200, responses=PROBLEMS)(self.log_in),
            post("/api/logout", status_code=200, responses=PROBLEMS, sync_to_thread=False)(self.log_out),
            post("/api/login-codes", responses=PROBLEMS, sync_to_thread=False)(self.new_code),
            post("/api/shutdown", status_code=202, responses=PROBLEMS)(self.shut_down),
        )

    async def log_in(
        self, request: Request[Any, Any, Any], data: JSONBody[LoginRequest]
    ) -> Encoded[LoginAnswer]:
        """Spend a one-time code for a login: a cookie, and the value for the x-wakeful-csrf header."""
        try:
            login = self._access.logins.log_in(data.code)
        except LoginCodeWrong:
            await self._penalties.pay(caller_of(cast("Scope", request.scope)))
            raise
        return encoded(LoginAnswer(login.csrf), headers=self._cookie(login.cookie, LOGIN_SECONDS_MAX))

    def log_out(self, request: Request[Any, Any, Any]) -> Encoded[Done]:
        """End the login this cookie belongs to."""
        cookie = cookie_in(request.headers.get("cookie", ""), self._access.cookie_name)
        if cookie is not None:
            self._access.logins.log_out(cookie)
        return encoded(Done(done=True), headers=self._cookie("", 0))

    def new_code(self) -> Encoded[LoginCode]:
        """A fresh one-time code for the page, valid for ten minutes."""
        if self._access.url is None:
            raise NoPage
        code = self._access.logins.new_code()
        until = iso(self._now().plus(CODE_SECONDS_MAX).wall)
        return encoded(LoginCode(code, f"{self._access.url}#code={code}", until), status_code=201)

    async def shut_down(self) -> Encoded[Done]:
        """Let the daemon go down; agents live on. A person's decision: refused to supervised agents."""
        self._shut_down()
        return encoded(Done(done=True), status_code=202)

    def _cookie(self, value: str, seconds: float) -> dict[str, str]:
        name = self._access.cookie_name
        return {"set-cookie": _COOKIE.format(name=name, value=value, seconds=seconds)}
