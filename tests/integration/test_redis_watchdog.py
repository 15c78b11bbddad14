"""The watchdog over a real Redis whose records popoto wrote: what it finds, does and reports, once."""

import asyncio

import pytest

from support.queue_app import CHAT, ISSUE, SESSION, WORK, QueueAppFixture
from support.redis_checks import again, check, first_seen, taken
from wakeful.alerts.delivery import Refused
from wakeful.healing.plan import HealingRules
from wakeful.watchdog.api import Settings, attempt_revival
from wakeful.watchdog.queue import Work
from wakeful.watchdog.redis_records import encode_value
from wakeful.watchdog.rules import AWAITING_DECISION_MESSAGE, FAILURE_MESSAGE, NO_FOLDER_MESSAGE


def test_a_silent_session_is_revived_in_its_own_queue(bridge: QueueAppFixture) -> None:
    """Marked failed, enqueued again with the context and the issue's address, and one line says so."""
    bridge.active(message_text="ship it")
    bridge.call("make test", 940.0)
    bridge.call("grep -rn TODO src", 930.0, ended=False)
    cycle = check(bridge)
    assert (cycle.checked, cycle.unhealthy, cycle.skipped) == (1, 1, 0)
    assert bridge.statuses("AgentSession") == ["failed"]
    assert bridge.statuses("RedisJob") == ["pending", "failed"]
    (job,) = bridge.server.query("RedisJob", status="pending")
    assert (job["message_text"], job["session_id"], job["chat_id"], job["message_id"]) == (
        "ship it", SESSION, CHAT, 4469,
    )  # fmt: skip
    context = job["revival_context"]
    assert all(part in context for part in ("silent for more than 15 min", ISSUE, "grep -rn TODO src"))
    assert bridge.outline() == [("session_unhealthy", "silent_for_15_minutes", "revival_attempted")]
    (event,) = bridge.events
    assert (event["github_issue"], event["project_key"], event["details"]["tool_count"]) == (
        ISSUE,
        "popoto",
        2,
    )
    assert event["details"]["outcome"].startswith("unverified: ")
    assert bridge.sent == []


def test_popoto_finds_everything_where_it_looks(bridge: QueueAppFixture) -> None:
    """After the move every index of popoto names the new records and none the old ones."""
    bridge.active()
    check(bridge)
    client = bridge.server.client()
    keys = {key.decode() for key in client.keys("*")}
    hashes = {key for key in keys if key.startswith(("AgentSession:", "RedisJob:"))}
    indexed = set()
    for key in keys:
        kind = client.type(key).decode()
        if key.startswith("$") and kind == "set":
            indexed |= {member.decode() for member in client.smembers(key)}
        elif key.startswith("$") and kind == "zset":
            indexed |= {member.decode() for member in client.zrange(key, 0, -1)}
    assert indexed == hashes
    assert sorted(key.rpartition(":")[2] for key in hashes) == ["failed", "failed", "pending"]
    assert len(bridge.server.query("RedisJob", created_at__gte=bridge.now - 1, project_key="popoto")) == 1
    client.close()


def test_each_finding_has_a_line_of_its_own_to_the_end(bridge: QueueAppFixture) -> None:
    """Two findings of one session: two lines when it is revived, two when it runs again; no reason is made of two."""
    bridge.server.session(
        session_id=SESSION, project_key="popoto", status="active", chat_id=CHAT,
        started_at=bridge.now - 10_800, last_activity=bridge.now - 900,
    )  # fmt: skip
    bridge.run_job(SESSION, chat_id=CHAT, message_id=4469)
    check(bridge)
    taken(bridge, "running")
    bridge.call("make test", -5.0)
    check(bridge, times=2)
    reasons = ["silent_for_15_minutes", "running_for_2_hours"]
    assert [(event, reason) for event, reason, _ in bridge.outline()] == [
        (event, reason) for event in ("session_unhealthy", "session_recovered") for reason in reasons
    ]


@pytest.mark.parametrize("command", ["git push origin main", "./deploy-it"])
def test_an_attempt_that_ended_inside_a_remote_or_unknown_call_is_held(
    bridge: QueueAppFixture, command: str
) -> None:
    """Nothing is spent, nothing replayed; the chat learns once that it waits."""
    bridge.active()
    bridge.call(command, 930.0, ended=False)
    check(bridge, times=2)
    check(bridge)
    assert bridge.outline() == [("session_unhealthy", "silent_for_15_minutes", "held_for_approval")]
    assert bridge.events[0]["details"]["outcome"].startswith("hold: ")
    assert bridge.sent == [(CHAT, AWAITING_DECISION_MESSAGE)]
    (alert,) = bridge.alerts
    assert alert.endswith(f"→ await attempt_revival('{SESSION}', approved=True)")
    assert bridge.statuses("AgentSession") == ["active"]
    assert bridge.server.client().exists(f"wakeful:revival:{WORK}") == 0


