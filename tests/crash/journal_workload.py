"""A program with twelve steps of all kinds, as a process of its own that can be killed at any point of it.

    python journal_workload.py ROOT PORT

It writes `opened` once its journal is open and `finished` at its end. Effects elsewhere are POSTs to a server that
counts them; what it leaves here are files below its root.
"""

import asyncio
import os
import sys
from http.client import HTTPConnection
from pathlib import Path

from wakeful.journal.api import Journal, JournalHeld

WORKLOAD = Path(__file__)
STEPS = (
    "fetch",
    "render",
    "build",
    "reserve",
    "publish",
    "notify",
    "migrate",
    "deploy",
    "serve",
    "index",
    "watch",
    "finish",
)
# Each is to happen once, however often its program is killed.
EFFECTS = ("reserve", "publish", "notify", "migrate", "deploy")
# Those whose doubts only a person can end.
HELD = frozenset({"notify", "migrate"})
ARTEFACT = b"rendered\n" * 1000
_CLIENT = """
import sys; from http.client import HTTPConnection
c = HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=10)
c.request(sys.argv[2], "/" + sys.argv[3], headers={"Idempotency-Key": sys.argv[4]}); r = c.getresponse(); r.read()
sys.exit(0 if r.status == 200 else 10)
"""


def client(port: int, method: str, name: str, key: str = "") -> list[str]:
    """A program that asks the server once."""
    return [sys.executable, "-S", "-c", _CLIENT, str(port), method, name, key]


def asked(port: int, method: str, name: str, key: str = "") -> int:
    if method == "POST":
        # From here on it may have happened.
        os.write(2, f"effect {name}\n".encode())
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, f"/{name}", headers={"Idempotency-Key": key})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def work(root: Path, port: int) -> None:
    """The program. Raises JournalHeld while a person has to decide."""
    with Journal(root, kind="batch", steps=STEPS) as journal:
        os.write(2, b"opened\n")
        for name in STEPS:
            if not journal.is_completed(name):
                _STEPS[name](journal, port)
        assert journal.next_step() is None
        os.write(2, b"finished\n")


def fetch(journal: Journal, _port: int) -> None:
    with journal.step("fetch", effects="none"):
        sum(range(10))


def render(journal: Journal, _port: int) -> None:
    with journal.step("render", effects="local", temp=["page.tmp"]) as step:
        # Appended to: what an earlier attempt left would show.
        with (journal.root / "page.tmp").open("ab") as draft:
            draft.write(ARTEFACT[:4500])
            draft.flush()
            draft.write(ARTEFACT[4500:])
        (journal.root / "page.tmp").rename(journal.root / "page")
        step.artefact("page")


def build(journal: Journal, _port: int) -> None:
    journal.run(
        ["sh", "-c", "echo a >>b.tmp; echo b >>b.tmp; mv b.tmp b"],
        step="build",
        effects="local",
        temp=["b.tmp"],
    )


def reserve(journal: Journal, port: int) -> None:
    with journal.step("reserve", effects="remote", key=f"reserve-{journal.trace_id}") as step:
        assert asked(port, "POST", "reserve", step.key or "") == 200


def publish(journal: Journal, port: int) -> None:
    with journal.step("publish", effects="remote", query=client(port, "GET", "publish")):
        assert asked(port, "POST", "publish") == 200


def notify(journal: Journal, port: int) -> None:
    with journal.step("notify", effects="remote"):
        assert asked(port, "POST", "notify") == 200


def migrate(journal: Journal, port: int) -> None:
    # Says nothing about its effects: it counts as remote.
    with journal.step("migrate", undo=client(port, "DELETE", "migrate")):
        assert asked(port, "POST", "migrate") == 200


def deploy(journal: Journal, port: int) -> None:
    key = f"deploy-{journal.trace_id}"
    journal.run(client(port, "POST", "deploy", key), step="deploy", effects="remote", key=key)


def serve(journal: Journal, _port: int) -> None:
    journal.run(["sleep", "0.05"], step="serve", effects="local", detachable=True, orphanable=True)


def index(journal: Journal, _port: int) -> None:
    async def run() -> None:
        async with journal.step("index", effects="local", temp=["index.tmp"]):
            (journal.root / "index.tmp").write_text("index")
            (journal.root / "index.tmp").rename(journal.root / "index")

    asyncio.run(run())


def watch(journal: Journal, _port: int) -> None:
    journal.run(["sleep", "0.1"], step="watch", effects="local", on_alive="rerun")


def finish(journal: Journal, _port: int) -> None:
    journal.run(["sleep", "0.02"], step="finish", effects="none", on_alive="wait")


_STEPS = {
    each.__name__: each
    for each in (fetch, render, build, reserve, publish, notify, migrate, deploy, serve, index, watch, finish)
}


if __name__ == "__main__":
    try:
        work(Path(sys.argv[1]), int(sys.argv[2]))
    except JournalHeld as held:
        sys.stderr.write(f"{held}\n")
        sys.exit(1)
