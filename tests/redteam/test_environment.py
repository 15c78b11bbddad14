"""A child looks for Wakeful's secrets: in its environment, in tmux, in its container, in arguments and in files.

The daemon, and the shell of the person who types the commands, hold every secret under its own name and under another
one, as a person has who exported the token for two programs. No program that Wakeful starts may find one, however it
came to life. What the allow-list does not name does not reach it either, unless the person typed the command there.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from redteam.conftest import Redteam
from support.agents_e2e import AgentsFixture
from support.daemon_process import RunningDaemon
from support.docker_engine import IMAGE, DockerEngine
from support.fake_gh import StandInGh
from support.gateway_process import end_agents
from support.real_clients import require_tmux, wait_for
from support.stub_claude import install
from support.telegram_server import BotApi, own_token
from wakeful.linux import proc

USER = 42
OTHER = "an-other-programs-key"
HOOK_WORD = "T0KENxOFxAxWEBHOOKx0123456789"
PASSWORD = "redis-passw0rd"
REDIS = f"redis://:{PASSWORD}@127.0.0.1:1/0"
PING = "http://127.0.0.1:1/ping/5f0c7b2e-not-for-children"
CONFIG = f"""
[daemon]
pass_environment = ["PASSED_*"]
[hooks]
session_health_update_after = ["{{hook}}"]
[alerts]
urls = ["json://127.0.0.1:1/{HOOK_WORD}"]
ping_url = "{PING}"
[redis]
url = "{REDIS}"
[gateway]
token = "{{token}}"
[agents.bot]
runtime = "tmux"
command = ["sleep", "100000"]
env = ["ALLOWED", "BOT", "WAKEFUL_ALERTS__PING_URL"]
"""
CONTAINER = """
[agents.box]
runtime = "docker"
image = "{image}"
command = ["sleep", "100000"]
network = "none"
env = ["ALLOWED", "BOT", "HOOK_WORD"]
"""


class Scene:
    """A daemon with secrets, and what a child may find of them."""

    def __init__(self, daemon: RunningDaemon, tmp_path: Path, token: str, more: str = "") -> None:
        self.hook = noting(tmp_path / "hook")
        self.house = AgentsFixture(daemon, CONFIG.format(hook=self.hook, token=token) + more)
        self.daemon, self.token = daemon, token
        self.gh, self.calls = StandInGh(tmp_path / "gh"), tmp_path / "gh" / "calls.jsonl"
        bin_folder = str(Path(install(tmp_path / "bin")).parent)
        daemon.environ |= {
            "PATH": f"{self.gh.bin}:{bin_folder}:{daemon.environ['PATH']}",
            "WAKEFUL_ALERTS__PING_URL": PING,
            "WAKEFUL_GITHUB__REPO": "me/agents",
            "WAKEFUL_HEAL__CONFIRM_SECONDS": "0.5",
            "WAKEFUL_RESPONSE_ACTIONS__ENABLED": "false",
            "BOT": token,
            "ANTHROPIC_CUSTOM_HEADERS": f"X-Hook: {HOOK_WORD}",
            "HOOK_WORD": HOOK_WORD,
            "REDIS_URL": REDIS,
            "XDG_REDIS_PASSWORD": PASSWORD,
            "LC_TOKEN": "set below",
            "STRIPE_KEY": OTHER,
            "ALLOWED": "allowed-by-name",
            "PASSED_ON": "passed-by-pattern",
            "PASSED_TOKEN": token,
        }

    def up(self) -> None:
        self.daemon.environ["LC_TOKEN"] = "not made yet"
        if self._token_file.exists():
            self.daemon.environ["LC_TOKEN"] = self._token_file.read_text().strip()
        self.daemon.up()

    @property
    def _token_file(self) -> Path:
        return Path(self.daemon.environ["WAKEFUL_HOME"]) / "token"

    def secrets(self) -> dict[str, str]:
        return {
            "bot token": self.token,
            "webhook": HOOK_WORD,
            "ping address": PING,
            "database address": REDIS,
            "database password": PASSWORD,
            "HTTP token": self._token_file.read_text().strip(),
        }

    def try_text(self, redteam: Redteam, way: str, text: str, *, is_persons: bool = False) -> None:
        """One attack for each secret; for a program that no person gave its environment also the other key."""
        assert text, way
        wanted = self.secrets() | ({} if is_persons else {"a key of another program": OTHER})
        for name, value in wanted.items():
            redteam.attack("environment of a child", f"{way}: {name}", held=value not in text)

    def try_process(self, redteam: Redteam, way: str, pid: int, *, is_persons: bool = False) -> None:
        environ = environ_of(pid)
        assert "HOME=" in environ, f"{way}: {environ}"
        self.try_text(redteam, way, environ + "\0" + "\0".join(proc.command(pid)), is_persons=is_persons)

    def try_tmux(self, redteam: Redteam, way: str) -> None:
        server = self.house.server
        self.try_process(redteam, f"{way}: tmux server", server.pid)
        self.try_text(redteam, f"{way}: tmux", server.tmux("show-environment", "-g"))
        for session in server.tmux("list-sessions", "-F", "#{session_name}").split():
            shown = server.tmux("show-environment", "-t", f"={session}:")
            self.try_text(redteam, f"{way}: {session}", f"{session}\n{shown}")

    def try_everything_alive(self, redteam: Redteam, way: str) -> int:
        """Every process of this home that is not Wakeful itself; how many there were."""
        alive = [
            each.pid
            for each in proc.processes_with_variable("HOME", self.daemon.environ["HOME"], os.getuid())
            if "wakeful" not in proc.command(each.pid)
        ]
        for pid in alive:
            words = " ".join(proc.command(pid))[:60]
            self.try_text(redteam, f"{way}: {words}", f"{environ_of(pid)} {words}", is_persons=True)
        return len(alive)

    def try_files(self, redteam: Redteam) -> None:
        """No file below the home holds a secret, but the configuration and the token's own."""
        own = {self.daemon.home / "wakeful.toml", self._token_file}
        for path in self.daemon.home.rglob("*"):
            if path.is_file() and path not in own:
                held = path.read_bytes()
                for name, value in self.secrets().items():
                    is_clean = value.encode() not in held
                    redteam.attack("files that children can read", f"{path}: {name}", held=is_clean)


