"""The host rules: what is wrong, and how often it is reported."""

import pytest

from wakeful.gateway.rules.host import (
    ALERT_SECONDS,
    CATEGORY_SECONDS,
    CHECKS,
    ErrorCounts,
    HostAlert,
    HostCategory,
    HostReading,
    Told,
    Unit,
    format_reading,
    wrong_with,
)


def keys(reading: HostReading) -> list[str]:
    return [alert.key for alert in wrong_with(reading)]


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (HostReading(), []),
        (HostReading(disk_percent=89.9, memory_percent=95.9, load=4.0, cores=2), []),
        (HostReading(disk_percent=90), ["disk"]),
        (HostReading(memory_percent=96), ["memory"]),
        (HostReading(load=4.1, cores=2), ["load"]),
        (HostReading(telegram_reachable=True), []),
        (HostReading(telegram_reachable=False), ["telegram"]),
        (HostReading(pm2=(Unit("api", "online"), Unit("web", "errored"))), ["pm2:web"]),
        (HostReading(docker=(Unit("db", "running"), Unit("mq", "unhealthy"))), ["docker:mq"]),
        (HostReading(errors_per_minute=1.0, errors_daily_mean_per_minute=0.3), ["errors"]),
        (HostReading(errors_per_minute=0.9, errors_daily_mean_per_minute=0.0), []),
        (HostReading(errors_per_minute=1.0, errors_daily_mean_per_minute=0.4), []),
    ],
)
def test_each_reading_has_its_limit(reading: HostReading, expected: list[str]) -> None:
    """Reached or passed as documented; what could not be read says nothing."""
    assert keys(reading) == expected


def test_one_alert_key_is_told_every_half_hour() -> None:
    """However long it lasts."""
    told = Told()
    disk = HostAlert(HostCategory.DISK, "disk", "full")
    sent = []
    for minute in range(120):
        for alert in told.due((disk,), minute * 60.0):
            told.delivered(alert, minute * 60.0)
            sent.append(minute)
    assert sent == [0, 30, 60, 90]


def test_one_category_is_told_every_five_minutes() -> None:
    """Ten broken containers are not ten alerts at once; each is reported in its turn."""
    told = Told()
    down = tuple(HostAlert(HostCategory.DOCKER, f"docker:{name}", name) for name in "abc")
    sent = []
    for minute in range(12):
        for alert in told.due(down, minute * 60.0):
            told.delivered(alert, minute * 60.0)
            sent.append((minute, alert.key))
    assert sent == [(0, "docker:a"), (5, "docker:b"), (10, "docker:c")]
    assert (ALERT_SECONDS, CATEGORY_SECONDS) == (1800, 300)


def test_an_alert_that_did_not_arrive_silences_nothing() -> None:
    """The cooldown starts at delivery."""
    told = Told()
    disk = HostAlert(HostCategory.DISK, "disk", "full")
    assert told.due((disk,), 0) == told.due((disk,), 60) == (disk,)


def test_a_spike_is_measured_against_the_day_before() -> None:
    """Five errors in five minutes are one a minute; they are not part of their own mean, and a day later forgotten."""
    counts = ErrorCounts()
    for minute in range(1000):
        counts.add(minute * 60.0)
    rate, mean = counts.rates(999 * 60.0)
    assert rate == 1.0
    assert mean == pytest.approx(995 / 1435)
    assert counts.rates(999 * 60.0 + 86_400) == (0.0, 0.0)


def test_a_flood_of_errors_takes_no_more_room_than_a_day_has_minutes() -> None:
    """Counted by the minute."""
    counts = ErrorCounts()
    for number in range(200_000):
        counts.add(number * 1.0)
    assert len(counts._minutes) <= 1440
    assert counts.rates(199_999.0)[0] == pytest.approx(60, abs=12)


def test_names_of_others_are_shown_plain() -> None:
    """A container's name cannot give orders to a terminal or break a line."""
    (alert,) = wrong_with(HostReading(docker=(Unit("x\x1b[2J\ny", "dead"),)))
    assert alert.text.isprintable()


def test_every_reading_has_a_check() -> None:
    """All categories but self-heal's own are checks."""
    assert {*CHECKS} == {*HostCategory} - {HostCategory.SELF_HEAL}


def test_the_host_in_one_line() -> None:
    """What is known, and nothing before the first look; who is not up as an alert would tell it, and of many some."""
    assert format_reading(HostReading()) == ""
    docker = (Unit("db", "unhealthy"), Unit("job", "exited"), Unit("new", "created"))
    reading = HostReading(disk_percent=41.2, load=0.5, cores=2, docker=docker)
    assert format_reading(reading) == "disk 41 %, load 0.5 on 2 cores, not up: db"
    crowd = tuple(Unit(f"c{n}\n", "dead") for n in range(99))
    assert format_reading(HostReading(pm2=crowd[:1], docker=crowd)) == "not up: c0, c1, c2, c3, c4, 94 more"
