"""What Wakeful runs with: an SBOM (CycloneDX 1.6, JSON) and NOTICE, both from requirements/ and what is installed.

`make sbom` writes both. Neither holds a date, so that the same requirements give the same files.
"""

import argparse
import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name

from bench.pins import RUN_FILES, Pin, hashes_of, needed, needed_directly, run_pins
from wakeful import __version__

# Names that packages use for a licence instead of its SPDX identifier.
_SPDX: Final = {
    "Apache 2.0": "Apache-2.0",
    "Apache 2": "Apache-2.0",
    "MIT License": "MIT",
    "Apache Software License": "Apache-2.0",
}
# Installed by some interpreters only.
_ELSEWHERE: Final = {"async-timeout": "Apache-2.0"}
_HEAD: Final = """\
Wakeful is licensed under the Apache License, Version 2.0: see LICENSE.

The packages below are installed beside it and used unchanged, each under its own licence. No code of theirs is part of
Wakeful. Those under the LGPL and the MPL can be replaced by another version of the same package, as every package here:
{weak}

This file is made by `make sbom` from requirements/run.txt and requirements/extras.txt.

"""


class LicenceUnknown(Exception):
    """A package that does not say its licence."""


def licence_of(name: str) -> str:
    """The SPDX identifier of an installed package. Raises LicenceUnknown."""
    try:
        metadata = distribution(name).metadata
    except PackageNotFoundError:
        if canonicalize_name(name) in _ELSEWHERE:
            return _ELSEWHERE[canonicalize_name(name)]
        raise
    fields = (*(metadata.get_all("License-Expression") or ()), *(metadata.get_all("License") or ()))
    said = next((each.split("\n", 1)[0].strip() for each in fields if each.strip()), "")
    classifiers = (each for each in metadata.get_all("Classifier") or [] if each.startswith("License ::"))
    found = said or next((each.rpartition(" :: ")[2] for each in classifiers), "")
    if not found:
        raise LicenceUnknown(name)
    return _SPDX.get(found, found)


def notice() -> str:
    """Every package with its version and its licence; those first that ask for more than their name."""
    rows = [(pin, licence_of(pin.name)) for pin in run_pins()]
    weak = [f"{pin.name} ({licence})" for pin, licence in rows if licence.startswith(("LGPL", "MPL"))]
    lines = [f"{pin.name} {pin.version}: {licence}" for pin, licence in rows]
    return _HEAD.format(weak=", ".join(weak) + ".") + "\n".join(lines) + "\n"


def sbom() -> dict[str, Any]:
    pins, below = run_pins(), needed()
    hashes = {name: each for file in RUN_FILES for name, each in hashes_of(file).items()}
    own = {
        "type": "application",
        "bom-ref": "wakeful",
        "name": "wakeful",
        "version": __version__,
        "licenses": [{"expression": "Apache-2.0"}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": [_component(pin, hashes[pin.key]) for pin in pins],
        "dependencies": [
            {"ref": "wakeful", "dependsOn": _refs(needed_directly(), pins)},
            *({"ref": _purl(pin), "dependsOn": _refs(below[pin.key], pins)} for pin in pins),
        ],
    }


def _component(pin: Pin, hashes: list[str]) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": _purl(pin),
        "name": pin.name,
        "version": pin.version,
        "purl": _purl(pin),
        "licenses": [{"expression": licence_of(pin.name)}],
        "hashes": [{"alg": "SHA-256", "content": each} for each in hashes],
    }


def _purl(pin: Pin) -> str:
    return f"pkg:pypi/{pin.key}@{pin.version}"


def _refs(names: set[str], pins: list[Pin]) -> list[str]:
    return [_purl(pin) for pin in pins if pin.key in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, required=True, metavar="FILE", help="where the SBOM goes")
    parser.add_argument("--notice", type=Path, required=True, metavar="FILE", help="where the licences go")
    asked = parser.parse_args()
    asked.write.parent.mkdir(parents=True, exist_ok=True)
    asked.write.write_text(json.dumps(sbom(), indent=1) + "\n")
    asked.notice.write_text(notice())
    print(f"{asked.write}: {len(run_pins())} packages; {asked.notice}")


if __name__ == "__main__":
    main()
