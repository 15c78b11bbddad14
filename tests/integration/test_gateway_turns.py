"""Claims about turns through the real daemon, the real chat library and a store on disk, with a cheap agent."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.daemon_process import RunningDaemon
from support.gateway_process import GatewayFixture
from support.telegram_server import BotApi
from wakeful.client.async_client import SessionsApiClient
from wakeful.gateway.host import GatewayHost, HostReader
from wakeful.gateway.host_monitor import SelfHeal
from wakeful.gateway.rules.host import HealKind, HealLimits
from wakeful.gateway.rules.pool import PoolLimits
from wakeful.gateway.turn_listener import STOPPED_TEXT
from wakeful.gateway.turn_queue import TurnQueue
from wakeful.healing.plan import HealingRules
from wakeful.linux.clock import SystemClock


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    """One daemon for all of them: it takes longer to start than any of them to play."""
    daemon = RunningDaemon(tmp_path_factory.mktemp("gateway") / "wakeful")
    daemon.environ["WAKEFUL_HEAL__CONFIRM_SECONDS"] = "0.2"
    try:
        daemon.up("--no-tcp", port=None)
        yield daemon
    finally:
        daemon.end()


@pytest.fixture
def house(shared: RunningDaemon, tmp_path: Path) -> Iterator[GatewayFixture]:
    with BotApi() as api:
        house = GatewayFixture(shared, api, tmp_path)
        try:
            yield house
        finally:
            house.end_agents()


def host_of(house: GatewayFixture) -> GatewayHost:
    return GatewayHost(
        SystemClock(),
        HostReader(str(house.folder), pm2=False, docker=False, environ={}),
        SessionsApiClient(str(house.daemon.socket), house.run).pid,
        temporary=house.folder / "temporary",
        log=house.folder / "gateway.log",
    )


def self_heal(turns: TurnQueue, house: GatewayFixture, limits: HealLimits) -> SelfHeal:
    """The real one, on this host."""

    async def nobody(_provider: str) -> None:
        return None

    async def told(_level: str, _text: str) -> bool:
        return True

    async def allowed() -> HealingRules:
        return HealingRules()

    return SelfHeal(
        clock=SystemClock(),
        host=host_of(house),
        pool=turns,
        degrade=nobody,
        notify=told,
        rules=allowed,
        limits=limits,
    )


async def usage(house: GatewayFixture) -> tuple[float | None, float | None]:
    reading = await host_of(house).read()
    return reading.memory_percent, 0.0


async def test_messages_are_answered_in_one_conversation(house: GatewayFixture) -> None:
    """Words grow in one message; the next message goes to the same session; a failure is one sentence."""
    async with house.gateway() as life:
        house.api.says("hello there")
        assert await life.answered(1) == ["Answer to: hello there."]
        (said,) = [each for each in house.api.room(1).messages if each.is_ours]
        assert said.history[0] == "…"
        house.api.says("again")
        house.api.says("fail")
        assert (await life.answered(3))[1:] == [
            "Answer to: again.",
            "Something went wrong with the agent. Please try again later.",
        ]
        ((key, conversation),) = life.gateway.conversations.all().items()
        standing = await life.sessions.summary(conversation.session_id)  # type: ignore[arg-type]
        assert (key, standing is not None and standing.is_managed) == ("chat:1:thread:main", True)
        assert [turn.cost_usd for turn, _ in house.parts.plain.ends][:2] == [
            pytest.approx(0.001),
            pytest.approx(0.001),
        ]


async def test_a_failed_turn_is_its_users_and_nobody_elses(house: GatewayFixture) -> None:
    """Its user gets the advice to try again: the healer does not continue it as well, and the session says why."""
    async with house.gateway() as life:
        house.api.says("fail")
        assert await life.answered(1) == ["Something went wrong with the agent. Please try again later."]
        (conversation,) = life.gateway.conversations.all().values()

        def explained() -> bool:
            return "its chat was told" in house.daemon.run("why", "-v", conversation.session_id).out

        await life.until(explained, "why")
        # The healer acts on it after 0.2 s here.
        await asyncio.sleep(2)
        house.api.says("again")
        assert (await life.answered(2))[1:] == ["Answer to: again."]
        (log,) = Path(house.daemon.environ["HOME"]).glob(
            f".claude/projects/*/{conversation.session_id[7:]}.jsonl"
        )
        assert "Wakeful: " not in log.read_text()


async def test_a_permission_is_asked_and_given_by_a_button(house: GatewayFixture) -> None:
    """Three buttons in the thread; allowed for the session, the next question is answered at once."""
    async with house.gateway() as life:
        house.api.says("ask Bash")
        room = house.api.room(1)
        await life.until(lambda: any(each.labels for each in room.messages), "buttons")
        (asked,) = [each for each in room.messages if each.labels]
        assert asked.labels == ["Allow once", "Allow for this session", "Deny"]
        house.api.presses(asked, asked.buttons[1][0]["callback_data"])
        assert "May I? \n\nIt was allowed." in await life.answered(1)
        house.api.says("ask Bash")
        await life.answered(2)
        await life.until(lambda: not asked.labels, "buttons taken away")
        assert sum("May the agent use" in each.text for each in room.messages) == 1


async def test_killed_inside_a_turn_it_is_brought_back_and_fills_the_same_message(
    house: GatewayFixture,
) -> None:
    """The daemon heals it, the gateway goes on listening: one message, one answer, one session."""
    async with house.gateway() as life:
        house.api.says("die now")
        assert await life.answered(1) == ["Brought back, and done after all."]
        house.api.says("still there?")
        await life.answered(2)
        assert len(life.gateway.conversations.all()) == 1


@pytest.mark.parametrize(
    ("limits", "acts"),
    [
        # Every host uses more than this, and collecting does not help.
        (HealLimits(memory_percent=0.001), [HealKind.COLLECT_MEMORY, HealKind.RESTART_ALL]),
        (HealLimits(runaway_memory_percent=0.001), [HealKind.END_RUNAWAY] * 2),
    ],
    ids=["memory", "runaway"],
)
async def test_self_heal_in_the_middle_of_a_turn_does_not_lose_it(
    house: GatewayFixture, limits: HealLimits, acts: list[HealKind]
) -> None:
    """The turn goes on in another process and ends in the same message; an idle conversation goes on, too."""
    async with house.gateway() as life:
        heal = self_heal(life.gateway.turns, house, limits)
        house.api.says("hello", chat=2)
        await life.answered(1, chat=2)
        house.api.says("hang on")
        await life.until(lambda: any("Half of" in each for each in house.api.seen(1)), "half an answer")
        before = set(life.gateway.turns.sessions())
        assert [each.kind for each in await heal.check(*await usage(house))] == acts
        assert await life.answered(1) == ["Brought back, and done after all."]
        house.api.says("and you?", chat=2)
        assert await life.answered(2, chat=2) == ["Answer to: hello.", "Answer to: and you?."]
        assert set(life.gateway.turns.sessions()) == before, "each in its own conversation"


async def test_stop_and_new(house: GatewayFixture) -> None:
    """A turn is cut short by its user and the session takes the next; /new begins another one."""
    async with house.gateway() as life:
        house.api.says("hang on")
        await life.until(lambda: "Half of " in "".join(house.api.seen()), "first words")
        house.api.says("/stop")
        first = (await life.answered(1))[0]
        assert first.endswith(STOPPED_TEXT)
        house.api.says("next")
        await life.answered(2)
        before = life.gateway.conversations.all()
        house.api.says("/new")
        house.api.says("after")
        await life.answered(3)
        after = life.gateway.conversations.all()
        assert [each.session_id for each in before.values()] != [each.session_id for each in after.values()]
        assert "Answer to: after." in house.api.seen()


async def test_a_restarted_gateway_goes_on_with_what_runs(house: GatewayFixture) -> None:
    """The turn ran on meanwhile; its placeholder is filled by the next gateway, and nothing is asked twice."""
    async with house.gateway() as life:
        house.api.says("slow 1")
        await life.until(lambda: "Slowly." in "".join(house.api.seen()), "first words")
    async with house.gateway() as life:
        assert await life.answered(1) == ["Slowly. \n\nAnswer to: slow 1."]
        house.api.says("and now")
        assert (await life.answered(2))[1:] == ["Answer to: and now."]
        assert len(life.gateway.conversations.all()) == 1


async def test_an_evicted_conversation_is_resumed(house: GatewayFixture) -> None:
    """One place for two chats: each makes room for the other, and goes on where it was."""
    house.parts.pool_limits = PoolLimits(active_max=1)
    async with house.gateway() as life:
        for n, chat in enumerate((1, 2, 1, 2)):
            house.api.says(f"number {n}", user=chat)
            await life.answered(n // 2 + 1, chat)
        assert house.api.seen(1) == ["Answer to: number 0.", "Answer to: number 2."]
        assert house.api.seen(2) == ["Answer to: number 1.", "Answer to: number 3."]
        assert len(life.gateway.conversations.all()) == 2
        assert life.gateway.turns.pool.active == 1


async def test_the_daemon_may_be_restarted_in_a_turn(house: GatewayFixture) -> None:
    """Sessions outlive it: the turn is heard to its end, and the next message waits until the daemon is back."""
    async with house.gateway() as life:
        house.api.says("slow 1")
        await life.until(lambda: "Slowly." in "".join(house.api.seen()), "first words")
        house.daemon.kill()
        assert await life.answered(1) == ["Slowly. \n\nAnswer to: slow 1."]
        house.api.says("anybody?")
        await asyncio.sleep(0.3)
        await asyncio.to_thread(house.daemon.up, "--no-tcp", port=None)
        assert (await life.answered(2))[1:] == ["Answer to: anybody?."]


async def test_a_crowd_is_answered_without_loss(house: GatewayFixture) -> None:
    """Sixty messages in ten chats: each answered once, in its own chat, in its order."""
    rounds, chats = 6, 10
    async with house.gateway() as life:
        for n in range(rounds):
            for chat in range(1, chats + 1):
                house.api.says(f"message {n} of {chat}", user=chat)
        for chat in range(1, chats + 1):
            await life.answered(rounds, chat)
            expected = [f"Answer to: message {n} of {chat}." for n in range(rounds)]
            assert house.api.seen(chat) == expected
