"""The daemon's own log: of some parts every move is a line on its standard error, with its time."""

import logging
import sys


def show_moves(log: logging.Logger) -> None:
    """From now on; asked twice it is once."""
    if log.handlers:
        return
    written = logging.StreamHandler(sys.stderr)
    written.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(written)
    log.setLevel(logging.INFO)
    log.propagate = False
