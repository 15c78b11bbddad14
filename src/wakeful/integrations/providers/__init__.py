"""The clients that answer chats, one file here for each, called as its client is: a third one is a third file.

Each holds one value, PROVIDER. Which there are is read from the folder, so that a configuration can be checked without
importing any of them.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wakeful.control.provider import Provider


def _found() -> tuple[str, ...]:
    files = (name for folder in __path__ for name in os.listdir(folder))  # noqa: PTH208 - pathlib costs more than this
    return tuple(sorted(each[:-3] for each in files if each.endswith(".py") and not each.startswith("_")))


NAMES: Final = _found()


def provider(name: str) -> "Provider":
    """The client of this name, which is one of NAMES."""
    assert name in NAMES, f"no client {name}"
    found: Provider = import_module(f"{__name__}.{name}").PROVIDER
    assert found.name == name, f"{name}.py holds {found.name}"
    return found


def every() -> "tuple[Provider, ...]":
    """All of them."""
    return tuple(provider(name) for name in NAMES)
