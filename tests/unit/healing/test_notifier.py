"""Claims about alerts for a problem: once, after its mute, with its outcome, and with its end."""

import pytest

from support.healing_fixture import OWN_TMUX, HealingFixture, die_in_a_turn, opened
from wakeful.alerts.mute_pause_model import MuteKind
from wakeful.core.ids import SessionId
from wakeful.core.process import ProcessState
from wakeful.incidents.model import MemberStatus
from wakeful.incidents.service import REOPEN_SECONDS
from wakeful.judging.events import Failure, Prompted, TurnEnded

A = SessionId("claude-a")
HOUR = 3600.0


async def die_again(clinic: HealingFixture, name: str = "a") -> None:
    (process,) = clinic.registry.find(name).presence.living_processes
    clinic.end(process.process)
    await clinic.clock.run_for(10)


async def lose_the_server(clinic: HealingFixture, managed: str, found: str = "") -> None:
    """The tmux server of idle sessions ends; those that were only found were at work."""
    processes = {name: await clinic.manage(name) for name in managed}
    processes |= {name: clinic.start(name) for name in found}
    for name, process in processes.items():
        clinic.show(name, process)
        if name in found:
            clinic.work(name)
        else:
            clinic.finish(name)
    for name, process in processes.items():
        clinic.show(name, process, runtime=ProcessState.DEAD)
        clinic.end(process)


def lines(text: str) -> dict[str, str]:
    """An alert's lines by what they begin with."""
    first, *others, last = text.splitlines()
    return {"": first, "→": last.removeprefix("→ ")} | dict(line.split(": ", 1) for line in others)


async def test_idle_sessions_that_a_server_took_along_are_told_to_be_back(clinic: HealingFixture) -> None:
    """One alert says that all three recovered and that there is nothing to do."""
    await lose_the_server(clinic, "abc")
    await clinic.clock.run_for(60)
    (told,) = clinic.recorder.said
    shown = lines(told)
    assert shown[""] == f"the tmux server on {OWN_TMUX} ended: 3 sessions, all recovered"
    assert shown["Action"] == "resumed 3 sessions, all recovered"
    assert shown["Until you act"] == "nothing to do"


async def test_who_waits_for_their_turn_is_waited_for() -> None:
    """Revivals are paced; the one alert comes when the last of them is done."""
    async with opened(burst=1) as clinic:
        await lose_the_server(clinic, "abcdefgh")
        await clinic.clock.run_for(60)
    (told,) = clinic.recorder.said
    assert lines(told)["Action"] == "resumed 8 sessions, all recovered"


async def test_an_incident_counts_those_that_are_still_in_it(clinic: HealingFixture) -> None:
    """Two that were only found are down, three are back, and the command is about the two."""
    await lose_the_server(clinic, "abc", "xy")
    await clinic.clock.run_for(60)
    (told,) = clinic.recorder.said
    shown = lines(told)
    assert shown[""].endswith("2 sessions affected, 3 recovered")
    assert shown["Where"] == "shop x, shop y"
    assert shown["Action"] == (
        "resumed 3 sessions, all recovered; skipped 2 sessions: not managed by Wakeful"
    )
    assert shown["Until you act"] == "they stay closed"
    assert shown["→"] == "wakeful resume --all"


async def test_who_fails_twice_is_counted_once(clinic: HealingFixture) -> None:
    """A session that left its incident and came back into it is one session."""
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(10)
    await die_again(clinic)
    (incident,) = await clinic.incidents.list_incidents()
    assert (incident.affected, [each.fate for each in incident.members]) == (1, [MemberStatus.GIVEN_UP])


async def test_what_was_muted_is_told_once_the_mute_has_ended(clinic: HealingFixture) -> None:
    """Once, and only because it still lasts."""
    await clinic.calm.mute(MuteKind.PROJECT, "shop", 2 * HOUR, by="ada")
    clinic.place.gone.add("/home/me/shop")
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(2 * HOUR - 60)
    assert clinic.recorder.said == []
    await clinic.clock.run_for(2 * HOUR)
    assert len(clinic.recorder.said) == 1
    assert len(clinic.events) == 1


async def test_what_was_given_up_while_muted_is_told_as_that(clinic: HealingFixture) -> None:
    """With the command that tries again."""
    await clinic.calm.mute(MuteKind.SESSION, A, HOUR, by="ada")
    clinic.living.dies_at_once = True
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(2 * HOUR)
    (told,) = clinic.recorder.said
    assert "then gave up" in told
    assert lines(told)["→"] == "wakeful resume claude-a"


async def test_what_is_over_before_its_mute_ends_is_never_told(clinic: HealingFixture) -> None:
    """Neither that it happened nor that it is over."""
    await clinic.calm.mute(MuteKind.SESSION, A, HOUR, by="ada")
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(10)
    clinic.hear("a", TurnEnded(clinic.wall()))
    await clinic.clock.run_for(2 * HOUR)
    assert clinic.recorder.said == []


