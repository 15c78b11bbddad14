"""No child of Wakeful has a secret of Wakeful's in its environment, whichever way it was started.

The daemon has every secret in its own environment, and so has the shell that runs the commands, as if a person had
exported the bot's token there. What a child has is read from /proc and from tmux.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents_e2e import AgentsFixture
from support.cli_user import DONE
from support.daemon_process import RunningDaemon
from support.fake_gh import StandInGh
from support.gateway_process import end_agents
from support.real_clients import ClaudeHome, end_tmux, require_tmux, wait_for
from support.stub_claude import install
from support.telegram_server import BotApi
from wakeful.linux import proc
from wakeful.testing.scripted_model import script

SECRET = "s3cret-value"
SECRETS = {
    "WAKEFUL_ALERTS__URLS": f"json://127.0.0.1:1/{SECRET}",
    "WAKEFUL_ALERTS__PING_URL": f"http://127.0.0.1:1/{SECRET}",
    "WAKEFUL_ALERTS__TELEGRAM_TOKEN": f"1:{SECRET}",
}
USER = 42
OTHER = "an-other-programs-key"
EXPORTED = f"export WAKEFUL_GATEWAY__TOKEN=2:{SECRET.upper()}"


@pytest.fixture
def house(daemon: RunningDaemon, tmp_path: Path) -> Iterator[AgentsFixture]:
    """A daemon with secrets, whose hook and whose `gh` write down what they were given."""
    require_tmux()
    hook = noting(tmp_path / "hook")
    gh = StandInGh(tmp_path / "gh")
    declared = '[agents.bot]\nruntime = "tmux"\ncommand = ["sleep", "100000"]\nenv = ["WAKEFUL_ALERTS__TELEGRAM_TOKEN"]\n'
    hooked = f'[hooks]\nsession_health_update_after = ["{hook}"]\n'
    house = AgentsFixture(daemon, declared + hooked)
    daemon.watch(**SECRETS, WAKEFUL_GITHUB__REPO="me/agents", WAKEFUL_HEAL__CONFIRM_SECONDS="0.5")
    daemon.environ["PATH"] = (
        f"{gh.bin}:{install(tmp_path / 'bin').removesuffix('/claude')}:{daemon.environ['PATH']}"
    )
    yield house
    house.end()
    end_agents(tmp_path, daemon)


def noting(path: Path) -> Path:
    """A program that writes its environment to a file beside it."""
    beside = str(path.with_suffix(".environ"))
    path.write_text(f"#!{sys.executable} -S\nimport os\nopen({beside!r}, 'w').write(str(os.environ))\n")
    path.chmod(0o755)
    return path


def environ_of(pid: int) -> str:
    """What its first program was given."""
    text = wait_for(
        lambda: Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace") or None, "environ"
    )
    assert "HOME=" in text, text
    return text


def test_no_agent_has_a_secret_however_it_came_to_life(house: AgentsFixture, tmp_path: Path) -> None:
    """Started without a terminal, healed after kill -9, resumed by hand, started in tmux, started by the hub."""
    daemon = house.daemon
    daemon.up()
    headless = daemon.run("run", "--json", "--headless", "--prompt", "hang", "--", "claude").json[
        "session_id"
    ]
    started = daemon.pid_of(headless)
    found = {"started": environ_of(started)}
    os.kill(started, signal.SIGKILL)
    healed = daemon.pid_of(headless, unlike=started)
    found["healed"] = environ_of(healed)
    wait_for(
        lambda: (
            json.loads(daemon.run("session", "status", headless, "--json").out)["state"] == "idle" or None
        ),
        "end",
    )
    os.kill(healed, signal.SIGKILL)
    wait_for(lambda: proc.identify_or_none(healed) is None or None, "its end")
    daemon.run("session", "resume", headless)
    found["resumed"] = environ_of(daemon.pid_of(headless, unlike=healed))
    shown = daemon.run("run", "--json", "--detach", "--name", "shown", "--", "sleep", "100000").json[
        "session_id"
    ]
    found["in a terminal"] = environ_of(daemon.pid_of(shown))
    found["by the hub"] = environ_of(house.start("bot")["pid"])
    found["tmux server"] = environ_of(house.server.pid)
    found["tmux global"] = house.server.tmux("show-environment", "-g")
    found["hook"] = wait_for(lambda: _text(tmp_path / "hook.environ"), "hook")
    daemon.run("open", "--browser", environ={"BROWSER": f"{noting(tmp_path / 'browser')} %s"})
    found["browser"] = wait_for(lambda: _text(tmp_path / "browser.environ"), "browser")
    found["gh"] = wait_for(lambda: _text(tmp_path / "gh" / "calls.jsonl"), "gh")
    assert [way for way, environ in found.items() if SECRET in environ] == []
    assert all(len(environ) > 50 for environ in found.values()), "each was really read"


def test_a_tmux_server_of_an_earlier_version_forgets_them(house: AgentsFixture) -> None:
    """It was started with the daemon's whole environment; the next agent takes the secrets out of what it hands on."""
    house.server.socket.parent.mkdir(mode=0o700)
    house.server.start("before", "sleep", "100000")
    for name, value in SECRETS.items():
        house.server.tmux("set-environment", "-g", name, value)
    house.daemon.up()
    house.start("bot")
    assert SECRET not in house.server.tmux("show-environment", "-g")


