"""Hostile Bot API updates against a real gateway: none is retried for ever, none costs the good one after it."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redteam.conftest import Redteam
from support.daemon_process import RunningDaemon
from support.real_clients import wait_for
from support.telegram_server import BotApi, own_token

USER = 42
SEED = random.SystemRandom().randrange(2**32)
ABSURD: list[Any] = [
    None, True, 0, -1, 2**53 + 1, 2**70, 1e308, "", "\0", "\ud800", "x" * 100_000, "/", "/stop@", "/" + "z" * 5000,
    [], {}, [[]], {"id": {}}, "\u202e\u2066", "@everyone", "/start \ud83d", ["x"] * 500,
]  # fmt: skip
# What no decoder takes, each with its number and one without.
RAW = (
    b'{"update_id": %d, "message": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"update_id": %d, "message": {"message_id": ' + b"9" * 6000 + b"}}",
    b'{"update_id": %d, "message": {"text": "\xff\xfe\xed\xa0\x80"}}',
    b'{"update_id": %d, "message": {"text": "\\ud800"}, "x": "\\uDC00"}',
    b'{"update_id": %d, "message": nonsense}',
    b'{"update_id": %d, "message": {"text": "a\nb\0"}}',
    b'{"update_id": %d, "edited_message": NaN}',
    b'{"update_id": %d, "callback_query": {"id": "1", "data": "' + b"\\u0000" * 64 + b'"}}',
)


def message(**more: Any) -> dict[str, Any]:
    person = {"id": USER, "is_bot": False, "first_name": "Me"}
    return {
        "message_id": 7,
        "date": 1,
        "chat": {"id": USER, "type": "private"},
        "from": person,
        "text": "hi",
    } | more


def hostile(chance: random.Random) -> dict[str, Any]:
    """An update whose shape is right but for one or two values."""
    kind = chance.choice(("message", "edited_message", "callback_query", "poll", "message"))
    body = message()
    # A person who is heard asks for a command: no agent is started for it.
    body["text"] = chance.choice(("/nothing", "/health", "/stop", "/new", "/start"))
    for name in chance.sample(list(body), 2):
        body[name] = chance.choice(ABSURD)
    body[chance.choice(("reply_to_message", "message_thread_id", "forward_origin", "photo"))] = chance.choice(
        ABSURD
    )
    if kind == "callback_query":
        press = {"id": "9", "from": message()["from"], "message": body, "data": chance.choice(ABSURD)}
        press[chance.choice(list(press))] = chance.choice(ABSURD)
        return {kind: press}
    return {kind: chance.choice((body, body, body, chance.choice(ABSURD)))}


class Chat:
    """`wakeful up` with a gateway, and the scripted service behind it."""

    def __init__(self, api: BotApi, daemon: RunningDaemon) -> None:
        self.api = api
        self.daemon = daemon
        config = daemon.home / "wakeful.toml"
        folder = daemon.home / "project"
        folder.mkdir()
        config.write_text(
            f"[gateway]\nallow = [{USER}]\nadmins = [{USER}]\n"
            f'api = "{api.url}"\n[gateway.chats.default]\nfolder = "{folder}"\n'
        )
        daemon.watch(
            WAKEFUL_CONFIG=config,
            WAKEFUL_GATEWAY__TOKEN=api.token,
            WAKEFUL_GATEWAY__HOST__LOAD_PER_CORE="1000",
            WAKEFUL_RESPONSE_ACTIONS__ENABLED="false",
        )
        daemon.up()

    @property
    def log(self) -> str:
        path = Path(self.daemon.environ["WAKEFUL_HOME"]) / "logs" / "gateway.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int:
        def look() -> int | None:
            found = re.search(r"gateway: runs \(pid (\d+)\)", self.daemon.run("status").out)
            return int(found[1]) if found is not None else None

        return wait_for(look, "gateway")

    def good(self, number: int) -> None:
        """A good update, and its answer."""
        self.api.says(f"/good{number}", user=USER)
        self.api.wait(lambda: any(f"/good{number}." in each for each in self.api.seen(USER)), 60)


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Chat]:
    daemon = RunningDaemon(tmp_path / "h")
    with BotApi(own_token()) as api:
        yield Chat(api, daemon)
        daemon.end()


def test_no_update_is_retried_for_ever(chat: Chat, redteam: Redteam) -> None:
    """After every bad batch the good update behind it is answered, by the same process; nothing of it is down."""
    chance = random.Random(SEED)
    pid = chat.pid
    for number in range(redteam.rounds(6, 60)):
        for _ in range(50):
            chat.api.gives(json.loads(json.dumps(hostile(chance))))
        for raw in RAW:
            chat.api.gives_raw(raw)
        chat.good(number)
        for _ in range(50 + len(RAW)):
            redteam.attack("Bot API updates", "an update", held=True)
    chat.api.wait(lambda: chat.api.unconfirmed == 0)
    status = chat.daemon.run("status", "--json").json["daemon"]["notes"]
    down = [each for each in status if "down" in each]
    redteam.attack("Bot API updates", f"seed {SEED}: {down}", held=not down)
    redteam.attack("Bot API updates", f"seed {SEED}: the gateway ended", held=chat.pid == pid)
    redteam.attack("Bot API updates", f"seed {SEED}: {chat.log[-3000:]}", held="Traceback" not in chat.log)
