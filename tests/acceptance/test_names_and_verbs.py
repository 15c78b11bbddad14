"""Claims about how people address sessions: by name, project, tmux session, id, or a part of one of these."""

import os
import signal

import pytest

from support.cli_user import DONE, Operator, bash
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, wait_for
from wakeful.testing.scripted_model import script

PUSH = bash("git push origin main; sleep 900")


def test_a_session_is_found_by_what_it_is_called(operator: Operator) -> None:
    """By its name, its project, its conversation, a part of its name; a part alone is not acted on in a pipe."""
    session_id = operator.start("--headless", "--name", "docs2", "--prompt", script(DONE), "--", "claude")
    operator.wait_until(session_id, "end of its turn", state="idle")
    project = operator.record(session_id)["project"]  # type: ignore[index]
    conversation = session_id.removeprefix("claude-")
    for name in ("docs2", project, session_id, conversation, conversation[:6], session_id[:12], "DOCS"):
        why = operator.type("why", name)
        assert (why.exit_code, "ready for a prompt" in why.out) == (0, True), (name, why.err)
    refused = operator.type("stop", "doc")
    assert (refused.exit_code, "only part of a name" in refused.err, "docs2" in refused.err) == (
        2,
        True,
        True,
    )
    assert operator.type("send", "docs2", script(DONE)).exit_code == 0
    operator.wait_until(session_id, "end of its turn", state="idle")
    # The prompt is read once, although the name is looked up after the daemon knew no such id.
    piped = operator.pipe(script(DONE).encode(), "send", project)
    assert piped.exit_code == 0, piped.err
    nothing = operator.type("why", "nowhere")
    assert (nothing.exit_code, nothing.err.count("\n")) == (2, 1)
    muted = operator.type("mute", project, "--for", "1h")
    assert (muted.exit_code, "session docs2 is muted" in muted.out) == (0, True), muted.err
    assert operator.type("unmute", "docs2").exit_code == 0
    assert operator.type("stop", "docs2").exit_code == 0


def test_a_name_that_fits_several_sessions_is_a_question(operator: Operator) -> None:
    """In a pipe: the candidates and exit 2, and nothing is done."""
    for name in ("api-a", "api-b"):
        operator.start("--headless", "--name", name, "--prompt", script(DONE), "--", "claude")
    answer = operator.type("stop", "api")
    assert (answer.exit_code, "api-a" in answer.err, "api-b" in answer.err) == (2, True, True)
    assert all(each["session_alive"] for each in operator.daemon.sessions())
    said = operator.type("why", "api", "--json")
    assert said.exit_code == 2
    assert '"code": "ambiguous-session"' in said.err
    # A project that both have.
    both = operator.type("stop", operator.daemon.sessions()[0]["project"])
    assert (both.exit_code, "api-b" in both.err) == (2, True)


def test_resume_brings_back_a_stopped_session(operator: Operator) -> None:
    """In its conversation, also after a person stopped it; twice it says that nothing is to be done."""
    session_id = operator.start("--headless", "--name", "docs", "--prompt", script(DONE), "--", "claude")
    operator.wait_until(session_id, "end of its turn", state="idle")
    assert operator.type("stop", "docs").exit_code == 0
    operator.wait_until(session_id, "its end", state="stopped")
    rehearsal = operator.type("resume", "docs", "--dry-run")
    assert (rehearsal.exit_code, "dry run: resuming docs" in rehearsal.out) == (0, True)
    assert operator.record(session_id)["session_alive"] is False  # type: ignore[index]
    resumed = operator.type("resume", "docs")
    assert (resumed.exit_code, "resuming docs in its conversation" in resumed.err) == (0, True), resumed.out
    operator.wait_until(session_id, "life", session_alive=True, state="idle")
    again = operator.type("resume", "docs")
    assert (again.exit_code, "docs cannot be resumed" in again.err) == (1, True)


def test_wakeful_alone_lists_the_sessions_in_a_pipe(operator: Operator) -> None:
    operator.start("--headless", "--name", "docs", "--prompt", script(DONE), "--", "claude")
    columns = [[row.split()[:4] for row in operator.type(*words).out.splitlines()] for words in ((), ("ls",))]
    assert columns[0] == columns[1]
    assert len(columns[0]) > 1


