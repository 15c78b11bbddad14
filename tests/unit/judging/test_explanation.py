"""`why`: one right sentence and one right command for every kind of verdict, from the real judge."""

import re
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, strategies as st

from support.judging_helpers import POLICY, at, folded, held, hold_by, told
from wakeful.cli.format.explanation import refused_action_lines, why_lines
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.process import FOREIGN_BOOT_ID, Process, ProcessState
from wakeful.judging import events as e
from wakeful.judging.available_actions import NOTHING_WRITTEN, ActionName
from wakeful.judging.evidence import ClientStatus, LivenessLevel, Orphan, Pane, RuntimeState, SessionIdentity
from wakeful.judging.explanation import RULE_TEXTS, Explanation, LevelState, RefusedAction, explain, rule_text
from wakeful.judging.findings import FindingCode
from wakeful.judging.folding import RULE_VERSION
from wakeful.judging.judge import judge
from wakeful.judging.session_record import JUDGE_VERSION, build_record

SUBJECT = SessionIdentity(SessionId("claude-x"), "claude", "box", "claude-transcripts", ConversationId("x"))
RESUME = ("sh", "-c", "cd /home/me/shop && claude --resume x")
WAIT = ("wakeful", "session", "wait", "claude-x", "--until", "idle")
INSPECT = ("wakeful", "session", "inspect", "claude-x")
ATTACH = ("wakeful", "attach", "claude-x")
PROMPT = e.Prompted(1.0)


def call(
    seconds: float, command: str, number: int = 1, timeout_seconds: float | None = None
) -> e.CallStarted:
    given_input = msgspec.json.encode({"command": command})
    return e.CallStarted(seconds, f"c{number}", "Bash", e.CallKind.TOOL, given_input, timeout_seconds)


def why(
    events: Sequence[e.Event],
    now: float,
    presence: RuntimeState | None = None,
    subject: SessionIdentity = SUBJECT,
    *,
    place_gone: bool = False,
) -> Explanation:
    """What `why` says at `now` seconds, with the real verdict."""
    presence = presence if presence is not None else held()
    presence.cwd = "/home/me/shop"
    activity, moment = folded(events), at(now)
    verdict = judge(activity, presence, POLICY, moment)
    record = build_record(subject, activity, presence, verdict, moment)
    return explain(record, activity, presence, verdict, POLICY, moment, place_gone=place_gone)


def in_pane(presence: RuntimeState, sight: ProcessState = ProcessState.ALIVE) -> RuntimeState:
    presence.pane = Pane("/run/tmux", "work", "%3", Process(90, 1, "boot"), sight, ProcessState.ALIVE)
    return presence


def rungs(answer: Explanation) -> dict[LivenessLevel, LevelState]:
    return {each.rung: each.hold for each in answer.ladder}


def test_a_long_tool_is_expected_silence() -> None:
    """Silent beyond the threshold, held back by the call's own timeout, said with its end."""
    answer = why([PROMPT, call(2.0, "go test ./...", timeout_seconds=1800.0)], 842.0)
    assert answer.sentence == "silent 14 min, expected: `go test ./...` may run until 00:30 UTC"
    assert answer.fired == ()
    (held_rule,) = answer.held_back
    assert (held_rule.code, held_rule.by, held_rule.until) == (
        FindingCode.SILENT,
        "tool",
        "1970-01-01T00:30:32.000Z",
    )
    assert "600 s" in held_rule.rule
    assert (answer.command, rungs(answer)[LivenessLevel.TOOL]) == (WAIT, LevelState.ALIVE)
    assert rungs(answer)[LivenessLevel.PROGRESS] is LevelState.UNKNOWN
    assert answer.next_change_at is not None


def test_a_session_at_work_is_told_what_it_waits_for() -> None:
    """Fresh progress: no silence is claimed, and no rule was held back."""
    answer = why([PROMPT], 5.0)
    assert answer.sentence == "at work: the model may take until 00:10 UTC"
    assert (answer.fired, answer.held_back, answer.command) == ((), (), WAIT)
    assert rungs(answer)[LivenessLevel.PROGRESS] is LevelState.ALIVE


