"""What `wakeful doctor` looks at: each check reads one thing and says ok, warn or fail, and what to do.

Nothing is changed and no agent client is run: those are slow to start, and some update themselves.
"""

import os
import platform
import re
import resource
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from wakeful.cli import trust
from wakeful.cli.commands.status import Overview
from wakeful.cli.doctor import outside_checks
from wakeful.cli.doctor.grading import Finding, Scene, fail, ok, warn
from wakeful.cli.doctor.hook_checks import hook_check
from wakeful.client.client import Client, DaemonNotRunning
from wakeful.config.config import Config, ConfigError
from wakeful.config.paths import SOCKET_PATH_BYTES_MAX
from wakeful.config.state_dir import store_version
from wakeful.config.trust import TrustBook
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, WakefulError, WorldError
from wakeful.core.text import plain
from wakeful.linux.child_environment import helper_environ

TMUX_SECONDS_MAX: Final = 3.0
# Beyond this many folders the exact number changes nothing.
FOLDERS_COUNTED_MAX: Final = 500_000
# Other programs of this user watch folders too.
WATCHES_SHARE_MAX: Final = 0.8
# One descriptor for each process that matters, some hundred for everything else.
DESCRIPTORS_MIN: Final = 4096
# A folder that was cloned may hold any number.
HEARTBEATS_MAX: Final = 100
OWN_HOME: Final = "set WAKEFUL_HOME to a folder of your own"
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+[\w.-]*")
_WATCHES: Final = Path("/proc/sys/fs/inotify/max_user_watches")


NO_FILE: Final = "no file: every key has its default (`wakeful config init` writes one)"


def system(_scene: Scene) -> Finding:
    return ok(f"{platform.system()} {platform.release()}, Python {platform.python_version()}")


def configuration(scene: Scene) -> Finding:
    if isinstance(scene.loaded, ConfigError):
        first = str(scene.loaded).splitlines()[0]
        return fail(first, "`wakeful config check` shows every problem")
    files = tuple(map(_absolute, scene.loaded.files))
    read = _read_by_daemon(scene)
    if read is not None and read != files:
        words = ", ".join(read) or "no file"
        return warn(f"{_named(files)}; but the daemon reads {words}", "wakeful down, then wakeful up")
    ignored = _ignored_here(scene)
    if ignored is not None:
        others = f"{', '.join(files)}; " if files else ""
        return warn(f"{others}ignored {ignored}", "read it, then `wakeful config trust`")
    shared = next((file for file in files if _is_read_by_others(file)), None)
    if shared is not None:
        return warn(f"{plain(shared)}: other users can read it", f"chmod 600 {shlex.quote(shared)}")
    return ok(_named(files))


def _is_read_by_others(file: str) -> bool:
    """People write tokens and passwords into it."""
    try:
        return bool(Path(file).stat().st_mode & 0o044)
    except OSError:
        # Removed since it was read.
        return False


def _ignored_here(scene: Scene) -> str | None:
    """The working directory's file, if it is there and does not count."""
    if scene.environ.get("WAKEFUL_CONFIG"):
        return None
    try:
        document = trust.found_here()
    except ConfigError as problem:
        return str(problem)
    if document is None or trust.is_trusted(document, scene.places):
        return None
    return f"{plain(document.path)}: not trusted"


def _named(files: tuple[str, ...]) -> str:
    return ", ".join(files) or NO_FILE


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _read_by_daemon(scene: Scene) -> tuple[str, ...] | None:
    """Which files the running daemon has read; None if none runs, or one that does not say so."""
    try:
        answer = Client(scene.places).get("/api/status").body
        return decode_json(answer, Overview).daemon.config_files
    except (WorldError, msgspec.DecodeError):
        # The check of the daemon itself says what is wrong with it.
        return None