def test_a_person_releases_what_is_held(bridge: QueueAppFixture) -> None:
    """Approved, it is revived, and the budget is spent then; the context names the call."""
    bridge.active()
    bridge.call("git push origin main", 930.0, ended=False)

    async def run() -> str | None:
        watch = bridge.watch()
        try:
            await watch.check()
            return await watch.release(SESSION)
        finally:
            await watch.close()

    assert asyncio.run(run()) == "a person approved it"
    (job,) = bridge.server.query("RedisJob", status="pending")
    assert "git push origin main" in job["revival_context"]
    assert bridge.server.client().exists(f"wakeful:revival:{WORK}") == 1


def test_a_program_without_a_daemon_releases_what_is_held(bridge: QueueAppFixture) -> None:
    """`attempt_revival` alone changes nothing about it; with a person's word it goes on."""
    bridge.active()
    bridge.call("git push origin main", 930.0, ended=False)
    world: Settings = {
        "redis": bridge.server.url,
        "logs": bridge.logs,
        "critical_events": bridge.folder / "events.jsonl",
    }
    assert asyncio.run(attempt_revival(SESSION, **world)) == "hold"
    assert bridge.statuses("AgentSession") == ["active"]
    assert asyncio.run(attempt_revival(SESSION, approved=True, **world)) == "revive"
    (job,) = bridge.server.query("RedisJob", status="pending")
    assert "git push origin main" in job["revival_context"]


def test_a_job_whose_folder_is_gone_is_held(bridge: QueueAppFixture) -> None:
    """It cannot run there: held, reported, not revived."""
    chat, message = SESSION.split("_")[-2:]
    bridge.server.session(
        session_id=SESSION, project_key="popoto", status="active", chat_id=chat,
        started_at=bridge.now - 960, last_activity=bridge.now - 900,
    )  # fmt: skip
    gone = str(bridge.folder / "gone")
    bridge.run_job(SESSION, chat_id=chat, message_id=int(message), working_dir=gone)
    check(bridge)
    assert bridge.outline() == [("session_unhealthy", "silent_for_15_minutes", "held_for_approval")]
    assert bridge.sent == [(CHAT, NO_FOLDER_MESSAGE)]
    assert bridge.statuses("RedisJob") == ["running"]


def test_a_held_session_that_goes_on_by_itself_is_said_to_be_well(bridge: QueueAppFixture) -> None:
    """An episode has an end."""
    bridge.active()
    bridge.call("git push origin main", 930.0, ended=False)
    check(bridge)
    over = {"event": "post_tool_use", "tool_name": "Bash", "tool_output_preview": "ok", "end_time": 0.0}
    bridge.log(SESSION, over)
    check(bridge, times=2)
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy", "session_recovered"]


def test_completed_remote_calls_are_listed(bridge: QueueAppFixture) -> None:
    """The next attempt reads what was done elsewhere already."""
    bridge.active()
    bridge.call("git push origin main", 940.0)
    bridge.call("ls", 930.0)
    check(bridge)
    (job,) = bridge.server.query("RedisJob", status="pending")
    assert "do not repeat: Bash `git push origin main`" in job["revival_context"]


def test_stale_records_are_skipped(bridge: QueueAppFixture) -> None:
    """An active record whose job is not running is skipped, and nothing is done about it."""
    bridge.server.session(
        session_id=SESSION, project_key="popoto", status="active", chat_id=CHAT,
        started_at=bridge.now - 9000, last_activity=bridge.now - 9000,
    )  # fmt: skip
    bridge.run_job(SESSION, status="completed")
    cycle = check(bridge)
    assert (cycle.checked, cycle.skipped) == (0, 1)
    assert bridge.events == []


