"""How the command shows things: the list on terminals and in pipes, ages, durations, records as text."""

import io
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from rich.console import Console

from wakeful.cli import app
from wakeful.cli.commands.ls import _print_list, footer
from wakeful.cli.commands.status import overview_lines
from wakeful.cli.format.sessions import (
    counts_text,
    decode_sessions,
    ending_lines,
    record_lines,
    session_rows,
    short_ids,
)
from wakeful.cli.output import plain_keeping_indent
from wakeful.cli.table import draw, plain_lines
from wakeful.client.errors import DaemonVersionMismatch
from wakeful.core.clock import iso
from wakeful.core.durations import BadDuration, age, parse_duration
from wakeful.core.errors import OwnError
from wakeful.core.ids import ConversationId, SessionId
from wakeful.judging.evidence import LivenessLevel
from wakeful.judging.findings import Attention, FindingCode, Health, Severity, State, WaitKind
from wakeful.judging.session_record import FindingRecord, SessionRecord, WaitRecord
from wakeful.judging.wake_eligibility import IneligibilityReason
from wakeful.judging.wording import call_text
from wakeful.views.records import Overview, SessionList

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp()


def ago(seconds: float) -> str:
    return iso(NOW - seconds)


def record(
    session_id: str,
    project: str,
    state: State,
    health: Health = Health.HEALTHY,
    attention: Attention = Attention.NONE,
    *,
    last: float = 10,
    finding: FindingRecord | None = None,
    waits: tuple[WaitRecord, ...] = (),
    short_name: str = "",
) -> SessionRecord:
    provider, _, conversation = session_id.partition("-")
    return SessionRecord(
        schema=1,
        id=SessionId(session_id),
        project=project,
        short_name=short_name or project,
        agent=None,
        provider=provider,
        host="box",
        source="log",
        conversation_id=ConversationId(conversation),
        attempt=0,
        managed=False,
        state=state,
        health=health,
        active_prompt=False,
        attachable=False,
        eligible_for_wake=False,
        ineligibility_reason=IneligibilityReason.SESSION_NOT_ATTACHABLE,
        session_alive=state is not State.STOPPED,
        attention=attention,
        findings=(finding,) if finding is not None else (),
        expected_waits=waits,
        alive_to=LivenessLevel.TURN,
        broken_at=None,
        actions=(),
        last_activity_at=ago(last),
        last_presence_at=ago(last),
        last_error=None,
        started_at=ago(9000),
        judged_at=ago(0),
        valid_until=None,
        updated_at=ago(0),
        cwd=None,
        pid=None,
        rules="1.1",
    )


def finding(code: FindingCode, since: float, summary: str, untrusted: str) -> FindingRecord:
    return FindingRecord(code, Severity.CRITICAL, ago(since), summary, (), (untrusted,))


def wait(kind: WaitKind, since: float, untrusted: str) -> WaitRecord:
    return WaitRecord(kind, ago(since), None, "call open", untrusted)


