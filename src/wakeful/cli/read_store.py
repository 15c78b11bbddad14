"""Answers from the store alone, if no daemon runs: read once; nothing is written or watched."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from wakeful.alerts.mute_pause import MUTE
from wakeful.alerts.mute_pause_model import Mute, PauseRecord, mute_list
from wakeful.cli.output import note, wall_now
from wakeful.cli.settings import load_settings
from wakeful.client.client import Answer, Client, DaemonNotRunning
from wakeful.config.paths import Places
from wakeful.config.state_dir import store_path, stored_notes, stored_pause
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WakefulError
from wakeful.incidents.model import Incident
from wakeful.incidents.service import KIND
from wakeful.storage.readable import values
from wakeful.views.incidents import incident_list

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