def test_without_any_evidence_a_session_is_unknown(
    bridge: QueueAppFixture, caplog: pytest.LogCaptureFixture
) -> None:
    """No log and a last activity of a wrong type: skipped and said, once."""
    bridge.active()
    client = bridge.server.client()
    (key,) = client.smembers("$KeyF:AgentSession:status:active")
    client.hset(key, "last_activity", b"\xa4soon")
    client.close()
    with caplog.at_level("INFO", "wakeful.watchdog"):
        cycle = check(bridge, times=3)
    assert (cycle.checked, cycle.skipped) == (0, 1)
    assert caplog.text.count("last_activity is not a number") == 1
    assert caplog.text.count("neither a tool log nor a last activity") == 1
    assert caplog.text.count("watchdog: checked 0, healthy 0, unhealthy 0, skipped 1") == 3


def test_wrong_types_keep_nobody_else_from_being_checked(
    bridge: QueueAppFixture, caplog: pytest.LogCaptureFixture
) -> None:
    """A string where a record should be, rubbish in fields, a hostile id: each is reported, and the others are healed."""
    bridge.active()
    client = bridge.server.client()
    client.set("AgentSession:popoto:text:active", "no record")
    client.hset(
        "AgentSession:popoto:rubbish:active", mapping={"started_at": b"\xc1", "session_id": b"\x91\x01"}
    )
    client.hset("AgentSession:popoto:......etc:active", mapping={"session_id": b"\xa9../../etc"})
    client.sadd("$KeyF:AgentSession:status:active", *(f"AgentSession:popoto:{name}:active" for name in (
        "text", "rubbish", "......etc", "dangling",
    )), "strange")  # fmt: skip
    client.set("$KeyF:RedisJob:status:pending", "not a set")
    client.close()
    with caplog.at_level("WARNING", "wakeful.watchdog"):
        cycle = check(bridge)
    assert cycle.unhealthy == 1
    assert bridge.events == []
    assert "status:pending differs from what popoto writes" in caplog.text
    bridge.server.client().delete("$KeyF:RedisJob:status:pending")
    check(bridge)
    assert bridge.outline() == [("session_unhealthy", "silent_for_15_minutes", "revival_attempted")]
    for words in ("WRONGTYPE", "is not msgpack", "session_id is not text"):
        assert words in caplog.text, words


@pytest.mark.parametrize(("newer", "checked"), [("failed", 0), ("active", 1)])
def test_the_newest_of_two_statuses_counts(bridge: QueueAppFixture, newer: str, checked: int) -> None:
    """A late save leaves two records of one session behind; the one that was active last is believed."""
    bridge.active()
    client = bridge.server.client()
    (key,) = client.smembers("$KeyF:AgentSession:status:active")
    failed = key.replace(b":active", b":failed")
    client.copy(key, failed)
    seconds = bridge.now - (10 if newer == "failed" else 5000)
    client.hset(failed, mapping={"status": encode_value("failed"), "last_activity": encode_value(seconds)})
    client.sadd("$KeyF:AgentSession:status:failed", failed)
    client.close()
    assert check(bridge).checked == checked


def test_a_long_message_with_control_characters_survives(bridge: QueueAppFixture) -> None:
    """The next job holds the very bytes of the first one."""
    text = ("\x00\x1b[31m\u202e\r\n\t" + "é🦀" * 10 + '"\\{&#58;}') * 700
    text = text[:20_000]
    chat, message = SESSION.split("_")[-2:]
    bridge.server.session(
        session_id=SESSION, project_key="popoto", status="active", chat_id=chat,
        started_at=bridge.now - 960, last_activity=bridge.now - 900, message_text=text,
    )  # fmt: skip
    bridge.run_job(SESSION, chat_id=chat, message_id=int(message), message_text=text)
    check(bridge)
    (job,) = bridge.server.query("RedisJob", status="pending")
    assert job["message_text"] == text


def test_somebody_elses_queue_gets_the_work(bridge: QueueAppFixture) -> None:
    """With `enqueue_job` nothing is enqueued in Redis; the callback gets the message, its place and the context."""
    bridge.active()
    check(bridge, enqueue_job=bridge.work.append)
    (work,) = bridge.work
    assert (work.project_key, work.session_id, work.chat_id, work.message_id, work.message_text, work.working_dir) == (
        "popoto", SESSION, CHAT, 4469, "ship it", str(bridge.folder),
    )  # fmt: skip
    assert work.issue_url == ISSUE
    assert ISSUE in work.revival_context
    assert bridge.statuses("RedisJob") == ["failed"]


async def _hang(*_arguments: object) -> None:
    await asyncio.Event().wait()