def heartbeats(scene: Scene) -> Finding:
    """The files of agents in this folder and in the folders of the agents that are configured."""
    from wakeful.daemon import heartbeats as files  # noqa: PLC0415 - YAML costs only who has such a file

    if isinstance(scene.loaded, ConfigError):
        return ok("not looked at: the configuration is wrong")
    bounds = files.bounds_of(scene.loaded.config.heartbeat)
    for path in _heartbeat_files(scene.loaded.config):
        place = files.place_at(str(path), scene.places.home)
        if place is None:
            continue
        try:
            content = files.read_place(place, bounds)
            if not TrustBook(scene.places.trusted).is_trusted(place.path, content):
                advice = f"read it, then run `wakeful config trust {shlex.quote(place.path)}`"
                return warn(f"{plain(place.path)}: not trusted, so it wakes no agent", advice)
        except OperatorError as problem:
            return warn(str(problem), "mend it, or remove it")
    return ok("each one in this folder and in the folders of agents is trusted")


def _heartbeat_files(config: Config) -> Iterator[Path]:
    folders = {each.workdir for each in config.agents if each.workdir}
    with suppress(FileNotFoundError):
        folders.add(str(Path.cwd()))
    for folder in sorted(folders):
        yield from sorted(Path(folder).glob(".wakeful/agents/*/HEARTBEAT.md"))[:HEARTBEATS_MAX]


def state_folder(scene: Scene) -> Finding:
    home = Path(scene.places.home)
    if not home.exists():
        above = next(parent for parent in home.parents if parent.exists())
        if os.access(above, os.W_OK):
            return ok(f"{home} will be made by `wakeful up`")
        return fail(f"{above} cannot be written to", OWN_HOME)
    found = home.stat()
    if found.st_uid != os.geteuid():
        return fail(f"{home} is another user's", OWN_HOME)
    if stat.S_IMODE(found.st_mode) & 0o077:
        # Nobody is sent to change what a link points at.
        return fail(f"{home} is open to others", OWN_HOME if home.is_symlink() else f"chmod 700 {home}")
    if os.statvfs(home).f_flag & os.ST_RDONLY:
        return fail(f"{home} is on a read-only file system", f"make that writable, or {OWN_HOME}")
    if not os.access(home, os.W_OK):
        return fail(f"{home} cannot be written to", OWN_HOME if home.is_symlink() else f"chmod 700 {home}")
    return ok(str(home))


def daemon(scene: Scene) -> Finding:
    path = scene.places.socket
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        return fail(f"{path} is too long for a socket", "set WAKEFUL_HOME to a shorter folder")
    try:
        pid = Client(scene.places).get("/healthz").server_pid
    except DaemonNotRunning:
        stale = " and left its socket behind" if Path(path).exists() else ""
        return warn(f"does not run{stale}", "wakeful up --detach")
    except WorldError as problem:
        return fail(str(problem), "wakeful down, then wakeful up")
    return ok(f"answers at {path} (pid {pid})")


def eyes(scene: Scene) -> Finding:
    try:
        answer = Client(scene.places).get("/api/status").body
        told = decode_json(answer, Overview).daemon.eyes
    except WorldError:
        return ok("nothing is watched while no daemon runs")
    except msgspec.DecodeError:
        return warn("the daemon is of another version", "wakeful down, then wakeful up")
    late = [f"{eye.name}: {eye.slow}" for eye in told if eye.slow]
    left_out = [f"{eye.name} leaves out {eye.left_out}" for eye in told if eye.left_out]
    if late or left_out:
        hint = "let this user read what it cannot; ignore what is no client's" if left_out else ""
        return warn("; ".join((*late, *left_out)), hint)
    return ok(f"{len(told)} are told of every change")


def token(scene: Scene) -> Finding:
    path = Path(scene.places.token)
    if path.is_symlink():
        return fail(
            f"{path} is a symbolic link, which is never followed", f"rm {path}; a start makes a new one"
        )
    if not path.exists():
        return ok("will be made by `wakeful up`")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        return fail(f"{path} can be read by others", f"rm {path}, then start anew: it is no secret any more")
    return ok("readable by you alone")


def database(scene: Scene) -> Finding:
    path = Path(scene.places.database)
    if not path.exists():
        return ok("will be made by `wakeful up`")
    try:
        return ok(f"readable, tables of version {store_version(path)}")
    except WakefulError as problem:
        away = f"or move {path} away: `wakeful up` makes a new one"
        return fail(str(problem), "let this user read it" if problem.retryable else away)


