"""When a usage limit ends, in the words clients were seen to use."""

import time
from datetime import UTC, datetime

import pytest

from wakeful.adapters.limit_end import limit_end_in

SAID = datetime(2026, 11, 16, 0, 9, 34, tzinfo=UTC).timestamp()


@pytest.fixture(autouse=True)
def _host_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("You've hit your session limit · resets 2:09am (UTC)", "2026-11-16T02:09:00Z"),
        ("You've hit your session limit · resets 3pm (Europe/Berlin)", "2026-11-16T14:00:00Z"),
        ("You've hit your weekly limit · resets Nov 18, 7:42am (UTC)", "2026-11-18T07:42:00Z"),
        ("5-hour limit reached ∙ resets 12am", "2026-11-17T00:00:00Z"),
        ("You've hit your weekly limit · resets Jan 2, 12pm (UTC)", "2027-01-02T12:00:00Z"),
        ("You've hit your usage limit. Visit … or try again at 2:09 AM.", "2026-11-16T02:09:00Z"),
        ("You've hit your usage limit. … or try again at Nov 19th, 2026 2:09 AM.", "2026-11-19T02:09:00Z"),
        ("Claude AI usage limit reached|1794794974", "2026-11-16T02:09:34Z"),
        ("You've hit your usage limit. Try again in 3 hours 5 minutes.", "2026-11-16T03:14:34Z"),
    ],
)
def test_the_sentence_says_when(text: str, end: str) -> None:
    """As an epoch, a span, a time of day or a date, in the zone it names."""
    assert limit_end_in(text, SAID) == datetime.fromisoformat(end).timestamp()


@pytest.mark.parametrize(
    "text",
    [
        "You've hit your usage limit. Upgrade to Pro or try again later.",
        "API Error: Request rejected (429) · slow down",
        "It resets 3pm (UTC)",
        "limit · resets Feb 31, 3pm (UTC)",
        "limit · resets 99:99am",
        "limit resets 13:75pm",
    ],
)
def test_no_end_is_made_up(text: str) -> None:
    """Where the sentence names no moment there is none."""
    assert limit_end_in(text, SAID) is None


def test_an_unknown_zone_is_read_as_this_hosts() -> None:
    """A zone nobody knows, or a path in its place, is not looked for anywhere."""
    for zone in ("Mars/Olympus", "../../etc/passwd", "/etc/localtime"):
        assert limit_end_in(f"limit · resets 3am ({zone})", SAID) == pytest.approx(SAID + 3 * 3600, abs=3600)
