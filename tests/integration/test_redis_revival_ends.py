"""What becomes of a revival in the queue: taken, withdrawn, recovered or failed a second time."""

import time

import pytest

from support.queue_app import CHAT, ISSUE, SESSION, QueueAppFixture
from support.redis_checks import again, check, first_seen, taken
from wakeful.watchdog.redis_records import encode_value
from wakeful.watchdog.rules import FAILURE_MESSAGE


def test_a_second_failure_tells_the_chat_once(bridge: QueueAppFixture) -> None:
    """The revived job hangs too: the failure message once, however many watchdogs and restarts follow."""
    bridge.active()
    check(bridge)
    again(bridge)
    for _ in range(3):
        check(bridge)
    assert bridge.sent == [(CHAT, FAILURE_MESSAGE)]
    assert bridge.outline()[-1] == ("revival_failed", "silent_for_15_minutes", "failure_message_sent")
    assert bridge.statuses("AgentSession") == ["failed"]
    assert bridge.statuses("RedisJob") == ["failed"]


def test_the_outcome_is_recovered_once_the_new_job_works(bridge: QueueAppFixture) -> None:
    """Unverified while the next job waits and while it merely runs; when it works, one line says that it recovered."""
    bridge.active()
    check(bridge)
    client = bridge.server.client()
    (pending,) = client.smembers("$KeyF:RedisJob:status:pending")
    running = pending.replace(b":pending", b":running")
    client.rename(pending, running)
    client.smove("$KeyF:RedisJob:status:pending", "$KeyF:RedisJob:status:running", pending)
    client.srem("$KeyF:RedisJob:status:running", pending)
    client.sadd("$KeyF:RedisJob:status:running", running)
    client.close()
    check(bridge, times=2)
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy"]
    bridge.call("make test", -5.0)
    check(bridge, times=2)
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy", "session_recovered"]


def test_a_worker_that_saves_the_job_under_another_name_has_taken_it(bridge: QueueAppFixture) -> None:
    """It works, whatever it is called: recovered, and the chat is left in peace."""
    bridge.active()
    check(bridge)
    taken(bridge, "running")
    bridge.call("make test", -5.0)
    check(bridge, times=2)
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy", "session_recovered"]
    assert bridge.sent == []


def test_a_job_that_was_done_and_deleted_is_no_failure(bridge: QueueAppFixture) -> None:
    """Of a job that is gone its session tells: what it did since counts as recovered."""
    bridge.active()
    check(bridge)
    bridge.server.delete("RedisJob", status="pending")
    bridge.server.delete("AgentSession", session_id=SESSION)
    bridge.server.session(
        session_id=SESSION, project_key="popoto", status="completed", chat_id=CHAT,
        started_at=bridge.now, last_activity=bridge.now + 60,
    )  # fmt: skip
    check(bridge, times=2)
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy", "session_recovered"]
    assert bridge.sent == []


@pytest.mark.parametrize("seen_running", [False, True])
def test_a_revived_job_that_fails_by_itself_is_a_second_failure(
    bridge: QueueAppFixture, *, seen_running: bool
) -> None:
    """The failure message to its chat, once, whether or not it was seen to run before."""
    bridge.active()
    check(bridge)
    if seen_running:
        taken(bridge, "running")
        check(bridge)
    taken(bridge, "failed")
    for _ in range(3):
        check(bridge)
    assert bridge.sent == [(CHAT, FAILURE_MESSAGE)]
    failed = [each for each in bridge.outline() if each[0] == "revival_failed"]
    assert failed == [("revival_failed", "silent_for_15_minutes", "failure_message_sent")]
    assert bridge.events[-1]["github_issue"] == ISSUE


def test_a_late_save_of_the_fenced_owner_changes_nothing(bridge: QueueAppFixture) -> None:
    """It leaves an active record behind, but no running job: stale, and never revived again."""
    bridge.active()
    check(bridge)
    client = bridge.server.client()
    zombie = "AgentSession:popoto:tg_popoto_/-5294327191_4469:active"
    client.hset(zombie, mapping={"last_activity": encode_value(bridge.now)})
    client.sadd("$KeyF:AgentSession:status:active", zombie)
    job = client.smembers("$KeyF:RedisJob:status:failed").pop().replace(b":failed", b":running")
    client.hset(job, mapping={"session_id": encode_value(SESSION)})
    client.sadd("$KeyF:RedisJob:status:running", job)
    client.close()
    cycle = check(bridge)
    assert (cycle.checked, cycle.skipped) == (0, 1)
    assert len(bridge.events) == 1


def test_a_second_hang_is_seen_though_no_record_calls_it_active(bridge: QueueAppFixture) -> None:
    """A worker that keeps its own account runs the next job without a record of popoto's: its tool log tells."""
    bridge.active()
    check(bridge)
    taken(bridge, "running", created_at=bridge.now - 890)
    bridge.call("make test", 880.0)
    check(bridge, times=2)
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy", "revival_failed"]
    assert bridge.sent == [(CHAT, FAILURE_MESSAGE)]
    assert set(bridge.statuses("RedisJob")) == {"failed"}