def test_refusals_name_a_session_as_lists_do(operator: Operator) -> None:
    """Never by its id, with a command that works as it stands; a question of a stopped session is none."""
    name = "docs2"
    session_id = operator.start("--headless", "--name", name, "--prompt", script(DONE), "--", "claude")
    operator.wait_until(session_id, "end of its turn", state="idle")
    refused = operator.type("session", "resume", session_id)
    assert (refused.exit_code, "docs2 is in use by process" in refused.err) == (1, True), refused.err
    assert "docs2 is not open in any tmux pane" in operator.type("attach", name).err
    assert operator.type("stop", name).exit_code == 0
    operator.wait_until(session_id, "its end", state="stopped")
    asked = operator.type("answer", name, "allow")
    assert (asked.exit_code, asked.err.strip()) == (1, f"wakeful: {name} has no open question."), asked.err
    brought_back = "wakeful resume docs2"
    for words in (("send", name, script(DONE)), ("attach", name), ("session", "revive", session_id)):
        answer = operator.type(*words)
        assert brought_back in answer.out + answer.err, words
        assert session_id not in answer.out + answer.err
    both = operator.type("resume", name, "--all")
    assert (both.exit_code, "either a name or --all" in both.err) == (2, True)
    unknown = operator.type("why", "three words")
    assert (unknown.exit_code, "No session 'three words'" in unknown.err) == (2, True)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("end", "stop"), ("start", "run"), ("restart", "resume"), ("atach", "attach"), ("lst", "ls")],
)
def test_a_word_of_other_tools_names_the_command(daemon: RunningDaemon, word: str, meant: str) -> None:
    answer = daemon.run(word, "docs")
    assert (answer.exit_code, f"Did you mean `wakeful {meant}`?" in answer.err) == (2, True)


def test_what_people_type_first_works(operator: Operator) -> None:
    """Words of other tools, beside the names of Wakeful; `help` of a command; a report since a day."""
    operator.start("--headless", "--name", "docs", "--prompt", script(DONE), "--", "claude")
    for word in ("ps", "list"):
        assert operator.type(word).out.splitlines()[1].split()[0] == operator.daemon.sessions()[0]["id"]
    assert operator.type("version").out == operator.type("-V").out != ""
    assert operator.type("help").out == operator.type("--help").out
    assert operator.type("help", "session", "why").out == operator.type("session", "why", "--help").out
    assert operator.type("help", "nothing").exit_code == 2
    assert "docs" in operator.type("report", "--since", "yesterday").out
    assert operator.type("kill", "docs").exit_code == 0


def test_a_list_is_shown_again_when_a_session_changes(operator: Operator) -> None:
    """`ls --watch` in a pipe prints one list after the other; the daemon pushes the changes."""
    session_id = operator.start("--headless", "--name", "docs", "--prompt", script(DONE), "--", "claude")
    operator.wait_until(session_id, "end of its turn", state="idle")
    watching = operator.begin("ls", "--watch")
    try:
        lines = iter(watching.stdout)  # type: ignore[arg-type]
        assert any("ready for a prompt" in line for line in lines)
        assert operator.type("stop", "docs").exit_code == 0
        assert any(" stopped " in line for line in lines)
    finally:
        watching.terminate()
        watching.communicate(timeout=20)
    both = operator.type("ls", "--watch", "--json")
    assert (both.exit_code, both.out) == (2, "")


def test_names_are_found_without_a_daemon(operator: Operator) -> None:
    """Reading commands look themselves; acting ones say that the daemon is missing."""
    session_id = operator.start("--headless", "--name", "docs", "--prompt", script(DONE), "--", "claude")
    operator.wait_until(session_id, "end of its turn", state="idle")
    project = operator.record(session_id)["project"]  # type: ignore[index]
    operator.daemon.end()
    why = operator.type("why", project)
    assert (why.exit_code, "no daemon: checked once" in why.err) == (0, True), why.err
    assert why.err.count("\n") == 1
    assert operator.type("stop", project).exit_code == 3


def test_a_resume_without_a_decision_leaves_a_watched_session_watched(
    operator: Operator, claude: ClaudeHome
) -> None:
    """A found session that was killed inside a call: in a pipe the question is refused, and nothing else changed."""
    process = claude.run_print(script(PUSH, DONE), "--dangerously-skip-permissions")
    claude.wait_for_tool("sleep")
    (found,) = operator.daemon.sessions()
    process.kill()
    for pid in claude.tool_pids():
        os.kill(pid, signal.SIGKILL)
    operator.wait_until(found["id"], "death", session_alive=False, managed=False)
    refused = operator.type("resume", found["id"])
    assert (refused.exit_code, "--done" in refused.err) == (1, True), refused.err
    operator.wait_until(found["id"], "the same", managed=False)


def test_the_earlier_names_of_commands_work(operator: Operator) -> None:
    """`resume` alone still ends a pause and names the new command; the hidden names are not listed."""
    assert operator.type("pause").exit_code == 0
    ended = operator.type("resume")
    assert (ended.exit_code, "unpause" in ended.err) == (0, True)
    assert (operator.type("resume").exit_code, operator.type("unpause").exit_code) == (2, 0)
    assert operator.type("restore", "--dry-run").exit_code == 0
    assert operator.type("services").exit_code == 0
    listed = operator.type("--help").out
    assert "restore" not in listed
    assert "services" not in listed


def test_a_pause_may_have_an_end(operator: Operator) -> None:
    """It says when it ends, and ends then, without a command; a time that is none is refused."""
    paused = operator.type("pause", "--for", "2s", "--reason", "lunch")
    assert (paused.exit_code, " until " in paused.out) == (0, True)
    assert "PAUSED" in operator.type("status").out
    wait_for(lambda: "PAUSED" not in operator.type("status").out or None, "end of the pause", 20)
    assert operator.type("pause", "--for", "soon").exit_code == 2
    assert "PAUSED" not in operator.type("ls").out
