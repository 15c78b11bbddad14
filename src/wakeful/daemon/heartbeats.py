"""HEARTBEAT.md joined with the configuration: what bounds a file, and where files are read from.

Nothing here decides. Commands that read one file come here, too.
"""

from wakeful.config.heartbeat import Heartbeat
from wakeful.heartbeat.domain_heartbeat import Bounds
from wakeful.heartbeat.file import (
    FOLDERS,
    NAME,
    AgentFiles,
    load,
    not_trusted,
    place_at,
    place_of,
    read_place,
    understood,
)

__all__ = [
    "FOLDERS",
    "NAME",
    "AgentFiles",
    "bounds_of",
    "load",
    "not_trusted",
    "place_at",
    "place_of",
    "read_place",
    "understood",
]


def bounds_of(config: Heartbeat) -> Bounds:
    """What the configuration allows a file to ask for."""
    return Bounds(config.min_interval, config.default_interval, config.max_body_bytes)