def noting(path: Path) -> Path:
    """A program that writes its environment to a file beside it."""
    path.write_text(f"#!/bin/sh\n/usr/bin/env >> {path.with_suffix('.environ')}\n")
    path.chmod(0o755)
    return path


def environ_of(pid: int) -> str:
    """What it was given; a process in the middle of exec shows nothing for a moment."""
    return wait_for(
        lambda: Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace") or None, "environ"
    )


def _text(path: Path) -> str | None:
    return (path.read_text() or None) if path.exists() else None


@pytest.fixture
def scene(daemon: RunningDaemon, tmp_path: Path) -> Iterator[Scene]:
    require_tmux()
    scene = Scene(daemon, tmp_path, own_token())
    yield scene
    scene.house.end()
    end_agents(tmp_path, daemon)


def test_a_child_finds_no_secret_however_it_came_to_life(scene: Scene, redteam: Redteam) -> None:
    """Started, healed, adopted, resumed, healed by the next daemon, in a terminal, by the hub; and hook, gh and tmux."""
    daemon, house = scene.daemon, scene.house
    scene.up()
    daemon.end()
    # Now the HTTP token is known, and stands in the environment of the next daemon, too.
    scene.up()
    headless = daemon.run("run", "--json", "--headless", "--prompt", "hang", "--", "claude").json[
        "session_id"
    ]
    started = daemon.pid_of(headless)
    scene.try_process(redteam, "started", started, is_persons=True)
    os.kill(started, signal.SIGKILL)
    healed = daemon.pid_of(headless, unlike=started)
    scene.try_process(redteam, "healed", healed)
    assert "PASSED_ON=passed-by-pattern" in environ_of(healed)
    adopted = daemon.run("run", "--json", "--headless", "--prompt", "hang", "--", "claude").json["session_id"]
    for words in (("release", adopted), ("adopt", adopted)):
        assert daemon.run("session", *words).exit_code == 0
    before = daemon.pid_of(adopted)
    os.kill(before, signal.SIGKILL)
    scene.try_process(redteam, "adopted, then healed", daemon.pid_of(adopted, unlike=before))
    daemon.run("session", "wait", headless, "--until", "idle", "--timeout", "30s")
    os.kill(healed, signal.SIGKILL)
    wait_for(lambda: proc.identify_or_none(healed) is None or None, "its end")
    daemon.run("session", "resume", headless)
    resumed = daemon.pid_of(headless, unlike=healed)
    scene.try_process(redteam, "resumed by a person", resumed, is_persons=True)
    shown = daemon.run("run", "--json", "--detach", "--name", "shown", "--", "sleep", "100000").json
    scene.try_process(redteam, "in a terminal", daemon.pid_of(shown["session_id"]), is_persons=True)
    bot = house.start("bot")
    scene.try_process(redteam, "by the hub", bot["pid"])
    assert "ALLOWED=allowed-by-name" in environ_of(bot["pid"])
    scene.try_tmux(redteam, "first daemon")
    house.kill("bot")
    house.wait("bot", state="stale")
    again = daemon.run("agent", "restart-session", "bot", "--json").json
    scene.try_process(redteam, "restarted by the hub", again["pid"])
    hooked = wait_for(lambda: _text(scene.hook.with_suffix(".environ")), "hook")
    assert "PASSED_ON=passed-by-pattern" in hooked
    scene.try_text(redteam, "hook", hooked)
    scene.try_text(redteam, "gh", wait_for(lambda: _text(scene.calls), "gh"))
    daemon.end()
    scene.up()
    daemon.pid_of(headless)
    scene.try_tmux(redteam, "next daemon")
    redteam.figure(
        "processes of one home that were looked into", str(scene.try_everything_alive(redteam, "all"))
    )
    scene.try_files(redteam)


