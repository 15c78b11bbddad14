"""What /metrics shows: counted from what is there, named by the table, and never a session's own words."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from support.healing_fixture import HealingFixture, die_in_a_turn
from support.supervisor_fixture import BOOT, SupervisorFixture
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.daemon.metrics import readiness_problem
from wakeful.daemon.observer import PlainProcesses
from wakeful.healing.plan import HealingStep
from wakeful.http.metrics import Exposition
from wakeful.incidents.model import Cause, Origin
from wakeful.incidents.service import Incidents
from wakeful.integrations.tmux.pane_source import PaneSession, TmuxPaneSource
from wakeful.metrics.collect import session_metrics
from wakeful.metrics.model import FAMILIES, SECONDS_BOUNDS, Histogram, MetricKind
from wakeful.storage.base import ActionOutcome

MONITORING = Path(__file__).parents[3] / "docs" / "monitoring"
# What Prometheus adds to everything it scrapes.
ADDED = {"instance", "job"}
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def samples_of(house: SupervisorFixture) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels."""
    body, _ = Exposition(lambda: session_metrics(house.registry, house.clock.now())).text("")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())  # type: ignore[no-untyped-call]
        for sample in family.samples
    }


def test_sessions_are_counted_where_they_stand(house: SupervisorFixture) -> None:
    """State and health, who has to move, waits and findings: as the records say, zeros included."""
    house.start("resting")
    house.start("working")
    house.work("working")
    house.start("asking")
    house.ask("asking")
    found = samples_of(house)
    assert found["wakeful_sessions", "healthy", "idle"] == 1
    assert found["wakeful_sessions", "healthy", "prompting"] == 1
    assert found["wakeful_sessions", "healthy", "waiting"] == 1
    assert found["wakeful_sessions", "dead", "stopped"] == 0
    assert found["wakeful_attention", "person"] == 1
    assert found["wakeful_expected_waits", "tool"] == 1
    assert found["wakeful_findings", "session_dead"] == 0
    assert sum(count for key, count in found.items() if key[0] == "wakeful_sessions") == 3


def test_a_death_moves_the_figures(house: SupervisorFixture) -> None:
    """A session that died in its turn is counted as dead with its finding."""
    process = house.start("doomed")
    house.work("doomed")
    house.supervisor.on_exit(process)
    house.settle()
    found = samples_of(house)
    assert found["wakeful_sessions", "dead", "stopped"] == 1
    assert found["wakeful_findings", "session_dead"] == 1


def test_the_number_of_series_does_not_grow(house: SupervisorFixture) -> None:
    """A hundred sessions of a hundred projects give the series of one, and none of their names."""
    house.start("one")
    few = samples_of(house)
    for number in range(100):
        house.start(f"hidden-{number}", project=f"secret-{number}")
    many = samples_of(house)
    process_free = [key for key in many if not key[0].startswith("process_")]
    assert process_free == [key for key in few if not key[0].startswith("process_")]
    assert not any("hidden" in part or "secret" in part for key in many for part in key)


