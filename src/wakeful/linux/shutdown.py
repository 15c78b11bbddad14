"""Waits for the order to shut down: a signal, or the end of standard input when supervised."""

import asyncio
import signal
import sys


def shutdown_event(*, supervised: bool = False) -> asyncio.Event:
    """An event that is set by a signal, and if `supervised` when standard input ends; inside a running loop."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    if supervised:
        loop.add_reader(sys.stdin.fileno(), ended.set)
    return ended
