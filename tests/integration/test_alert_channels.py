"""Every channel against something real to speak to, when that is well and when it is not."""

import asyncio
import io
import logging
import os
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from support.dbus_desktop import NAME, Desktop, Notice
from support.http_server import Behaviour, ScriptedHttp, answer, drop, hang
from support.real_clients import require_programs
from support.tmux_server import Server
from wakeful.alerts.delivery import Messenger, NotDelivered, Refused
from wakeful.alerts.model import Alert, AlertKind, AlertRules
from wakeful.alerts.outbox import AlertOutbox
from wakeful.alerts.pending import PendingAlert
from wakeful.alerts.ping import Ping
from wakeful.config.paths import StatePaths
from wakeful.config.schema import AlertsConfig, Config
from wakeful.core.errors import ExtraMissing
from wakeful.daemon.daemon import Daemon
from wakeful.daemon.host import JUDGING
from wakeful.integrations import apprise as apprise_messenger, telegram as telegram_messenger
from wakeful.integrations.apprise import AppriseMessenger, scheme
from wakeful.integrations.desktop import DesktopMessenger, has_desktop
from wakeful.integrations.telegram import TelegramMessenger
from wakeful.integrations.tmux.server import is_visible
from wakeful.linux.clock import SystemClock
from wakeful.sources.folder_watch import FolderWatch
from wakeful.storage.base import Note
from wakeful.storage.sqlite.store import SqliteStore
from wakeful.testing.virtual_clock import VirtualClock, settle

# apprise loads all of its plugins, some of which load what Python is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")
# Too short for the shape that redaction knows: only taking out the token itself helps.
TOKEN = "654321:a-token-nobody-sees"
SENT = answer(
    200,
    {"ok": True, "result": {"message_id": 1, "date": 1, "chat": {"id": 7, "type": "private"}, "text": "t"}},
)


def telegram_says(status: int, description: str, **parameters: object) -> Behaviour:
    body = {"ok": False, "error_code": status, "description": description}
    return answer(status, body | ({"parameters": parameters} if parameters else {}))


@asynccontextmanager
async def telegram(*behaviours: Behaviour) -> AsyncIterator[tuple[ScriptedHttp, TelegramMessenger]]:
    async with ScriptedHttp(*behaviours) as server:
        messenger = TelegramMessenger(TOKEN, "7", server.url)
        try:
            yield server, messenger
        finally:
            await messenger.close()


async def failure(messenger: Messenger, text: str = "hello") -> NotDelivered:
    with pytest.raises(NotDelivered) as caught:
        await messenger.send(text)
    return caught.value


async def test_telegram_gets_the_words_and_the_chat() -> None:
    """As plain text, whatever looks like markup, with no preview; another chat when one is named."""
    async with telegram(SENT) as (server, messenger):
        await messenger.send("*shop* needs <b>you</b>\n→ wakeful attach a")
        await messenger.send("sorry", chat="-42")
    assert [got.target for got in server.got] == [f"/bot{TOKEN}/sendMessage"] * 2
    first = server.got[0].form
    assert (first["chat_id"], first["text"]) == ("7", "*shop* needs <b>you</b>\n→ wakeful attach a")
    assert "parse_mode" not in first
    assert "is_disabled" in first["link_preview_options"]
    assert server.got[1].form["chat_id"] == "-42"


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (telegram_says(401, "Unauthorized"), "Unauthorized"),
        (telegram_says(400, "Bad Request: chat not found"), "Chat not found"),
        (telegram_says(403, "Forbidden: bot was blocked by the user"), "blocked"),
        (telegram_says(500, "Internal Server Error"), "Internal Server Error"),
    ],
)
async def test_an_answer_with_a_status_is_a_refusal(behaviour: Behaviour, said: str) -> None:
    """Telegram said no: the words are not there, and its reason is ours."""
    async with telegram(behaviour) as (_, messenger):
        problem = await failure(messenger)
    assert isinstance(problem, Refused)
    assert said in str(problem)


async def test_telegram_s_wish_for_time_is_passed_on() -> None:
    """429 with retry_after."""
    async with telegram(telegram_says(429, "Too Many Requests", retry_after=31)) as (_, messenger):
        problem = await failure(messenger)
    assert isinstance(problem, Refused)
    assert problem.facts["retry_after_seconds"] == 31


async def test_a_telegram_that_is_not_there_refuses() -> None:
    """Nothing was sent, so nothing can have arrived."""
    async with telegram(SENT) as (server, messenger):
        await server.__aexit__(None, None, None)
        assert isinstance(await failure(messenger), Refused)


