"""Answers from the store alone, where no daemon runs: what it last knew, read once. Nothing is written or watched."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from wakeful.domain.calm import Mute, PauseRecord, mute_list
from wakeful.domain.decoding import json_decoder
from wakeful.domain.errors import WakefulError
from wakeful.domain.incident import Incident
from wakeful.domain.incident_record import incident_list
from wakeful.home import store_path, stored_notes, stored_pause
from wakeful.interfaces.cli.client import Answer, Client, DaemonNotRunning
from wakeful.interfaces.cli.output import note, wall_now
from wakeful.interfaces.cli.settings import load_settings
from wakeful.places import Places
from wakeful.services.calm import MUTE
from wakeful.services.incidents import KIND
from wakeful.services.readable import values

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
    return incident_list(found, paused())


def mutes() -> msgspec.Struct:
    return mute_list(_kept(MUTE, Mute), paused(), wall_now())


def paused() -> PauseRecord | None:
    """Who paused; a store that cannot be read is said, and hides nothing of what it is not needed for."""
    try:
        return stored_pause(_store())
    except WakefulError as error:
        note(f"whether Wakeful is paused is not known: {error}")
        return None


def _kept(kind: str, shape: type[S]) -> list[S]:
    return values(stored_notes(_store(), kind), json_decoder(shape))


def _store() -> Path:
    return store_path(load_settings(None).config, Places.of(os.environ))
