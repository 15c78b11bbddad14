"""Claims about `wakeful doctor` beside a real daemon: what is set up is asked, and a bundle holds no secret."""

import json
import os
import socket
import tarfile
from pathlib import Path

from support.daemon_process import RunningDaemon
from support.real_clients import wait_for

BOT = "123456789:AAHplantedplantedplantedplantedplanted"
PLANTED = (
    "planted-redis-word",
    "planted-by-value-only",
    "AAHplanted",
    "plantedPEMbody",
    "sk-ant-planted",
    "hunter-planted",
)


def checks(daemon: RunningDaemon) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in daemon.run("doctor", "--json").json["checks"]}


def test_what_is_set_up_is_asked(daemon: RunningDaemon) -> None:
    """An unreachable Redis, an unreachable bot and a missing gh are wrong, with what to do."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        tools = daemon.home / "tools"
        tools.mkdir()
        daemon.watch(
            WAKEFUL_REDIS__URL=f"redis://:planted-redis-word@127.0.0.1:{port}/0",
            WAKEFUL_ALERTS__TELEGRAM_TOKEN=BOT,
            WAKEFUL_ALERTS__TELEGRAM_CHAT="1",
            WAKEFUL_ALERTS__TELEGRAM_API=f"http://127.0.0.1:{port}",
            WAKEFUL_GITHUB__REPO="o/r",
            PATH=tools,
        )
        found = checks(daemon)
    assert {name: found[name]["grade"] for name in ("redis", "telegram", "gh")} == dict.fromkeys(
        ("redis", "telegram", "gh"), "fail"
    )
    assert all(found[name]["todo"] for name in ("redis", "telegram", "gh"))
    assert not any(word in json.dumps(found) for word in PLANTED)
    assert found["disk"]["grade"] == "ok"


def test_the_configuration_file_that_is_there_is_seen(daemon: RunningDaemon) -> None:
    """One that sets nothing, one named by a relative path, and one that only the daemon reads: each is named."""
    own = daemon.home / ".config" / "wakeful" / "wakeful.toml"
    own.parent.mkdir(parents=True)
    own.write_text("# nothing is set yet\n")
    own.chmod(0o600)
    daemon.watch(HOME=daemon.home, XDG_CONFIG_HOME=own.parent.parent)
    assert checks(daemon)["configuration"]["said"] == str(own)
    other = daemon.home / "other.toml"
    other.write_text('[daemon]\nmode = "observe"\n')
    other.chmod(0o600)
    daemon.up("--config", str(other))
    found = checks(daemon)["configuration"]
    assert (found["grade"], found["said"]) == ("warn", f"{own}; but the daemon uses {other}")
    daemon.watch(WAKEFUL_CONFIG=os.path.relpath(other, daemon.home))
    assert checks(daemon)["configuration"]["said"] == str(other)


def test_a_configuration_that_others_can_read_is_told(daemon: RunningDaemon) -> None:
    """`config init` writes one for its owner alone; people put tokens into it."""
    daemon.watch(HOME=daemon.home, XDG_CONFIG_HOME=daemon.home / ".config")
    assert daemon.run("config", "init").exit_code == 0
    own = daemon.home / ".config" / "wakeful" / "wakeful.toml"
    assert (own.stat().st_mode & 0o777, checks(daemon)["configuration"]["grade"]) == (0o600, "ok")
    own.chmod(0o640)
    found = checks(daemon)["configuration"]
    assert (found["grade"], found["todo"]) == ("warn", f"chmod 600 {own}")


def test_a_bundle_holds_what_helps_and_no_secret(daemon: RunningDaemon, tmp_path: Path) -> None:
    """Checks, versions, configuration, the daemon's own word and the ends of its logs; of planted secrets none."""
    daemon.watch(
        WAKEFUL_REDIS__URL="redis://:planted-redis-word@127.0.0.1:1/0",
        WAKEFUL_ALERTS__TELEGRAM_TOKEN=BOT,
        WAKEFUL_ALERTS__TELEGRAM_CHAT="1",
        WAKEFUL_ALERTS__TELEGRAM_API="http://127.0.0.1:1",
        MY_API_KEY="planted-by-value-only",
    )
    logs = Path(daemon.environ["WAKEFUL_HOME"]) / "logs"
    daemon.up()
    key = "-----BEGIN RSA PRIVATE KEY-----\nplantedPEMbody\n-----END RSA PRIVATE KEY-----"
    lines = [
        BOT,
        "x planted-by-value-only",
        key,
        "sk-ant-planted-0123456789",
        "password=hunter-planted",
        "planted-redis-word",
    ]
    (logs / "up.log").write_text("\n".join([*lines, "an ordinary line"]))
    events = Path(daemon.environ["WAKEFUL_HOME"]) / "events" / "worker.jsonl"
    events.write_text('{"at": 1, "event": "opened", "project": "sk-ant-planted-0123456789"}\n')
    (logs / "link.log").symlink_to("/etc/passwd")
    for name in ("sk-ant-planted-0123456789", "\x1b[31mred", "\udcff\udcfe"):
        (logs / name).write_text("planted name\n")
    token = (Path(daemon.environ["WAKEFUL_HOME"]) / "token").read_text().strip()
    bundle = tmp_path / "trouble.tar.gz"
    said = daemon.run("doctor", "--bundle", str(bundle))
    assert "check the archive before you send it" in said.err
    with tarfile.open(bundle) as archive:
        files = {
            each.name.removeprefix("wakeful-bundle/"): (archive.extractfile(each) or bundle.open("rb"))
            .read()
            .decode()
            for each in archive
        }
    assert {
        "doctor.json",
        "versions.json",
        "config.json",
        "status.json",
        "incidents.json",
        "logs/up.log",
    } <= set(files)
    everything = "\n".join([*files, *files.values()])
    assert all(name.isprintable() for name in files), list(files)
    assert not [word for word in (*PLANTED, token) if word in everything]
    assert files["logs/up.log"].endswith("an ordinary line")
    assert (json.loads(files["status.json"])["daemon"]["pid"], "logs/link.log" in files) == (
        daemon.pid,
        False,
    )
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert daemon.run("doctor", "--bundle", str(bundle)).exit_code == 2


def test_a_daemon_of_systemd_tells_it_how_it_is(daemon: RunningDaemon) -> None:
    """Ready once it answers, alive while its loop runs, stopping at its end; who is started from it cannot tell."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(daemon.home / "n"))
        systemd.settimeout(20)
        daemon.watch(NOTIFY_SOCKET=daemon.home / "n", WATCHDOG_USEC="900000")
        daemon.up()
        assert [systemd.recv(100), systemd.recv(100), systemd.recv(100)] == [b"READY=1", *[b"WATCHDOG=1"] * 2]
        daemon.end()
        wait_for(lambda: systemd.recv(100) == b"STOPPING=1" or None, "its end")
