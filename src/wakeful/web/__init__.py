"""The web page: static files, served as they are, without a build step and without anybody else's script.

Everything an agent wrote enters the document through `textContent` only.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

_MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FILES: Final = sorted(
    each.name for each in files(__name__).iterdir() if each.name.rpartition(".")[2] in _MEDIA_TYPES
)
PAGE_PATHS: Final[Mapping[str, str]] = {
    "/": "index.html",
    **{f"/{name}": name for name in _FILES if name != "index.html"},
}
"""Where each file is served; the only paths besides /healthz and the login that need no proof."""


def page_file(path: str) -> tuple[bytes, str]:
    """The bytes and the media type of a file of the page."""
    name = PAGE_PATHS[path]
    body = files(__name__).joinpath(name).read_bytes()
    return body, _MEDIA_TYPES[name.rpartition(".")[2]]