RECORDS = [
    record("claude-2a318785-3184-4f27-8591-42deccea2645", "scratch", State.STOPPED, last=21_600),
    record("nightly-crawler", "crawler", State.STOPPED, Health.UNKNOWN, last=70_000),
    record("claude-8534f457-38d0-48ec-8f10-99c6c3e1b258", "notes", State.IDLE, last=3000),
    record(
        "claude-b8a1abcd-1a69-46c7-8da4-f9fc3c6da5d7",
        "日本語プロジェクト",
        State.PROMPTING,
        waits=(
            wait(WaitKind.TOOL, 48, 'Bash {"command":"make test 2>&1 | tail","timeout":600000}'),
            wait(WaitKind.TOOL, 40, 'Read {"file_path":"/a"}'),
        ),
    ),
    record(
        "codex-0199c4ab-46d4-7c7a-9c39-02b38963dc6e",
        "paper",
        State.PROMPTING,
        last=4,
        waits=(wait(WaitKind.MODEL, 4, ""),),
    ),
    record(
        "claude-42a00403-ce80-44b0-a404-2bb3d4341aad",
        "billing",
        State.IDLE,
        Health.DEGRADED,
        Attention.TIME,
        short_name="billing-42a0",
        finding=finding(FindingCode.USAGE_LIMITED, 5400, "the usage limit is reached", "resets 3pm"),
    ),
    record(
        "codex-0199c4ab-66ce-7b36-8512-bd1311072231",
        "infrastructure-modules",
        State.STOPPED,
        Health.DEAD,
        Attention.OPERATOR,
        short_name="infrastructure-modules-0199c4ab-66ce",
        finding=finding(
            FindingCode.SESSION_DEAD,
            740,
            "its process ended inside a turn",
            'exec_command {"cmd":"cargo build"}',
        ),
    ),
    record(
        "claude-06905269-ed6f-4b09-b165-c8ce36e2f24b",
        "billing",
        State.IDLE,
        Health.DEGRADED,
        Attention.LOGIN,
        short_name="billing-0690",
        finding=finding(
            FindingCode.AUTH_REQUIRED, 1900, "the provider refused the login", "Please run /login"
        ),
    ),
    record(
        "claude-1710cf53-27ac-435a-ba97-c643656412a9",
        "api-server",
        State.WAITING,
        Health.HEALTHY,
        Attention.PERSON,
        waits=(wait(WaitKind.PERSON, 260, 'Bash {"command":"rm -rf build && make release"}'),),
    ),
]

AT_80 = """\
  STATE    AGE  NAME                        DOING
◆ waiting   4m  api-server
  asks you · Bash: rm -rf build && make release
◆ idle     31m  billing-0690
  the provider refused the login · Please run /login
✗ dead     12m  infrastructure-mod…ab-66ce
  its process ended inside a turn · exec_command: cargo build
● running   4s  paper                       thinking
● running  48s  日本語プロジェクト          Bash: make test 2>&1 | tail (+1 mor…
◌ idle      1h  billing-42a0                the usage limit is reached · resets…
○ idle     50m  notes                       ready for a prompt
· stopped   6h  scratch                     ended normally
· stopped  19h  crawler                     no process seen
3 need you, 2 running, 2 idle, 2 stopped
2,000 older: wakeful ls --all
"""
AT_160 = """\
  STATE    AGE  NAME                                  PROJECT                 ID                   DOING
◆ waiting   4m  api-server                            api-server              claude-1710cf53      asks you · Bash: rm -rf build && make release
◆ idle     31m  billing-0690                          billing                 claude-06905269      the provider refused the login · Please run /login
✗ dead     12m  infrastructure-modules-0199c4ab-66ce  infrastructure-modules  codex-0199c4ab-66ce  its process ended inside a turn · exec_command: cargo build
● running   4s  paper                                 paper                   codex-0199c4ab-46d4  thinking
● running  48s  日本語プロジェクト                    日本語プロジェクト      claude-b8a1abcd      Bash: make test 2>&1 | tail (+1 more)
◌ idle      1h  billing-42a0                          billing                 claude-42a00403      the usage limit is reached · resets 3pm
○ idle     50m  notes                                 notes                   claude-8534f457      ready for a prompt
· stopped   6h  scratch                               scratch                 claude-2a318785      ended normally
· stopped  19h  crawler                               crawler                 nightly-crawler      no process seen
3 need you, 2 running, 2 idle, 2 stopped
2,000 older: wakeful ls --all
"""
IN_A_PIPE = """\
ID                                           NAME                                  STATE      HEALTH    ATTENTION  AGE  PROVIDER  PROJECT                 MANAGED  DOING
claude-1710cf53-27ac-435a-ba97-c643656412a9  api-server                            waiting    healthy   person     4m   claude    api-server              -        asks you · Bash: rm -rf build && make release
claude-06905269-ed6f-4b09-b165-c8ce36e2f24b  billing-0690                          idle       degraded  login      31m  claude    billing                 -        the provider refused the login · Please run /login
codex-0199c4ab-66ce-7b36-8512-bd1311072231   infrastructure-modules-0199c4ab-66ce  stopped    dead      operator   12m  codex     infrastructure-modules  -        its process ended inside a turn · exec_command: cargo build
codex-0199c4ab-46d4-7c7a-9c39-02b38963dc6e   paper                                 prompting  healthy   none       4s   codex     paper                   -        thinking
claude-b8a1abcd-1a69-46c7-8da4-f9fc3c6da5d7  日本語プロジェクト                    prompting  healthy   none       48s  claude    日本語プロジェクト      -        Bash: make test 2>&1 | tail (+1 more)
claude-42a00403-ce80-44b0-a404-2bb3d4341aad  billing-42a0                          idle       degraded  time       1h   claude    billing                 -        the usage limit is reached · resets 3pm
claude-8534f457-38d0-48ec-8f10-99c6c3e1b258  notes                                 idle       healthy   none       50m  claude    notes                   -        ready for a prompt
claude-2a318785-3184-4f27-8591-42deccea2645  scratch                               stopped    healthy   none       6h   claude    scratch                 -        ended normally
nightly-crawler                              crawler                               stopped    unknown   none       19h  nightly   crawler                 -        no process seen
"""