def test_durations_fall_into_their_bounds() -> None:
    """A bound counts what is at most as long; what is beyond all of them has a place of its own."""
    spread = Histogram()
    for seconds in (0.0, SECONDS_BOUNDS[0], 0.002, 99.0):
        spread.observe(seconds)
    assert spread.counts == [2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert spread.total_seconds == pytest.approx(99.0021)


def test_a_histogram_counts_up() -> None:
    """Prometheus wants each bound with everything below it; the last is the count."""
    spread = Histogram()
    spread.observe(0.002)
    spread.observe(3.0)
    body, _ = Exposition(lambda: {"wakeful_cycle_seconds": {("judge",): spread}}).text("")
    text = body.decode()
    assert 'wakeful_cycle_seconds_bucket{cycle="judge",le="0.005"} 1.0' in text
    assert 'wakeful_cycle_seconds_bucket{cycle="judge",le="+Inf"} 2.0' in text
    assert 'wakeful_cycle_seconds_count{cycle="judge"} 2.0' in text


def test_whoever_asks_for_the_older_text_gets_it() -> None:
    """OpenMetrics unless the older text is all that was asked for."""
    exposition = Exposition(dict)
    assert exposition.text("")[1].startswith("application/openmetrics-text")
    assert exposition.text("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")[1].startswith(
        "application/openmetrics-text"
    )
    body, media_type = exposition.text("text/plain")
    assert media_type.startswith("text/plain")
    assert b"# EOF" not in body


async def test_a_revival_is_counted_with_its_incident_and_its_alert(clinic: HealingFixture) -> None:
    """The action, its outcome, the cause and the channel of its alert."""
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(60)
    clinic.answer("a")
    await clinic.clock.run_for(1)
    assert dict(clinic.healer.outcome_counts) == {(HealingStep.RESUME, ActionOutcome.CONFIRMED): 1}
    assert {cause: count for cause, count in clinic.incidents.opened_counts.items() if count} == {
        Cause.SESSION: 1
    }
    assert clinic.alerts.delivery_counts["recorder", "delivered"] == len(clinic.recorder.said) > 0
    assert clinic.alerts.delivery_counts["recorder", "refused"] == 0
    assert clinic.alerts.pending_counts == {("recorder",): 0}


async def test_an_incident_that_goes_on_is_not_opened_twice(house: SupervisorFixture) -> None:
    """A restart takes it up, and what comes back at once is the same episode."""
    origin = Origin(Cause.DISK, "here")
    await house.incidents.begin(origin, "no room")
    await house.incidents.end(origin)
    await house.incidents.begin(origin, "no room")
    after = Incidents(house.store, house.clock)
    await after.load()
    await after.begin(origin, "no room")
    assert after.open_by_cause == {Cause.DISK: 1}
    assert (house.incidents.opened_counts[Cause.DISK], after.opened_counts[Cause.DISK]) == (1, 0)


def test_a_tmux_server_that_gives_no_answer_is_a_probe_error(tmp_path: Path) -> None:
    """A failed listing is counted; the number of deaths stays as it was."""
    holder = Process(os.getpid(), 1, BOOT)
    path = tmp_path / "s"

    async def scene() -> int:
        eye = TmuxPaneSource(
            lambda session_id: PaneSession(session_id, holder, ProcessState.ALIVE, None),
            SupervisorFixture().supervisor,
            PlainProcesses(),
            (path,),
            deadline_seconds=0.2,
        )
        eye.request_scan(SessionId("claude-a"))
        await eye.scan()
        return eye.failed_listings

    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(path))
        deaf.listen()
        assert asyncio.run(scene()) == 1


@pytest.mark.parametrize(
    ("looked", "listening", "trouble", "code"),
    [
        (True, True, None, None),
        (False, False, "disk full", "starting"),
        (True, False, None, "eyes-down"),
        (True, True, "disk full", "store-refuses"),
    ],
)
def test_ready_is_looked_listening_and_writing(
    looked: bool, listening: bool, trouble: str | None, code: str | None
) -> None:
    """The first thing that is missing is the reason, by its code."""
    daemon = SimpleNamespace(
        has_scanned=looked, is_listening=listening, transition_writer=SimpleNamespace(problem=trouble)
    )
    found = readiness_problem(cast("Any", daemon))
    assert (found.code if found is not None else None) == code


def test_nobody_pays_for_libraries_that_are_not_asked_for() -> None:
    """Starting a daemon imports neither the metrics client nor the MCP SDK."""
    code = "import sys, wakeful.daemon.serve; print({'prometheus_client', 'mcp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def expressions() -> list[str]:
    """Everything that the dashboard and the rules ask Prometheus for."""
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert len(shown) > 15
    assert len(alerts) > 10
    return [*shown, *alerts, *(each["query"] for each in dashboard["templating"]["list"])]


def names_of(kind: MetricKind, name: str) -> set[str]:
    """What a family's samples are called."""
    suffixes = {
        MetricKind.GAUGE: ("",),
        MetricKind.COUNTER: ("_total",),
        MetricKind.INFO: ("_info",),
        MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"),
    }
    return {name + suffix for suffix in suffixes[kind]}


def test_every_metric_that_is_shown_or_alerted_on_exists() -> None:
    """Dashboard and rules name no figure that is not in the table."""
    known = PROCESS.union(*(names_of(each.kind, each.name) for each in FAMILIES))
    for expression in expressions():
        named = set(re.findall(r"\b(?:wakeful|process)_\w+", expression))
        assert named <= known, (named - known, expression)


def test_every_label_that_is_asked_for_exists() -> None:
    """Nor a label that its figure does not have."""
    labels = {name: {*each.labels, "le"} for each in FAMILIES for name in names_of(each.kind, each.name)}
    for expression in expressions():
        for name, matchers in re.findall(r"\b(wakeful_\w+)\{([^}]*)\}", expression):
            asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
            assert asked <= labels[name] | ADDED, (name, asked)
        names = re.findall(r"\bwakeful_\w+", expression)
        grouped = {
            each for part in re.findall(r"(?:by|on) \(([^)]*)\)", expression) for each in part.split(", ")
        }
        assert grouped <= set().union(ADDED, *(labels[name] for name in names)), (grouped, expression)
