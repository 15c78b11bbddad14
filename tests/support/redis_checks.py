"""Cycles of the queue watchdog, and what an application does with its queue meanwhile."""

import asyncio
from typing import Any

from support.queue_app import QueueAppFixture
from wakeful.watchdog.loop import Cycle


def check(bridge: QueueAppFixture, times: int = 1, **settings: Any) -> Cycle:
    """Some cycles of one watchdog."""

    async def run() -> Cycle:
        watch = bridge.watch(**settings)
        try:
            for _ in range(times - 1):
                await watch.check()
            return await watch.check()
        finally:
            await watch.close()

    return asyncio.run(run())


def again(bridge: QueueAppFixture) -> None:
    """The bridge takes the revived job up, as it does: delete and recreate; then it hangs again."""
    client = bridge.server.client()
    for key in client.keys("*"):
        if b"RedisJob" in key or b"AgentSession" in key:
            client.delete(key)
    client.close()
    bridge.active()


def taken(bridge: QueueAppFixture, status: str, **fields: Any) -> None:
    """A worker saves the revived job with another status, as popoto does: delete, and create it under a name of its own."""
    (job,) = bridge.server.query("RedisJob", created_at__gte=bridge.now - 1, project_key="popoto")
    bridge.server.delete("RedisJob", status=job["status"])
    kept = {name: value for name, value in job.items() if value is not None and name != "job_id"}
    bridge.server.job(**{**kept, "status": status, **fields})


def first_seen(bridge: QueueAppFixture, before_seconds: float) -> int:
    """Every running job without an active record was first seen so long ago; how many those are."""
    client = bridge.server.client()
    names = client.hkeys("wakeful:running")
    for name in names:
        client.hset("wakeful:running", name, repr(bridge.now - before_seconds))
    client.close()
    return len(names)
