"""What a check of `wakeful doctor` looks at and what it may say: ok, warn or fail, and what to do."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from wakeful.config.load import LoadedConfig
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config, ConfigError


class Grade(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class CheckResult(Struct, frozen=True):
    """The finding of a check, and what to do about it."""

    grade: Grade
    said: str
    todo: str = ""


class CheckContext(Struct, frozen=True):
    """What checks look at: paths, environment, and the configuration or its error."""

    places: StatePaths
    environ: Mapping[str, str]
    loaded: LoadedConfig | ConfigError

    @property
    def config(self) -> Config:
        """The defaults where the configuration is wrong."""
        return Config() if isinstance(self.loaded, ConfigError) else self.loaded.config


def ok(said: str) -> CheckResult:
    return CheckResult(Grade.OK, said)


def warn(said: str, todo: str = "") -> CheckResult:
    return CheckResult(Grade.WARN, said, todo)


def fail(said: str, todo: str) -> CheckResult:
    return CheckResult(Grade.FAIL, said, todo)
