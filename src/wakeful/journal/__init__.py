"""A journal for any program: its steps can be resumed after a crash, and nothing is repeated without approval."""

from wakeful.core.lazy_names import lazy_names

# True for mypy, False at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from wakeful.journal.api import *  # noqa: F403 - `api` lists the names
    from wakeful.journal.api import __all__ as __all__

__getattr__ = lazy_names("wakeful.journal")
