"""Claims about gateways whose chat is not theirs alone, or not there: they say so, and no message is answered twice."""

from collections import Counter
from pathlib import Path

from bot_api import BotApi
from cheap_claude import install
from clients import wait_for
from daemons import RunningDaemon
from gateway_houses import end_agents
from gateway_lives import answers

TAKEN = "One token is for one gateway"


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


def test_two_gateways_of_one_bot_say_so_and_answer_once(tmp_path: Path) -> None:
    """Each is driven away by the other, backs off, and tells its operator in the log, by status and by doctor."""
    with BotApi() as api:
        homes = [set_up(tmp_path / name, api) for name in ("one", "two")]
        sent = Counter[str]()

        def asked(text: str) -> None:
            sent[f"Answer to: {text}."] += 1
            api.says(text)
            wait_for(lambda: Counter(answers(api, 1)) == sent or None, f"{sent} in {api.seen(1)}", 30)

        try:
            for number, daemon in enumerate(homes):
                daemon.up("--no-tcp", port=None)
                asked(f"message {number}")
            for daemon in homes:
                wait_for(lambda: TAKEN in log_of(daemon) or None, f"a word about it: {log_of(daemon)}")  # noqa: B023
            for number in (2, 3):
                asked(f"message {number}")
            for daemon in homes:
                assert TAKEN in daemon.run("status").out
            checks = {each["name"]: each for each in homes[1].run("doctor", "--json").json["checks"]}
            assert checks["telegram"]["grade"] == "fail"
            assert TAKEN in checks["telegram"]["said"]
        finally:
            for daemon in homes:
                daemon.end()
                end_agents(daemon.home, daemon)


def test_a_gateway_that_starts_while_telegram_is_down_waits_for_it(tmp_path: Path) -> None:
    """It runs, says why it hears nothing, and answers once Telegram is back."""
    with BotApi() as api:
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
