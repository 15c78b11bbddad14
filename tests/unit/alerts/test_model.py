"""What people read: at a glance, complete, and nothing in it that an agent could have put there to mislead."""

from collections.abc import Sequence

import msgspec
import pytest
from bench.alert_examples import EXAMPLES
from hypothesis import given, strategies as st
from msgspec.structs import replace

from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.alerts.model import (
    LINES_MAX,
    QUESTION_CHARS_MAX,
    AttentionQuestion,
    finished_text,
    incident_text,
    late_text,
    needs_you_text,
    problem_text,
    question_of,
    resolved_text,
    with_pause_line,
)
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.incidents.model import Cause, Incident, MemberStatus
from wakeful.judging.events import CallKind, CallStarted, Failure, Prompted, QuestionAsked
from wakeful.judging.evidence import Pane
from wakeful.judging.session_record import SessionRecord

SECRET = "Zq8vT3xWm2Lk9Pf4"


def record(house: SupervisorFixture, name: str) -> SessionRecord:
    found = house.registry.sessions[subject(name).id].record
    assert found is not None
    return found


def show(house: SupervisorFixture, name: str) -> None:
    """Put the session into a pane."""
    pane = Pane("/run/tmux", "main", "%3", Process(1, 1, "b"), ProcessState.ALIVE, ProcessState.ALIVE)
    house.supervisor.on_pane(subject(name).id, pane)
    house.settle()


def asking(
    house: SupervisorFixture, about: str = "Bash: rm -r build"
) -> tuple[SessionRecord, AttentionQuestion]:
    house.start("a")
    house.ask("a", about)
    show(house, "a")
    asked = record(house, "a")
    question = question_of(asked)
    assert question is not None
    return asked, question


def dead(house: SupervisorFixture, name: str = "b") -> SessionRecord:
    process = house.start(name, project="bank")
    house.work(name)
    house.end(process)
    return record(house, name)


def outage(*names: str) -> Incident:
    """A lost login under sessions of these names."""
    found = Incident("i-1", Cause.AUTH, "claude", 0.0, 0.0, None, (), "no login")
    for number, name in enumerate(names):
        session_id = SessionId(f"claude-{number:08}-whatever")
        found = found.with_session(session_id, 0.0, name).with_treatment(
            session_id, MemberStatus.LEFT_ALONE, "no action: why"
        )
    return found


def test_who_needs_you_says_where_what_and_how_to_get_there(house: SupervisorFixture) -> None:
    """Project, question, jump command."""
    assert needs_you_text(*asking(house)).splitlines() == [
        "shop needs you",
        "Bash: rm -r build",
        "→ wakeful attach claude-a",
    ]


def test_a_question_has_140_characters(house: SupervisorFixture) -> None:
    """The rest is an ellipsis."""
    asked, question = asking(house, "why " * 200)
    line = needs_you_text(asked, question).splitlines()[1]
    assert len(line) == QUESTION_CHARS_MAX
    assert line.endswith("…")


def test_a_question_names_the_tool_and_what_it_is_about(house: SupervisorFixture) -> None:
    """Not the client's word for a dialog alone, and not its JSON."""
    house.start("a")
    house.work("a", "touch q; sleep 1")
    house.hear("a", QuestionAsked(house.clock.now().wall, "permission prompt"))
    question = question_of(record(house, "a"))
    assert question is not None
    assert question.words == "permission prompt: Bash `touch q; sleep 1`"
    house.hear("a", QuestionAsked(house.clock.now().wall, "Bash"))
    assert question_of(record(house, "a")) == replace(question, words="Bash `touch q; sleep 1`")


def test_a_question_of_an_agent_is_told_in_its_words(house: SupervisorFixture) -> None:
    """What it asks stands inside its call."""
    house.start("a")
    asked = {"questions": [{"question": "Which colour?", "header": "Colour", "options": []}]}
    call = CallStarted(1.0, "c", "AskUserQuestion", CallKind.PERSON, msgspec.json.encode(asked))
    house.hear("a", Prompted(house.clock.now().wall), call)
    question = question_of(record(house, "a"))
    assert question is not None
    assert question.words == "AskUserQuestion `Which colour?`"