def test_a_queue_that_raises_is_a_failed_revival(bridge: QueueAppFixture) -> None:
    """The old owner is fenced, nothing was enqueued: the chat gets a message at once, and the event says why."""
    bridge.active()

    def enqueue(_work: Work) -> None:
        raise ValueError("no room")

    check(bridge, enqueue_job=enqueue)
    assert bridge.sent == [(CHAT, FAILURE_MESSAGE)]
    assert bridge.outline() == [("revival_failed", "silent_for_15_minutes", "failure_message_sent")]
    assert "enqueue_job raised ValueError: no room" in bridge.events[0]["details"]["outcome"]


def test_callbacks_that_never_return_hold_up_nothing(bridge: QueueAppFixture) -> None:
    """Each has its deadline; the event says what happened, and the next cycle comes."""
    bridge.active()
    check(bridge, enqueue_job=_hang, stop_session=_hang, send_message=_hang, call_seconds=0.2)
    outcome = bridge.events[0]["details"]["outcome"]
    assert "enqueue_job did not return within 0.2 s" in outcome
    assert "stop_session did not return within 0.2 s" in outcome


def test_a_session_is_stopped_before_its_next_job_exists(bridge: QueueAppFixture) -> None:
    """`stop_session` sees the old owner fenced and no pending job; then the job is made."""
    bridge.active()
    seen: list[list[str]] = []
    check(bridge, stop_session=lambda _session_id: seen.append(bridge.statuses("RedisJob")))
    assert seen == [["failed"]]
    assert bridge.statuses("RedisJob") == ["pending", "failed"]


def test_only_a_definite_refusal_is_sent_again(bridge: QueueAppFixture) -> None:
    """Refused: tried again in a later cycle. Anything else: it is unknown whether it arrived, so never again."""
    bridge.active()
    check(bridge)
    again(bridge)
    answers: list[Exception | None] = [Refused(channel="telegram", reason="429"), None]

    async def send(chat_id: str, text: str) -> None:
        bridge.sent.append((chat_id, text))
        answer = answers.pop(0) if answers else None
        if answer is not None:
            raise answer

    check(bridge, send_message=send)
    assert len(bridge.sent) == 1
    check(bridge, times=2, send_message=send)
    assert bridge.sent == [(CHAT, FAILURE_MESSAGE)] * 2
    assert answers == []


def test_a_doubtful_delivery_is_not_repeated(bridge: QueueAppFixture) -> None:
    """A send that raised something else may have arrived."""
    bridge.active()
    check(bridge)
    again(bridge)

    def send(chat_id: str, text: str) -> None:
        bridge.sent.append((chat_id, text))
        raise OSError("connection reset")

    check(bridge, times=3, send_message=send)
    assert len(bridge.sent) == 1
    assert "unknown whether it arrived" in bridge.events[-1]["details"]["outcome"]


def test_a_stalled_queue_is_told_once_and_its_worker_started_once(bridge: QueueAppFixture) -> None:
    """Pending for more than 300 s while the project has no running job."""
    bridge.run_job("tg_idle_1_2", project="idle", status="pending")
    bridge.run_job("tg_busy_1_3", project="busy", status="pending")
    bridge.run_job("tg_busy_1_4", project="busy")
    bridge.run_job("tg_new_1_5", project="new", status="pending", created_at=bridge.now)
    started: list[str] = []
    check(bridge, times=2, start_worker=started.append)
    check(bridge, start_worker=started.append)
    assert bridge.outline() == [("queue_stalled", "queue_stalled", "none")]
    assert (started, len(bridge.alerts), len(bridge.forge.reports)) == (["idle"], 1, 1)
    assert bridge.events[0]["project_key"] == "idle"
    bridge.server.delete("RedisJob", project_key="idle")
    check(bridge, times=2, start_worker=started.append)
    assert [each.splitlines()[0] for each in bridge.alerts] == [
        "idle: 1 job waits for up to 16 min, and none runs (queue_stalled)",
        "Resolved: idle: its jobs waited and none ran",
    ]


def test_messages_for_nobody_are_told_once_per_project(bridge: QueueAppFixture) -> None:
    """With `active_projects` a message for another project is unrouted; without it there is no report."""
    bridge.run_job("tg_research_1_2", project="research", status="pending", created_at=bridge.now)
    check(bridge)
    assert bridge.events == []
    check(bridge, times=2, active_projects=["popoto"])
    check(bridge, active_projects=["popoto"])
    assert bridge.outline() == [("message_unrouted", "message_unrouted", "none")]
    assert len(bridge.alerts) == 1


