"""The watchdog's functions and constants under their documented import path."""

from wakeful.watchdog.api import *  # noqa: F403 - `api` lists the names
from wakeful.watchdog.api import __all__  # noqa: F401 - the same for `import *`
