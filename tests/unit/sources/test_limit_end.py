"""When a usage limit ends, in the words clients were seen to use."""

import time
from datetime import UTC, datetime

import pytest

from wakeful.sources.parsing import limit_end_in

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
        ("5-hour limit reached ∙ resets 15:30", "2026-11-16T15:30:00Z"),
        ("5-hour limit reached ∙ resets 00:05", "2026-11-17T00:05:00Z"),
        ("You've hit your weekly limit · resets May 28 at 19:00", "2027-05-28T19:00:00Z"),
        ("You've hit your weekly limit · resets Nov 20 at 1am (Asia/Tokyo)", "2026-11-19T16:00:00Z"),
        ("You've hit your limit · resets in 3 hours", "2026-11-16T03:09:34Z"),
        ("Weekly limit reached, resets in 2d 4h 15m", "2026-11-18T04:24:34Z"),
        ("Usage limit reached. Resets by 4:00 AM Friday", "2026-11-20T04:00:00Z"),
        ("You've hit your weekly limit - resets Mon 12:00am", "2026-11-23T00:00:00Z"),
        ("You've reached your weekly limit. It resets Monday at 9am.", "2026-11-16T09:00:00Z"),
        ("Your limit will reset at 19:00 UTC", "2026-11-16T19:00:00Z"),
        ("You're out of extra usage · resets 4pm", "2026-11-16T16:00:00Z"),
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
        "limit resets 25:30",
        "limit resets 15",
        "You've hit your usage limit. Resets in a while.",
    ],
)
def test_no_end_is_made_up(text: str) -> None:
    """Where the sentence names no moment there is none."""
    assert limit_end_in(text, SAID) is None


def test_an_unknown_zone_is_read_as_this_hosts() -> None:
    """An unknown zone, or a path in its place, is not looked for anywhere."""
    for zone in ("Mars/Olympus", "../../etc/passwd", "/etc/localtime"):
        assert limit_end_in(f"limit · resets 3am ({zone})", SAID) == pytest.approx(SAID + 3 * 3600, abs=3600)