@pytest.mark.parametrize(("code", "count"), [("auth", 0), ("auth_required", 0), ("network", 1)])
async def test_a_cause_is_muted_as_well_as_a_code(code: str, count: int, clinic: HealingFixture) -> None:
    """`mute --code auth` silences lost logins, whose finding is called auth_required."""
    await clinic.calm.mute(MuteKind.CODE, code, HOUR, by="ada")
    await clinic.manage("a")
    clinic.fail("a", "please log in", Failure.AUTH)
    await clinic.clock.run_for(HOUR / 2)
    assert len(clinic.recorder.said) == count


async def test_an_end_is_told_when_the_revival_has_held(clinic: HealingFixture) -> None:
    """Not within the time in which a failure would be the same problem; by its name."""
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(5)
    clinic.answer("a")
    await clinic.clock.run_for(5)
    await clinic.clock.run_for(REOPEN_SECONDS - 15)
    assert len(clinic.recorder.said) == 1
    await clinic.clock.run_for(20)
    over = clinic.recorder.said[1]
    assert over.splitlines() == [
        "Resolved: shop: died in the middle of a turn",
        "Began: 2027-01-15 08:00 UTC",
        "Action: resumed its conversation (started); it works again",
    ]


async def test_who_fails_again_was_never_said_to_be_well(clinic: HealingFixture) -> None:
    """One message says that it was brought back and that it was given up; no end in between or after."""
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(60)
    await die_again(clinic)
    await clinic.clock.run_for(HOUR)
    (told,) = clinic.recorder.said
    assert lines(told)["Action"].startswith("resumed its conversation")
    assert "then gave up: it failed again" in lines(told)["Action"]
    assert lines(told)["Until you act"] == "it stays stopped"
    assert lines(told)["→"] == "wakeful resume claude-a"


async def test_a_revival_is_told_when_it_is_seen_at_work() -> None:
    """Not before: what comes of it is in the same message, also if the daemon is restarted meanwhile."""
    async with opened() as clinic:
        await die_in_a_turn(clinic)
        await clinic.clock.run_for(30)
        assert clinic.recorder.said == []
    clinic.build()
    async with clinic.open():
        await clinic.clock.run_for(30)
        assert clinic.recorder.said == []
        clinic.answer("a")
        await clinic.clock.run_for(1)
    (told,) = clinic.recorder.said
    assert lines(told)["Action"].endswith("; it works again")
    assert lines(told)["Until you act"] == "it continues; if it fails again, Wakeful gives up"


async def test_a_person_who_stops_a_revived_session_hears_nothing_of_it(clinic: HealingFixture) -> None:
    """No alert for its death was sent yet, and a person has ended it since."""
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(30)
    await clinic.hands.stop("a")
    await clinic.clock.run_for(HOUR)
    assert clinic.recorder.said == []


async def test_who_is_given_up_alive_is_not_said_to_be_stopped(clinic: HealingFixture) -> None:
    """A silent agent whose second silence is given up still runs."""
    await clinic.manage("a")
    clinic.hear("a", Prompted(clinic.wall()))
    await clinic.clock.run_for(2 * HOUR)
    told = clinic.recorder.said[-1]
    assert lines(told)["Until you act"] == "it stays alive but stuck"
    assert lines(told)["→"] == "wakeful resume claude-a"


async def test_an_end_is_told_by_the_next_daemon_too() -> None:
    """An end that the first daemon did not send is sent by the second, once."""
    async with opened() as clinic:
        await die_in_a_turn(clinic)
        await clinic.clock.run_for(5)
        clinic.answer("a")
        await clinic.clock.run_for(5)
    clinic.build()
    async with clinic.open():
        await clinic.clock.run_for(2 * REOPEN_SECONDS)
    _, over = clinic.recorder.said
    assert over.startswith("Resolved: shop")


async def test_an_incident_that_was_being_gathered_is_told_by_the_next_daemon() -> None:
    """A crash in the moment of gathering loses no alert."""
    async with opened() as clinic:
        await lose_the_server(clinic, "ab")
        await clinic.clock.run_for(4)
        assert clinic.recorder.said == []
    clinic.build()
    async with clinic.open():
        await clinic.clock.run_for(30)
    (told,) = clinic.recorder.said
    assert "2 sessions, all recovered" in told


async def test_a_folder_that_is_gone_is_named_as_the_reason(clinic: HealingFixture) -> None:
    """Nothing was done, and the line says why."""
    clinic.place.gone.add("/home/me/shop")
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(60)
    (told,) = clinic.recorder.said
    assert lines(told)["No action"] == "its working directory is gone"


async def test_what_an_abort_ended_is_not_said_to_be_well(clinic: HealingFixture) -> None:
    """Its incident says that a person wanted it so."""
    await die_in_a_turn(clinic, command="git push origin main")
    await clinic.clock.run_for(10)
    await clinic.healer.give_up(A, "ada")
    (incident,) = await clinic.incidents.list_incidents(include_resolved=True)
    assert (incident.is_open, incident.members[0].fate) == (False, MemberStatus.ENDED)