def test_a_question_without_a_terminal_is_answered_from_here(house: SupervisorFixture) -> None:
    """A managed session in no pane: the command that says yes."""
    asked, question = asking(house)
    headless = replace(asked, managed=True, name="api", actions=())
    assert needs_you_text(headless, question).splitlines() == [
        "api (shop) needs you",
        "Bash: rm -r build",
        "Allow it with this command; `deny` refuses it:",
        "→ wakeful answer claude-a allow",
    ]


def test_a_guessed_question_is_told_as_one_and_offers_no_answer(house: SupervisorFixture) -> None:
    """The question was not observed: the alert offers the way to the session, not a yes."""
    house.start("a")
    now = house.clock.now().wall
    given = msgspec.json.encode({"cmd": "make"})
    call = CallStarted(now, "c", "exec_command", input=given, enforced=True, escalated=True)
    house.hear("a", Prompted(now), call)
    headless = replace(record(house, "a"), managed=True, name="api", actions=())
    question = question_of(headless)
    assert question is not None
    assert needs_you_text(headless, question).splitlines() == [
        "api (shop) needs you",
        "probably asks for permission: exec_command `make`",
        "→ wakeful why claude-a",
    ]


def test_a_session_in_no_pane_offers_no_jump(house: SupervisorFixture) -> None:
    """A command that would fail is no help."""
    house.start("a")
    house.finish("a")
    assert finished_text(record(house, "a")).splitlines()[-1] == "→ wakeful why claude-a"


def test_a_lost_login_is_a_question_and_a_death_is_none(house: SupervisorFixture) -> None:
    """What a person must fix is a question; what is merely wrong is a problem."""
    house.start("a")
    house.fail("a", "401 invalid credentials", Failure.AUTH)
    asked = question_of(record(house, "a"))
    assert asked is not None
    assert "auth_required" in asked.words
    assert question_of(dead(house)) is None


def test_trouble_says_all_six_things(house: SupervisorFixture) -> None:
    """What, where, since when, what was done, what happens otherwise, and one command; a found session's is adopt."""
    lines = problem_text(dead(house), otherwise="its turn stays unfinished").splitlines()
    assert len(lines) <= LINES_MAX
    assert lines[0].startswith("bank: ")
    assert "(session_dead)" in lines[0]
    assert lines[1] == "Where: claude session claude-b on testhost, /home/me/bank"
    assert lines[2] == "Since: 2027-01-15 08:00 UTC"
    assert lines[3] == "No action: not managed by Wakeful"
    assert lines[4] == "Until you act: its turn stays unfinished"
    assert lines[5] == "→ wakeful adopt claude-b"


def test_trouble_of_what_an_agent_of_the_hub_hosts_names_the_agent(house: SupervisorFixture) -> None:
    """Who brings it back is the agent's declaration."""
    lines = problem_text(replace(dead(house), managed=True, agent="bot")).splitlines()
    assert lines[3] == "No action: agent bot hosts it"


def test_trouble_of_a_managed_session_says_what_was_done(house: SupervisorFixture) -> None:
    """In the healer's own words, with the command the healer names."""
    managed = replace(dead(house), managed=True)
    text = problem_text(managed, did="resumed it: recovered", command="wakeful session revive claude-b --yes")
    assert "Action: resumed it: recovered" in text
    assert text.endswith("→ wakeful session revive claude-b --yes")
    assert problem_text(managed).endswith("→ wakeful why claude-b")


def test_trouble_while_paused_says_so_first(house: SupervisorFixture) -> None:
    """With the person's name, and still within eight lines, also when it comes late."""
    late = late_text(problem_text(dead(house), paused_by="anna"), 0.0)
    lines = with_pause_line(late, "anna").splitlines()
    assert lines[0] == "PAUSED by anna: Wakeful takes no action until `wakeful unpause`"
    assert "No action: Wakeful is paused" in lines
    assert len(lines) <= LINES_MAX


