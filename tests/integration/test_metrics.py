"""A real daemon as Prometheus sees it: every figure of the table, ready, and strangers learn nothing."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from support import claude_transcripts
from support.daemon_process import RunningDaemon
from support.real_clients import wait_for
from wakeful.metrics.model import FAMILIES

CONVERSATION = "0c9f6f0e-6f5d-4f0a-9d55-1f0a5b1a2c3d"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    running = RunningDaemon(tmp_path_factory.mktemp("m") / "home")
    running.watch(CLAUDE_CONFIG_DIR=running.home / ".claude")
    claude_transcripts.write(
        running.home / ".claude",
        CONVERSATION,
        claude_transcripts.prompt(time.time() - 5, CONVERSATION),
        claude_transcripts.answer(time.time() - 4, CONVERSATION),
    )
    running.up()
    yield running
    running.end()


@pytest.fixture
def owner(daemon: RunningDaemon) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(daemon.socket))
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        yield client


def test_every_figure_of_the_table_is_there(owner: httpx.Client) -> None:
    """The daemon counts everything the table names, in OpenMetrics; channels only where there are some."""
    answer = owner.get("/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    found = text_string_to_metric_families(answer.text)  # type: ignore[no-untyped-call]
    families = {each.name: each for each in found}
    channels = {"wakeful_alert_deliveries", "wakeful_alerts_pending"}
    assert {family.name for family in FAMILIES} <= families.keys()
    for family in FAMILIES:
        assert families[family.name].type == family.kind, family.name
        assert bool(families[family.name].samples) is (family.name not in channels), family.name
    shown = {
        (sample.name, *sample.labels.values()): sample.value
        for each in families.values()
        for sample in each.samples
    }
    assert sum(value for key, value in shown.items() if key[0] == "wakeful_sessions") == 1
    assert shown["wakeful_ready",] == 1
    assert shown["wakeful_mode", "mine"] == 1
    assert shown["wakeful_cycle_seconds_count", "judge"] >= 0
    assert "process_resident_memory_bytes" in families
    assert CONVERSATION not in answer.text


def test_the_loop_is_asked_how_late_it_is(owner: httpx.Client) -> None:
    """Its lag is sampled while nothing else happens."""

    def sampled() -> bool:
        lines = owner.get("/metrics").text.splitlines()
        return any(
            line.startswith("wakeful_loop_lag_seconds_count ") and line[-3:] != " 0.0" for line in lines
        )

    assert wait_for(lambda: sampled() or None, "a sample of the loop's lag")


def test_it_is_ready(owner: httpx.Client) -> None:
    """A daemon that looked, listens and writes says so in one word."""
    assert (owner.get("/readyz").status_code, owner.get("/readyz").text) == (200, "ready")


def test_prometheus_reads_the_token_from_its_file(daemon: RunningDaemon) -> None:
    """Over TCP a scrape without the token is refused, and one with the file's content is answered."""
    url = next(each for each in daemon.run("status", "--json").json["daemon"]["listening"] if "http" in each)
    token = (Path(daemon.environ["WAKEFUL_HOME"]) / "token").read_text().strip()
    for path in ("/metrics", "/readyz"):
        assert httpx.get(url + path).status_code == 401
        assert httpx.get(url + path, headers={"authorization": f"Bearer {token}"}).status_code == 200
