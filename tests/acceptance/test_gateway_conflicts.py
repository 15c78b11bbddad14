"""Claims about gateways whose chat is not theirs alone, or not there: they say so, and no message is answered twice."""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from support.daemon_process import RunningDaemon
from support.gateway_e2e import ended
from support.gateway_kill import answers
from support.gateway_process import end_agents
from support.real_clients import wait_for
from support.stub_claude import install
from support.telegram_server import BotApi, own_token
from wakeful.gateway.ports import BotInUse
from wakeful.gateway.telegram import TelegramChat
from wakeful.linux.clock import SystemClock

TAKEN = "A token works for one gateway only"


def set_up(folder: Path, api: BotApi) -> RunningDaemon:
    """A home with a gateway of this bot, and a cheap agent."""
    daemon = RunningDaemon(folder)
    config, project = folder / "wakeful.toml", folder / "project"
    project.mkdir()
    config.write_text(
        f'[gateway]\nallow = [1]\napi = "{api.url}"\nedit_seconds = 0.1\n'
        f'[gateway.claude]\nargv = ["{install(folder / "bin")}"]\n'
        f'[gateway.chats.default]\nfolder = "{project}"\n[response_actions]\nenabled = false\n'
    )
    daemon.watch(WAKEFUL_CONFIG=config, WAKEFUL_GATEWAY__TOKEN=api.token)
    return daemon


def log_of(daemon: RunningDaemon) -> str:
    path = Path(daemon.environ["WAKEFUL_HOME"]) / "logs" / "gateway.log"
    return path.read_text() if path.exists() else ""


def answered(api: BotApi, *texts: str) -> None:
    """Return once each is answered, and nothing else; each exactly once."""
    expected = [f"Answer to: {text}." for text in texts]
    wait_for(lambda: answers(api, 1) == expected or None, f"{expected} in {api.seen(1)}")


def test_a_second_gateway_of_this_host_is_refused(tmp_path: Path) -> None:
    """Whatever home it has: one sentence with the pid of the first, exit 1, and the chat is the first one's alone."""
    with BotApi(own_token()) as api:
        one, two = homes = [set_up(tmp_path / name, api) for name in ("one", "two")]
        try:
            one.up("--no-tcp", port=None)
            api.says("hello")
            answered(api, "hello")
            assert "gateway: kept running beside it; its log is " in one.said()
            refused = two.run("gateway")
            found = re.search(r"gateway: runs \((pid \d+)\)", one.run("status").out)
            assert found is not None
            said = f"wakeful: A gateway with this token is already running: {found[1]}. Stop it first.\n"
            assert (refused.exit_code, refused.err) == (1, said)
            assert api.conflicts == 0
        finally:
            for daemon in homes:
                daemon.end()
                end_agents(daemon.home, daemon)


def test_a_gateway_alone_keeps_a_daemon_of_its_own_and_takes_it_along(tmp_path: Path) -> None:
    """By the configuration that it got itself; killed, it leaves only the agents behind."""
    with BotApi(own_token()) as api:
        home = set_up(tmp_path / "one", api)
        config = tmp_path / "given.toml"
        config.write_text(f'{Path(home.environ["WAKEFUL_CONFIG"]).read_text()}[daemon]\nmode = "all"\n')
        argv, log = home.argv("gateway", "--config", str(config)), tmp_path / "said"
        with log.open("w") as output:
            gateway = subprocess.Popen(argv, env=home.environ, stdin=subprocess.DEVNULL, stdout=output)
        try:
            api.says("hello")
            answered(api, "hello")
            daemon = home.run("status", "--json").json["daemon"]
            assert daemon["mode"] == "all"
            assert "started one, on its socket only" in log.read_text()
        finally:
            gateway.kill()
            gateway.wait()
            end_agents(home.home, home)
        wait_for(lambda: ended(daemon["pid"]) or None, "end of its daemon")


@contextmanager
def elsewhere(api: BotApi) -> Iterator[None]:
    """Another program, on another host, reads the bot's updates over and over, and answers none."""
    ended = Event()

    async def read() -> None:
        chat = TelegramChat(api.token, api.url, SystemClock())
        while not ended.is_set():
            with suppress(BotInUse):
                await chat.updates(0, 0.2)
        await chat.close()

    reader = Thread(target=lambda: asyncio.run(read()))
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()


def test_a_gateway_driven_away_from_elsewhere_says_so_and_answers_once(tmp_path: Path) -> None:
    """It backs off, tells its operator in the log, by status and by doctor, and answers whatever it gets to read."""
    with BotApi(own_token()) as api:
        daemon = set_up(tmp_path / "one", api)
        try:
            daemon.up("--no-tcp", port=None)
            with elsewhere(api):
                wait_for(lambda: TAKEN in log_of(daemon) or None, "a word about it")
            api.says("hello")
            answered(api, "hello")
            # What arrives is no sign that the other one has gone for good.
            assert TAKEN in daemon.run("status").out
            checks = {each["name"]: each for each in daemon.run("doctor", "--json").json["checks"]}
            assert checks["telegram"]["grade"] == "fail"
            assert TAKEN in checks["telegram"]["said"]
        finally:
            daemon.end()
            end_agents(daemon.home, daemon)


def test_a_gateway_that_starts_while_telegram_is_down_waits_for_it(tmp_path: Path) -> None:
    """It runs, says why it hears nothing, and answers once Telegram is back."""
    with BotApi(own_token()) as api:
        daemon = set_up(tmp_path / "one", api)
        api.says("hello")
        api.down()
        try:
            daemon.up("--no-tcp", port=None)
            wait_for(lambda: "no updates arrive" in daemon.run("status").out or None, "word in the status")
            assert "gateway: runs" in daemon.run("status").out
            api.up()
            wait_for(lambda: answers(api, 1) == ["Answer to: hello."] or None, "answer")
            assert "no updates arrive" not in daemon.run("status").out
        finally:
            daemon.end()
            end_agents(daemon.home, daemon)
