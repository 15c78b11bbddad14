"""Claims about HEARTBEAT.md: what is understood, and that everything else is refused with its file, line and reason."""

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from support.run_program import run_program
from wakeful.heartbeat.document import bytes_max, parse
from wakeful.heartbeat.file import candidates, find_zone, first_stamp, load
from wakeful.heartbeat.policy import Bounds, HeartbeatInvalid, HeartbeatPolicy, Window, snapshot_of

BOUNDS = Bounds()
AT = "2026-03-01T00:00:00.000Z"
WHOLE = """---
version: 1
enabled: true
summary: Looks after the shop.
preferences:
  min_interval: "30m"
  active_hours:
    - timezone: Europe/Berlin
      start: 08:00
      end: "22:00"
  quiet_windows:
    - {timezone: America/New_York, start: 23:30, end: 06:00}
context:
  include: [self, session_health]
---

Look at the queue.
"""


def parsed(text: str | bytes) -> HeartbeatPolicy:
    return parse(text if isinstance(text, bytes) else text.encode(), "f.md", BOUNDS, find_zone)


def refused(text: str | bytes) -> tuple[int, str]:
    """The line and the reason of a refusal."""
    with pytest.raises(HeartbeatInvalid) as caught:
        parsed(text)
    assert caught.value.facts["file"] == "f.md"
    return int(str(caught.value.facts["line"])), str(caught.value.facts["reason"])


def with_fields(*lines: str) -> str:
    return "\n".join(("---", *lines, "---", "Guidance."))


def window(**fields: str) -> str:
    whole = {"timezone": "Europe/Berlin", "start": "22:00", "end": "06:00"} | fields
    return with_fields(
        "preferences:", "  quiet_windows:", *(f"    {'- ' if at == 0 else '  '}{name}: {text}"
        for at, (name, text) in enumerate(whole.items()))
    )  # fmt: skip


def test_every_field_is_understood() -> None:
    """Times may stand without quotes; the body travels as it is."""
    policy = parsed(WHOLE)
    assert policy == HeartbeatPolicy(
        summary="Looks after the shop.",
        min_interval_seconds=1800.0,
        active_hours=(Window("Europe/Berlin", "08:00", "22:00"),),
        quiet_windows=(Window("America/New_York", "23:30", "06:00"),),
        include=parsed(with_fields("context: {include: [self, session_health]}")).include,
        body="Look at the queue.",
    )
    assert [str(each) for each in policy.include] == ["self", "session_health"]


@pytest.mark.parametrize("text", ["", "Only guidance.\n", "---\n---\nOnly guidance.", "---\n# none\n---\n"])
def test_fields_are_optional(text: str) -> None:
    """A file without any is a policy with defaults."""
    policy = parsed(text)
    assert (policy.enabled, policy.quiet_windows, policy.min_interval_seconds) == (True, (), None)


