"""The clients that answer chats: one module for each, named after its client.

Each module holds one value, PROVIDER. The names are read from the folder, so that a configuration can be
checked without importing any of them; a third client needs only a third module.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wakeful.control.provider import Provider


def _list_names() -> tuple[str, ...]:
    files = (name for folder in __path__ for name in os.listdir(folder))  # noqa: PTH208 - pathlib is slower
    return tuple(sorted(each[:-3] for each in files if each.endswith(".py") and not each.startswith("_")))


NAMES: Final = _list_names()


def provider(name: str) -> "Provider":
    assert name in NAMES, f"no client {name}"
    found: Provider = import_module(f"{__name__}.{name}").PROVIDER
    assert found.name == name, f"{name}.py holds {found.name}"
    return found


def all_providers() -> "tuple[Provider, ...]":
    return tuple(provider(name) for name in NAMES)