def test_a_question_leads_to_its_pane() -> None:
    """A person is needed: the sentence says for what, the command goes there."""
    asking = told(ClientStatus.WAITING, 3.0, "permission prompt")
    answer = why([PROMPT, call(2.0, "git push")], 700.0, in_pane(asking))
    assert answer.sentence == "waits for you: `permission prompt`, `git push`"
    assert answer.command == ATTACH
    assert [(rule.code, rule.until) for rule in answer.held_back] == [(FindingCode.SILENT, None)]
    without = why([PROMPT], 9.0, told(ClientStatus.WAITING, 3.0, "permission prompt"))
    assert (without.sentence, without.command) == ("waits for you: `permission prompt`", INSPECT)


def test_words_of_the_agent_in_the_sentence_are_listed() -> None:
    """The document lists the parts of the sentence that are not Wakeful's."""
    answer = why([PROMPT, e.QuestionAsked(2.0, "@everyone obey")], 3.0)
    assert "`@everyone obey`" in answer.sentence
    assert answer.untrusted == ("@everyone obey",)


def test_silence_beyond_every_wait_is_said_with_its_rule() -> None:
    """Nothing is left to wait for: the rule that fired stands there with its number, the ladder with its break."""
    answer = why([PROMPT], 845.0, in_pane(held()))
    assert answer.sentence == "silent 14 min, longer than expected: the model's answer is pending"
    assert [(rule.code, "600 s" in rule.rule) for rule in answer.fired] == [(FindingCode.SILENT, True)]
    assert rungs(answer)[LivenessLevel.PROGRESS] is LevelState.BROKEN
    assert rungs(answer)[LivenessLevel.TURN] is LevelState.ALIVE
    assert answer.command == ATTACH
    assert why([PROMPT], 845.0).command == INSPECT


def test_a_death_names_the_call_and_its_orphan() -> None:
    """Dead inside a call whose tool still runs: both are named, and resuming is advised against while it runs."""
    runtime = held(ProcessState.DEAD, ended_at=at(8.0))
    runtime.orphans = (Orphan(Process(7, 1, "boot"), "git push origin"),)
    answer = why([PROMPT, call(2.0, "git push")], 9.0, runtime)
    assert answer.sentence == "died in the middle of `git push`; its tool still runs as process 7"
    assert answer.command == RESUME
    assert "process 7" in answer.command_text
    assert rungs(answer)[LivenessLevel.AGENT_PROCESS] is LevelState.BROKEN
    assert rungs(answer)[LivenessLevel.TOOL] is LevelState.ALIVE
    assert "process 100 is gone" in [each.text for each in answer.evidence]


def test_nobody_is_sent_to_resume_in_a_folder_that_is_gone() -> None:
    """The explanation has it as evidence and as the first thing to fix."""
    answer = why([PROMPT, call(2.0, "make")], 9.0, held(ProcessState.DEAD, ended_at=at(8.0)), place_gone=True)
    assert answer.command == INSPECT
    assert "its working directory is gone" in answer.command_text
    assert "its working directory is gone" in [each.text for each in answer.evidence]


@pytest.mark.parametrize("boot", ["boot", f"{FOREIGN_BOOT_ID} a-container"])
def test_a_folder_inside_a_container_is_not_called_gone(boot: str) -> None:
    """This host does not have it, which says nothing."""
    runtime = held(ProcessState.DEAD, ended_at=at(8.0))
    for process in runtime.holders.values():
        process.process = msgspec.structs.replace(process.process, boot_id=boot)
    hosted = msgspec.structs.replace(SUBJECT, agent="bot" if boot == "boot" else None)
    answer = why([PROMPT, call(2.0, "make")], 9.0, runtime, hosted, place_gone=True)
    assert "gone" not in answer.command_text
    assert "its working directory is gone" not in [each.text for each in answer.evidence]


MANAGED = msgspec.structs.replace(SUBJECT, managed=True)
REVIVE = ("wakeful", "resume", "claude-x")


def test_what_wakeful_was_given_is_brought_back_by_it() -> None:
    """By the plan, which tells it what was cut off and holds it where a person has to look; not past a living tool."""
    dead = why([PROMPT, call(2.0, "make")], 9.0, held(ProcessState.DEAD, ended_at=at(8.0)), MANAGED)
    assert dead.command == REVIVE
    silent = why([PROMPT], 845.0, subject=MANAGED)
    assert silent.command == REVIVE
    with_tool = held(ProcessState.DEAD, ended_at=at(8.0))
    with_tool.orphans = (Orphan(Process(7, 1, "boot"), "make"),)
    waits = why([PROMPT, call(2.0, "make")], 9.0, with_tool, MANAGED)
    assert waits.command == ("wakeful", "resume", "claude-x")
    assert "once process 7 has ended" in waits.command_text


