"""Which agent hosts a session, by the marks of its processes."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.real_clients import wait_for
from wakeful.core.ids import SessionId
from wakeful.daemon.agents import HostedSessions
from wakeful.linux import proc
from wakeful.testing.virtual_clock import VirtualClock

SESSION = SessionId("claude-1")


@pytest.mark.parametrize(("server", "agent"), [("ours.sock", "bot"), ("another.sock", None)])
def test_a_session_of_another_daemons_agent_is_not_taken(
    tmp_path: Path, server: str, agent: str | None
) -> None:
    """Two daemons of one user may both declare `bot`: each hosts only what runs on its own tmux server."""
    marks = {"WAKEFUL_SESSION": "agent-bot", "TMUX": f"{tmp_path / server},1,0", "PATH": os.environ["PATH"]}
    with subprocess.Popen(("sleep", "1000"), env=marks) as client:
        try:
            wait_for(lambda: proc.environ_value(client.pid, "TMUX"), "its environment")
            holder = SimpleNamespace(process=proc.identify_or_none(client.pid))
            presence = SimpleNamespace(living_processes=(holder,))
            roster: Any = SimpleNamespace(sessions={SESSION: SimpleNamespace(presence=presence)})
            hosted = HostedSessions(roster, VirtualClock(), str(tmp_path / "ours.sock"))
            assert hosted.agent_by_mark(SESSION) == agent
        finally:
            client.kill()