def test_a_fenced_session_leaves_its_name_to_the_next_attempt(bridge: QueueAppFixture) -> None:
    """popoto lets a worker save the session as active again, though the failed record is still there."""
    bridge.active()
    check(bridge)
    bridge.server.session(
        session_id=SESSION, project_key="popoto", status="active", chat_id=CHAT,
        started_at=bridge.now, last_activity=bridge.now + 1,
    )  # fmt: skip
    assert sorted(bridge.statuses("AgentSession")) == ["active", "failed"]


def test_a_session_that_goes_on_after_its_fence_withdraws_its_revival(bridge: QueueAppFixture) -> None:
    """No worker took the next job yet: the old attempt runs as before, and it can be revived once, later."""
    bridge.active()
    check(bridge)
    assert bridge.statuses("RedisJob") == ["pending", "failed"]
    bridge.call("make test", -5.0)
    check(bridge, times=2)
    assert bridge.statuses("RedisJob") == ["running"]
    assert bridge.statuses("AgentSession") == ["active"]
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy", "session_recovered"]
    client = bridge.server.client()
    left = {key for key in client.keys("*") if b"pending" in key or key.startswith(b"wakeful:reviv")}
    client.close()
    assert not left


def test_a_revival_that_was_taken_is_not_withdrawn(bridge: QueueAppFixture) -> None:
    """The next job runs: whatever the old attempt still writes, there are two of them and one was asked for."""
    bridge.active()
    check(bridge)
    taken(bridge, "running")
    bridge.call("make test", -5.0)
    check(bridge)
    assert sorted(bridge.statuses("RedisJob")) == ["failed", "running"]


def test_a_second_hang_is_seen_without_record_and_log(bridge: QueueAppFixture) -> None:
    """The worker saved the next job under a name of its own and writes nothing: ten minutes later it is silent."""
    bridge.active()
    check(bridge)
    taken(bridge, "running", created_at=bridge.now - 890)
    check(bridge)
    assert first_seen(bridge, 700) == 1
    check(bridge)
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy", "revival_failed"]
    assert bridge.sent == [(CHAT, FAILURE_MESSAGE)]


def test_another_message_of_the_session_does_not_withdraw_a_revival(bridge: QueueAppFixture) -> None:
    """While the revival waits, the worker does the next message of the same session: that is not the old attempt."""
    bridge.active()
    bridge.run_job(SESSION, chat_id=CHAT, message_id=4470, status="pending", created_at=bridge.now - 30)
    check(bridge)
    bridge.server.delete("RedisJob", message_id=4470)
    bridge.run_job(SESSION, chat_id=CHAT, message_id=4470, status="completed", created_at=bridge.now - 30)
    bridge.call("make test", -5.0)
    check(bridge, times=2)
    assert sorted(bridge.statuses("RedisJob")) == ["completed", "failed", "pending"]
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy"]


def test_the_last_words_of_a_stopped_session_do_not_withdraw_its_revival(bridge: QueueAppFixture) -> None:
    """The bridge ended the old attempt, which writes to its log as it ends: the next job is still wanted."""

    def stop(session_id: str) -> None:
        assert session_id == SESSION
        bridge.call("make test", -5.0)

    bridge.active()
    check(bridge, times=2, stop_session=stop)
    assert sorted(bridge.statuses("RedisJob")) == ["failed", "pending"]
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy"]


def test_an_attempt_that_failed_after_its_fence_does_not_withdraw_its_revival(
    bridge: QueueAppFixture,
) -> None:
    """Its own worker saved it as failed since then: that is an end, not going on."""
    bridge.active()
    check(bridge)
    client = bridge.server.client()
    (failed,) = [key for key in client.keys("AgentSession:*") if key.endswith(b":failed")]
    client.hset(failed, "last_activity", encode_value(bridge.now + 5))
    client.close()
    check(bridge, times=2)
    assert sorted(bridge.statuses("RedisJob")) == ["failed", "pending"]


def test_an_attempt_that_completed_after_its_fence_withdraws_its_revival_and_runs_no_more(
    bridge: QueueAppFixture,
) -> None:
    """It went on and ended well before anybody took the next job: nothing is left to run, and nothing is called running."""
    bridge.active()
    check(bridge)
    bridge.server.session(
        session_id=SESSION, project_key="popoto", status="completed", chat_id=CHAT,
        started_at=bridge.now - 960, last_activity=bridge.now + 5,
    )  # fmt: skip
    client = bridge.server.client()
    (failed,) = [key for key in client.keys("RedisJob:*") if key.endswith(b":failed")]
    bridge.server.job(
        job_id=failed.decode().split(":")[1], project_key="popoto", status="completed", session_id=SESSION,
        chat_id=CHAT, message_id=4469, created_at=bridge.now - 960, message_text="ship it",
    )  # fmt: skip
    client.close()
    check(bridge, times=2)
    assert bridge.statuses("RedisJob") == ["completed"]
    assert bridge.statuses("AgentSession") == ["completed", "failed"]


def test_a_session_that_merely_runs_again_is_not_recovered_by_what_was_written_before(
    bridge: QueueAppFixture,
) -> None:
    """The old attempt's last line came after the fence; the next job was taken and has done nothing yet."""
    bridge.active()
    check(bridge)
    taken(bridge, "running")
    bridge.call("make test", -0.5)
    time.sleep(max(0.0, bridge.now + 1.6 - time.time()))
    check(bridge, times=2)
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy"]
