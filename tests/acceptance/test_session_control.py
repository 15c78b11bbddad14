"""Claims about acting on real agents through the real command: started, spoken to, interrupted, killed and brought back.

One daemon, a scripted model, and clients in a home of their own. Whatever is started is ended with the test.
"""

import json
import os
import signal
from pathlib import Path

import pytest

from support.cli_user import DONE, Operator, bash
from support.real_clients import UNTIL_TOLD, ClaudeHome, CodexHome, end_tmux, wait_for
from wakeful.testing.scripted_model import script


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_prompt_and_answer_without_a_terminal(operator: Operator) -> None:
    """A managed session takes a first prompt and a second one, in one process and one conversation."""
    session_id = operator.start("--headless", "--prompt", script(DONE), "--", "claude")
    first = operator.wait_until(session_id, "end of the first turn", state="idle", managed=True)
    assert operator.act("send", session_id, script(DONE))["outcome"] == "recovered"
    second = operator.wait_until(session_id, "end of the second turn", state="idle", health="healthy")
    assert first["pid"] == second["pid"]
    (transcript,) = operator.home.logs()
    assert transcript.read_text().count("All done") >= 2


def test_a_question_is_answered(operator: Operator, claude: ClaudeHome) -> None:
    """The permission question is shown, allowed once, and the tool runs; denied, it does not."""
    asking = script(bash("touch allowed"), bash("touch denied"), DONE)
    session_id = operator.start("--headless", "--prompt", asking, "--", "claude")
    operator.wait_until(session_id, "question", state="waiting", attention="person")
    asked = operator.act("questions", session_id)["questions"]
    assert (len(asked), asked[0]["tool"], "touch allowed" in asked[0]["untrusted"]) == (1, "Bash", True)
    assert operator.act("answer", session_id, "allow")["outcome"] == "recovered"
    wait_for(lambda: (claude.project / "allowed").exists() or None, "the tool's effect")
    operator.wait_until(session_id, "second question", state="waiting")
    assert operator.act("answer", session_id, "deny")["outcome"] == "recovered"
    operator.wait_until(session_id, "end of the turn", state="idle")
    assert not (claude.project / "denied").exists()


def test_interrupted_in_a_tool_it_goes_on(operator: Operator, claude: ClaudeHome) -> None:
    """The turn ends, the tool is gone, the same process takes the next prompt."""
    session_id = operator.start("--headless", "--prompt", script(bash("sleep 100"), DONE), "--", "claude")
    claude.wait_for_tool("sleep")
    assert operator.act("interrupt", session_id)["outcome"] == "recovered"
    wait_for(lambda: claude.tool_pids() == [] or None, "end of the tool")
    assert operator.act("send", session_id, script(DONE))["outcome"] == "recovered"
    operator.wait_until(session_id, "next turn's end", state="idle", health="healthy")


def test_killed_in_a_tool_it_is_resumed_and_told(operator: Operator, claude: ClaudeHome) -> None:
    """The same conversation goes on in a new process under the next epoch, and learns what was cut off."""
    session_id = operator.start("--headless", "--prompt", script(bash("sleep 100"), DONE), "--", "claude")
    tool = claude.wait_for_tool("sleep")
    alive = operator.wait_until(session_id, "life", session_alive=True)
    refused = operator.type("session", "resume", session_id)
    assert (refused.exit_code, f"process {alive['pid']}" in refused.err) == (1, True)
    kill(alive["pid"])
    operator.wait_until(session_id, "death", health="dead")
    assert operator.act("resume", session_id)["outcome"] == "recovered"
    back = operator.wait_until(session_id, "return", session_alive=True)
    assert (back["attempt"], back["pid"] != alive["pid"]) == (2, True)
    (transcript,) = claude.logs()
    assert "sleep 100" in wait_for(lambda: _brief_in(transcript), "brief")
    assert tool, "the orphan was there"


def _brief_in(transcript: Path) -> str | None:
    return next(
        (line for line in transcript.read_text().splitlines() if "Wakeful: your process" in line), None
    )


def test_what_was_started_outlives_the_daemon(operator: Operator, claude: ClaudeHome) -> None:
    """Killed in the middle of a turn, the daemon finds its session again with the same epoch and speaks to it."""
    turn = script(bash(UNTIL_TOLD), DONE)
    session_id = operator.start("--headless", "--prompt", turn, "--", "claude", "--allowedTools", "Bash")
    claude.wait_for_tool("sleep")
    before = operator.wait_until(session_id, "work", state="prompting")
    operator.daemon.kill()
    claude.let_tool_end()
    operator.daemon.up()
    after = operator.wait_until(session_id, "end of the turn", state="idle", managed=True)
    assert (after["pid"], after["attempt"]) == (before["pid"], before["attempt"])
    assert operator.act("send", session_id, script(DONE))["outcome"] == "recovered"