def drawn(records: list[SessionRecord], width: int, *, older: int = 2000) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    draw(console, session_rows(records, NOW), footer(records, older, filtered=False))
    assert isinstance(console.file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines())


@pytest.mark.parametrize(("width", "expected"), [(80, AT_80), (160, AT_160)])
def test_the_list_on_a_terminal(width: int, expected: str) -> None:
    """Sessions that need a person come first and uncut; old ones are folded into the last line."""
    assert drawn(RECORDS, width) == expected


def test_the_list_in_a_pipe() -> None:
    """Pipes get whole ids, aligned, without tabs, colour or cuts."""
    lines = plain_lines(session_rows(RECORDS, NOW))
    assert "\n".join(lines) + "\n" == IN_A_PIPE
    assert not any("\t" in line or "\x1b" in line or "…" in line for line in lines)


def test_managed_sessions_are_marked_and_called_by_their_name() -> None:
    """Watched ones have a dash there; on a terminal the column appears only if a session is managed."""
    named = replace(RECORDS[0], managed=True, name="docs", short_name="docs")
    mixed = [named, replace(RECORDS[1], managed=True), RECORDS[2]]
    cells = [line.split() for line in plain_lines(session_rows(mixed, NOW))]
    managed = {row[1]: row[8] for row in cells}
    assert managed == {"NAME": "MANAGED", mixed[2].short_name: "-", "docs": "yes", mixed[1].short_name: "yes"}
    assert ("MANAGED" in drawn(mixed, 120), "docs" in drawn(mixed, 120)) == (True, True)
    assert "MANAGED" not in drawn(RECORDS, 120)


def test_a_usage_limit_counts_down() -> None:
    """How long it lasts, if the end is known."""
    limited = finding(FindingCode.USAGE_LIMITED, 60, "usage limit reached", "")
    until = WaitRecord(WaitKind.LIMIT, ago(60), ago(-2580), "the provider said so", "")
    shown = [
        session_rows([record("claude-a", "shop", State.IDLE, finding=limited, waits=waits)], NOW)[0].doing
        for waits in ((until,), (replace(until, until=ago(5)),), ())
    ]
    assert shown == [
        "usage limit, ends in 43m",
        "usage limit, ended",
        "usage limit reached ·",
    ]