def test_many_sessions_with_one_cause_are_one_text() -> None:
    """The cause, how many, and five of them by name."""
    lines = incident_text(outage(*(f"s{number}" for number in range(8)))).splitlines()
    assert lines[0] == "claude needs a login: 8 sessions affected"
    assert lines[1] == "Where: s0, s1, s2, s3, s4 and 3 more"
    assert lines[-1] == "→ claude /login"
    assert len(lines) <= LINES_MAX


@pytest.mark.parametrize(
    ("ids", "command"),
    [
        (("agent-fox",), "wakeful attach fox"),
        (("agent-fox", "agent-owl"), "wakeful services"),
        (("agent-fox", "claude-1"), "wakeful resume --all"),
        (("claude-1",), "wakeful resume --all"),
    ],
)
def test_an_agent_whose_server_ended_is_not_sent_to_restore(ids: Sequence[str], command: str) -> None:
    """`wakeful resume --all` knows sessions: of agents without one it says that nothing was lost."""
    lost = Incident("i-1", Cause.TMUX_SERVER, "/run/tmux.sock", 0.0, 0.0, None, (), "its tmux server ended")
    for each in map(SessionId, ids):
        lost = lost.with_session(each, 0.0, each).with_treatment(
            each, MemberStatus.LEFT_ALONE, "no action: why"
        )
    assert incident_text(lost).splitlines()[-1] == f"→ {command}"


def test_sessions_of_one_name_are_told_apart() -> None:
    """By as much of their ids as a command takes."""
    assert "Where: shop 00000000, shop 00000001" in incident_text(outage("shop", "shop"))


def test_sessions_whose_ids_begin_with_their_time_are_told_apart() -> None:
    """Codex's ids share their first characters for a minute."""
    found = Incident("i-1", Cause.AUTH, "codex", 0.0, 0.0, None, (), "no login")
    for tail in ("41ce-7ae0-bc1e-d89c8a958264", "4394-7ea1-b321-4f31533fd86d"):
        found = found.with_session(SessionId(f"codex-01a1e48c-{tail}"), 0.0, "shop")
    assert "Where: shop 01a1e48c-41ce, shop 01a1e48c-4394" in incident_text(found)


def test_an_end_names_what_it_ends() -> None:
    """The reader knows which of several problems is over."""
    text = resolved_text("bank: the agent died", "2027-01-15T08:00:00.000Z", did="resumed: recovered")
    assert text.splitlines() == [
        "Resolved: bank: the agent died",
        "Began: 2027-01-15 08:00 UTC",
        "Action: resumed: recovered",
    ]


@given(st.text(max_size=600))
def test_no_text_adds_a_line_or_a_control_character(hostile: str) -> None:
    """Whatever an agent or a healer wrote: eight printable lines at most."""
    asked, question = asking(SupervisorFixture(), f"ask {hostile}")
    texts = (
        needs_you_text(asked, question),
        problem_text(asked, did=hostile, otherwise=hostile, paused_by=hostile),
        incident_text(outage(hostile).with_treatment(SessionId("claude-1"), MemberStatus.HELD, hostile)),
    )
    for text in (*texts, *(with_pause_line(text, hostile) for text in texts)):
        assert len(text.splitlines()) <= LINES_MAX
        assert all(line.isprintable() for line in text.split("\n"))
    assert len(texts[0].splitlines()) == 3


def test_no_secret_is_told(house: SupervisorFixture) -> None:
    """In a question, in the healer's words, in an end."""
    hidden = f"curl -H 'Authorization: Bearer {SECRET}' \x1b[31msk-\x1b[0mant-{SECRET}"
    asked, question = asking(house, hidden)
    for text in (
        needs_you_text(asked, question),
        problem_text(asked, did=hidden),
        resolved_text(hidden, "", did=hidden, because=hidden),
    ):
        assert SECRET not in text


@pytest.mark.parametrize("title", EXAMPLES)
def test_every_kind_of_alert_is_read_at_a_glance(title: str) -> None:
    """Eight lines at most, with one command if something may have to be done."""
    first, *others = EXAMPLES[title]().splitlines()
    assert len(others) < LINES_MAX
    if first.startswith(("Resolved: ", "Closed: ")):
        return
    assert [line.startswith("→ ") for line in others] == [False] * (len(others) - 1) + [True]
