"""What the gateway tells its operator, through every channel and to every admin. What is muted waits for its end."""

import logging
from collections.abc import Sequence

from wakeful.alerts.alerts import Matter, Topic, prefaced
from wakeful.alerts.messenger import Messenger, NotDelivered
from wakeful.alerts.mute_pause import Calm
from wakeful.core.errors import WorldError
from wakeful.gateway.ports_chat import Chat, ChatFailed
from wakeful.gateway.rules.messages import Place

log = logging.getLogger("wakeful.gateway")
_ABOUT = Topic((Matter.GATEWAY,))


class AdminVoice:
    """Whoever tells again what did not arrive tells it once the mute has ended, if it still lasts."""

    def __init__(self, calm: Calm, channels: Sequence[Messenger], chat: Chat, admins: Sequence[int]) -> None:
        self._calm = calm
        self._channels = channels
        self._chat = chat
        self._admins = admins

    async def tell(self, level: str, text: str) -> bool:
        """Whether it arrived anywhere."""
        try:
            await self._calm.current()
        except WorldError as problem:
            log.warning("what is muted is not known: %s", problem)
        if self._calm.hushes(_ABOUT):
            return False
        words, paused = f"{level}: {text}", self._calm.paused
        return await self._said(words if paused is None else prefaced(words, paused.by))

    async def _said(self, words: str) -> bool:
        arrived = False
        for channel in self._channels:
            try:
                await channel.send(words)
                arrived = True
            except NotDelivered as problem:
                log.warning("%s", problem)
        for admin in self._admins:
            try:
                await self._chat.send(Place(admin, is_private=True), words)
                arrived = True
            except ChatFailed as problem:
                log.warning("admin %d was not told: %s", admin, problem)
        return arrived