def test_a_stopped_session_leaves_nothing(operator: Operator, claude: ClaudeHome) -> None:
    """Agent and tool are gone, and it is not dead but stopped."""
    session_id = operator.start("--headless", "--prompt", script(bash("sleep 100"), DONE), "--", "claude")
    claude.wait_for_tool("sleep")
    assert operator.act("stop", session_id)["outcome"] == "recovered"
    assert (claude.tool_pids(), claude.registry()) == ([], [])
    operator.wait_until(session_id, "end", state="stopped", session_alive=False)


def test_in_a_terminal_of_its_own(operator: Operator, claude: ClaudeHome) -> None:
    """`run` in tmux: the pane is found, a prompt is typed and taken, a stop closes it."""
    session_id = operator.start("--name", "docs", "--", "claude")
    shown = operator.type("attach", session_id)
    assert (shown.exit_code, "needs a terminal" in shown.err, "wakeful attach docs" in shown.err) == (
        2,
        True,
        True,
    )
    operator.wait_until(session_id, "idle agent", state="idle", managed=True)
    sent = operator.act("send", session_id, script(DONE))
    assert sent["outcome"] == "recovered", sent
    operator.wait_until(session_id, "end of the turn", state="idle", health="healthy")
    _lose_the_way_and_find_it(operator, session_id)
    assert operator.act("stop", session_id)["outcome"] == "recovered"
    operator.wait_until(session_id, "end", state="stopped", session_alive=False)
    assert claude.registry() == []


def test_only_turns_that_ended_well_are_reported_as_finished(operator: Operator, claude: ClaudeHome) -> None:
    """In a terminal, where the client is idle before its log says how: one turn done, one failed, one interrupted."""
    session_id = operator.start("--", "claude")
    operator.wait_until(session_id, "idle agent", state="idle", managed=True)
    operator.act("send", session_id, script(DONE))
    wait_for(lambda: operator.finished_turns(session_id) == 1 or None, "a finished turn")
    operator.act("send", session_id, script({"status": 400}))
    operator.wait_until(session_id, "failed turn", state="idle", health="degraded")
    operator.act("send", session_id, script(bash("sleep 100"), DONE))
    claude.wait_for_tool("sleep")
    operator.act("interrupt", session_id)
    operator.wait_until(session_id, "end of the turn", state="idle")
    assert operator.finished_turns(session_id) == 1
    operator.act("send", session_id, script(DONE))
    wait_for(lambda: operator.finished_turns(session_id) == 2 or None, "a second finished turn")


def _lose_the_way_and_find_it(operator: Operator, session_id: str) -> None:
    """A cleaner of old files takes the tmux server's socket: the agent lives, and no prompt reaches it."""
    socket = operator.daemon.socket.with_name("tmux.sock")
    away = socket.rename(socket.with_suffix(".away"))
    lost = operator.record(session_id)
    assert lost is not None
    alone = operator.type("session", "health", session_id, "--json").json
    # Its last line may arrive in between: moments differ then.
    told = {name for name in alone if not name.endswith("_at")}
    assert {name: alone[name] for name in told} == {name: lost[name] for name in told}, "as in the list"
    assert (lost["state"], lost["attachable"], lost["session_alive"]) == ("detached", False, True)
    assert (lost["health"], lost["eligible_for_wake"]) == ("healthy", False)
    assert operator.type("session", "wait", session_id, "--until", "idle", "--timeout", "5s").exit_code == 0
    assert "cannot send it a prompt" in operator.type("session", "why", session_id).out
    away.rename(socket)
    # At once, unless tmux was asked in between and was not there.
    operator.wait_until(session_id, "way that is open again", state="idle", attachable=True)


