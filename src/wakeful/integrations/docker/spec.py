"""Translates an agent's specification into the engine's description of a container.

It asks no engine and changes nothing. The description never contains privileges, capabilities, devices,
namespaces of the host other than a declared network, the engine's own socket, or values of the environment:
those belong to a session, not a container.
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from wakeful.agents.model import AgentSpec
from wakeful.core.errors import OperatorError

NAME_PREFIX: Final = "agent-"
AGENT_LABEL: Final = "wakeful.agent"
EPOCH_LABEL: Final = "wakeful.epoch"
# A process that can reach one of these controls the host.
ENGINE_SOCKETS: Final = (
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
)
_MOUNT: Final = re.compile(r"(?P<source>[^:]+):(?P<target>[^:]+)(?::(?P<mode>ro|rw))?\Z")
_UNIX: Final = "unix://"


class AgentRefused(OperatorError):
    """Agent {name} cannot be started as declared: {reason}."""

    code = "agent-refused"


def container_name(agent: str) -> str:
    return f"{NAME_PREFIX}{agent}"


def agent_of(name: str) -> str:
    """The agent in a container's name; empty if none."""
    return name.removeprefix(NAME_PREFIX) if name.startswith(NAME_PREFIX) else ""


def container_body(spec: AgentSpec, epoch: int, address: str) -> dict[str, Any]:
    """The engine's description of the container to create. Raises AgentRefused."""
    if not spec.image:
        raise AgentRefused(name=spec.name, reason="it names no image")
    sockets = (*ENGINE_SOCKETS, *([address.removeprefix(_UNIX)] if address.startswith(_UNIX) else ()))
    return {
        "Image": spec.image,
        # The image's entry point would run beside the agent, or instead of the sleep.
        "Entrypoint": ["sleep"],
        "Cmd": ["infinity"],
        "User": spec.user,
        "WorkingDir": spec.workdir,
        "Labels": {AGENT_LABEL: spec.name, EPOCH_LABEL: str(epoch)},
        "HostConfig": {
            # A sleep reaps no children: without this every tool that outlives its agent stays as a zombie.
            "Init": True,
            "NetworkMode": spec.network or "none",
            "Mounts": [_mount(spec.name, text, sockets) for text in spec.mounts],
        },
    }


def ready_pattern(spec: AgentSpec) -> re.Pattern[str] | None:
    """The pattern that its screen shows once it is ready. Raises AgentRefused."""
    if not spec.ready:
        return None
    try:
        return re.compile(spec.ready)
    except re.error as problem:
        raise AgentRefused(name=spec.name, reason=f"`ready` is not a valid pattern: {problem}") from problem


def epoch_of(labels: Mapping[str, str]) -> int:
    """The epoch of the claim under which a container was made; 0 if none."""
    text = labels.get(EPOCH_LABEL, "")
    return int(text) if text.isdecimal() and len(text) < 19 else 0


def _mount(agent: str, text: str, sockets: Sequence[str]) -> Mapping[str, Any]:
    parts = _MOUNT.match(text)
    if parts is None:
        raise AgentRefused(
            name=agent, reason=f"{text!r} is not a mount: give host:container or host:container:ro"
        )
    source, target = Path(parts["source"]), parts["target"]
    if not source.is_absolute() or not target.startswith("/"):
        raise AgentRefused(name=agent, reason=f"both sides of the mount {text!r} must be absolute paths")
    # The engine follows links, so their targets are checked.
    source = Path(os.path.realpath(source))
    if _is_socket(source) or any(Path(os.path.realpath(each)).is_relative_to(source) for each in sockets):
        raise AgentRefused(
            name=agent, reason=f"the mount {text!r} would give it a control socket of this host"
        )
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": parts["mode"] == "ro"}


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        # Missing or unreadable: the engine reports that itself.
        return False
