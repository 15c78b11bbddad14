"""Paths of the state folder, of everything in it, and of the configuration file.

It only computes paths and never creates, opens or checks them. The fast path of the command line imports this
module, so it must not import anything at its top; errors are imported when they are raised.
"""

# mypy takes this name as true. Importing `typing` for it would cost as much as all that the fast path does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# sun_path of unix(7) has 108 bytes, the last of them a NUL: a socket cannot have a longer path.
SOCKET_PATH_BYTES_MAX = 107


class StatePaths:
    __slots__ = ("state_dir",)

    def __init__(self, home: str) -> None:
        self.state_dir = home

    @classmethod
    def from_environ(cls, environ: "Mapping[str, str]") -> "StatePaths":
        """The state folder of this user: $WAKEFUL_HOME, else the XDG state folder. Raises HomeMissing."""
        home = environ.get("WAKEFUL_HOME")
        if home:
            return cls(_absolute("WAKEFUL_HOME", home))
        folder = _xdg(environ, "XDG_STATE_HOME", ".local/state")
        if folder is None:
            from wakeful.config.schema import HomeMissing  # noqa: PLC0415 - see the module's docstring

            raise HomeMissing
        return cls(f"{folder}/wakeful")

    @property
    def database(self) -> str:
        return f"{self.state_dir}/wakeful.db"

    @property
    def socket(self) -> str:
        return f"{self.state_dir}/wakeful.sock"

    @property
    def token(self) -> str:
        return f"{self.state_dir}/token"

    @property
    def spool(self) -> str:
        """Hooks write their reports here."""
        return f"{self.state_dir}/spool"

    @property
    def hook_marks(self) -> str:
        """When a hook of each client last reported, as the time of a file."""
        return f"{self.state_dir}/hooks"

    @property
    def events(self) -> str:
        """Event logs in Wakeful's own format that any program may append to."""
        return f"{self.state_dir}/events"

    @property
    def run(self) -> str:
        """Input and output of managed sessions without a terminal, a folder each."""
        return f"{self.state_dir}/run"

    @property
    def typed_notes(self) -> str:
        """Prompts that are being typed into containers, a file each, until the typing is confirmed."""
        return f"{self.state_dir}/typing"

    @property
    def probe(self) -> str:
        """Working directory for one-shot calls of the clients; a process that works here is no session."""
        return f"{self.state_dir}/probe"

    @property
    def tmux(self) -> str:
        """The socket of the tmux server for managed sessions."""
        return f"{self.state_dir}/tmux.sock"

    @property
    def agents(self) -> str:
        """The tmux runtime's records of agents that were started and not stopped, a file each."""
        return f"{self.state_dir}/agents"

    @property
    def logs(self) -> str:
        return f"{self.state_dir}/logs"

    @property
    def gateway_problem(self) -> str:
        """While the chat gateway receives nothing: the reason."""
        return f"{self.state_dir}/gateway.trouble"

    @property
    def cases(self) -> str:
        """Verdicts that a person marked as wrong, with their evidence."""
        return f"{self.state_dir}/cases"

    @property
    def trust_file(self) -> str:
        """The trusted files in working directories, by hash."""
        return f"{self.state_dir}/trusted"


def config_path(environ: "Mapping[str, str]", given: str | None = None) -> str | None:
    """The configuration file to read: `given`, else $WAKEFUL_CONFIG, else the XDG place; None without a HOME."""
    chosen = given or environ.get("WAKEFUL_CONFIG")
    if chosen:
        return chosen
    folder = _xdg(environ, "XDG_CONFIG_HOME", ".config")
    return None if folder is None else f"{folder}/wakeful/wakeful.toml"


def _xdg(environ: "Mapping[str, str]", variable: str, default: str) -> str | None:
    """An XDG folder. The specification says to ignore a relative one."""
    chosen = environ.get(variable, "")
    if chosen.startswith("/"):
        return chosen.rstrip("/")
    home = environ.get("HOME")
    return f"{_absolute('HOME', home)}/{default}" if home else None


def _absolute(variable: str, path: str) -> str:
    """Raises PathNotAbsolute: a relative path would be another folder in each working directory."""
    if path.startswith("/"):
        return path.rstrip("/")
    from wakeful.config.schema import PathNotAbsolute  # noqa: PLC0415 - see the module's docstring

    raise PathNotAbsolute(variable=variable, shown=path)
