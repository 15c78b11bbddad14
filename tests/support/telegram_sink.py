"""A scripted Telegram for tests: it accepts every message and records text and recipient."""

import asyncio
import json
import threading
from typing import Any

import msgspec

from support.http_server import ScriptedHttp, answer


class Telegram:
    """A scripted Bot API in a loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="telegram")
        self._thread.start()
        sent = {"ok": True, "result": {"message_id": 1, "date": 1, "chat": {"id": 1, "type": "private"}}}
        self.http = ScriptedHttp(answer(200, sent))
        self._run(self.http.__aenter__())

    def texts(self, chat: str) -> list[str]:
        return [got.form["text"] for got in self.http.got if got.form.get("chat_id") == chat]

    def end(self) -> None:
        self._run(self.http.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)


class Webhook(Telegram):
    """Takes what an apprise `json://` address sends."""

    @property
    def address(self) -> str:
        return json.dumps([f"json://{self.http.address}/hook"])

    @property
    def messages(self) -> list[str]:
        return [str(msgspec.json.decode(got.body)["message"]) for got in self.http.got]
