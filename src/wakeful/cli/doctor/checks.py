"""The checks of `wakeful doctor`: each looks at one thing and says ok, warn or fail, and what to do.

Here are those of the configuration, state folder, daemon, clients and their hooks; `host_checks.py` has the
others. Nothing is changed or sent, and no agent client is run: clients are slow to start, and some update
themselves.
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

from wakeful.cli import settings as trust
from wakeful.cli.doctor.grading import CheckContext, CheckResult, fail, ok, warn
from wakeful.cli.doctor.host_checks import autostart, clock, disk, gh, redis, telegram, tools
from wakeful.client.client import DaemonClient
from wakeful.client.errors import DaemonNotRunning
from wakeful.config.paths import SOCKET_PATH_BYTES_MAX
from wakeful.config.schema import Config, ConfigError
from wakeful.config.state_dir import read_store_version
from wakeful.config.trust import TrustFile
from wakeful.core.clock import iso
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, WakefulError, WorldError
from wakeful.core.text import plain
from wakeful.hooks.install import HookState, hooks_state
from wakeful.linux.child_environment import helper_environ
from wakeful.views.records import DaemonRecord, Overview


def hook_check(client: str) -> Callable[[CheckContext], CheckResult]:
    def check(context: CheckContext) -> CheckResult:
        return _grade_hooks(client, hooks_state(client, context.environ, context.places))

    return check


def _grade_hooks(client: str, state: HookState) -> CheckResult:
    if state.problem:
        return warn(
            f"{state.path}: {state.problem}", f"wakeful hooks install {client}: prints the lines to add"
        )
    if not state.is_installed and state.fired_at is not None:
        return ok(f"the plugin reports, last at {iso(state.fired_at)}")
    if not state.is_installed and state.has_plugin:
        return ok("the plugin is installed, no report yet: only new sessions report")
    if not state.is_installed:
        return ok(f"not installed (`wakeful hooks install {client}`: instant permission alerts)")
    if not state.is_current:
        return warn("installed for another state folder or version", f"wakeful hooks install {client}")
    if state.fired_at is not None:
        return ok(f"installed, last report at {iso(state.fired_at)}")
    if client == "codex":
        # Codex skips hooks that are not trusted and reports nothing.
        return warn("installed, but not trusted or never run", "start codex, type /hooks and trust them")
    return ok("installed, no report yet: only new sessions report")


TMUX_SECONDS_MAX: Final = 3.0
# Beyond this many folders the exact number changes nothing.
FOLDERS_COUNTED_MAX: Final = 500_000
# Other programs of this user watch folders too.
WATCHES_SHARE_MAX: Final = 0.8
# One descriptor for each process that matters, some hundred for everything else.
DESCRIPTORS_MIN: Final = 4096
# A folder that was cloned may hold any number.
HEARTBEATS_MAX: Final = 100
USE_OTHER_STATE_FOLDER: Final = "set WAKEFUL_HOME to a folder of your own"
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+[\w.-]*")
_WATCHES: Final = Path("/proc/sys/fs/inotify/max_user_watches")


NO_FILE: Final = "no file, all defaults (`wakeful config init` writes one)"


def system(_context: CheckContext) -> CheckResult:
    return ok(f"{platform.system()} {platform.release()}, Python {platform.python_version()}")


def configuration(context: CheckContext) -> CheckResult:
    if isinstance(context.loaded, ConfigError):
        first = str(context.loaded).splitlines()[0]
        return fail(first, "`wakeful config check` shows every problem")
    files = tuple(str(Path(each).absolute()) for each in context.loaded.files)
    record = _daemon_record(context)
    read = record.config_files if record is not None else None
    if read is not None and read != files:
        words = ", ".join(read) or "no file"
        return warn(f"{_format_files(files)}; but the daemon uses {words}", "wakeful down, then wakeful up")
    if record is not None and record.config_notes:
        words = "; ".join(each.removeprefix("configuration: ") for each in record.config_notes)
        return warn(words, "`wakeful config check` shows every problem")
    ignored = _ignored_config(context)
    if ignored is not None:
        others = f"{', '.join(files)}; " if files else ""
        return warn(f"{others}ignored {ignored}", "read it, then `wakeful config trust`")
    shared = next((file for file in files if _is_read_by_others(file)), None)
    if shared is not None:
        return warn(f"{plain(shared)}: other users can read it", f"chmod 600 {shlex.quote(shared)}")
    return ok(_format_files(files))


def _is_read_by_others(file: str) -> bool:
    """A configuration may hold tokens and passwords."""
    try:
        return bool(Path(file).stat().st_mode & 0o044)
    except OSError:
        # Removed since it was read.
        return False


def _ignored_config(context: CheckContext) -> str | None:
    """The working directory's file, if it exists and is ignored."""
    if context.environ.get("WAKEFUL_CONFIG"):
        return None
    try:
        document = trust.working_directory_config()
    except ConfigError as problem:
        return str(problem)
    if document is None or trust.is_trusted(document, context.places):
        return None
    return f"{plain(document.path)}: not trusted"


