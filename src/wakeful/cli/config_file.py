"""Changes keys in the user's configuration file: shows the difference, checks it, writes it whole."""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from wakeful.cli.difference import file_difference
from wakeful.cli.output import print_line
from wakeful.cli.settings import own_config_path
from wakeful.config.edit import with_values, without_keys
from wakeful.config.load import Document, combine
from wakeful.config.schema import KEYS
from wakeful.hooks.install import read_settings, remove_settings, replace_settings


class ConfigPlan(Struct, frozen=True):
    """The planned change of the file. `before` is None if there is no file."""

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def is_done(self) -> bool:
        return self.before == self.after

    def lines(self) -> Iterator[str]:
        """The difference; a secret's value is not shown."""
        secrets = {name.rpartition(".")[2] for name in KEYS if KEYS[name].is_secret}
        before = None if self.before is None else self.before.decode()
        after = None if self.after is None else self.after.decode()
        for line in file_difference(self.path, before, after, context=1):
            key, assigned, value = line.partition(" = ")
            is_secret = assigned and key.lstrip("+- #") in secrets and value not in ('""', "[]")
            yield f"{key} = (not shown)" if is_secret else line


def plan_change(config_file: str | None, values: Mapping[str, Any]) -> ConfigPlan:
    """The file with these values. Raises ConfigError, NotEditable, NotOursToWrite."""
    path = Path(own_config_path(config_file))
    before = read_settings(path) if path.parent.is_dir() else None
    after = with_values(Document(str(path), before or b""), values, os.environ).encode()
    combine([Document(str(path), after)], os.environ)
    return ConfigPlan(path, before, after)


def plan_removal(config_file: str, names: Collection[str], *, made: bool) -> ConfigPlan:
    """The file without these keys; no file if Wakeful `made` it and nothing but headers is left. Raises as above."""
    path = Path(config_file)
    before = read_settings(path) if path.parent.is_dir() else None
    if before is None:
        return ConfigPlan(path, None, None)
    after = without_keys(Document(str(path), before), names, os.environ)
    is_empty = made and not any(line.strip() and not line.startswith("[") for line in after.splitlines())
    return ConfigPlan(path, before, None if is_empty else after.encode())


def apply_change(plan: ConfigPlan) -> None:
    """Write the file, for its owner alone. Raises SettingsChanged."""
    plan.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if plan.after is not None:
        replace_settings(plan.path, plan.before, plan.after)
    elif plan.before is not None:
        remove_settings(plan.path, plan.before)


def change_config(config_file: str | None, values: Mapping[str, Any], *, dry_run: bool) -> int:
    """Set these keys and say so."""
    plan = plan_change(config_file, values)
    if plan.is_done:
        print_line(f"nothing to do: {plan.path} is up to date")
        return 0
    if dry_run:
        for line in plan.lines():
            print_line(line)
        return 0
    apply_change(plan)
    print_line(f"{plan.path}: set {', '.join(values)}")
    return 0
