"""Opens the sockets that the daemon listens on, and closes them if the start fails.

The Unix socket is opened first: it also prevents a second daemon. A busy TCP port is an error only if you
asked for that port; otherwise the daemon runs with the Unix socket alone.
"""

from pathlib import Path

from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.config.state_dir import make_state_dir
from wakeful.core.errors import WakefulError
from wakeful.http.auth import url_of
from wakeful.http.server import PortBusy, bind_tcp, bind_unix, close_listener


class Listeners:
    """The open sockets, and notes about them."""

    def __init__(self, config: Config, paths: StatePaths, *, port_asked_for: bool = False) -> None:
        make_state_dir(paths)
        self.listeners = [bind_unix(Path(paths.socket))]
        self.listening = [paths.socket]
        self.notes: list[str] = []
        self.port: int | None = None
        if config.daemon.tcp:
            try:
                self._open_tcp(config, port_asked_for=port_asked_for)
            except WakefulError:
                self.close()
                raise

    def close(self) -> None:
        """Close sockets that never served."""
        for listener in self.listeners:
            close_listener(listener)

    def _open_tcp(self, config: Config, *, port_asked_for: bool) -> None:
        listener = bind_tcp(config.daemon.host, config.daemon.port)
        if isinstance(listener, PortBusy):
            if port_asked_for:
                raise listener
            self.notes.append(f"{listener} Only the socket is open; `--port 0` picks a free port.")
            return
        self.listeners.append(listener)
        self.port = listener.getsockname()[1]
        self.listening.append(url_of(config.daemon.host, self.port))
