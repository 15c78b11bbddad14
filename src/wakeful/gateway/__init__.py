"""The pure parts of the chat gateway as a library; each can be used alone.

They know no chat service, client or clock: times are seconds that the caller gives, of any clock that never
goes back. `pip install wakeful[gateway]` installs what they need; without it, the first use of a name raises
ExtraMissing.

    from wakeful.gateway import Breaker, Outcome

    breaker = Breaker()
    if breaker.may_pass(now):
        breaker = breaker.passing(now)
        ...
        breaker = breaker.after(Outcome.FAILURE, now)
"""

from wakeful.core.lazy_names import lazy_names

# What mypy reads and the interpreter skips.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from wakeful.gateway.api import *  # noqa: F403 - `api` lists the names
    from wakeful.gateway.api import __all__ as __all__

__getattr__ = lazy_names("wakeful.gateway", extra="gateway")