def test_what_an_agent_of_the_hub_hosted_is_brought_back_by_it() -> None:
    """Its conversation is not offered for another start."""
    hosted = msgspec.structs.replace(SUBJECT, agent="bot")
    answer = why([PROMPT, call(2.0, "make")], 9.0, held(ProcessState.DEAD, ended_at=at(8.0)), hosted)
    assert answer.command == ("wakeful", "attach", "bot")


def test_a_question_of_a_managed_session_without_a_pane_is_answered_from_here() -> None:
    """There is no pane to go to."""
    managed = msgspec.structs.replace(SUBJECT, managed=True)
    asked = why([PROMPT, e.QuestionAsked(2.0, "Bash")], 9.0, subject=managed)
    assert asked.command == ("wakeful", "answer", "claude-x", "allow")


def test_an_agent_that_left_its_shell_behind_is_told_apart() -> None:
    """The pane lives, the agent does not: the ladder holds to the pane."""
    answer = why([PROMPT], 9.0, in_pane(held(ProcessState.DEAD)))
    assert answer.sentence == "exited to a shell in the middle of a turn"
    assert [
        rungs(answer)[rung]
        for rung in (LivenessLevel.PANE_PROCESS, LivenessLevel.AGENT_PROCESS, LivenessLevel.TURN)
    ] == [
        LevelState.ALIVE,
        LevelState.BROKEN,
        LevelState.UNKNOWN,
    ]


def test_a_finished_turn_is_ready() -> None:
    """Nothing is wrong, and the sentence says so; a process that ends afterwards is no death."""
    answer = why([PROMPT, e.TurnEnded(20.0)], 205.0)
    assert answer.sentence == "finished 3 min ago, ready for a prompt"
    assert (answer.health, answer.fired, answer.next_change_at) == ("healthy", (), None)
    assert rungs(answer)[LivenessLevel.TURN] is LevelState.NOT_APPLICABLE
    gone = why([PROMPT, e.TurnEnded(20.0)], 205.0, held(ProcessState.DEAD))
    assert gone.sentence == "stopped: finished 3 min ago, and its process ended"
    assert gone.command == RESUME


@pytest.mark.parametrize("managed", [False, True])
def test_a_session_without_a_log_is_not_advised_to_be_resumed(*, managed: bool) -> None:
    """Its client would say that there is no such conversation: the advice gives the reason."""
    answer = why([], 205.0, held(ProcessState.DEAD), msgspec.structs.replace(SUBJECT, managed=managed))
    assert (answer.command, answer.command_text) == (INSPECT, NOTHING_WRITTEN)


def test_a_turn_that_was_cut_off_is_not_done() -> None:
    """Resumed by hand and idle: the process before it died in the turn, and the new one was asked nothing yet."""
    presence = held(ProcessState.DEAD, ended_at=at(30.0))
    hold_by(presence, ProcessState.ALIVE, 200, seen_at=at(60.0), status=ClientStatus.IDLE, status_at=at(61.0))
    answer = why([PROMPT, call(20.0, "make test")], 205.0, presence)
    assert answer.sentence == "its last turn stopped midway 3 min ago, ready for a prompt"
    assert answer.command_text.startswith("its last turn stopped midway: it waits for a prompt")
    in_its_pane = why([PROMPT, call(20.0, "make test")], 205.0, in_pane(presence))
    assert in_its_pane.command_text == "its last turn stopped midway; go to its pane to prompt it"


def test_an_idle_client_whose_log_has_no_end_of_its_turn_is_not_called_done() -> None:
    """Esc before the model wrote anything leaves no word of it."""
    answer = why([PROMPT], 205.0, told(ClientStatus.IDLE, 20.0))
    assert answer.sentence == "its log does not say how its last turn ended, ready for a prompt"
    assert "nothing is wrong" not in answer.command_text


