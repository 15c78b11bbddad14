"""Alerts through a Telegram bot. The token is part of every address there: none of them leaves this folder.

A refusal is an answer with a status, or a connection that was never made; whatever broke off after that is in doubt.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from wakeful.alerts.messenger import NotDelivered, Refused
from wakeful.integrations.bot import BotNotOpened, Meaning, close_bot, explain, open_bot

if TYPE_CHECKING:
    from telegram import Bot, LinkPreviewOptions

NAME: Final = "telegram"
# Telegram takes 4,096 characters.
TEXT_CHARS_MAX: Final = 4000
ANSWER_SECONDS_MAX: Final = 10.0
SEND_SECONDS_MAX: Final = 20.0
# Telegram's own gateway gave up on its answer.
_GATEWAY_TIMEOUT: Final = "Gateway Timeout"


class TelegramMessenger:
    """One bot and the chat it writes to."""

    name = NAME

    def __init__(self, token: str, chat: str, api: str) -> None:
        self._token = token
        self._chat = chat
        self._api = api
        self._bot: Bot | None = None

    async def send(self, text: str, *, chat: str | None = None) -> None:
        target = chat or self._chat
        if not target:
            raise Refused(channel=NAME, reason="no chat is set: alerts.telegram_chat")
        if self._bot is None:
            self._bot = await asyncio.to_thread(_open_bot, self._token, self._api)
        try:
            async with asyncio.timeout(SEND_SECONDS_MAX):
                await self._bot.send_message(
                    target, text[:TEXT_CHARS_MAX], link_preview_options=_no_preview()
                )
        except TimeoutError:
            raise NotDelivered(channel=NAME, reason=f"no answer within {SEND_SECONDS_MAX:g} s") from None
        except Exception as problem:  # noqa: BLE001 - an answer nobody foresaw must not end the daemon
            raise _explained(problem, self._token) from None

    async def close(self) -> None:
        if self._bot is not None:
            await close_bot(self._bot)


def _explained(problem: Exception, token: str) -> NotDelivered:
    """The same as an error of ours, without any address."""
    trouble = explain(problem, token)
    if trouble.meaning is Meaning.DOUBT or _GATEWAY_TIMEOUT in trouble.reason:
        return NotDelivered(channel=NAME, reason=trouble.reason)
    if trouble.meaning is Meaning.FLOODED:
        return Refused(channel=NAME, reason=trouble.reason, retry_after_seconds=trouble.retry_after_seconds)
    return Refused(channel=NAME, reason=trouble.reason)


def _open_bot(token: str, api: str) -> "Bot":
    """Raises Refused where no bot can be made of it."""
    try:
        # A connection that is kept may be closed by the time it is needed, and then nobody knows what arrived.
        return open_bot(token, api, answer_seconds_max=ANSWER_SECONDS_MAX, kept_connections=0)
    except BotNotOpened as problem:
        raise Refused(channel=NAME, reason=str(problem.facts["reason"])) from None


def _no_preview() -> "LinkPreviewOptions":
    """Links are not to be fetched by Telegram's servers."""
    from telegram import LinkPreviewOptions  # noqa: PLC0415 - loaded by now

    return LinkPreviewOptions(is_disabled=True)