def _format_files(files: tuple[str, ...]) -> str:
    return ", ".join(files) or NO_FILE


def _daemon_record(context: CheckContext) -> DaemonRecord | None:
    """What the running daemon says of itself; None if none runs."""
    try:
        return decode_json(DaemonClient(context.places).get("/api/status").body, Overview).daemon
    except (WorldError, msgspec.DecodeError):
        # The check of the daemon itself reports the problem.
        return None


def heartbeats(context: CheckContext) -> CheckResult:
    """The files of agents in this folder and in the folders of the agents that are configured."""
    from wakeful.daemon.heartbeat import bounds_of  # noqa: PLC0415
    from wakeful.heartbeat import file as files  # noqa: PLC0415 - imports YAML

    if isinstance(context.loaded, ConfigError):
        return ok("not checked: the configuration is invalid")
    bounds = bounds_of(context.loaded.config.heartbeat)
    for path in _heartbeat_files(context.loaded.config):
        place = files.heartbeat_path_from(str(path), context.places.state_dir)
        if place is None:
            continue
        try:
            content = files.read_heartbeat(place, bounds)
            if not TrustFile(context.places.trust_file).is_trusted(place.path, content):
                advice = f"read it, then run `wakeful config trust {shlex.quote(place.path)}`"
                return warn(f"{plain(place.path)}: not trusted, so it cannot wake its agent", advice)
        except OperatorError as problem:
            return warn(str(problem), "fix it or remove it")
    return ok("all files in this folder and in agents' folders are trusted")


def _heartbeat_files(config: Config) -> Iterator[Path]:
    folders = {each.workdir for each in config.agents if each.workdir}
    with suppress(FileNotFoundError):
        folders.add(str(Path.cwd()))
    for folder in sorted(folders):
        yield from sorted(Path(folder).glob(".wakeful/agents/*/HEARTBEAT.md"))[:HEARTBEATS_MAX]


def state_folder(context: CheckContext) -> CheckResult:
    home = Path(context.places.state_dir)
    if not home.exists():
        above = next(parent for parent in home.parents if parent.exists())
        if os.access(above, os.W_OK):
            return ok(f"{home}: `wakeful up` creates it")
        return fail(f"{above} is not writable", USE_OTHER_STATE_FOLDER)
    found = home.stat()
    if found.st_uid != os.geteuid():
        return fail(f"{home} belongs to another user", USE_OTHER_STATE_FOLDER)
    if stat.S_IMODE(found.st_mode) & 0o077:
        # The target of a link is not to be changed.
        return fail(
            f"{home} is accessible to other users",
            USE_OTHER_STATE_FOLDER if home.is_symlink() else f"chmod 700 {home}",
        )
    if os.statvfs(home).f_flag & os.ST_RDONLY:
        return fail(f"{home} is on a read-only file system", f"make it writable, or {USE_OTHER_STATE_FOLDER}")
    if not os.access(home, os.W_OK):
        return fail(
            f"{home} is not writable",
            USE_OTHER_STATE_FOLDER if home.is_symlink() else f"chmod 700 {home}",
        )
    return ok(str(home))


def daemon(context: CheckContext) -> CheckResult:
    path = context.places.socket
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        return fail(f"{path} is too long for a socket", "set WAKEFUL_HOME to a shorter folder")
    try:
        pid = DaemonClient(context.places).get("/healthz").server_pid
    except DaemonNotRunning:
        stale = "; its old socket file is left" if Path(path).exists() else ""
        return warn(f"not running{stale}", "wakeful up --detach")
    except WorldError as problem:
        return fail(str(problem), "wakeful down, then wakeful up")
    return ok(f"running at {path} (pid {pid})")


# What to do about a source that leaves something out, by words of its reason.
_LEFT_OUT_HINTS: Final = (
    ("(permission)", "give this user read permission"),
    (
        "too long to be read",
        "move it to a path of at most 4,095 bytes",
    ),
    ("symbolic link", "replace the link with the log file: links are not followed"),
    ("no regular file", "remove everything that is not a file"),
    ("(input/output error)", "check the disk"),
    ("hook reports were dropped", "find the program that writes too many files into the spool folder"),
)


