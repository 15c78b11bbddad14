"""Row "HTTP": the list of ten thousand sessions, against FastAPI and pydantic serving the same records.

Both are uvicorn processes on a Unix socket, asked by the same client; counted is the server's CPU per request.
"""

from contextlib import closing
from statistics import median
from typing import Final

from bench.crowd import Stage
from bench.figures import Figure, milliseconds
from bench.peers import fastapi_server
from bench.room import Connection, cpu_seconds
from bench.scale import SESSIONS

ROW: Final = "HTTP"
LIST: Final = "/api/sessions?include_health=true"
# In turns; of 60 requests a quarter cost half as much again as the median, so five of them say nothing.
ROUNDS: Final = 41


def measure(stage: Stage) -> list[Figure]:
    daemon = stage.crowd.daemon
    daemon.rest()
    with closing(daemon.connect()) as connection:
        body = connection.fetch(LIST)
    assert body.count(b'"schema":1') == SESSIONS, "every session is in the list"
    with fastapi_server(stage.crowd.room.path, body) as (pid, socket), closing(Connection(socket)) as peer:
        assert peer.fetch(LIST) == body, "both serve the same bytes"
        # Only now: the peer may take longer to start than an idle connection is kept.
        with closing(daemon.connect()) as connection:
            pairs = [(_cost_seconds(daemon.pid, connection), _cost_seconds(pid, peer)) for _ in range(ROUNDS)]
    ours, theirs = (median(each) for each in zip(*pairs, strict=True))
    measured = (
        f"list of {SESSIONS:,} sessions ({len(body) / 1e6:.0f} MB): {milliseconds(ours)} CPU per request, "
        f"FastAPI + pydantic {milliseconds(theirs)}"
    )
    return [Figure(ROW, measured, theirs / ours, 4.0, at_least=True)]


def _cost_seconds(pid: int, connection: Connection) -> float:
    began = cpu_seconds(pid)
    connection.fetch(LIST)
    return cpu_seconds(pid) - began