WRONG: dict[str, tuple[str | bytes, int, str]] = {
    "unknown field": (with_fields("version: 1", "sumary: x"), 3, "Did you mean summary?"),
    "unknown field inside": (with_fields("preferences:", "  intervall: 5m"), 3, "preferences.intervall: unknown"),
    "operational field": (with_fields("permissions: all"), 2, "may only say when"),
    "tab": (with_fields("version: 1", "preferences:", "\tmin_interval: 5m"), 4, "a tab"),
    "tab after a value": (with_fields("enabled: true\t# x"), 2, "a tab"),
    "anchor": (with_fields("summary: &a x"), 2, "anchors"),
    "alias": (with_fields("summary: *a"), 2, "anchors"),
    "tag": (with_fields("summary: !!python/name:os.system x"), 2, "tags"),
    "merge key": (with_fields("<<: {}", "version: 1"), 2, "unknown"),
    "key twice": (with_fields("version: 1", "enabled: true", "version: 1"), 4, "is here twice"),
    "bomb": (with_fields("a: &a [x,x]", "b: &b [*a,*a]", "c: [*b,*b]"), 2, "anchors"),
    "deep": (with_fields("summary: " + "[" * 60 + "]" * 60), 2, "nested deeper"),
    "very deep": (with_fields("summary: " + "[" * 4000), 2, "nested deeper"),
    "second document": ("---\nversion: 1\n--- x\n---\n", 3, "a second YAML document"),
    "no end": ("---\nversion: 1\n", 1, "has no end"),
    "no mapping": (with_fields("- a", "- b"), 2, "made of fields"),
    "not YAML": (with_fields("version: 1", 'summary: "x'), 3, "not YAML"),
    "version": (with_fields("version: 2"), 2, "the only one"),
    "quoted version": (with_fields('version: "1"'), 2, "the only one"),
    "enabled": (with_fields("enabled: yes"), 2, "true or false"),
    "null": (with_fields("summary:"), 2, "a sentence"),
    "long summary": (with_fields("summary: " + "x" * 301), 2, "300 visible characters"),
    "interval": (with_fields("preferences:", "  min_interval: often"), 3, "Invalid duration"),
    "number": (with_fields("preferences:", "  min_interval: 30"), 3, "Invalid duration"),
    "preferences": (with_fields("preferences: 5m"), 2, "made of fields"),
    "place": (window(timezone="Europe/Nowhere"), 4, "not in the IANA list"),
    "offset": (window(timezone='"+02:00"'), 4, "fixed offset"),
    "offset of UTC": (window(timezone="UTC+2"), 4, "fixed offset"),
    "offset by name": (window(timezone="Etc/GMT-2"), 4, "fixed offset"),
    "old offset": (window(timezone="EST"), 4, "fixed offset"),
    "blank behind a place": (window(timezone="'UTC '"), 4, "without blanks"),
    "blank behind a time": (window(start="'07:00 '"), 5, "without blanks"),
    "path": (window(timezone="../../etc/passwd"), 4, "not in the IANA list"),
    "local": (window(timezone="localtime"), 4, "not in the IANA list"),
    "hour": (window(end="25:00"), 6, "not a time"),
    "minute": (window(start="22:60"), 5, "not a time"),
    "short time": (window(start="7:00"), 5, "not a time"),
    "nothing": (window(start="06:00"), 4, "the same"),
    "missing end": (with_fields("preferences:", "  quiet_windows:", "    - timezone: UTC", "      start: 01:00"), 4, "end is missing"),
    "no list": (with_fields("preferences:", "  active_hours: 8-22"), 3, "a list of windows"),
    "overlap": (
        with_fields(
            "preferences:",
            "  quiet_windows:",
            "    - {timezone: UTC, start: 22:00, end: 06:00}",
            "    - {timezone: UTC, start: 05:00, end: 07:00}",
        ),
        5,
        "overlaps 22:00 to 06:00",
    ),
    "include": (with_fields("context:", "  include: [self, wallet]"), 3, "is none of"),
    "include twice": (with_fields("context:", "  include:", "    - self", "    - self"), 5, "twice"),
    "binary": (b"---\nversion: 1\n---\nx\x00y", 4, "U+0000"),
    "not UTF-8": (b"one\ntwo\n\xff\xfe", 3, "not text in UTF-8"),
    "separator": (with_fields("# a\u2028b", "version: 3"), 2, "U+2028"),
    "no character": (with_fields("version: 1", "summary: a\uffffb"), 3, "U+FFFF"),
    "escape of no character": (with_fields("version: 1", r'summary: "\U00110000"'), 3, "beyond U+10FFFF"),
    "escape of no number": (with_fields(r'summary: "\UFFFFFFFF"'), 2, "beyond U+10FFFF"),
    "hidden": (with_fields("summary: \u202egnp.exe"), 2, "visible"),
    "fence after a blank": (" " + with_fields("version: 1"), 1, "the first line is neither"),
    "fence after a blank line": ("\n\n" + with_fields("version: 1"), 3, "the first line is neither"),
    "fence after a second BOM": ("\ufeff\ufeff" + with_fields("version: 1"), 1, "the first line is neither"),
    "long fence": ("-" + with_fields("version: 1"), 1, "the first line is neither"),
    "escape": ("one\n\x1b[31mred", 2, "U+001B"),
    "long guidance": ("x" * 100 + "\n" + "y" * BOUNDS.body_bytes_max, 2, "max_body_bytes"),
    "long front matter": (with_fields("# " + "x" * 20_000), 2, "front matter of more"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_with_its_line(case: str) -> None:
    """One reason, at the line a person has to look at."""
    text, line, words = WRONG[case]
    seen, reason = refused(text)
    assert (seen, words in reason) == (line, True), reason


def test_windows_of_two_places_may_overlap() -> None:
    """When they do depends on the day of the year."""
    both = with_fields(
        "preferences:",
        "  quiet_windows:",
        "    - {timezone: UTC, start: 22:00, end: 06:00}",
        "    - {timezone: Europe/Berlin, start: 22:00, end: 06:00}",
    )
    assert len(parsed(both).quiet_windows) == 2


@given(st.binary(max_size=400) | st.text(max_size=300).map(str.encode) | st.text("-: \n\t[]{}&*!#'\"|>%a1\\Uu\u2028", max_size=120).map(
    lambda text: f"---\n{text}\n---\n".encode()
))  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_a_policy_or_a_refusal(content: bytes) -> None:
    """Nothing else is raised, and a refusal has a line of the file."""
    line = 1
    try:
        parsed(content)
    except HeartbeatInvalid as wrong:
        line = int(str(wrong.facts["line"]))
    assert 1 <= line <= content.count(b"\n") + 1


def test_a_preference_beyond_the_bounds_is_clamped_and_reported() -> None:
    """Shorter than the operator allows is as short as the operator allows."""
    snapshot = snapshot_of(parsed(with_fields("preferences: {min_interval: 10s}")), BOUNDS, "f.md", AT)
    assert snapshot.policy.min_interval_seconds == 300.0
    (clamped,) = snapshot.clamped
    assert (clamped.code, clamped.asked, clamped.given) == ("heartbeat_preference_clamped", "10 s", "300 s")


def test_a_digest_knows_what_shaped_the_policy() -> None:
    """The same words in another spelling have it; another body, field or bound has another."""

    def digest(text: str, bounds: Bounds = BOUNDS) -> str:
        return snapshot_of(parsed(text), bounds, "f.md", AT).digest

    same = digest(with_fields("enabled: true", "summary: x"))
    assert digest(with_fields("# a remark", 'summary: "x"', "enabled: true").replace("\n", "\r\n")) == same
    others = {
        digest(with_fields("enabled: false", "summary: x")),
        digest(with_fields("enabled: true", "summary: y")),
        digest(with_fields("enabled: true", "summary: x") + "!"),
        digest(with_fields("enabled: true", "summary: x"), Bounds(min_interval_seconds=60.0)),
    }
    assert len(others | {same}) == 5


def test_the_operators_file_comes_before_the_agents_own(tmp_path: Path) -> None:
    """The first that is there counts, even if it is wrong."""
    paths = candidates(str(tmp_path / "home"), "fox", str(tmp_path / "work"))
    assert first_stamp(paths) is None
    for path in reversed(paths):
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text("x")
        stamp = first_stamp(paths)
        assert stamp is not None
        assert stamp.path == path


def test_a_folder_that_no_system_has_holds_no_file(tmp_path: Path) -> None:
    """An agent's log names its folder, and may name anything."""
    assert first_stamp(candidates(str(tmp_path), "fox", "/tmp/a\0b")) is None


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    """A link, a FIFO, a folder, ten megabytes: refused at once, and the size before anything is read."""
    path = tmp_path / "HEARTBEAT.md"
    kinds: dict[str, object] = {
        "symbolic link": lambda: path.symlink_to("/etc/passwd"),
        "regular": lambda: os.mkfifo(path),
        "at most": lambda: path.write_bytes(b"x" * 10_000_000),
    }
    for words, make in kinds.items():
        assert callable(make)
        make()
        began = time.monotonic()
        with pytest.raises(HeartbeatInvalid, match=words):
            load(str(path), BOUNDS, AT)
        assert time.monotonic() - began < 1
        path.unlink()
    path.mkdir()
    with pytest.raises(HeartbeatInvalid):
        load(str(path), BOUNDS, AT)
    assert bytes_max(BOUNDS) < 100_000


def test_validate_says_where(tmp_path: Path) -> None:
    """Exit 0 with the snapshot's id, or 1 with file, line and reason; no daemon is asked."""
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text(WHOLE.replace("30m", "30s"))
    bad.write_text(window(end="25:00"))

    def said(file: Path) -> tuple[int, str, str]:
        done = run_program(
            [sys.executable, "-m", "wakeful", "agent", "heartbeat", "validate", str(file)],
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        )
        return done.returncode, done.stdout, done.stderr

    code, out, err = said(good)
    assert (code, ": valid, hb-" in out, "limited to 300 s" in err) == (0, True, True)
    code, out, err = said(bad)
    assert (code, out, err) == (1, f"{bad}:6: end: 25:00 is not a time from 00:00 to 23:59\n", "")
