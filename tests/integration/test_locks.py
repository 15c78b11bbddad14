"""Claims about locks by name: one process of a host has it, and it is free as soon as that one ends."""

import asyncio
import os
import secrets
import subprocess
import sys

import pytest

from wakeful.linux.locks import LockTaken, exclusive_host_lock

HOLDS = """
import asyncio, sys
from wakeful.linux.locks import exclusive_host_lock

async def hold():
    with exclusive_host_lock(sys.argv[1], "It"):
        print("held", flush=True)
        await asyncio.Event().wait()

asyncio.run(hold())
"""


async def refusal(name: str) -> str:
    with pytest.raises(LockTaken) as caught, exclusive_host_lock(name, "It"):
        pass
    return str(caught.value)


def test_a_name_has_one_holder_and_is_given_back_by_its_death() -> None:
    """The second process learns at once which one is first; a killed one holds nothing."""
    name = secrets.token_hex()
    with subprocess.Popen([sys.executable, "-c", HOLDS, name], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert asyncio.run(refusal(name)) == f"It is already running: pid {holder.pid}. Stop it first."
        holder.kill()
    asyncio.run(held(name))


async def held(name: str) -> None:
    with exclusive_host_lock(name, "It"):
        pass


async def test_a_holder_is_known_however_often_somebody_asks() -> None:
    """Nothing is left of those who were refused; beside it another name is free."""
    name = secrets.token_hex()
    with exclusive_host_lock(name, "It"), exclusive_host_lock(secrets.token_hex(), "Another"):
        for _ in range(300):
            assert f"pid {os.getpid()}." in await refusal(name)
            # Its holder has other things to do in between.
            await asyncio.sleep(0)
