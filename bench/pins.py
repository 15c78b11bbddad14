"""The pinned requirements: what must stand in them, and the hashes of the files that pip may choose.

`python -m bench.pins` renews the hashes from the index that pip is configured to use; no address stands in the
repository. It says which pins are missing and which nothing needs; versions are changed by hand.
"""

import os
import re
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urljoin

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "requirements"
RUN_FILES: Final = ("run.txt", "extras.txt")
FILES: Final = ("build.txt", *RUN_FILES, "test.txt")
# The interpreters and machines that a hash is written for; patch versions at which a dependency's condition changes.
PYTHONS: Final = ("3.11.0", "3.11.4", "3.12.0", "3.13.0", "3.14.0")
MACHINES: Final = ("x86_64", "aarch64")
_LINK: Final = re.compile(r'href="([^"#]+)#sha256=([0-9a-f]{64})"')
_PYTHON: Final = re.compile(r"(?:cp|py)(?:2\.py)?3(\d*)")
_PIN: Final = re.compile(r"([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\]+?))?\s*(?:\\|$)")


class Pin(NamedTuple):
    """One line of a file."""

    name: str
    version: str
    marker: str

    @property
    def key(self) -> str:
        return canonicalize_name(self.name)


def pins_of(file: str) -> list[Pin]:
    """What a file pins, in its order."""
    lines = (FOLDER / file).read_text().splitlines()
    found = (_PIN.match(line) for line in lines)
    return [Pin(each[1], each[2], each[3] or "") for each in found if each is not None]


def hashes_of(file: str) -> dict[str, list[str]]:
    """The hashes that a file allows, by canonical name."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in (FOLDER / file).read_text().splitlines():
        if (pin := _PIN.match(line)) is not None:
            name = canonicalize_name(pin[1])
        found.setdefault(name, []).extend(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
    return found


def needed() -> dict[str, set[str]]:
    """Everything that Wakeful with all its extras needs to run, on any of PYTHONS, and what each of it requires."""
    return closure(_asked())


def needed_directly() -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in _asked()}


def _asked() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # `all` names the other extras.
    extras = [more for name, more in project["optional-dependencies"].items() if name != "all"]
    return [*project["dependencies"], *(each for more in extras for each in more)]


def needed_by_base() -> set[str]:
    """Everything that Wakeful needs without extras."""
    return set(closure(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]))


def run_pins() -> list[Pin]:
    """The pins of everything that Wakeful with its extras runs with, by name."""
    return sorted((pin for file in RUN_FILES for pin in pins_of(file)), key=lambda pin: pin.key)


def closure(asked: Iterable[str]) -> dict[str, set[str]]:
    """These requirements and everything below them, with what each requires: read from what is installed."""
    waiting = [Requirement(each) for each in asked]
    seen: set[tuple[str, frozenset[str]]] = set()
    found: dict[str, set[str]] = {}
    while waiting:
        each = waiting.pop()
        name, extras = canonicalize_name(each.name), frozenset(each.extras)
        if (name, extras) not in seen:
            seen.add((name, extras))
            more = list(_below(each))
            found.setdefault(name, set()).update(canonicalize_name(each.name) for each in more)
            waiting += more
    return found


def _below(requirement: Requirement) -> Iterator[Requirement]:
    try:
        lines = distribution(requirement.name).requires or []
    except PackageNotFoundError:
        # Needed by another interpreter than this one.
        return
    for line in lines:
        each = Requirement(line)
        if each.marker is None or any(each.marker.evaluate(place) for place in _places(requirement.extras)):
            yield each


def _places(extras: Iterable[str]) -> Iterator[dict[str, str]]:
    for full in PYTHONS:
        for machine in MACHINES:
            for extra in ("", *extras):
                short = ".".join(full.split(".")[:2])
                yield {
                    "python_full_version": full,
                    "python_version": short,
                    "platform_machine": machine,
                    "sys_platform": "linux",
                    "platform_system": "Linux",
                    "os_name": "posix",
                    "implementation_name": "cpython",
                    "platform_python_implementation": "CPython",
                    "extra": extra,
                }


def is_wanted(file: str, pin: Pin) -> bool:
    """Whether pip may choose this file of an index for this version, on one of the machines."""
    try:
        if file.endswith(".whl"):
            name, version, _, tags = parse_wheel_filename(file)
            return (name, str(version)) == (pin.key, pin.version) and any(map(_fits, tags))
        name, version = parse_sdist_filename(file)
    except ValueError:
        # Another project's file, or a form that pip does not take.
        return False
    return (name, str(version)) == (pin.key, pin.version)


def _fits(tag: object) -> bool:
    interpreter, abi, platform = str(tag).split("-", 2)
    seen = _PYTHON.fullmatch(interpreter)
    if seen is None or abi.endswith("t"):
        return False
    minor = int(seen[1] or 0)
    versions = {int(each.split(".")[1]) for each in PYTHONS}
    is_kept = abi in ("none", "abi3") and (minor <= max(versions))
    return (minor in versions or is_kept) and (
        platform == "any" or ("linux" in platform and platform.endswith(MACHINES))
    )


def index_address() -> str:
    """The index that pip is configured to use, else its own default."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
        check=False,
    )
    configured = os.environ.get("PIP_INDEX_URL") or asked.stdout.strip()
    if not configured:
        from pip._internal.models.index import PyPI  # noqa: PLC0415 - only pip knows its default

        configured = PyPI.simple_url
    return configured.rstrip("/") + "/"


def hashes_at(index: str, pin: Pin) -> list[str]:
    """Of every file of this version that pip may choose."""
    address = urljoin(index, f"{pin.key}/")
    with urllib.request.urlopen(address, timeout=60) as answer:
        page = answer.read().decode()
    found = {digest for link, digest in _LINK.findall(page) if is_wanted(link.rsplit("/", 1)[-1], pin)}
    if not found:
        raise SystemExit(f"{pin.name}=={pin.version}: the index has no file of it")
    return sorted(found)


def renewed(file: str, index: str) -> str:
    """The file with the hashes of today."""
    pins = {pin.name: pin for pin in pins_of(file)}
    lines = []
    for line in (FOLDER / file).read_text().splitlines():
        if line.strip().startswith("--hash="):
            continue
        pin = _PIN.match(line)
        if pin is None:
            lines.append(line)
            continue
        known = pins[pin[1]]
        marker = f" ; {known.marker}" if known.marker else ""
        hashes = [f"    --hash=sha256:{each}" for each in hashes_at(index, known)]
        lines.append(" \\\n".join((f"{known.name}=={known.version}{marker}", *hashes)))
    return "\n".join((*lines, ""))


def problems() -> Iterator[str]:
    """What is wrong with the files; nothing of this asks an index."""
    base = needed_by_base()
    for file, found in (("run.txt", base), ("extras.txt", set(needed()) - base)):
        pinned = {pin.key for pin in pins_of(file)}
        yield from (f"{file}: {name} is missing" for name in sorted(found - pinned))
        yield from (f"{file}: nothing of it needs {name}" for name in sorted(pinned - found))
    for file in FILES:
        hashes = hashes_of(file)
        yield from (f"{file}: {pin.name} has no hash" for pin in pins_of(file) if not hashes[pin.key])


def main() -> int:
    index = index_address()
    for file in FILES:
        text = renewed(file, index)
        (FOLDER / file).write_text(text)
        print(f"requirements/{file}: {text.count('--hash=')} hashes")
    wrong = list(problems())
    for each in wrong:
        print(each)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
