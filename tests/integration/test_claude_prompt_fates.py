"""Claims about a prompt that is asked for again after the process that was given it has ended."""

import asyncio
import json
from pathlib import Path

import pytest

from wakeful.control.driver import Seen
from wakeful.core.ids import ConversationId, parse_session_id
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process, Sight
from wakeful.integrations.claude_code.driver import ClaudeDriver
from wakeful.integrations.driver_support import Fate, RunFolder
from wakeful.linux import proc
from wakeful.storage.base import Outcome
from wakeful.testing.virtual_clock import VirtualClock

CONVERSATION = "22222222-2222-5222-8222-222222222222"
SESSION = parse_session_id(f"claude-{CONVERSATION}")
RUNNING = {"type": "system", "subtype": "session_state_changed", "state": "running"}
TAKEN = {"type": "user", "uuid": "one", "isReplay": True}


def asked_again(root: Path) -> Seen:
    """What a daemon says that was not there when the prompt was given; nobody lives to be asked."""
    gone = Process(2**22 + 1, 1, proc.boot_id())
    hosting = Hosting(
        session_id=SESSION,
        conversation_id=ConversationId(CONVERSATION),
        driver="claude",
        cwd=str(root),
        argv=("claude",),
        epoch=1,
        since=0.0,
        folder=str(root / SESSION),
        process=gone,
    )
    driver = ClaudeDriver(root, VirtualClock())
    return asyncio.run(driver.deliver_once(hosting, "hello", "one", again=True))


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        ([RUNNING, TAKEN], Outcome.RECOVERED),
        # It was at work, and had not said on what.
        ([RUNNING], Outcome.UNVERIFIED),
        # No turn began: the prompt went with its input, and may be given to the next one.
        ([], Outcome.DECLINED),
    ],
)
def test_what_a_process_that_is_gone_did_with_a_prompt(
    tmp_path: Path, lines: list[dict[str, object]], outcome: Outcome
) -> None:
    """Only what surely was not taken is given to the next process."""
    folder = RunFolder(tmp_path, SESSION)
    folder.path.mkdir()
    folder.note_prompt("one")
    folder.output.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    seen = asked_again(tmp_path)
    assert (seen.outcome, seen.by_earlier) == (outcome, outcome is Outcome.RECOVERED)


def test_a_process_that_cannot_be_seen_is_not_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still take what lies in its input: nothing is settled, and nothing given."""
    folder = RunFolder(tmp_path, SESSION)
    folder.path.mkdir()
    folder.note_prompt("one")
    folder.output.write_text("")
    monkeypatch.setattr(proc, "sight", lambda _process: Sight.UNKNOWN)
    assert asked_again(tmp_path).outcome is Outcome.UNVERIFIED
    assert folder.prompts == {"one": Fate.OPEN}


def test_a_prompt_that_was_never_written_down_was_never_given(tmp_path: Path) -> None:
    """It is noted before it is written. A folder of an earlier version has no notes, and says nothing."""
    folder = RunFolder(tmp_path, SESSION)
    folder.path.mkdir()
    assert asked_again(tmp_path).outcome is Outcome.UNVERIFIED
    folder.note_prompt("another")
    assert asked_again(tmp_path).outcome is Outcome.DECLINED


def test_fates_are_kept_in_order_and_no_more_than_are_asked_about(tmp_path: Path) -> None:
    """The newest last, one that is given again too; a fate changes no place."""
    folder = RunFolder(tmp_path, SESSION)
    folder.path.mkdir()
    for name in ("a", "", "b", "a"):
        folder.note_prompt(name)
    folder.note_prompt("b", Fate.TAKEN)
    assert list((folder.prompts or {}).items()) == [("", Fate.OPEN), ("b", Fate.TAKEN), ("a", Fate.OPEN)]
    for number in range(200):
        folder.note_prompt(str(number))
    assert list(folder.prompts or {}) == [str(number) for number in range(150, 200)]
