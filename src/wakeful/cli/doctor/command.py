"""Command `wakeful doctor`: runs the checks and shows them."""

import os
import sys
from typing import Final

import click
import msgspec

from wakeful.cli.doctor.checks import CHECKS, run_checks
from wakeful.cli.doctor.grading import CheckContext, Grade
from wakeful.cli.options import json_option
from wakeful.cli.output import print_json, print_line, print_note
from wakeful.cli.settings import load_settings
from wakeful.config.load import LoadedConfig
from wakeful.config.paths import StatePaths
from wakeful.config.schema import ConfigError

_COLOURS: Final = {Grade.OK: "green", Grade.WARN: "yellow", Grade.FAIL: "red"}


@click.command(epilog="Example: wakeful doctor --bundle wakeful-trouble.tar.gz")
@click.option("--bundle", metavar="FILE.tar.gz", help="Also write a redacted support bundle.")
@json_option
def doctor(*, bundle: str | None, as_json: bool) -> int:
    """Check this machine. Exit 1 if something is wrong. Each line shows what to do."""
    context = CheckContext(StatePaths.from_environ(os.environ), os.environ, _load_config())
    found = run_checks(context)
    well = all(finding.grade is not Grade.FAIL for finding in found.values())
    checks = [{"name": name, **msgspec.to_builtins(finding)} for name, finding in found.items()]
    report = msgspec.json.encode({"ok": well, "checks": checks})
    if bundle is not None:
        from wakeful.cli.doctor.bundle import write_bundle  # noqa: PLC0415 - only with --bundle

        for line in write_bundle(bundle, context, report):
            print_note(line)
    if as_json:
        print_json(report)
    else:
        for name, finding in found.items():
            grade = finding.grade.ljust(4)
            if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
                click.secho(grade, fg=_COLOURS[finding.grade], nl=False)
            else:
                click.echo(grade, nl=False)
            print_line(f"  {name.ljust(max(map(len, CHECKS)))}  {finding.said}")
            if finding.todo:
                print_line(f"{' ' * (8 + max(map(len, CHECKS)))}→ {finding.todo}")
    return 0 if well else 1


def _load_config() -> LoadedConfig | ConfigError:
    try:
        return load_settings(None)
    except ConfigError as problem:
        return problem
