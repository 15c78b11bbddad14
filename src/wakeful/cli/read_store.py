"""Answers from the store alone, if no daemon runs: read once; nothing is written or watched."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from wakeful.alerts.mute_pause import MUTE_KIND
from wakeful.alerts.mute_pause_model import Mute, PauseRecord, mute_list
from wakeful.cli.output import print_note, wall_now
from wakeful.cli.settings import load_settings
from wakeful.client.client import DaemonAnswer, local_answer, own_daemon
from wakeful.client.errors import DaemonNotRunning
from wakeful.config.paths import StatePaths
from wakeful.config.state_dir import read_stored_notes, read_stored_pause, store_path
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WakefulError
from wakeful.incidents.model import Incident
from wakeful.incidents.service import KIND
from wakeful.storage.note_decoding import decode_note_values
from wakeful.views.incidents import incident_list

S = TypeVar("S", bound=msgspec.Struct)


def daemon_or_store(target: str, otherwise: Callable[[], msgspec.Struct]) -> DaemonAnswer:
    """The daemon's answer; without one, what the store says. Raises the store's errors."""
    try:
        return own_daemon().get(target)
    except DaemonNotRunning:
        answer = local_answer(otherwise())
        print_note("no daemon: shown from the store, nothing is watched")
        return answer


def stored_incidents(everything: bool) -> msgspec.Struct:
    found = [each for each in _stored_values(KIND, Incident) if everything or each.is_open]
    return incident_list(found, pause_in_store())


def stored_mutes() -> msgspec.Struct:
    return mute_list(_stored_values(MUTE_KIND, Mute), pause_in_store(), wall_now())


def pause_in_store() -> PauseRecord | None:
    """Who paused; None with a remark if the store cannot be read: the rest of the answer does not need it."""
    try:
        return read_stored_pause(_store_path())
    except WakefulError as error:
        print_note(f"unknown whether Wakeful is paused: {error}")
        return None


def _stored_values(kind: str, shape: type[S]) -> list[S]:
    return decode_note_values(read_stored_notes(_store_path(), kind), json_decoder(shape))


def _store_path() -> Path:
    return store_path(load_settings(None).config, StatePaths.from_environ(os.environ))
