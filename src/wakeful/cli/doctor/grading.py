"""What a check of `wakeful doctor` looks at and what it may say: ok, warn or fail, and what to do."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from wakeful.config.load import Loaded
from wakeful.config.paths import Places
from wakeful.config.schema import ConfigError


class Grade(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Struct, frozen=True):
    """What a check saw, and what to do about it."""

    grade: Grade
    said: str
    todo: str = ""


class Scene(Struct, frozen=True):
    """What checks look at: this user's places, surroundings, and configuration or what is wrong with it."""

    places: Places
    environ: Mapping[str, str]
    loaded: Loaded | ConfigError


def ok(said: str) -> Finding:
    return Finding(Grade.OK, said)


def warn(said: str, todo: str = "") -> Finding:
    return Finding(Grade.WARN, said, todo)


def fail(said: str, todo: str) -> Finding:
    return Finding(Grade.FAIL, said, todo)
