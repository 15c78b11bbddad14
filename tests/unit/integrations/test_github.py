"""What an issue says: whatever agents wrote stays inside code, and no secret leaves."""

import re

from hypothesis import given, strategies as st

from wakeful.core.ids import SessionId
from wakeful.incidents.issue_tracker import IssueReport
from wakeful.integrations.github import PREFIX, body_of, code_block, code_cell, marker_of, title_of

HOSTILE = st.text(alphabet=st.sampled_from("ab`|~@#<>-![]()\\\n\r\u2028\x1b \u200b*_")) | st.text()
SECRET = "sk-ant-REDACTED"


def report(**changed: object) -> IssueReport:
    words: dict[str, object] = {
        "project": "shop",
        "session_id": SessionId("claude-1"),
        "reason": "silent_for_15_minutes",
        "summary": "nothing since 09:45",
        "duration_seconds": 1500.0,
    }
    return IssueReport(**(words | changed))  # type: ignore[arg-type]  # the fields of a struct, by name


def outside_code(body: str) -> str:
    """What GitHub would read as Markdown: no fenced blocks, no code spans."""
    kept: list[str] = []
    fence = None
    for line in body.split("\n"):
        if fence is None and (opening := re.match(r"(`{3,})text$", line)):
            fence = opening[1]
        elif fence is not None:
            # CommonMark: at least as many backquotes, and nothing else, end the block.
            fence = None if re.fullmatch(rf" {{0,3}}`{{{len(fence)},}}\s*", line) else fence
        else:
            kept.append(re.sub(r"`[^`]*`", "", line))
    assert fence is None, "a fence was left open"
    return "\n".join(kept)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_nothing_from_outside_leaves_its_code(project: str, summary: str, about: str) -> None:
    """Beside the code there is the same text, whatever an agent, a project or a log says."""
    calls = (("09:45", "Bash", about, about),)
    hostile = body_of(report(project=project, summary=f"x{summary}", reason=about, calls=calls)).decode()
    calm = body_of(report(calls=(("09:45", "Bash", "make", "ok"),))).decode()
    assert outside_code(hostile).replace(marker_of(project), "") == outside_code(calm).replace(
        marker_of("shop"), ""
    )


@given(HOSTILE)
def test_a_cell_has_no_bar_and_two_backquotes(text: str) -> None:
    """A table row keeps its columns."""
    shown = code_cell(text)
    assert (shown.count("`"), shown.count("|"), shown.count("\n")) == (2, 0, 0)


def test_a_fence_is_longer_than_any_within() -> None:
    """However many backquotes a text has."""
    assert code_block("a ````` b")[0] == "``````text"
    assert code_block("plain") == ["````text", "plain", "````"]


def test_secrets_are_removed_everywhere() -> None:
    """Title, summary, reason and calls are redacted."""
    told = report(
        project=f"p {SECRET}",
        summary=SECRET,
        reason=SECRET,
        calls=(("t", "Bash", f"curl -H {SECRET}", SECRET),),
    )
    assert SECRET not in title_of(told) + body_of(told).decode()


def test_the_last_twenty_calls_are_told() -> None:
    """Older ones are left out, the newest is the last row; the body stays far below GitHub's limit."""
    calls = tuple((f"t{number}", "Bash", "x" * 5000, "ok") for number in range(30))
    body = body_of(
        report(calls=calls, summary="y" * 100_000, others=tuple("z" * 200 for _ in range(99)))
    ).decode()
    assert re.findall(r"^\| `(t\d+)`", body, re.MULTILINE) == [f"t{number}" for number in range(10, 30)]
    assert "and 79 more" in body
    assert len(body) < 65_536


def test_a_marker_is_the_projects_alone() -> None:
    """Another project has another one, and none can end the comment."""
    assert marker_of("shop") != marker_of("shop2")
    assert marker_of("-->").count("-->") == 1


@given(HOSTILE, HOSTILE)
def test_a_title_begins_with_the_prefix_and_is_one_line(project: str, reason: str) -> None:
    """It can be no option, mentions no user, and fits."""
    title = title_of(report(project=project, reason=reason))
    assert title.startswith(f"{PREFIX} ")
    assert title.isprintable()
    assert not {"@", "#"} & set(title)
    assert len(title) <= 256
