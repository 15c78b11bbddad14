"""The web page: static files, served as they are, without a build step and without anybody else's script.

Everything an agent wrote enters the document through `textContent` only.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

_MEDIA_TYPES: Final = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
PAGE_PATHS: Final[Mapping[str, str]] = {
    "/": "index.html",
    "/page.css": "page.css",
    "/page.js": "page.js",
    "/rows.js": "rows.js",
    "/table.js": "table.js",
    "/link.js": "link.js",
    "/agents.js": "agents.js",
    "/checkpoints.js": "checkpoints.js",
    "/icon.svg": "icon.svg",
}
"""Where each file is served; the only paths besides /healthz and the login that need no proof."""


def page_file(path: str) -> tuple[bytes, str]:
    """The bytes and the media type of a file of the page."""
    name = PAGE_PATHS[path]
    body = files(__name__).joinpath(name).read_bytes()
    return body, _MEDIA_TYPES[name.rpartition(".")[2]]