def test_observing_changes_nothing(bridge: QueueAppFixture) -> None:
    """In observe mode and while paused it is reported and not touched."""
    bridge.active()
    check(bridge, times=2, rules=HealingRules(mode="observe"))
    check(bridge, times=2, rules=HealingRules(paused_by="tom"))
    assert [each[2] for each in bridge.outline()] == ["none", "none"]
    assert "PAUSED by tom" in bridge.events[1]["details"]["outcome"]
    assert bridge.statuses("AgentSession") == ["active"]


def test_a_runaway_is_revived_or_told_of(bridge: QueueAppFixture) -> None:
    """Three hours of fresh activity: told of where runaways are left alone, revived inside `watchdog_loop`."""
    bridge.active(silent_seconds=10_800)
    client = bridge.server.client()
    (key,) = client.smembers("$KeyF:AgentSession:status:active")
    client.hset(key, "last_activity", encode_value(bridge.now))
    client.close()
    check(bridge, rules=HealingRules(revive_runaways=False))
    check(bridge)
    assert bridge.outline() == [
        ("session_unhealthy", "running_for_3_hours", "none"),
        ("session_unhealthy", "running_for_3_hours", "revival_attempted"),
    ]


def test_a_healthy_session_is_left_alone(bridge: QueueAppFixture) -> None:
    """Fresh calls, an old record: the log counts."""
    bridge.active()
    bridge.call("make", 20.0)
    before = bridge.server.client().keys("*")
    cycle = check(bridge, times=2)
    assert (cycle.healthy, cycle.unhealthy) == (1, 0)
    assert sorted(bridge.server.client().keys("*")) == sorted(before)


def test_a_running_job_that_nothing_is_known_of_is_skipped_and_said(
    bridge: QueueAppFixture, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither a record nor a log: it may have waited long and run for a second. It is not reported."""
    bridge.run_job(SESSION, chat_id=CHAT, message_id=4469)
    cycle = check(bridge)
    assert (cycle.checked, cycle.skipped) == (0, 1)
    assert "neither a tool log nor a last activity" in caplog.text
    assert bridge.statuses("RedisJob") == ["running"]


def test_a_job_whose_session_ended_is_not_watched(bridge: QueueAppFixture) -> None:
    """Its record says completed since the job was made: the worker has only not tidied up yet."""
    bridge.server.session(
        session_id=SESSION, project_key="popoto", status="completed",
        started_at=bridge.now - 960, last_activity=bridge.now - 700,
    )  # fmt: skip
    bridge.run_job(SESSION, chat_id=CHAT, message_id=4469, created_at=bridge.now - 960)
    bridge.call("make test", 900.0)
    cycle = check(bridge)
    assert (cycle.checked, cycle.skipped, bridge.events) == (0, 0, [])


def test_a_job_that_just_began_is_not_judged_by_an_earlier_attempts_log(bridge: QueueAppFixture) -> None:
    """The thread's last message was done three hours ago, the next job was just taken: it is not called silent."""
    bridge.server.session(
        session_id=SESSION, project_key="popoto", status="completed", chat_id=CHAT,
        started_at=bridge.now - 10_900, last_activity=bridge.now - 10_800,
    )  # fmt: skip
    bridge.call("make test", 10_800.0)
    bridge.run_job(SESSION, chat_id=CHAT, message_id=4470, created_at=bridge.now - 2)
    check(bridge, times=2)
    assert bridge.statuses("RedisJob") == ["running"]
    assert bridge.statuses("AgentSession") == ["completed"]
    assert bridge.events == []


def test_a_job_that_waited_is_not_judged_by_what_was_done_while_it_did(bridge: QueueAppFixture) -> None:
    """No record at all, and a log that another message's attempt wrote to while this job was in the queue."""
    bridge.call("make test", 1000.0)
    bridge.run_job(SESSION, chat_id=CHAT, message_id=4470, created_at=bridge.now - 2000)
    check(bridge, times=2)
    assert bridge.statuses("RedisJob") == ["running"]
    assert bridge.events == []


def test_a_job_without_a_record_is_judged_by_its_log_since_it_was_first_seen(bridge: QueueAppFixture) -> None:
    """No record calls it active: what it logged since the first look counts, whichever watchdog looks."""
    bridge.run_job(SESSION, chat_id=CHAT, message_id=4469)
    check(bridge)
    assert first_seen(bridge, 1000) == 1
    bridge.call("make test", 900.0)
    check(bridge)
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy"]
    assert sorted(bridge.statuses("RedisJob")) == ["failed", "pending"]
    check(bridge)
    assert first_seen(bridge, 0) == 0
