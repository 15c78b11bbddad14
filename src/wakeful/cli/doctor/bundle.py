"""Writes `wakeful doctor --bundle`: a redacted archive for support.

It holds the configuration without secrets, versions, the checks, the daemon's status, incidents and agents,
and the ends of its logs. It never holds a transcript, a prompt, a store or an environment.
"""

import io
import os
import platform
import tarfile
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from wakeful import __version__
from wakeful.cli.commands.config import public_values
from wakeful.cli.doctor.grading import CheckContext
from wakeful.cli.output import wall_now
from wakeful.client.client import DaemonClient
from wakeful.config.load import LoadedConfig
from wakeful.config.schema import KEYS, ConfigError
from wakeful.core.errors import OperatorError, WakefulError
from wakeful.core.labels import label
from wakeful.core.redaction import Redactor

LOG_BYTES_MAX: Final = 256 * 1024
LOGS_MAX: Final = 30
FETCHED_TARGETS: Final = {
    "status.json": "/api/status",
    "incidents.json": "/api/incidents",
    "agents.json": "/api/agents",
}
# Names of variables with secret values; such a value is cut out wherever it occurs.
_SECRET_NAMES: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")


class BundleExists(OperatorError):
    """{path} exists already. Name another file."""

    code = "bundle-exists"


def write_bundle(path: str, context: CheckContext, checks: bytes) -> Iterator[str]:
    """Write the archive, readable by its owner only; yields a remark about it. Raises BundleExists."""
    scrub = Redactor(_secrets(context))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError as problem:
        raise BundleExists(path=path) from problem
    count = 0
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for count, (name, content) in enumerate(_contents(context, scrub, checks), start=1):  # noqa: B007 - printed below
            member = tarfile.TarInfo(f"wakeful-bundle/{name}")
            member.size, member.mode, member.mtime = len(content), 0o600, int(wall_now())
            archive.addfile(member, io.BytesIO(content))
    yield f"packed {count} files into {path}. Secrets are redacted; check the archive before you send it"


def _contents(context: CheckContext, scrub: Redactor, checks: bytes) -> Iterator[tuple[str, bytes]]:
    yield "doctor.json", scrub.redact_json(checks)
    yield "versions.json", scrub.redact_json(_versions())
    yield "config.json", scrub.redact_json(_configuration(context.loaded))
    for name, target in FETCHED_TARGETS.items():
        yield name, scrub.redact_json(_fetch(context, target))
    for log in _logs(Path(context.places.logs)):
        # Agents can write there, so a name is as much from outside as a content.
        yield (
            f"logs/{label(scrub.redact_text(log.name)) or '-'}",
            scrub.redact_text(_tail_of(log)).encode("utf-8", "replace"),
        )


def _versions() -> bytes:
    installed = sorted(f"{each.name} {each.version}" for each in distributions())
    host = {"kernel": platform.release(), "python": platform.python_version(), "machine": platform.machine()}
    return msgspec.json.encode({"wakeful": __version__, **host, "installed": installed})


def _configuration(loaded: LoadedConfig | ConfigError) -> bytes:
    if isinstance(loaded, ConfigError):
        return msgspec.json.encode({"invalid": str(loaded)})
    return msgspec.json.encode({"config": public_values(loaded), "origins": loaded.origins})


def _fetch(context: CheckContext, target: str) -> bytes:
    try:
        return DaemonClient(context.places).get(target).body
    except WakefulError as problem:
        return msgspec.json.encode({"unavailable": str(problem)})


def _logs(folder: Path) -> list[Path]:
    """The newest files of the log folder, without links, which lead elsewhere."""
    try:
        files = [each for each in folder.iterdir() if each.is_file() and not each.is_symlink()]
    except OSError:
        return []
    return sorted(files, key=lambda each: each.lstat().st_mtime, reverse=True)[:LOGS_MAX]


def _tail_of(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LOG_BYTES_MAX))
        text = file.read(LOG_BYTES_MAX).decode("utf-8", "replace")
    # The first line is cut in two, and half a secret is not recognised.
    return text if size <= LOG_BYTES_MAX else text.partition("\n")[2]


def _secrets(context: CheckContext) -> set[str]:
    """The known secrets: the HTTP token, and secret values of the configuration and of the environment."""
    named = {
        value
        for name, value in context.environ.items()
        if any(part in name.upper() for part in _SECRET_NAMES)
    }
    try:
        named.add(Path(context.places.token).read_text(errors="replace").strip())
    except OSError:
        # There is no token, or this user cannot read it: then no log holds it either.
        named.discard("")
    if not isinstance(context.loaded, ConfigError):
        for key in KEYS.values():
            if key.is_secret:
                value = key.value_in(context.loaded.config)
                named |= set(value) if isinstance(value, tuple) else {str(value)}
    return named | {password for each in named if (password := _password(each))}


def _password(address: str) -> str | None:
    """The part of an address that is secret by itself."""
    try:
        return urlsplit(address).password
    except ValueError:
        return None