@pytest.mark.parametrize("width", [1, 10, 40, 60, 71, 72, 100, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Narrow terminals lose ids and projects, then words, never the order."""
    lines = drawn(RECORDS, width).splitlines()[:-2]
    assert all(Console().measure(line).maximum <= width for line in lines)
    assert ("claude-1710cf53" in "".join(lines)) is (width >= 120)


def test_colour_is_only_for_those_who_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR leaves no colour on a terminal; without it the state is coloured."""
    for variable, expected in (({"NO_COLOR": "1"}, False), ({}, True)):
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in variable.items():
            monkeypatch.setenv(name, value)
        console = Console(
            file=io.StringIO(), width=80, force_terminal=True, _environ={"TERM": "xterm", **variable}
        )
        draw(console, session_rows(RECORDS, NOW), [])
        assert isinstance(console.file, io.StringIO)
        assert ("\x1b[1;33m" in console.file.getvalue()) is expected


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_text_of_a_session_can_command_a_terminal(project: str, said: str) -> None:
    """Whatever an agent wrote, only printable characters and no second line come out."""
    hostile = record(
        "claude-x", project, State.PROMPTING, waits=(wait(WaitKind.TOOL, 1, f'Bash {{"command":"{said}"}}'),)
    )
    for line in (*plain_lines(session_rows([hostile], NOW)), *drawn([hostile], 80, older=0).split("\n")):
        assert line.isprintable()
    assert len(drawn([hostile], 80, older=0).splitlines()) == 3
    assert len(plain_lines(session_rows([hostile], NOW))) == 2


def test_an_escape_hidden_in_json_does_not_come_back_to_life() -> None:
    """A call's input is JSON: its escapes are undone, and what they hid is made plain."""
    shown = call_text('Bash {"command":"echo \\u001b[31mred\\nrm -rf /"}')
    assert shown == "Bash: echo red rm -rf /"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('Bash {"command":"make test"}', "Bash: make test"),
        ('shell {"command":["bash","-lc","ls"]}', "shell: bash -lc ls"),
        ('Read {"limit":3,"file_path":"/a/b.py"}', "Read: /a/b.py"),
        ('Bash {"command":"echo \\"hi\\""}', 'Bash: echo "hi"'),
        ('Bash {"command":"a very long one that was cut', "Bash: a very long one that was cut"),
        ('Bash {"command":"cut inside an escape \\', "Bash: cut inside an escape"),
        ('Custom {"depth":3}', 'Custom {"depth":3}'),
        ("permission for Bash", "permission for Bash"),
        ("", ""),
    ],
)
def test_a_call_is_told_in_a_persons_words(text: str, shown: str) -> None:
    """The telling part of a call's input is shown, the rest left to `inspect`."""
    assert call_text(text) == shown


def test_short_ids_are_unique_prefixes() -> None:
    """An id is as short as it stays unique; time-ordered ones keep their milliseconds."""
    ids = [
        "claude-1710cf53-27ac-435a-ba97-c643656412a9",
        "claude-1710cf53-27ad-435a-ba97-c643656412a9",
        "claude-99999999-27ac-435a-ba97-c643656412a9",
        "codex-0199c4ab-66ce-7b36-8512-bd1311072231",
        "night",
        "nightly-crawler-of-the-long-name",
    ]
    shortened = short_ids([record(each, "p", State.IDLE) for each in ids])
    assert list(shortened.values()) == [
        "claude-1710cf53-27ac",
        "claude-1710cf53-27ad",
        "claude-99999999",
        "codex-0199c4ab-66ce",
        "night",
        "nightly-crawler-of-the-long-name",
    ]


def test_nobody_is_counted_twice() -> None:
    """The summary adds up to the number of sessions, with its words in the right number."""
    assert counts_text(RECORDS) == "3 need you, 2 running, 2 idle, 2 stopped"
    assert counts_text(RECORDS[-1:]) == "1 needs you"
    assert counts_text([]) == ""


def test_an_empty_list_says_what_to_do() -> None:
    """With nothing to show there is no header, and a way on."""
    assert drawn([], 80, older=0).startswith("No agent sessions in the last 24 hours. Start claude")
    assert footer([], 0, filtered=True) == ["No matching sessions."]


def test_many_are_counted_with_commas() -> None:
    """As the page counts them."""
    assert counts_text(RECORDS[3:4] * 2001) == "2,001 running"