def test_a_process_nobody_saw_is_unknown() -> None:
    """The sentence says unknown, and refers to the evidence."""
    answer = why([PROMPT], 9.0, RuntimeState())
    assert answer.sentence == "unknown: its process was never seen"
    assert answer.command == INSPECT
    assert rungs(answer)[LivenessLevel.AGENT_PROCESS] is LevelState.UNKNOWN


def test_an_unseen_writer_is_not_called_an_unseen_process() -> None:
    """Its process was seen, and its end too: what is not known is what wrote afterwards."""
    runtime = held(ProcessState.DEAD, ended_at=at(2.0))
    runtime.written_after_at = at(8.0)
    answer = why([PROMPT], 9.0, runtime)
    assert answer.sentence == ("unknown: its log grew after its process had ended; the writer is unknown")


@pytest.mark.parametrize(
    ("failure", "words", "command"),
    [
        (e.Failure.AUTH, "the provider refused the login: `sorry`", ("claude", "/login")),
        (e.Failure.LIMIT, "the usage limit is reached: `sorry`", INSPECT),
        (e.Failure.PROVIDER, "the last turn ended with an error: `sorry`", INSPECT),
    ],
)
def test_a_failed_turn_says_who_has_to_move(failure: e.Failure, words: str, command: tuple[str, ...]) -> None:
    """Login, time or a look: each failure has its own right command."""
    answer = why([PROMPT, e.TurnFailed(20.0, failure, "sorry")], 205.0)
    assert answer.sentence.startswith(words)
    assert answer.command == command
    assert rungs(answer)[LivenessLevel.TURN] is LevelState.BROKEN


def test_after_a_usage_limit_a_managed_session_goes_on_by_itself() -> None:
    """If the end is unknown, or Wakeful only watches, a person prompts it; waiting for it to be idle is no wait."""
    timed, endless = (e.TurnFailed(20.0, e.Failure.LIMIT, "sorry", until=until) for until in (900.0, None))
    by_itself = why([PROMPT, timed], 30.0, in_pane(held()), MANAGED)
    assert by_itself.command == INSPECT
    assert "Wakeful continues it" in by_itself.command_text
    assert why([PROMPT, endless], 30.0, subject=MANAGED).command == ("wakeful", "send", "claude-x")
    found = why([PROMPT, timed], 30.0, in_pane(held()))
    assert (found.command, "prompt it again" in found.command_text) == (ATTACH, True)


def test_a_login_in_a_pane_is_typed_there() -> None:
    """Where the session is shown, `/login` is typed into it."""
    answer = why([PROMPT, e.TurnFailed(20.0, e.Failure.AUTH, "401")], 30.0, in_pane(held()))
    assert answer.command == ATTACH
    assert "/login" in answer.command_text


def test_a_cascade_and_a_loop_are_told_with_their_numbers() -> None:
    """What repeated is counted in the sentence, and the rule states its threshold."""
    events: list[e.Event] = [PROMPT]
    for number in range(6):
        events += [call(2.0 + number, "make", number), e.CallEnded(2.5 + number, f"c{number}", is_error=True)]
    answer = why(events, 10.0)
    codes = [rule.code for rule in answer.fired]
    assert FindingCode.ERROR_CASCADE in codes
    assert "more than 5 failed calls" in answer.fired[codes.index(FindingCode.ERROR_CASCADE)].rule
    assert rungs(answer)[LivenessLevel.PROGRESS] is LevelState.BROKEN


def test_a_cascade_quotes_the_call_that_failed_last_and_its_error() -> None:
    """A person who reads of failures wants to know of which; several calls share none of them."""
    events: list[e.Event] = [PROMPT]
    for number in range(6):
        said = b'"Exit code %d\\nls: no \\"x\\" here"' % number
        events += [
            call(2.0 + number, f"ls x{number}", number),
            e.CallEnded(2.5 + number, f"c{number}", True, result=said),
        ]
    assert why(events, 10.0).sentence == (
        '6 failed calls in a row, the last `ls x5` with `Exit code 5 ls: no "x" here`, since 00:00 UTC'
    )
    parts = b'[{"type":"text","text":"Error: gone"},{"type":"text","text":"x"}]'
    events[-1] = e.CallEnded(7.5, "c5", True, result=parts)
    assert "`Error: gone`" in why(events, 10.0).sentence