def test_the_gateways_agents_have_no_token(house: AgentsFixture, api: BotApi) -> None:
    """Only the gateway itself has it: not the agent it starts, nor one that is healed after kill -9, nor one it resumes."""
    daemon = house.daemon
    daemon.watch(
        WAKEFUL_GATEWAY__TOKEN=api.token,
        WAKEFUL_GATEWAY__API=api.url,
        WAKEFUL_GATEWAY__ALLOW=str(USER),
        WAKEFUL_RESPONSE_ACTIONS__ENABLED="false",
    )
    daemon.up()
    api.says("hang", user=USER)
    first = daemon.wait_for_session(lambda each: each["managed"] and each["session_alive"], "agent")
    wait_for(lambda: "Half of" in "".join(api.seen(USER)) or None, "half an answer")
    found = [environ_of(first["pid"])]
    os.kill(first["pid"], signal.SIGKILL)
    healed = daemon.pid_of(first["id"], unlike=first["pid"])
    found.append(environ_of(healed))
    wait_for(lambda: "done after all" in "".join(api.seen(USER)) or None, "answer")
    os.kill(healed, signal.SIGKILL)
    wait_for(lambda: proc.identify_or_none(healed) is None or None, "its end")
    api.says("go on", user=USER)
    wait_for(lambda: "Answer to: go on." in "".join(api.seen(USER)) or None, "answer of the next")
    found.append(environ_of(daemon.pid_of(first["id"], unlike=healed)))
    assert [api.token in each or SECRET in each for each in found] == [False, False, False]
    gateways = list(proc.processes_with_variable("WAKEFUL_GATEWAY__TOKEN", api.token, os.getuid()))
    words = [" ".join(proc.command(each.pid)) for each in gateways]
    assert len(words) == 2, words
    assert all("wakeful" in each for each in words), words


def test_a_real_client_has_no_secret_after_it_was_adopted(
    claude: ClaudeHome, daemon: RunningDaemon, tmp_path: Path
) -> None:
    """Claude Code started by hand, adopted, killed and resumed in its pane; and one that a person has the daemon start.

    The shell of that pane has the secrets, one of them under a name of its own, and hands on what else it has. One was
    exported there later.
    """
    daemon.watch(**claude.environ(), **SECRETS, COPY=SECRETS["WAKEFUL_ALERTS__PING_URL"], OTHER=OTHER)
    daemon.up()
    socket = tmp_path / "hand.sock"
    try:
        copied = {"MINE": SECRETS["WAKEFUL_ALERTS__PING_URL"], "PROMPT_COMMAND": EXPORTED}
        shell = {**SECRETS, **copied, "KEPT": "kept"}
        pane = claude.in_tmux(socket, script(DONE), "mine", shell_wrapped=True, more=shell)
        # Before its first turn it is idle, too, and has no conversation that could be resumed.
        wait_for(lambda: any("All done" in each.read_text() for each in claude.logs()) or None, "answer")
        mine = daemon.wait_for_session(lambda each: each["state"] == "idle", "its turn's end")
        assert daemon.run("session", "adopt", mine["id"]).exit_code == 0
        os.kill(mine["pid"], signal.SIGKILL)
        wait_for(lambda: proc.identify_or_none(mine["pid"]) is None or None, "its end")
        wait_for(lambda: daemon.run("session", "resume", mine["id"]).exit_code == 0 or None, "resume")
        back = daemon.pid_of(mine["id"], unlike=mine["pid"])
        assert int(pane.shown("pane_pid")) in [each.pid for each in proc.ancestors(back)]
        assert proc.environ_value(back, "KEPT") == "kept"
        found = {"adopted and resumed": environ_of(back), "its words": " ".join(proc.command(back))}
        asked = ("run", "--json", "--headless", "--prompt", script(DONE), "--", "claude")
        headless = daemon.run(*asked, cwd=claude.project).json["session_id"]
        found["started"] = environ_of(daemon.pid_of(headless)).replace(OTHER, "which the person chose")
    finally:
        end_tmux(socket)
    assert [
        way for way, text in found.items() if SECRET in text.replace(EXPORTED, "").lower() or OTHER in text
    ] == []


def _text(path: Path) -> str | None:
    return (path.read_text() or None) if path.exists() else None