def test_the_last_line_of_a_pipe_has_the_values_of_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts read both."""
    _print_list(SessionList(RECORDS, 0, None, None), [], filtered=False)
    assert capsys.readouterr().out.endswith("\n3 need you, 2 prompting, 2 idle, 2 stopped\n")


def test_a_list_of_another_version_is_said_so() -> None:
    """A record that lacks a field is not shown half: the daemon has to be restarted."""
    with pytest.raises(DaemonVersionMismatch, match="wakeful down"):
        decode_sessions(b'{"sessions":[{"id":"x"}],"older":0,"next_cursor":null}')
    body = msgspec.json.encode({"sessions": RECORDS, "older": 3, "next_cursor": None, "new_key": 1})
    assert decode_sessions(body).sessions == RECORDS


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400), ("1h30m", 5400)]
)
def test_durations_are_read(text: str, seconds: float) -> None:
    """30s, 10m, 2h, 1d and their sums."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "m", "-5m", "0s", "1.5h", "10 m", "5 minutes", "9999999d", "1x", "٣s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """One line says how to write it."""
    with pytest.raises(BadDuration, match="use 30s, 10m, 2h, 1d or 2w"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (86_399, "23h"), (864_000, "10d")],
)
def test_ages_have_one_unit(seconds: float, shown: str) -> None:
    """The largest whole unit; a moment in the future is now."""
    assert age(seconds) == shown


def test_a_record_as_text_keeps_every_field() -> None:
    """Text is the JSON's fields in their order, lists indented, commands ready to copy, controls gone."""
    body = msgspec.json.encode(
        {
            "id": "claude-1",
            "alive": True,
            "pid": None,
            "actions": [{"name": "attach", "argv": ["tmux", "-t", "my session"]}],
            "evidence": {"untrusted": ["a\x1b[2Jb", "c"]},
        }
    )
    assert record_lines(body) == [
        "id        claude-1",
        "alive     yes",
        "pid       -",
        "actions",
        "  - name  attach",
        "    argv  tmux -t 'my session'",
        "evidence",
        "  untrusted  ab | c",
    ]


def test_the_end_of_waiting_is_one_line() -> None:
    """How it ended, and how the session is."""
    body = b'{"ending":"needs_person","session":{"id":"claude-1","state":"waiting","health":"healthy"}}'
    assert ending_lines(body) == ["needs person: claude-1 is waiting for you, healthy"]


def test_status_states_pause_and_mode_first() -> None:
    """Then where it listens, who sees late, how many there are."""
    overview = msgspec.convert(
        {
            "schema": 1,
            "mode": "observe",
            "paused": True,
            "sessions": {},
            "daemon": {
                "mode": "observe",
                "version": "1.0",
                "host": "tower",
                "pid": 7,
                "started_at": "2027-01-15T07:00:00.000Z",
                "listening": ["/s", "http://127.0.0.1:4747"],
                "eyes": [{"name": "claude", "slow": None}, {"name": "codex", "slow": "no watches left"}],
                "notes": ["port 4747 is taken"],
                "paused": {"by": "ada", "since": "2027-01-15T08:00:00.000Z", "reason": ""},
            },
        },
        Overview,
    )
    assert list(overview_lines(overview, RECORDS, 2000)) == [
        "PAUSED by ada since 2027-01-15T08:00:00.000Z; Wakeful takes no action by itself until `wakeful unpause`",
        "mode       observe (takes no action)",
        "listening  /s, http://127.0.0.1:4747",
        "slow       codex: no watches left",
        "sessions   3 need you, 2 running, 2 idle, 2 stopped, 2,000 older",
        "note       port 4747 is taken",
        "daemon     1.0, pid 7",
    ]


def test_our_own_spaces_stay_and_foreign_controls_go() -> None:
    """Aligned lines keep their alignment when a strange character stands in them."""
    assert plain_keeping_indent("  a   b\x1b[2J\u202e é") == "  a   b  é"


def test_several_failures_at_once_are_told_by_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    """A group of errors is one line and one exit code; an internal error says that it is one."""
    group = ExceptionGroup("tasks", [PermissionError(13, "Permission denied", "/x"), ValueError("later")])
    assert app._report_problem(group) == 3
    assert app._report_problem(OwnError()) == 4
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "wakeful: /x: Permission denied"
    assert lines[1].startswith("wakeful: this is a bug in Wakeful: OwnError")
