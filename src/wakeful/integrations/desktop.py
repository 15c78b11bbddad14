"""Sends alerts to the desktop by `notify-send`.

It is used only where a display exists: on a server the bus may answer, but nothing shows the message.
"""

import shutil
from collections.abc import Mapping
from html import escape
from typing import Final

from wakeful.alerts.delivery import NotDelivered, Refused
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.linux.run_command import run_command

NAME: Final = "desktop"
PROGRAM: Final = "notify-send"
SEND_SECONDS_MAX: Final = 5.0
REASON_CHARS_MAX: Final = 200
_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY")


def has_desktop(environ: Mapping[str, str]) -> bool:
    """Whether there is a display and `notify-send`."""
    has_display = any(environ.get(name) for name in _DISPLAYS)
    return has_display and shutil.which(PROGRAM, path=environ.get("PATH")) is not None


class DesktopMessenger:
    name = NAME

    async def send(self, text: str, *, chat: str | None = None) -> None:
        if chat is not None:
            raise Refused(channel=NAME, reason="it knows no chats")
        title, _, body = text.partition("\n")
        # Desktops interpret the body as markup, so the agent's text is escaped.
        argv = (PROGRAM, "--app-name=Wakeful", "--", title, escape(body, quote=False))
        try:
            answer = await run_command(argv, SEND_SECONDS_MAX)
        except OSError as problem:
            raise Refused(channel=NAME, reason=f"{PROGRAM}: {problem.strerror}") from problem
        if answer.exit_code is None:
            raise NotDelivered(channel=NAME, reason=f"no answer within {SEND_SECONDS_MAX:g} s")
        if answer.exit_code != 0:
            errors = plain(redact(answer.errors.decode(errors="replace")), REASON_CHARS_MAX)
            raise Refused(channel=NAME, reason=errors or f"{PROGRAM} exited {answer.exit_code}")

    async def close(self) -> None:
        """Nothing is open."""
