"""`wakeful replay` as a process of its own, in an empty home: every format, every question, every ending."""

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from support.recordings import SMALL
from support.run_program import run_program
from wakeful.core.clock import iso

COMMAND: Final = [sys.executable, "-P", "-m", "wakeful", "replay"]
OWN_CASES: Final = Path(__file__).parents[1] / "cases"
T0: Final = 1_770_000_000.0
CONVERSATION: Final = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(tmp_path), "WAKEFUL_HOME": str(tmp_path / "state")}


def run(environ: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    return run_program([*COMMAND, *map(str, words)], env=environ)


def answer(environ: dict[str, str], *words: object, code: int = 0) -> Any:
    ended = run(environ, *words, "--json")
    assert (ended.returncode, ended.stderr) == (code, "")
    return json.loads(ended.stdout)


def written(path: Path, records: Sequence[dict[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def event_log(path: Path, *, pause_seconds: float = 700.0) -> Path:
    """A turn that paused once."""
    return written(
        path,
        [
            {"at": T0, "event": "opened", "cwd": "/home/u/shop"},
            {"at": T0, "event": "prompt"},
            {"at": T0 + pause_seconds, "event": "progress"},
            {"at": T0 + pause_seconds + 1, "event": "done"},
        ],
    )


def tool_log(folder: Path, *, errors: int) -> Path:
    records: list[dict[str, object]] = []
    for number in range(errors):
        at, name = T0 + 10 * number, {"tool_name": "Read", "tool_input": {"file_path": f"{number}"}}
        records.append({"event": "pre_tool_use", **name, "start_time": at})
        records.append({"event": "post_tool_use", **name, "end_time": at + 1, "error": f"no {number}"})
    return written(folder / "tg_shop_-1_2" / "tool_use.jsonl", records)


def test_json_has_the_documented_shape(environ: dict[str, str], tmp_path: Path) -> None:
    """Sessions with verdict and episodes, then a summary; an episode begins at its deadline."""
    told = answer(environ, event_log(tmp_path / "logs" / "job-1.jsonl"))
    (session,) = told["sessions"]
    assert (session["id"], session["health"], session["findings"]) == ("job-1", "healthy", [])
    (episode,) = session["episodes"]
    assert (episode["code"], episode["from"], episode["to"]) == ("silent", iso(T0 + 600), iso(T0 + 700))
    assert told["summary"]["codes"] == {"silent": {"episodes": 1, "sessions": 1}}
    assert session["project"] == "shop"


def test_a_folder_of_every_format_is_told_apart(environ: dict[str, str], tmp_path: Path) -> None:
    """Packed or not, by shape; what is no log is left out and said."""
    event_log(tmp_path / "logs" / "job-1.jsonl.gz")
    tool_log(tmp_path / "logs", errors=6)
    written(tmp_path / "logs" / "other.jsonl", [{"some": "thing"}])
    ended = run(environ, tmp_path / "logs", SMALL, "--json")
    sessions = {each["id"]: each for each in json.loads(ended.stdout)["sessions"]}
    assert {each["format"] for each in sessions.values()} == {"claude", "codex", "tool-use", "events"}
    assert [each["code"] for each in sessions["tg_shop_-1_2"]["findings"]] == ["error_cascade"]
    assert sessions["tg_shop_-1_2"]["findings"][0]["at"] == iso(T0 + 51)
    assert sessions["tg_shop_-1_2"]["project"] == "shop"
    assert "skipped 1 file with no agent log, such as" in ended.stderr
    assert ended.returncode == 0


def test_thresholds_can_be_set(environ: dict[str, str], tmp_path: Path) -> None:
    """What would have been flagged follows --set; the last one of two counts."""
    log = event_log(tmp_path / "a.jsonl")
    assert answer(environ, log, "--set", "detect.silence_seconds=900")["summary"]["codes"] == {}
    both = ("--set", "detect.silence_seconds=900", "--set", "detect.silence_seconds=60.5")
    (episode,) = answer(environ, log, *both)["sessions"][0]["episodes"]
    assert episode["from"] == iso(T0 + 60.5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "detect.silence=9"), "Did you mean detect.silence_seconds?"),
        (("--set", "detect.silence_seconds=-1"), "not a number of seconds above 0"),
        (("--set", "detect.repeats_max=x"), "not a whole number"),
        (("--set", "daemon.port=1"), "no such threshold"),
        (("--set", "nothing"), "write it as detect.silence_seconds=900"),
        (("--now", "yesterday"), "Invalid time"),
        (("--now", "nan"), "Invalid time"),
        (("--now", "1e400"), "Invalid time"),
        (("--learn", "--compare", "a", "b"), "either --learn or --compare"),
        (("--compare", "a", "b"), "a: No such file"),
    ],
)
def test_mistakes_are_explained(
    environ: dict[str, str], tmp_path: Path, words: Sequence[str], said: str
) -> None:
    """Exit 2 and one line that says what to do."""
    ended = run(environ, event_log(tmp_path / "a.jsonl"), *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_paths_that_hold_nothing_are_mistakes(environ: dict[str, str], tmp_path: Path) -> None:
    """A path that is not there, a folder without recordings and a file of another kind each say so."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("notes\n")
    for name, said in (
        ("gone", "no such"),
        ("empty", "no recordings found"),
        ("notes.txt", "unknown log format"),
    ):
        ended = run(environ, tmp_path / name)
        assert ended.returncode == 2
        assert said in ended.stderr


def test_now_and_process_place_the_end(environ: dict[str, str], tmp_path: Path) -> None:
    """Looked at from inside the pause it is silent; with its process gone then, it is dead."""
    log = event_log(tmp_path / "a.jsonl")
    (silent,) = answer(environ, log, "--now", iso(T0 + 650))["sessions"]
    assert [each["code"] for each in silent["findings"]] == ["silent"]
    assert silent["episodes"][0]["to"] is None
    (dead,) = answer(environ, log, "--now", T0 + 650, "--process", "gone")["sessions"]
    assert (dead["health"], [each["code"] for each in dead["findings"]]) == ("dead", ["session_dead"])


def test_labelled_cases_are_scored(environ: dict[str, str], tmp_path: Path) -> None:
    """Ours are right, with precision and recall for every label; a wrong one is named and exits 1."""
    cases = answer(environ, OWN_CASES / "replay.jsonl")["summary"]["cases"]
    assert (cases["right"], cases["wrong"]) == (cases["total"], [])
    assert cases["labels"]["dead"] == {"precision": 1.0, "recall": 1.0, "right": 2, "expected": 2, "said": 2}
    wrong = {"id": "w", "events": [{"t": 1, "user": "go"}], "now": 9, "proc": "alive", "expect": "loop"}
    ended = run(environ, written(tmp_path / "w.jsonl", [wrong]))
    assert ended.returncode == 1
    assert "wrong: w: expected loop, said ok" in ended.stdout


def test_a_line_that_is_no_case_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    """File and line, exit 2."""
    path = written(tmp_path / "w.jsonl", [{"id": "a", "events": [], "now": 1}, {"id": "b"}])
    ended = run(environ, path)
    assert ended.returncode == 2
    assert f"{path}:2: not a case" in ended.stderr


def test_two_configurations_are_compared(environ: dict[str, str], tmp_path: Path) -> None:
    """Only the session they disagree about is shown, with what only one of them said."""
    event_log(tmp_path / "logs" / "a.jsonl")
    event_log(tmp_path / "logs" / "b.jsonl", pause_seconds=5.0)
    short, long = tmp_path / "short.toml", tmp_path / "long.toml"
    short.write_text("[detect]\nsilence_seconds = 600\n")
    long.write_text("[detect]\nsilence_seconds = 900\n")
    told = answer(environ, tmp_path / "logs", "--compare", short, long)
    assert [each["id"] for each in told["differences"]] == ["a"]
    text = run(environ, tmp_path / "logs", "--compare", short, long).stdout
    assert f"only {short}: silent" in text
    assert "1 of 2 sessions judged differently" in text


def test_what_is_learned_is_a_configuration(environ: dict[str, str], tmp_path: Path) -> None:
    """The answer as it stands passes `config check`, and it would not have accused the recordings."""
    event_log(tmp_path / "logs" / "a.jsonl")
    event_log(tmp_path / "logs" / "b.jsonl", pause_seconds=1000.0)
    learned = tmp_path / "learned.toml"
    learned.write_text(run(environ, tmp_path / "logs", "--learn").stdout)
    assert "silence_seconds = 1200" in learned.read_text()
    checked = subprocess.run(
        [*COMMAND[:-1], "config", "check", "--config", str(learned)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout) == (0, "valid\n")
    assert answer(environ, tmp_path / "logs", "--config", learned)["summary"]["codes"] == {}
    own = tmp_path / "own.toml"
    own.write_text(
        "# mine\n[detect]\npoll_seconds = 60 # short\n\n[heal]\n# a remark\nsteer_seconds = 61.5\n"
    )
    merged = subprocess.run(
        [*COMMAND[:-1], "config", "merge", "-", "--config", str(own)],
        env=environ,
        input=learned.read_text(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (merged.returncode, merged.stderr) == (0, "")
    text = own.read_text()
    assert text.startswith("# mine\n[detect]\n")
    assert "\n[heal]\n# a remark\nsteer_seconds = 61.5\n" in text
    assert text.count("[detect]") == text.count("poll_seconds") == 1
    assert answer(environ, tmp_path / "logs", "--config", own)["summary"]["codes"] == {}


def test_a_subagent_at_work_is_no_silence(environ: dict[str, str], tmp_path: Path) -> None:
    """Its log lies beside the transcript and belongs to that session."""
    common: dict[str, object] = {"sessionId": CONVERSATION, "cwd": "/p", "version": "2.1.41"}
    user = {**common, "type": "user", "timestamp": iso(T0), "message": {"content": "go"}}
    given = {"type": "tool_use", "id": "c", "name": "Task", "input": {}}
    message = {"id": "m", "content": [given], "stop_reason": "tool_use"}
    task = {**common, "type": "assistant", "timestamp": iso(T0 + 1), "message": message}
    back = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
    result = {**common, "type": "user", "timestamp": iso(T0 + 4500), "message": {"content": [back]}}
    log = written(tmp_path / "p" / f"{CONVERSATION}.jsonl", [user, task, result])
    assert answer(environ, log)["summary"]["codes"] != {}
    inner = [{**user, "isSidechain": True, "timestamp": iso(T0 + at)} for at in range(2, 4500, 300)]
    written(tmp_path / "p" / CONVERSATION / "subagents" / "agent-1.jsonl", inner)
    told = answer(environ, tmp_path / "p")
    assert [each["id"] for each in told["sessions"]] == [f"claude-{CONVERSATION}"]
    assert told["summary"]["codes"] == {}


def test_a_packed_log_that_was_cut_counts_as_far_as_it_goes(environ: dict[str, str], tmp_path: Path) -> None:
    """The good lines are judged, and the report mentions the cut."""
    log = event_log(tmp_path / "a.jsonl.gz")
    log.write_bytes(log.read_bytes()[:-8])
    ended = run(environ, log)
    assert ended.returncode == 0
    assert "read up to that point" in ended.stderr
    assert "a  healthy" in ended.stdout


def test_recordings_are_only_read(environ: dict[str, str], tmp_path: Path) -> None:
    """No file is left behind and none is touched."""
    log = event_log(tmp_path / "logs" / "a.jsonl")
    before = log.stat()
    run(environ, tmp_path / "logs")
    assert (log.stat().st_mtime_ns, log.stat().st_size) == (before.st_mtime_ns, before.st_size)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs"]


def test_a_terminal_gets_a_bar_and_ctrl_c_ends_it(environ: dict[str, str], tmp_path: Path) -> None:
    """The bar goes to the terminal only; interrupted, the command shows its cursor again and exits 130."""
    long = event_log(tmp_path / "long.jsonl")
    with long.open("ab") as file:
        line = json.dumps({"at": T0 + 701, "event": "progress"}).encode() + b"\n"
        for _ in range(40):
            file.write(line * 20_000)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, str(long)],
        env={**environ, "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
    ) as process:
        os.close(theirs)
        shown = b""
        while b"replaying" not in shown:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        answered, _ = process.communicate(timeout=30)
    while rest := _rest(ours):
        shown += rest
    os.close(ours)
    assert (process.returncode, answered) == (130, b"")
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")


def _rest(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how a terminal reports that its last writer closed it
        return b""
