"""Ids of calls in the form that is written to disk: no secret, and the same call after a restart."""

import msgspec
import pytest

from wakeful.core.clock import Instant
from wakeful.judging import events as e
from wakeful.judging.activity import Activity
from wakeful.judging.activity_redaction import redacted_activity
from wakeful.judging.folding import fold
from wakeful.judging.interrupted_calls import interrupted_calls
from wakeful.judging.kept_ids import kept_id

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
AT = Instant(100.0, 100.0)


def folded(*events: e.Event) -> Activity:
    activity = Activity()
    for event in events:
        fold(activity, event, AT)
    return activity


@pytest.mark.parametrize(
    "name", ["toolu_01ABCdefGHIjkl", "call_8Jx2", "2f9b5d3e-1111-4222-8333-444455556666", "7", ""]
)
def test_an_id_without_a_secret_stays(name: str) -> None:
    assert kept_id(name) == name


@pytest.mark.parametrize("name", [SECRET, f"2 {SECRET}", "x" * 65], ids=["secret", "with a secret", "cut"])
def test_another_becomes_a_digest(name: str) -> None:
    assert SECRET not in kept_id(name)
    assert (len(kept_id(name)), kept_id(kept_id(name))) == (32, kept_id(name))


def test_a_call_that_was_written_to_disk_is_ended_by_its_id() -> None:
    begun = folded(e.Prompted(1.0), e.CallStarted(2.0, SECRET, "Bash"))
    stored = redacted_activity(begun)
    assert SECRET.encode() not in msgspec.json.encode(stored)
    fold(stored, e.CallEnded(3.0, SECRET), AT)
    assert stored.calls == {}


def test_a_result_before_its_call_is_found_after_a_restart() -> None:
    stored = redacted_activity(folded(e.Prompted(1.0), e.CallEnded(2.0, SECRET)))
    assert SECRET.encode() not in msgspec.json.encode(stored)
    fold(stored, e.CallStarted(3.0, SECRET, "Bash"), AT)
    assert stored.calls == {}


def test_the_handle_of_an_interrupted_call_is_no_secret() -> None:
    (call,) = interrupted_calls(folded(e.Prompted(1.0), e.CallStarted(2.0, SECRET, "Bash")))
    assert call.call == kept_id(SECRET)