def test_a_changed_format_makes_no_claim() -> None:
    """Drift is unknown, in words."""
    answer = why([PROMPT, e.TurnEnded(2.0), e.FormatDrifted(3.0, "user.message")], 9.0)
    assert answer.sentence == "unknown: the log's format changed: no user.message"
    assert answer.command == INSPECT


def test_twins_are_named() -> None:
    """Two owners of one conversation: a person decides, by the evidence."""
    runtime = held(pid=100)
    runtime.holders |= held(pid=200).holders
    answer = why([PROMPT, e.TurnEnded(2.0)], 9.0, runtime)
    assert answer.sentence.startswith("2 processes hold one conversation")
    assert answer.fired[0].evidence == ("pids 100, 200",)
    assert answer.command == INSPECT


@pytest.mark.parametrize("code", FindingCode)
def test_every_rule_can_be_said(code: FindingCode) -> None:
    """Each code has words, and every number in them is one of the policy's."""
    assert set(RULE_TEXTS) == set(FindingCode)
    assert "{" not in rule_text(code, POLICY)


def test_the_versions_of_the_rules_are_said() -> None:
    """Folding and judging have a version each, in `why` as in the record."""
    assert why([PROMPT], 5.0).rule_version == f"{RULE_VERSION}.{JUDGE_VERSION}"


HOSTILE = st.text(max_size=99) | st.text('`"{}: \\a\n\x1b\u202e', max_size=20)


@given(HOSTILE, HOSTILE)
def test_nothing_an_agent_wrote_leaves_its_backquotes(command: str, question: str) -> None:
    """Outside of backquotes a sentence is Wakeful's, whatever a call or a client wrote, and it is one plain line."""
    for answer in (
        why([PROMPT, call(2.0, f"SECRET{command}")], 9.0),
        why(
            [PROMPT, call(2.0, f"SECRET{command}")], 9.0, told(ClientStatus.WAITING, 3.0, f"SECRET{question}")
        ),
        why([PROMPT, call(2.0, f"SECRET{command}")], 9.0, held(ProcessState.DEAD)),
        why([PROMPT, e.TurnFailed(2.0, e.Failure.UNKNOWN, f"SECRET{question}")], 9.0),
    ):
        assert answer.sentence.isprintable()
        assert answer.sentence.count("`") % 2 == 0
        assert "SECRET" not in re.sub("`[^`]*`", "", answer.sentence)


def test_keys_are_never_shown() -> None:
    """A secret in a call is gone from the sentence, the evidence and the rules."""
    body = msgspec.json.encode(why([PROMPT, call(2.0, "curl -H 'x: sk-ant-abcdefgh12345678'")], 9.0))
    assert b"abcdefgh12345678" not in body
    assert b"[key]" in body


def test_bringing_back_is_one_word() -> None:
    """`revive` and `resume` are one verb for people; each reason is said once."""
    refused = (
        RefusedAction(ActionName.RESUME, "it needs a login"),
        RefusedAction(ActionName.REVIVE, "it needs a login"),
    )
    explanation = msgspec.structs.replace(why([PROMPT], 9.0, held(ProcessState.DEAD)), refused=refused)
    lines = ["".join(text for text, _ in line) for line in refused_action_lines(explanation)]
    assert lines == ["  resume: it needs a login"]


def test_the_ladder_is_drawn_to_its_break() -> None:
    """Text for people: every rung on its line, alive ones marked, a cross at the break, the command last."""
    lines = [
        "".join(text for text, _ in line)
        for line in why_lines(why([PROMPT], 9.0, in_pane(held(ProcessState.DEAD))))
    ]
    drawn = [line.split() for line in lines[lines.index("liveness levels") + 1 :][: len(LivenessLevel)]]
    assert [words[0] for words in drawn] == ["●", "●", "·", "●", "●", "✗", "?", "·", "?"]
    assert lines[-2] == "do          cd /home/me/shop && claude --resume x"


def test_several_orphans_are_told_in_the_plural() -> None:
    """Two tools are two processes that have to end."""
    runtime = held(ProcessState.DEAD, ended_at=at(8.0))
    runtime.orphans = tuple(Orphan(Process(pid, 1, "boot"), "make") for pid in (7, 9))
    answer = why([PROMPT, call(2.0, "make")], 9.0, runtime)
    assert answer.sentence == "died in the middle of `make`; its tools still run as processes 7, 9"
    assert answer.command_text.startswith("resume it once processes 7, 9 have ended")
