"""The packages Wakeful is installed with: pinned, each file by its hash, none that nothing needs, each with its licence."""

import ast
import json
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from bench import pins, sbom
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def test_the_pinned_requirements_are_what_runs_and_nothing_else() -> None:
    """run.txt is the closure of pyproject's dependencies, extras.txt that of its extras; every pin has hashes."""
    assert list(pins.problems()) == []


def test_what_only_tests_need_is_in_no_other_file() -> None:
    """A package stands in one file, so that one version of it is installed."""
    names = [pin.key for file in pins.FILES for pin in pins.pins_of(file)]
    assert sorted(set(names)) == sorted(names)
    run = {pin.key for pin in pins.run_pins()}
    assert run & {"pytest", "hypothesis", "mypy", "ruff", "playwright", "popoto", "hatchling"} == set()


def imported() -> Iterator[str]:
    """The first names of every module that Wakeful imports."""
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                yield from (each.name.partition(".")[0] for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                yield node.module.partition(".")[0]


def test_whatever_is_imported_is_declared() -> None:
    """No package is used because another one happens to bring it."""
    owners = packages_distributions()
    used = {
        canonicalize_name(owner)
        for name in set(imported()) - sys.stdlib_module_names - {"wakeful"}
        for owner in owners[name]
    }
    # uvicorn parses HTTP with httptools: it is asked for by name, and imported by uvicorn.
    assert pins.needed_directly() == used | {"httptools"}


def test_the_base_installation_is_small() -> None:
    """20 packages at most, Wakeful included, with top and page; what few people use is in extras, `all` brings them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = pins.closure(project["dependencies"])
    assert len(base) + 1 <= 20, sorted(base)
    extras = set(project["optional-dependencies"]) - {"all", "top"}
    assert Requirement(*project["optional-dependencies"]["all"]).extras == extras
    assert {canonicalize_name(Requirement(each).name) for each in project["dependencies"]} <= set(base)


def test_the_builder_is_pinned_to_the_version_that_pyproject_names() -> None:
    """`make` installs without build isolation: what pyproject asks for must be what build.txt brings, wholly."""
    pinned = {pin.key: pin.version for pin in pins.pins_of("build.txt")}
    assert f"hatchling=={pinned['hatchling']}" in (ROOT / "pyproject.toml").read_text()
    assert set(pins.closure(["hatchling", "editables"])) == set(pinned)


def test_make_installs_nothing_unchecked() -> None:
    """Every `pip install` of the Makefile demands hashes, or installs this folder alone without fetching a builder."""
    lines = [
        each
        for each in (ROOT / "Makefile").read_text().splitlines()
        if "install" in each and "$(PIP)" in each
    ]
    assert len(lines) == 4
    for line in lines:
        assert "--require-hashes -r" in line or line.endswith(
            "--no-deps --no-build-isolation --editable ."
        ), line


@pytest.mark.parametrize("file", pins.FILES)
def test_no_file_names_a_host(file: str) -> None:
    """Where packages come from is the user's own configuration."""
    text = (pins.FOLDER / file).read_text()
    assert "://" not in text
    assert "index" not in text


PIN = pins.Pin("Thing.Name", "1.2", "")


@pytest.mark.parametrize(
    ("file", "wanted"),
    {
        "thing_name-1.2.tar.gz": True,
        "thing_name-1.2-py3-none-any.whl": True,
        "thing_name-1.2-py2.py3-none-any.whl": True,
        "thing_name-1.2-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl": True,
        "thing_name-1.2-cp313-cp313-musllinux_1_2_aarch64.whl": True,
        "thing_name-1.2-cp39-abi3-manylinux_2_28_aarch64.whl": True,
        "thing_name-1.2-cp314-cp314t-manylinux_2_28_x86_64.whl": False,
        "thing_name-1.2-cp315-abi3-manylinux_2_28_x86_64.whl": False,
        "thing_name-1.2-cp310-cp310-manylinux_2_28_x86_64.whl": False,
        "thing_name-1.2-cp312-cp312-win_amd64.whl": False,
        "thing_name-1.2-cp312-cp312-macosx_11_0_arm64.whl": False,
        "thing_name-1.2-cp312-cp312-manylinux_2_28_ppc64le.whl": False,
        "thing_name-1.2-pp311-pypy311_pp73-manylinux_2_28_x86_64.whl": False,
        "thing_name-1.20-py3-none-any.whl": False,
        "thing_name_more-1.2-py3-none-any.whl": False,
        "thing_name-1.2.exe": False,
    }.items(),
)
def test_hashes_are_of_the_files_that_pip_may_choose(file: str, wanted: bool) -> None:
    """Linux on two machines, CPython without and with a fixed interface, and the source."""
    assert pins.is_wanted(file, PIN) is wanted


def test_notice_names_every_licence() -> None:
    """NOTICE is what `make sbom` writes; the LGPL and MPL packages are named apart."""
    text = (ROOT / "NOTICE").read_text()
    assert text == sbom.notice()
    for named in ("python-telegram-bot (LGPL-3.0-only)", "asyncinotify (MPL-2.0)"):
        assert named in text


def test_the_bill_of_materials_is_whole() -> None:
    """Every pin is a component with a licence and its hashes; every edge ends at a component; no date is in it."""
    bill = json.loads(json.dumps(sbom.sbom()))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    known = {each["bom-ref"]: each for each in bill["components"]}
    assert {each["name"] for each in known.values()} == {pin.name for pin in pins.run_pins()}
    assert all(each["hashes"] and each["licenses"][0]["expression"] for each in known.values())
    edges = {each["ref"]: set(each["dependsOn"]) for each in bill["dependencies"]}
    assert set(edges) == {"wakeful", *known}
    assert set().union(*edges.values()) == set(known)
    assert sbom.sbom() == sbom.sbom()
