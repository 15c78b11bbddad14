"""The systemd user unit that keeps Wakeful running: its text. Pure; nothing here asks or tells systemd.

What a unit forbids is forbidden to everything that is started from it, and agents are. So the usual unit forbids
nothing, and one that only watches has no right it does not need (docs/decisions/0013-autostart.md).
"""

from collections.abc import Mapping, Sequence
from typing import Final

NAME: Final = "wakeful.service"
# By this a unit is known as ours: any other of that name is somebody's own.
MARK: Final = "# Written by `wakeful autostart install`; `wakeful autostart remove` removes it."
# Where clients, tools and we ourselves look for things. No other variable of a terminal belongs into a file.
VARIABLES: Final = (
    "PATH",
    "WAKEFUL_HOME",
    "WAKEFUL_CONFIG",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "TMUX_TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
)
# Three times what a stalled loop needs to be noticed and written down.
WATCHDOG_SECONDS: Final = 60
_UNIT: Final = """\
{mark}
[Unit]
Description=Wakeful: the truth about every agent session
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
{environment}
Restart=on-failure
RestartSec=2
TimeoutStartSec=120
TimeoutStopSec=30
WatchdogSec={watchdog}
# Its stacks are written by then; a core file would hold keys.
WatchdogSignal=SIGKILL
# Agents and tmux servers are started from here, get scopes of their own, and go on when this is stopped or killed:
KillMode=process
# one of them that runs out of memory does not take the rest along,
OOMPolicy=continue
# and their number is not ours to limit.
TasksMax=infinity
{hardening}
[Install]
WantedBy=default.target
"""
# No namespace of files or users: in a user namespace of its own it could not look into /proc of agents any more, and
# ~/.claude, ~/.codex and the sockets of tmux are read where they are.
_HARDENING: Final = """\
# Nothing is started from here, so nothing else is bound by this.
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077
"""


def unit_text(argv: Sequence[str], environ: Mapping[str, str], *, watch_only: bool) -> str:
    """The unit for this command, with those of VARIABLES that are set."""
    chosen = {name: environ[name] for name in VARIABLES if environ.get(name)}
    if watch_only:
        chosen["WAKEFUL_DAEMON__MODE"] = "observe"
    return _UNIT.format(
        mark=MARK,
        command=" ".join(_quoted(word, in_command=True) for word in argv),
        environment="\n".join(f"Environment={_quoted(f'{name}={value}')}" for name, value in chosen.items()),
        watchdog=WATCHDOG_SECONDS,
        hardening=_HARDENING if watch_only else "",
    )


def _quoted(word: str, *, in_command: bool = False) -> str:
    """A word as systemd.syntax(7) wants it: quoted, specifiers and, in a command, variables taken literally."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{plain.replace("$", "$$") if in_command else plain}"'
