"""The one error of acting through tmux. Looking has none: a server that cannot be asked is `unknown`."""

from wakeful.core.errors import WorldError


class TmuxFailed(WorldError):
    """tmux did not do as it was told: {reason}."""

    code = "tmux-failed"
    retryable = True
