"""Public names of a package that are imported when one of them is used.

The names are those in `__all__` of its module `api`, and nowhere else. The package itself says only

    if TYPE_CHECKING:
        from wakeful.journal.api import *
    __getattr__ = lazy_names("wakeful.journal")

so that importing one of its other modules stays cheap.
"""

from collections.abc import Callable


def lazy_names(package: str, extra: str = "") -> Callable[[str], object]:
    """The `__getattr__` of a package whose public names are in its module `api`.

    `extra`: the extra with the libraries that the names need; without them the first use raises ExtraMissing.
    """

    def get(name: str) -> object:
        from importlib import import_module  # noqa: PLC0415 - only if a name is used
        from importlib.util import find_spec  # noqa: PLC0415

        is_public = name == "__all__" or not name.startswith("_")
        if not is_public or find_spec(f"{package}.{name}") is not None:
            # A module of the package: the import statement finds it by itself.
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            api = import_module(f"{package}.api")
        except ModuleNotFoundError as missing:
            if not extra:
                raise
            from wakeful.core.errors import ExtraMissing  # noqa: PLC0415 - as above

            raise ExtraMissing(what=package, library=missing.name, extra=extra) from missing
        if name != "__all__" and name not in api.__all__:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(api, name)

    return get
