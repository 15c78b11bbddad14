"""Claims about a prompt that is asked for again after the process that was given it has ended."""

import asyncio
import json
from pathlib import Path

import pytest

from wakeful.control.driver import ActionResult
from wakeful.core.ids import ConversationId, parse_session_id
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.claude_code.driver import ClaudeDriver
from wakeful.integrations.driver_support import PromptFate, RunFolder
from wakeful.linux import proc
from wakeful.linux.machine import boot_id
from wakeful.storage.base import ActionOutcome
from wakeful.testing.virtual_clock import VirtualClock

CONVERSATION = "22222222-2222-5222-8222-222222222222"
SESSION = parse_session_id(f"claude-{CONVERSATION}")
RUNNING = {"type": "system", "subtype": "session_state_changed", "state": "running"}
TAKEN = {"type": "user", "uuid": "one", "isReplay": True}


def asked_again(root: Path) -> ActionResult:
    """What a daemon reports that was not there when the prompt was given; no process is left to ask."""
    gone = Process(2**22 + 1, 1, boot_id())
    managed = ManagedSession(
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
    return asyncio.run(driver.deliver_once(managed, "hello", "one", again=True))


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        ([RUNNING, TAKEN], ActionOutcome.CONFIRMED),
        # It was at work, and had not said on what.
        ([RUNNING], ActionOutcome.UNVERIFIED),
        # No turn began: the prompt went with its input, and may be given to the next one.
        ([], ActionOutcome.DECLINED),
    ],
)
def test_what_a_process_that_is_gone_did_with_a_prompt(
    tmp_path: Path, lines: list[dict[str, object]], outcome: ActionOutcome
) -> None:
    """Only what surely was not taken is given to the next process."""
    folder = RunFolder(tmp_path, SESSION)
    folder.path.mkdir()
    folder.record_prompt("one")
    folder.output.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    result = asked_again(tmp_path)
    assert (result.outcome, result.by_earlier) == (outcome, outcome is ActionOutcome.CONFIRMED)


def test_a_process_that_cannot_be_seen_is_not_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still take what lies in its input: nothing is settled, and nothing given."""
    folder = RunFolder(tmp_path, SESSION)
    folder.path.mkdir()
    folder.record_prompt("one")
    folder.output.write_text("")
    monkeypatch.setattr(proc, "state_of", lambda _process: ProcessState.UNKNOWN)
    assert asked_again(tmp_path).outcome is ActionOutcome.UNVERIFIED
    assert folder.prompts == {"one": PromptFate.OPEN}


def test_a_prompt_that_was_never_written_down_was_never_given(tmp_path: Path) -> None:
    """It is noted before it is written. A folder of an earlier version has no notes, and says nothing."""
    folder = RunFolder(tmp_path, SESSION)
    folder.path.mkdir()
    assert asked_again(tmp_path).outcome is ActionOutcome.UNVERIFIED
    folder.record_prompt("another")
    assert asked_again(tmp_path).outcome is ActionOutcome.DECLINED


def test_fates_are_kept_in_order_and_no_more_than_are_asked_about(tmp_path: Path) -> None:
    """The newest last, one that is given again too; a fate changes no place."""
    folder = RunFolder(tmp_path, SESSION)
    folder.path.mkdir()
    for name in ("a", "", "b", "a"):
        folder.record_prompt(name)
    folder.record_prompt("b", PromptFate.TAKEN)
    assert list((folder.prompts or {}).items()) == [
        ("", PromptFate.OPEN),
        ("b", PromptFate.TAKEN),
        ("a", PromptFate.OPEN),
    ]
    for number in range(200):
        folder.record_prompt(str(number))
    assert list(folder.prompts or {}) == [str(number) for number in range(150, 200)]
