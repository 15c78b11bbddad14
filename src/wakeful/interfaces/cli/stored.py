"""Answers from the store alone, where no daemon runs: what it last knew, read once. Nothing is written or watched."""

import os
from collections.abc import Callable
from typing import TypeVar

import msgspec

from wakeful.domain.calm import Mute, Pause, PauseRecord, mute_list, pause_record
from wakeful.domain.incident import Incident
from wakeful.domain.incident_record import incident_list
from wakeful.home import store_path, stored_notes
from wakeful.interfaces.cli.client import Answer, Client, DaemonNotRunning
from wakeful.interfaces.cli.output import note, wall_now
from wakeful.interfaces.cli.settings import load_settings
from wakeful.places import Places
from wakeful.services.calm import MUTE, PAUSE
from wakeful.services.incidents import KIND

S = TypeVar("S", bound=msgspec.Struct)


def asked(target: str, otherwise: Callable[[], msgspec.Struct]) -> Answer:
    """The daemon's answer; without one, what the store says. Raises the store's errors."""
    places = Places.of(os.environ)
    try:
        return Client(places).get(target)
    except DaemonNotRunning:
        answer = Answer(msgspec.json.encode(otherwise()), 0, os.getpid())
        note("no daemon: as the store has it, nothing is watched")
        return answer


def incidents(everything: bool) -> msgspec.Struct:
    found = [each for each in _kept(KIND, Incident) if everything or each.is_open]
    return incident_list(found, _paused())


def mutes() -> msgspec.Struct:
    return mute_list(_kept(MUTE, Mute), _paused(), wall_now())


def _paused() -> PauseRecord | None:
    return pause_record(next(iter(_kept(PAUSE, Pause)), None))


def _kept(kind: str, shape: type[S]) -> list[S]:
    path = store_path(load_settings(None).config, Places.of(os.environ))
    return [msgspec.json.decode(each.body, type=shape) for each in stored_notes(path, kind)]