def tmux(_scene: Scene) -> Finding:
    program = shutil.which("tmux")
    if program is None:
        return warn("not installed", "install tmux if your agents are to run in it")
    try:
        answer = subprocess.run(
            [program, "-V"],
            env=helper_environ(os.environ),
            capture_output=True,
            text=True,
            timeout=TMUX_SECONDS_MAX,
            check=True,
        )
    except (subprocess.SubprocessError, OSError) as problem:
        return fail(f"{program} -V failed: {problem}", "reinstall tmux")
    return ok(answer.stdout.strip())


def inotify(scene: Scene) -> Finding:
    watches_max = int(_WATCHES.read_text())
    folders = sum(
        1 for root in _roots(scene) for _ in zip(range(FOLDERS_COUNTED_MAX), os.walk(root), strict=False)
    )
    said = f"{folders:,} folders to watch, {watches_max:,} watches allowed"
    if folders <= watches_max * WATCHES_SHARE_MAX:
        return ok(said)
    return warn(
        f"{said}: some are seen late", f"sudo sysctl fs.inotify.max_user_watches={max(folders * 2, 524_288)}"
    )


def _roots(scene: Scene) -> Iterator[str]:
    home = scene.environ.get("HOME", "")
    yield f"{scene.environ.get('CLAUDE_CONFIG_DIR') or home + '/.claude'}/projects"
    yield f"{scene.environ.get('CODEX_HOME') or home + '/.codex'}/sessions"
    eyes = Config().eyes if isinstance(scene.loaded, ConfigError) else scene.loaded.config.eyes
    for field in msgspec.structs.fields(eyes):
        yield from getattr(eyes, field.name)


def descriptors(_scene: Scene) -> Finding:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_MIN:
        return warn(f"{hard:,} at most", f"raise the limit: ulimit -Hn {DESCRIPTORS_MIN}")
    return ok("no limit" if hard == resource.RLIM_INFINITY else f"{hard:,} at most")


def _client(name: str) -> Callable[[Scene], Finding]:
    def check(_scene: Scene) -> Finding:
        program = shutil.which(name)
        if program is None:
            return ok("not installed")
        real = Path(program).resolve()
        return ok(f"{version_on_disk(real) or 'of unknown version'} at {program}")

    return check


def version_on_disk(program: Path) -> str | None:
    """The version of a client, from the package that holds it or from the folder that is named after it."""
    for folder in list(program.parents)[:4]:
        try:
            manifest = decode_json((folder / "package.json").read_bytes(), dict[str, object])
        except (OSError, msgspec.DecodeError):
            continue
        if isinstance(manifest.get("version"), str):
            return str(manifest["version"])
    named = [part for part in reversed(program.parts) if _VERSION.fullmatch(part)]
    return named[0] if named else None


CHECKS: Final[Mapping[str, Callable[[Scene], Finding]]] = {
    "system": system,
    "configuration": configuration,
    "heartbeats": heartbeats,
    "state folder": state_folder,
    "daemon": daemon,
    "eyes": eyes,
    "token": token,
    "database": database,
    "tmux": tmux,
    "inotify": inotify,
    "descriptors": descriptors,
    "claude": _client("claude"),
    "codex": _client("codex"),
    "claude hooks": hook_check("claude"),
    "codex hooks": hook_check("codex"),
    "clock": outside_checks.clock,
    "disk": outside_checks.disk,
    "tools": outside_checks.tools,
    "autostart": outside_checks.autostart,
    "redis": outside_checks.redis,
    "telegram": outside_checks.telegram,
    "gh": outside_checks.gh,
}


def examine(scene: Scene) -> dict[str, Finding]:
    """Every check's finding. One that cannot look says so; the others go on."""
    found = {}
    for name, check in CHECKS.items():
        try:
            found[name] = check(scene)
        except OSError as problem:
            found[name] = fail(f"{problem.filename or ''}: {problem.strerror}", "let this user read it")
    return found
