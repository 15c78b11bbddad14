"""What `wakeful doctor` says about the machine and the services around Wakeful: clock, disk, tools, Redis, Telegram, gh.

What is not set up is not asked. Every question has a deadline.
"""

import os
from pathlib import Path
from typing import Final

from wakeful.cli.doctor.checkup import (
    clock_is_kept,
    free_bytes,
    gateway_trouble,
    gh_trouble,
    missing_tools,
    redis_trouble,
    telegram_trouble,
)
from wakeful.cli.doctor.grading import Finding, Scene, fail, ok, warn
from wakeful.cli.output import wall_now
from wakeful.config.config import Config, ConfigError
from wakeful.daemon.autostart import UnitNotOurs, is_running, lingers, plan_remove

# Below this the store holds what it would write in memory; a tenth more is a day of a busy machine.
FREE_BYTES_MIN: Final = 100 * 1024 * 1024
# A second and a half of drift is nothing; files that are newer than now by a minute were written before it was set back.
FUTURE_SECONDS_MAX: Final = 60.0
TOOLS: Final = ("git", "ps", "sh", "head")


def _config(scene: Scene) -> Config:
    return Config() if isinstance(scene.loaded, ConfigError) else scene.loaded.config


def clock(scene: Scene) -> Finding:
    ahead_seconds = _newest(Path(scene.places.home)) - wall_now()
    if ahead_seconds > FUTURE_SECONDS_MAX:
        return warn(
            f"files of the state folder are {ahead_seconds:,.0f} s newer than now: it was set back",
            "set it right; ages are wrong until then",
        )
    kept = clock_is_kept()
    if kept is False:
        return warn("nobody keeps it right", "timedatectl set-ntp true")
    return ok("kept right" if kept else "the kernel does not say whether it is kept right")


def _newest(home: Path) -> float:
    """When something in the state folder was last written."""
    try:
        return max((entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(home)), default=0.0)
    except OSError:
        return 0.0


def disk(scene: Scene) -> Finding:
    home = Path(scene.places.home)
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    free = free_bytes(str(there))
    if free is None:
        return warn(f"nobody can tell how much is free for {there}")
    said = f"{free / 1024**2:,.0f} MB free for {there}"
    return ok(said) if free >= FREE_BYTES_MIN else fail(said, "make room: without it nothing is remembered")


def tools(_scene: Scene) -> Finding:
    missing = missing_tools(TOOLS)
    if missing:
        return warn(f"not installed: {', '.join(missing)}", "install them: reports and hooks use them")
    return ok(", ".join(TOOLS))


def autostart(scene: Scene) -> Finding:
    try:
        plan = plan_remove(scene.environ)
    except UnitNotOurs as problem:
        return ok(f"a unit of your own: {problem.facts['path']}")
    if plan.is_done:
        return ok("not installed (`wakeful autostart install` has systemd keep it running)")
    if not is_running():
        return warn("installed, but systemd does not run it", "systemctl --user status wakeful")
    if not lingers(scene.environ):
        return warn("runs, and ends with your last logout", "loginctl enable-linger")
    return ok("runs, also after logout")


def redis(scene: Scene) -> Finding:
    url = _config(scene).redis.url
    if not url:
        return ok("not set up")
    trouble = redis_trouble(url)
    return ok("answers") if trouble is None else fail(trouble, "start it, or mend redis.url")


def telegram(scene: Scene) -> Finding:
    config = _config(scene)
    bots = {
        "alerts.telegram_token": (config.alerts.telegram_token, config.alerts.telegram_api),
        "gateway.token": (config.gateway.token, config.gateway.api),
    }
    told = {key: telegram_trouble(token, api) for key, (token, api) in bots.items() if token}
    bad = {key: trouble for key, trouble in told.items() if trouble is not None}
    if bad:
        return fail(
            "; ".join(f"{key}: {trouble}" for key, trouble in bad.items()), "mend the token or the network"
        )
    if words := gateway_trouble(scene.places):
        return fail(f"the gateway says: {words}", "its log says since when; /health shows it in the chat")
    return ok(f"knows the bot of {' and '.join(told)}" if told else "not set up")


def gh(scene: Scene) -> Finding:
    github = _config(scene).github
    if not github.repo and not github.repos:
        return ok("not set up")
    trouble = gh_trouble()
    return ok("logged in") if trouble is None else fail(trouble, "gh auth login")