def test_an_agent_of_the_gateway_finds_no_secret(scene: Scene, redteam: Redteam, api: BotApi) -> None:
    """The gateway starts it, the daemon heals it, the gateway resumes it."""
    daemon = scene.daemon
    daemon.watch(WAKEFUL_GATEWAY__API=api.url, WAKEFUL_GATEWAY__ALLOW=str(USER))
    scene.up()
    api.says("hang", user=USER)
    first = daemon.wait_for_session(lambda each: each["managed"] and each["session_alive"], "agent")
    wait_for(lambda: "Half of" in "".join(api.seen(USER)) or None, "half an answer")
    scene.try_process(redteam, "started by the gateway", first["pid"])
    os.kill(first["pid"], signal.SIGKILL)
    healed = daemon.pid_of(first["id"], unlike=first["pid"])
    scene.try_process(redteam, "healed for the gateway", healed)
    wait_for(lambda: "done after all" in "".join(api.seen(USER)) or None, "answer")
    os.kill(healed, signal.SIGKILL)
    wait_for(lambda: proc.identify_or_none(healed) is None or None, "its end")
    api.says("go on", user=USER)
    wait_for(lambda: "Answer to: go on." in "".join(api.seen(USER)) or None, "answer of the next")
    scene.try_process(redteam, "resumed by the gateway", daemon.pid_of(first["id"], unlike=healed))
    scene.try_files(redteam)


@pytest.fixture
def api(scene: Scene) -> Iterator[BotApi]:
    with BotApi(scene.token) as api:
        yield api


def test_a_container_holds_no_secret(
    daemon: RunningDaemon, tmp_path: Path, docker: DockerEngine, redteam: Redteam
) -> None:
    """Neither its declaration, nor its processes, nor the tmux server inside; after start, restart and a new daemon."""
    require_tmux()
    scene = Scene(daemon, tmp_path, own_token(), CONTAINER.format(image=IMAGE))
    daemon.environ["DOCKER_HOST"] = docker.address
    try:
        scene.up()
        for way in ("started", "restarted"):
            if way == "started":
                box = scene.house.start("box")
            else:
                scene.house.kill("box")
                scene.house.wait("box", state="stale")
                daemon.end()
                scene.up()
                box = daemon.run("agent", "restart-session", "box", "--json").json
            scene.try_text(redteam, f"{way}: declaration", docker.docker("inspect", "agent-box"))
            environ = environ_of(box["pid"])
            assert "ALLOWED=allowed-by-name" in environ
            inside = docker.docker("exec", "agent-box", "tmux", "show-environment", "-g")
            inside += docker.docker("exec", "agent-box", "tmux", "show-environment", "-t", "=agent:")
            scene.try_text(redteam, f"{way}: agent", environ)
            scene.try_text(redteam, f"{way}: tmux inside", inside)
            for pid in docker.docker("top", "agent-box", "-eo", "pid").split()[1:]:
                there = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
                words = " ".join(proc.command(int(pid)))
                scene.try_text(redteam, f"{way}: process", f"{there} {words} {pid}")
    finally:
        scene.house.end()


def test_no_file_of_wakeful_is_for_others(scene: Scene, redteam: Redteam) -> None:
    """With a umask of 0 every file and folder of the state is for its owner alone; so are written configurations."""
    daemon = scene.daemon
    before = os.umask(0)
    try:
        scene.up()
        headless = daemon.run("run", "--json", "--headless", "--prompt", "hang", "--", "claude").json
        os.kill(daemon.pid_of(headless["session_id"]), signal.SIGKILL)
        daemon.run("run", "--json", "--detach", "--name", "shown", "--", "sleep", "100000")
        scene.house.start("bot")
        daemon.run("session", "send", headless["session_id"], "hello")
        written = daemon.home / "written"
        written.mkdir(mode=0o700)
        (written / "gateway.json").write_text('{"telegram": {"bot_token": "1:imported-secret"}}')
        (written / "gateway.json").chmod(0o600)
        daemon.run("config", "init", "--config", str(written / "new.toml"))
        (written / "in.toml").write_text("[daemon]\nport = 1\n")
        imported = ("config", "import", str(written / "gateway.json"), "--write", "--config")
        spoken = daemon.run(*imported, str(written / "in.toml"))
        assert "saved a backup" in spoken.out, spoken.err
        daemon.run("doctor", "--bundle", str(written / "bundle.tar.gz"))
        wait_for(lambda: scene.hook.with_suffix(".environ").exists() or None, "hook")
    finally:
        os.umask(before)
    found = [*Path(daemon.environ["WAKEFUL_HOME"]).rglob("*"), *written.rglob("*")]
    assert {"wakeful.db", "token", "new.toml", "in.toml", "bundle.tar.gz"} <= {each.name for each in found}
    for path in found:
        if not path.is_symlink():
            mode = path.lstat().st_mode & 0o077
            redteam.attack("files that others can read", f"{path} {mode:o}", held=mode == 0)
