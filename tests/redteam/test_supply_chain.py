"""An index, a mirror or a cache hands out another file under the name of a pinned one: it is not installed."""

import subprocess
import sys
import zipfile
from pathlib import Path

from bench import pins

from redteam.conftest import Redteam

WAY = "files of packages"


def forged(folder: Path, pin: pins.Pin) -> None:
    """A wheel of the right name and version, with a word of the attacker's in it."""
    name = pin.key.replace("-", "_")
    info = f"{name}-{pin.version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{pin.version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", "print('owned')")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {pin.name}\nVersion: {pin.version}\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def install(folder: Path, requirements: Path) -> str:
    """What pip says to it; nothing is installed in any case."""
    options = (
        "--isolated",
        "--dry-run",
        "--no-deps",
        "--no-index",
        "--find-links",
        str(folder),
        "--ignore-installed",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--require-hashes", "-r", str(requirements)],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.returncode} {done.stderr}"


def test_a_forged_package_is_not_installed(tmp_path: Path, redteam: Redteam) -> None:
    """With the hashes of our files pip refuses each; a requirement without a hash is refused, too."""
    blocks = {}
    for file in pins.FILES:
        hashes = pins.hashes_of(file)
        for pin in pins.pins_of(file):
            if not pin.marker:
                lines = [f"{pin.name}=={pin.version}", *(f"--hash=sha256:{each}" for each in hashes[pin.key])]
                blocks[pin] = " \\\n    ".join(lines) + "\n"
    tried = list(blocks)[:: max(1, len(blocks) // redteam.rounds(3, 20))]
    for number, pin in enumerate(tried):
        folder = tmp_path / str(number)
        folder.mkdir()
        forged(folder, pin)
        requirements = folder / "requirements.txt"
        requirements.write_text(blocks[pin])
        said = install(folder, requirements)
        redteam.attack(
            WAY, f"{pin.name}: {said}", held=said.startswith("1 ") and "DO NOT MATCH THE HASHES" in said
        )
        if number == 0:
            requirements.write_text(f"{pin.name}=={pin.version}\n")
            said = install(folder, requirements)
            redteam.attack(WAY, f"{pin.name} without a hash: {said}", held=said.startswith("1 "))