def _hints(left_out: str) -> str:
    """What to do; entries of processes that are no client need nothing."""
    found = [hint for reason, hint in _LEFT_OUT_HINTS if reason in left_out]
    return "; ".join(found) or ("ignore files that no client wrote" if left_out else "")


def log_sources(context: CheckContext) -> CheckResult:
    try:
        answer = DaemonClient(context.places).get("/api/status").body
        sources = decode_json(answer, Overview).daemon.eyes
    except WorldError:
        return ok("the daemon is not running, so nothing is watched")
    except msgspec.DecodeError:
        return warn("the daemon runs another version", "wakeful down, then wakeful up")
    late = [f"{each.name}: {each.slow}" for each in sources if each.slow]
    left_out = [f"{each.name} skips {each.left_out}" for each in sources if each.left_out]
    if late or left_out:
        return warn("; ".join((*late, *left_out)), _hints("; ".join(left_out)))
    return ok(f"{len(sources)} report every change")


def token(context: CheckContext) -> CheckResult:
    path = Path(context.places.token)
    if path.is_symlink():
        return fail(
            f"{path} is a symbolic link; links are not followed",
            f"rm {path}; the next start creates a new one",
        )
    if not path.exists():
        return ok("`wakeful up` creates it")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        return fail(
            f"{path} is readable by other users",
            f"rm {path}, then restart Wakeful: the token is no longer secret",
        )
    return ok("readable only by you")


def database(context: CheckContext) -> CheckResult:
    path = Path(context.places.database)
    if not path.exists():
        return ok("`wakeful up` creates it")
    try:
        return ok(f"readable, tables of version {read_store_version(path)}")
    except WakefulError as problem:
        away = f"or move {path} away: `wakeful up` creates a new one"
        return fail(str(problem), "give this user read permission" if problem.retryable else away)


def tmux(_context: CheckContext) -> CheckResult:
    program = shutil.which("tmux")
    if program is None:
        return warn("not installed", "install tmux if you want to run agents in it")
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


def inotify(context: CheckContext) -> CheckResult:
    watches_max = int(_WATCHES.read_text())
    folders = sum(
        1 for root in _roots(context) for _ in zip(range(FOLDERS_COUNTED_MAX), os.walk(root), strict=False)
    )
    said = f"{folders:,} folders to watch, {watches_max:,} watches allowed"
    if folders <= watches_max * WATCHES_SHARE_MAX:
        return ok(said)
    return warn(
        f"{said}: some changes are seen late",
        f"sudo sysctl fs.inotify.max_user_watches={max(folders * 2, 524_288)}",
    )


def _roots(context: CheckContext) -> Iterator[str]:
    home = context.environ.get("HOME", "")
    yield f"{context.environ.get('CLAUDE_CONFIG_DIR') or home + '/.claude'}/projects"
    yield f"{context.environ.get('CODEX_HOME') or home + '/.codex'}/sessions"
    folders = context.config.eyes
    for field in msgspec.structs.fields(folders):
        yield from getattr(folders, field.name)


def descriptors(_context: CheckContext) -> CheckResult:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_MIN:
        return warn(f"{hard:,} at most", f"raise the limit: ulimit -Hn {DESCRIPTORS_MIN}")
    return ok("no limit" if hard == resource.RLIM_INFINITY else f"{hard:,} at most")


def _client_check(name: str) -> Callable[[CheckContext], CheckResult]:
    def check(_context: CheckContext) -> CheckResult:
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


CHECKS: Final[Mapping[str, Callable[[CheckContext], CheckResult]]] = {
    "system": system,
    "configuration": configuration,
    "heartbeats": heartbeats,
    "state folder": state_folder,
    "daemon": daemon,
    "log sources": log_sources,
    "token": token,
    "database": database,
    "tmux": tmux,
    "inotify": inotify,
    "descriptors": descriptors,
    "claude": _client_check("claude"),
    "codex": _client_check("codex"),
    "claude hooks": hook_check("claude"),
    "codex hooks": hook_check("codex"),
    "clock": clock,
    "disk": disk,
    "tools": tools,
    "autostart": autostart,
    "redis": redis,
    "telegram": telegram,
    "gh": gh,
}


def run_checks(context: CheckContext) -> dict[str, CheckResult]:
    """The result of every check; a check that fails to look does not stop the others."""
    found = {}
    for name, check in CHECKS.items():
        try:
            found[name] = check(context)
        except OSError as problem:
            found[name] = fail(
                f"{problem.filename or ''}: {problem.strerror}", "give this user read permission"
            )
    return found
