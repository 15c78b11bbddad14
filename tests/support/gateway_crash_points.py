"""A gateway that dies at a point of its own code, in virtual time: none of its processes runs, its
environment goes on."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support.gateway_virtual import Gateway, GatewayParts
from wakeful.core import fault_points as faults


class GatewayKilled(BaseException):
    """Nothing of this gateway runs any more."""


class CrashInjector(faults.FaultInjector):
    """Counts the points a gateway reaches, and kills it at one of them."""

    def __init__(self, point: str = "", nth: int = 0) -> None:
        super().__init__()
        self.reaches: Counter[str] = Counter()
        self.is_over = False
        self._end = (point, nth)

    def on_reach(self, point: str) -> None:
        self.reaches[point] += 1
        if (point, self.reaches[point]) == self._end:
            self.is_over = True
        self.check()

    def check(self) -> None:
        if self.is_over:
            raise GatewayKilled


class CrashingProxy:
    """Forwards calls until its gateway is killed; afterwards nothing arrives, whatever a task still tries."""

    def __init__(self, inner: Any, life: CrashInjector) -> None:
        self._inner = inner
        self._life = life

    def __getattr__(self, name: str) -> Any:
        self._life.check()
        return getattr(self._inner, name)


@asynccontextmanager
async def crashing_gateway(parts: GatewayParts, life: CrashInjector) -> AsyncIterator[Gateway]:
    """A gateway with this injector; its death is no failure of the test."""
    before = faults.install(life)
    store, parts.store = parts.store, CrashingProxy(parts.store, life)
    gateway = Gateway(
        parts,
        chat=CrashingProxy(parts.chat, life),
        sessions=CrashingProxy(parts.sessions, life),
        answers=CrashingProxy(parts.slate, life),
    )
    try:
        yield gateway
    except GatewayKilled:
        pass
    finally:
        life.is_over = True
        faults.install(before)
        await _buried(gateway)
        parts.store = store


async def _buried(gateway: Gateway) -> None:
    tasks = (*gateway._tasks, *gateway.turns._tasks, *gateway.intake._order_tasks.values())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    gateway.questions.close()
