"""Claims about locks by name: one of a host has it, whoever it is, and it is free as soon as that one has gone."""

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
    """Whoever comes second is told who the first is, at once; a killed one holds nothing."""
    name = secrets.token_hex()
    with subprocess.Popen([sys.executable, "-c", HOLDS, name], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert asyncio.run(refusal(name)) == f"It runs already: pid {holder.pid}. End it first."
        holder.kill()
    asyncio.run(held(name))


async def held(name: str) -> None:
    with exclusive_host_lock(name, "It"):
        pass


def test_a_holder_is_known_however_often_somebody_asks() -> None:
    """Nothing is left of those who were refused; beside it another name is free."""
    name = secrets.token_hex()

    async def scene() -> None:
        with exclusive_host_lock(name, "It"), exclusive_host_lock(secrets.token_hex(), "Another"):
            for _ in range(300):
                assert f"pid {os.getpid()}." in await refusal(name)
                # Its holder has other things to do in between.
                await asyncio.sleep(0)

    asyncio.run(scene())
