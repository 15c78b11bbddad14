"""Command `wakeful doctor`: runs the checks and shows them."""

import os
import sys
from typing import Final

import click
import msgspec

from wakeful.cli.doctor.checks import CHECKS, examine
from wakeful.cli.doctor.grading import Finding, Grade, Scene
from wakeful.cli.options import answers_json
from wakeful.cli.output import note, say, show_json
from wakeful.cli.settings import load_settings
from wakeful.config.load import Loaded
from wakeful.config.paths import Places
from wakeful.config.schema import ConfigError

_COLOURS: Final = {Grade.OK: "green", Grade.WARN: "yellow", Grade.FAIL: "red"}


@click.command(epilog="Example: wakeful doctor --bundle wakeful-trouble.tar.gz")
@click.option(
    "--bundle", metavar="FILE.tar.gz", help="Also pack what somebody needs who helps you, redacted."
)
@answers_json
def doctor(*, bundle: str | None, as_json: bool) -> int:
    """Check this machine. Exit 1 if something is wrong; each line says what to do."""
    scene = Scene(Places.of(os.environ), os.environ, _loaded())
    found = examine(scene)
    well = all(finding.grade is not Grade.FAIL for finding in found.values())
    checks = [{"name": name, **msgspec.to_builtins(finding)} for name, finding in found.items()]
    report = msgspec.json.encode({"ok": well, "checks": checks})
    if bundle is not None:
        from wakeful.cli.doctor.bundle import write_bundle  # noqa: PLC0415 - most look and pack nothing

        for line in write_bundle(bundle, scene, report):
            note(line)
    if as_json:
        show_json(report)
    else:
        for name, finding in found.items():
            _show(name, finding)
    return 0 if well else 1


def _loaded() -> Loaded | ConfigError:
    try:
        return load_settings(None)
    except ConfigError as problem:
        return problem


def _show(name: str, finding: Finding) -> None:
    grade = finding.grade.ljust(4)
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        click.secho(grade, fg=_COLOURS[finding.grade], nl=False)
    else:
        click.echo(grade, nl=False)
    say(f"  {name.ljust(max(map(len, CHECKS)))}  {finding.said}")
    if finding.todo:
        say(f"{' ' * (8 + max(map(len, CHECKS)))}→ {finding.todo}")