@pytest.mark.parametrize("behaviour", [drop, hang, answer(504, {}), lambda _got: b"rubbish\r\n\r\n"])
async def test_what_breaks_off_after_sending_is_in_doubt(
    behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropped, silent, timed out behind a gateway, not HTTP: unknown, within the deadline."""
    monkeypatch.setattr(telegram_messenger, "ANSWER_SECONDS_MAX", 0.3)
    async with telegram(behaviour) as (server, messenger):
        problem = await failure(messenger)
    assert not isinstance(problem, Refused)
    assert len(server.got) == 1


async def test_no_log_line_and_no_error_holds_the_token(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every logger at its most talkative, and a server that repeats the token to us."""
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore", "telegram"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)
    monkeypatch.setattr(telegram_messenger, "ANSWER_SECONDS_MAX", 0.3)
    repeated = telegram_says(400, f"the token {TOKEN} is wrong")
    rubbish = answer(502, f"no JSON object, but {TOKEN}")
    seen: list[str] = []
    behaviours = (SENT, repeated, telegram_says(401, "Unauthorized"), rubbish, drop, hang)
    async with telegram(*behaviours) as (server, messenger):
        url = server.url
        await messenger.send("hello")
        for _ in behaviours[1:]:
            problem = await failure(messenger)
            seen += [str(problem), repr(problem), *traceback.format_exception(problem)]
    unreachable = TelegramMessenger(TOKEN, "7", url)
    seen.append("".join(traceback.format_exception(await failure(unreachable))))
    await unreachable.close()
    badly_set = TelegramMessenger(TOKEN, "7", "http://[broken")
    seen.append("".join(traceback.format_exception(await failure(badly_set))))
    await badly_set.close()
    assert len(server.got) == len(behaviours)
    assert TOKEN not in caplog.text
    assert "a-token-nobody-sees" not in "".join(seen) + caplog.text


async def test_apprise_delivers_by_its_own_addresses() -> None:
    """One of its hundred schemes; the name shows nothing but that scheme."""
    async with ScriptedHttp(answer(200)) as server:
        messenger = AppriseMessenger(f"json://me:{TOKEN[7:]}@{server.address}/in", "json")
        await messenger.send("shop needs you\n→ wakeful attach a")
    assert b"shop needs you" in server.got[0].body
    assert scheme(f"json://me:{TOKEN}@host") == "json"
    assert scheme("no address at all") == "apprise"


async def test_apprise_tells_a_refusal_from_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status and a missing server are refusals; a connection that broke or hung after sending is in doubt."""
    monkeypatch.setattr(apprise_messenger, "SEND_SECONDS_MAX", 1.0)
    async with ScriptedHttp(answer(500)) as server:
        url = f"json://{server.address}?rto=0.5&cto=0.5"
        assert "status 500" in str(problem := await failure(AppriseMessenger(url, "json")))
        assert isinstance(problem, Refused)
        for behaviour in (drop, hang):
            server.behaviours = (behaviour,)
            assert not isinstance(await failure(AppriseMessenger(url, "json")), Refused)
    assert isinstance(await failure(AppriseMessenger(url, "json")), Refused)
    assert isinstance(await failure(AppriseMessenger("nonsense://", "nonsense")), Refused)


async def test_an_apprise_that_hangs_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline holds, the loop goes on, and a second message is refused while the first still hangs."""
    monkeypatch.setattr(apprise_messenger, "SEND_SECONDS_MAX", 0.2)
    async with ScriptedHttp(hang) as server:
        messenger = AppriseMessenger(f"json://{server.address}?rto=2", "json")
        started = time.monotonic()
        problem = await failure(messenger)
        assert not isinstance(problem, Refused)
        assert time.monotonic() - started < 1.5
        assert isinstance(await failure(messenger), Refused)


@pytest.fixture
def log_file(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """The daemon's log at its most talkative; pytest's own also shows what no other log shows."""
    written = io.StringIO()
    monkeypatch.setattr(logging.root, "handlers", [*logging.root.handlers, logging.StreamHandler(written)])
    monkeypatch.setattr(logging.root, "level", logging.DEBUG)
    return written


async def test_no_log_line_holds_an_apprise_address(log_file: io.StringIO) -> None:
    """Neither its password nor its path, which is a token with many services."""
    async with ScriptedHttp(answer(200), answer(403), drop) as server:
        messenger = AppriseMessenger(f"json://me:hidden-word@{server.address}/secret-path", "json")
        logging.getLogger("a test").debug("this is written")
        await messenger.send("hello")
        for _ in range(2):
            # One sender keeps a pace of 5.5 s between two messages.
            another = AppriseMessenger(f"json://me:hidden-word@{server.address}/secret-path", "json")
            assert "hidden-word" not in "".join(traceback.format_exception(await failure(another)))
    assert log_file.getvalue()
    assert "hidden-word" not in log_file.getvalue()
    assert "secret-path" not in log_file.getvalue()


@pytest.fixture
def notify_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in that writes down its arguments, one to a line, and fails for a body that asks for it."""
    said = tmp_path / "said"
    program = tmp_path / "notify-send"
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {said}\ncase "$4" in *fail*) echo no bus >&2; exit 1;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return said


def test_the_desktop_shows_words_and_no_markup(notify_send: Path) -> None:
    """Title and body are arguments, whatever they begin with."""
    asyncio.run(DesktopMessenger().send("--shop needs you\n<b>&"))
    assert notify_send.read_text().splitlines()[-3:] == ["--", "--shop needs you", "&lt;b&gt;&amp;"]


@pytest.mark.usefixtures("notify_send")
async def test_a_desktop_that_shows_nothing_refuses() -> None:
    """With the program's own reason."""
    problem = await failure(DesktopMessenger(), "title\nplease fail")
    assert isinstance(problem, Refused)
    assert "no bus" in str(problem)


@pytest.fixture(params=[True, False])
def desktop(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desktop]:
    """A session bus with a program that shows notices, then without."""
    require_programs("dbus-daemon", "notify-send")
    desktop = Desktop(tmp_path, shows=request.param)
    for name, value in desktop.environ.items():
        monkeypatch.setenv(name, value)
    yield desktop
    desktop.end()


def test_the_real_notify_send_reaches_whoever_shows_notices(desktop: Desktop) -> None:
    """The text appears on the desktop, its markup as text; where no program shows it, the error says so."""
    problem = None
    try:
        asyncio.run(DesktopMessenger().send("--shop needs you\n<b>&\nline 2"))
    except Refused as refused:
        problem = str(refused)
    notice = Notice("Wakeful", "--shop needs you", "&lt;b&gt;&amp;\nline 2")
    assert desktop.notices == ([notice] if desktop.shows else [])
    assert (problem is None) is desktop.shows
    assert desktop.shows or NAME in str(problem)


def test_a_desktop_is_a_display_and_a_program(notify_send: Path) -> None:
    """A server's bus alone is none."""
    path = str(notify_send.parent)
    assert has_desktop({"DISPLAY": ":0", "PATH": path})
    assert has_desktop({"WAYLAND_DISPLAY": "wayland-0", "PATH": path})
    assert not has_desktop({"DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus", "PATH": path})
    assert not has_desktop({"DISPLAY": ":0", "PATH": str(notify_send.parent / "empty")})


async def test_a_ping_is_sent_every_minute_while_judging_works(caplog: pytest.LogCaptureFixture) -> None:
    """Silence is the alarm: none while it does not. A service that fails is named once, and its address never."""
    caplog.set_level(logging.DEBUG)
    clock, well = VirtualClock(), True
    async with ScriptedHttp(answer(200), answer(500), answer(500), answer(200)) as server:
        pinging = asyncio.create_task(Ping(f"{server.url}/secret-path", clock, lambda: well).run())
        for count in (1, 2, 3, 4):
            await _until(partial(_has_got, server, count))
            await _until(lambda: bool(clock._sleepers))
            clock.advance(59)
            await settle()
            assert len(server.got) == count
            well = count != 4
            clock.advance(1)
        await settle()
        pinging.cancel()
        await asyncio.gather(pinging, return_exceptions=True)
    assert len(server.got) == 4
    said = [line.message for line in caplog.records if line.name == "wakeful.ping"]
    assert said == [
        "alerts.ping_url does not answer: answered with status 500",
        "alerts.ping_url answers again",
    ]
    assert "secret-path" not in caplog.text


async def test_a_ping_without_its_library_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """`wakeful status` shows why nothing is pinged."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ExtraMissing, match=r"ping_url needs httpx.*pip install 'wakeful\[alerts\]'"):
        await Ping("http://127.0.0.1:9/", VirtualClock(), lambda: True).run()


async def test_a_daemon_that_cannot_judge_does_not_ping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the outside service would take it for healthy."""
    pings: list[str] = []

    async def ping(self: Ping) -> None:
        pings.append(self._url)

    monkeypatch.setattr(Ping, "_ping", ping)
    store = await SqliteStore.open(tmp_path / "wakeful.db")
    async with FolderWatch() as folders:
        config = Config(alerts=AlertsConfig(ping_url="https://ping.test"))
        daemon = Daemon(config, StatePaths(str(tmp_path / "state")), store, folders, {})
        daemon.failures.on_failure(JUDGING, ValueError("a rule"))
        tasks = [_start_ping(daemon)]
        await settle()
        assert pings == []
        daemon.failures.on_success(JUDGING)
        tasks.append(_start_ping(daemon))
        await settle()
        assert pings == ["https://ping.test"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await daemon.healing.close()
        daemon.exits.close()
    await store.close()


def _start_ping(daemon: Daemon) -> asyncio.Task[None]:
    run = next(run for run, consequence in daemon.healing.tasks() if consequence == "no ping is sent")
    return asyncio.create_task(run())


def _has_got(server: ScriptedHttp, count: int) -> bool:
    return len(server.got) == count


async def _until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)


async def _until_kept(store: SqliteStore) -> None:
    """Until the store has every alert as delivered."""
    async with asyncio.timeout(30.0):
        while any(_is_owed(each) for each in await store.notes("alert")):  # noqa: ASYNC110 - a store has no events
            await asyncio.sleep(0.01)


def _is_owed(note: Note) -> bool:
    return bool(msgspec.json.decode(note.body, type=PendingAlert).pending)


async def test_a_pane_is_visible_where_a_client_shows_it(server: Server) -> None:
    """Attached, its window in front and the pane active in it; a server that is gone shows nothing."""
    server.start("work", "sleep", "100")
    target, socket = server.tmux("display-message", "-p", "#{pane_id}"), str(server.socket)
    assert not await is_visible(socket, target)
    client = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import pty,sys; pty.spawn(sys.argv[1:])",
        *("tmux", "-S", socket, "attach-session", "-t", "work"),
        env={**os.environ, "TERM": "xterm"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await _until(lambda: server.tmux("list-clients") != "")
        assert await is_visible(socket, target)
        server.tmux("new-window", "-t", "work", "sleep", "100")
        assert not await is_visible(socket, target)
        server.tmux("select-window", "-t", target)
        assert await is_visible(socket, target)
        server.tmux("split-window", "-t", target, "sleep", "100")
        assert not await is_visible(socket, target)
    finally:
        client.kill()
        await client.wait()
    server.end()
    assert not await is_visible(socket, target)


async def test_the_outbox_obeys_telegram_and_delivers_once(tmp_path: Path) -> None:
    """The whole way with a real store: 429 first, then taken; after a restart nothing is sent again."""
    clock = SystemClock()
    store = await SqliteStore.open(tmp_path / "wakeful.db")
    limited = telegram_says(429, "Too Many Requests", retry_after=1)
    async with ScriptedHttp(limited, SENT) as server:
        for _ in range(2):
            messenger = TelegramMessenger(TOKEN, "7", server.url)
            outbox = AlertOutbox(store, clock, [messenger], AlertRules(), "here")
            running = asyncio.create_task(outbox.run())
            await outbox.restore()
            await outbox.enqueue(Alert(AlertKind.TROUBLE, "one", "it is silent"))
            await _until(partial(_has_got, server, 2), 20)
            await _until_kept(store)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    await store.close()
    assert [got.form["text"] for got in server.got] == ["it is silent"] * 2


async def run_wakeful(*words: str, home: Path, **environ: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "wakeful", *words),
        env={"PATH": os.environ["PATH"], "HOME": str(home), **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


async def test_alerts_test_says_what_became_of_each(tmp_path: Path) -> None:
    """Exit 0 when all took it, 1 when one did not, 2 with what to do when there is none; and never the token."""
    async with ScriptedHttp(SENT) as server:
        environ = {
            "WAKEFUL_ALERTS__TELEGRAM_TOKEN": TOKEN,
            "WAKEFUL_ALERTS__TELEGRAM_CHAT": "7",
            "WAKEFUL_ALERTS__TELEGRAM_API": server.url,
        }
        assert await run_wakeful("alerts", "test", home=tmp_path, **environ) == (0, "telegram: sent\n", "")
        server.behaviours = (telegram_says(401, "Unauthorized"),)
        urls = f"json://{server.address},json://127.0.0.1:1"
        code, output, errors = await run_wakeful(
            "alerts", "test", home=tmp_path, WAKEFUL_ALERTS__URLS=urls, **environ
        )
    assert code == 1
    assert sorted(output.splitlines()) == [
        "json-2: refused (no connection)",
        "json: refused (it was answered with status 401)",
        "telegram: refused (Unauthorized)",
    ]
    code, _, errors = await run_wakeful("alerts", "test", home=tmp_path)
    assert code == 2
    assert "alerts.telegram_token" in errors