def test_adopted_killed_and_resumed_in_its_pane(
    operator: Operator, claude: ClaudeHome, tmp_path: Path
) -> None:
    """A hand-started agent is handed over, dies, and comes back in the same pane; its neighbour is left alone."""
    socket = tmp_path / "hand.sock"
    try:
        asking = script(bash("touch made; sleep 100"), DONE)
        pane = claude.in_tmux(socket, asking, "mine", shell_wrapped=True)
        mine = operator.daemon.wait_for_session(lambda record: record["state"] == "waiting", "question")
        pane.press("Enter")
        claude.wait_for_tool("sleep")
        neighbour = claude.in_tmux(socket, script(DONE), "yours")
        yours = operator.daemon.wait_for_session(
            lambda record: record["id"] != mine["id"] and record["state"] == "idle", "neighbour"
        )
        refused = operator.type("session", "send", yours["id"], "hello")
        assert (refused.exit_code, "wakeful adopt" in refused.err) == (2, True)
        assert operator.act("adopt", mine["id"])["managed"]
        kill(mine["pid"])
        operator.wait_until(mine["id"], "death", health="dead")
        resumed = operator.act("resume", mine["id"])
        assert resumed["outcome"] == "recovered", resumed
        back = operator.wait_until(mine["id"], "return", session_alive=True)
        assert back["pid"] != mine["pid"]
        assert _parent(back["pid"]) == int(pane.shown("pane_pid"))
        after = operator.record(yours["id"])
        assert after is not None
        assert (after["pid"], after["managed"]) == (yours["pid"], False)
        assert "hello" not in neighbour.screen()
    finally:
        end_tmux(socket)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_codex_from_prompt_to_prompt(codex_operator: Operator, codex: CodexHome) -> None:
    """One process per turn, one conversation; killed in a tool it is resumed under its own id."""
    flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    session_id = codex_operator.start("--", "codex", "exec", *flags, script(DONE))
    codex_operator.wait_until(session_id, "end of the first turn", state="stopped", managed=True)
    sent = codex_operator.act("send", session_id, script({"run": "sleep 100"}, DONE))
    assert sent["outcome"] == "recovered", sent
    codex.wait_for_tool("sleep")
    working = codex_operator.wait_until(session_id, "work", state="prompting")
    kill(working["pid"])
    codex_operator.wait_until(session_id, "death", health="dead")
    resumed = codex_operator.act("resume", session_id)
    assert resumed["outcome"] == "recovered", resumed
    (rollout,) = codex.logs()
    assert wait_for(lambda: "Wakeful: your process" in rollout.read_text() or None, "brief")


@pytest.mark.parametrize(
    ("turn", "becomes"),
    [
        ([{"run": "sleep 100"}, DONE], {"health": "dead", "attention": "operator"}),
        ([DONE], {"state": "stopped", "health": "healthy", "attention": "none"}),
    ],
    ids=["killed", "ended by itself"],
)
def test_a_codex_that_ended_before_it_had_a_name_is_judged_by_its_log(
    codex_operator: Operator, codex: CodexHome, turn: list[dict[str, str]], becomes: dict[str, str]
) -> None:
    """The daemon is killed between the start and the first line; when it is back the client has ended, too."""
    daemon = codex_operator.daemon
    run = Path(daemon.environ["WAKEFUL_HOME"]) / "run"
    flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    with codex_operator.begin("run", "--", "codex", "exec", *flags, script(*turn)):
        (noted,) = wait_for(lambda: list(run.glob("new-*/process")) or None, "start of the client")
        daemon.kill()
    pid = json.loads(noted.read_text())["pid"]
    if "run" in turn[0]:
        codex.wait_for_tool("sleep")
        os.killpg(pid, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or None, "end of the client")
    daemon.up()
    (rollout,) = codex.logs()
    found = codex_operator.wait_until(f"codex-{rollout.stem[-36:]}", "verdict", **becomes)
    assert (found["managed"], found["project"]) == (True, codex.project.name)


def test_bad_orders_are_refused_with_nothing_started(operator: Operator, claude: ClaudeHome) -> None:
    """Each has one clear line and the right exit code."""
    missing = operator.type("run", "--", "no-such-agent")
    assert (missing.exit_code, "no-such-agent" in missing.err) == (3, True)
    assert operator.type("run", "--name", "../x", "--", "claude").exit_code == 2
    assert operator.type("run", "--headless", "--", "claude", "--resume", "x").exit_code == 2
    assert operator.type("run", "--", "codex").exit_code == 2
    assert operator.type("session", "send", "nobody", "x").exit_code == 2
    session_id = operator.start("--headless", "--prompt", script(DONE), "--", "claude")
    operator.wait_until(session_id, "end of the turn", state="idle")
    for prompt in ("", "red \x1b[31m", "bell \x07"):
        refused = operator.type("session", "send", session_id, prompt)
        assert (refused.exit_code, "prompt" in refused.err) == (2, True), refused.err
    assert len(claude.logs()) == 1
    taken = operator.type("session", "yield", session_id, "--epoch", "1")
    assert (taken.exit_code, "wakeful release" in taken.err) == (1, True)
