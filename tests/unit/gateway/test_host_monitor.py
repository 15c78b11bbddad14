"""Auth watch, self-heal and host watch in virtual time, with doubles of the login, the host and the pool."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from wakeful.control.login import PROBE_SECONDS, USER_SENTENCE, AuthEvent
from wakeful.gateway.host_monitor import HostWatch, SelfHeal
from wakeful.gateway.ports import BotRejected, ChatFailed, ChatRefused
from wakeful.gateway.provider_guard import AuthWatch
from wakeful.gateway.rules.errors import AUTH_REQUIRED, Category, Fault
from wakeful.gateway.rules.host import HealKind, Hog, HostReading, wrong_with
from wakeful.gateway.rules.messages import ConversationKey, Place
from wakeful.gateway.rules.turn import Turn
from wakeful.healing.plan import HealingRules
from wakeful.testing.virtual_clock import VirtualClock

A = ConversationKey("chat:1:thread:main")
PROVIDERS = ["claude", "codex"]


class ScriptedLogin:
    """Implements control.login.Login: says what the test says, and counts what it was asked."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self.says = AuthEvent.STATUS_GOOD
        self.turn = AuthEvent.TURN_WORKED
        self.mark = "first"
        self.asked: list[str] = []

    async def status(self) -> AuthEvent:
        self.asked.append("status")
        return self.says

    async def probe(self) -> AuthEvent:
        self.asked.append("probe")
        return self.turn

    def credentials(self) -> str:
        return self.mark


class Operator:
    """The recipient of alerts; `listens` False: nothing arrives."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.listens = True
        # How long a message is on its way; others go on meanwhile.
        self.way = asyncio.Event()
        self.way.set()

    async def tell(self, level: str, text: str) -> bool:
        await self.way.wait()
        if self.listens:
            self.heard.append((level, text))
        return self.listens

    @property
    def levels(self) -> list[str]:
        return [level for level, _ in self.heard]


class AuthFixture:
    """One provider's watch, running."""

    def __init__(self, provider: str) -> None:
        self.clock = VirtualClock()
        self.login = ScriptedLogin(provider)
        self.operator = Operator()
        self.watch = AuthWatch(self.clock, [self.login], self.operator.tell)

    async def pass_seconds(self, seconds: float) -> None:
        for _ in range(int(seconds / 10)):
            await self.clock.run_for(10.0)


@asynccontextmanager
async def opened_auth(provider: str) -> AsyncIterator[AuthFixture]:
    scene = AuthFixture(provider)
    running = asyncio.create_task(scene.watch.run())
    try:
        await scene.clock.run_for(1.0)
        yield scene
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_logins_are_looked_at_on_start_and_every_minute(provider: str) -> None:
    """Without a probe turn while all is well."""
    async with opened_auth(provider) as scene:
        assert scene.login.asked == ["status"]
        await scene.pass_seconds(300)
        assert scene.login.asked == ["status"] * 6
        assert scene.watch.refusal(provider) is None


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_refused_turn_closes_the_door_until_a_probe_works(provider: str) -> None:
    """Users read the fixed sentence, the operator hears of it twice, and a good status alone opens nothing."""
    async with opened_auth(provider) as scene:
        scene.login.turn = AuthEvent.PROBE_REFUSED
        await scene.watch.on_login_failed(provider)
        await scene.watch.on_login_failed(provider)
        assert scene.watch.refusal(provider) == USER_SENTENCE
        await scene.pass_seconds(PROBE_SECONDS + 60)
        assert (scene.login.asked.count("probe"), scene.operator.levels) == (1, ["critical"])
        scene.login.turn = AuthEvent.TURN_WORKED
        await scene.pass_seconds(PROBE_SECONDS)
        assert scene.watch.refusal(provider) is None
        assert scene.operator.levels == ["critical", "info"]
        await scene.pass_seconds(600)
        assert scene.login.asked.count("probe") == 2


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_new_credentials_are_tried_within_a_minute(provider: str) -> None:
    """A new login does not wait five minutes."""
    async with opened_auth(provider) as scene:
        await scene.watch.on_login_failed(provider)
        scene.login.mark = "second"
        await scene.pass_seconds(70)
        assert scene.watch.refusal(provider) is None
        assert scene.login.asked.count("probe") == 1


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_suspect_answer_is_probed_at_once_and_only_then_believed(provider: str) -> None:
    """A hundred of them in a row are one probe."""
    async with opened_auth(provider) as scene:
        for _ in range(100):
            await scene.watch.on_login_suspected(provider)
        assert scene.watch.refusal(provider) is None
        await scene.clock.run_for(1.0)
        assert scene.login.asked.count("probe") == 1
        scene.login.turn = AuthEvent.PROBE_REFUSED
        await scene.watch.on_login_suspected(provider)
        await scene.pass_seconds(PROBE_SECONDS + 10)
        assert scene.watch.refusal(provider) == USER_SENTENCE


async def test_an_alert_that_did_not_arrive_is_told_later_once() -> None:
    """The operator's channel was away when it happened."""
    async with opened_auth("claude") as scene:
        scene.operator.listens = False
        scene.login.says = AuthEvent.STATUS_GONE
        await scene.pass_seconds(120)
        assert scene.watch.mode("claude").is_degraded
        scene.operator.listens = True
        await scene.pass_seconds(300)
        assert scene.operator.levels == ["critical"]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_alert_on_its_way_is_not_told_by_the_next_look_too(provider: str) -> None:
    """A refused turn tells it; the look that comes meanwhile waits for what becomes of that."""
    async with opened_auth(provider) as scene:
        scene.operator.way.clear()
        refused = asyncio.create_task(scene.watch.on_login_failed(provider))
        await scene.pass_seconds(120)
        scene.operator.way.set()
        await refused
        await scene.pass_seconds(120)
        assert scene.operator.levels == ["critical"]


class ScriptedHost:
    """Implements gateway.ports.Host."""

    def __init__(self) -> None:
        self.now = HostReading(disk_percent=10, memory_percent=10, load=0.1, cores=2)
        self.memory_after_collecting = 10.0
        self.found: tuple[Hog, ...] = ()
        self.acts: list[str] = []

    async def read(self) -> HostReading:
        return self.now

    async def hogs(self, sessions: Mapping[str, ConversationKey], cpu_percent_max: float) -> tuple[Hog, ...]:
        assert (dict(sessions), cpu_percent_max) == ({"s": A}, 90.0)
        return self.found

    async def collect_memory(self) -> None:
        self.acts.append("collect")
        self.now = HostReading(memory_percent=self.memory_after_collecting)

    async def clean_files(self) -> int:
        self.acts.append("clean")
        return 3


class ScriptedPool:
    """Implements the pool as self-heal sees it."""

    def __init__(self) -> None:
        self.acts: list[str] = []
        self.heard_of: frozenset[ConversationKey] = frozenset()
        self.problem: Exception | None = None
        self.looked = 0
        self.restarts = True

    async def restart(self, key: ConversationKey, *, even_busy: bool = False) -> bool:
        self.acts.append(f"{key} even busy" if even_busy else key)
        if self.problem:
            raise self.problem
        return self.restarts

    async def restart_all(self) -> int:
        self.acts.append("all")
        return 2

    async def adopt_replacements(self) -> None:
        self.looked += 1

    def progressing_keys(self, seconds: float) -> frozenset[ConversationKey]:
        assert seconds == 300.0
        return self.heard_of

    def sessions(self) -> dict[str, ConversationKey]:
        return {"s": A}


class ScriptedChat:
    """As much of a chat as its reachability needs."""

    def __init__(self) -> None:
        self.problem: Exception | None = None

    async def me(self) -> str:
        if self.problem:
            raise self.problem
        return "bot"


class HostFixture:
    """Host watch and self-heal together."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.host = ScriptedHost()
        self.pool = ScriptedPool()
        self.operator = Operator()
        self.chat = ScriptedChat()
        self.degraded: list[str] = []
        self.rules = HealingRules()
        self.heal = SelfHeal(
            clock=self.clock,
            host=self.host,
            pool=self.pool,
            degrade=self._degrade,
            notify=self.operator.tell,
            rules=self._rules,
        )
        self.watch = HostWatch(
            clock=self.clock, host=self.host, chat=self.chat, heal=self.heal, notify=self.operator.tell
        )

    async def _rules(self) -> HealingRules:
        return self.rules

    async def _degrade(self, provider: str) -> None:
        self.degraded.append(provider)

    async def fail(self, pattern: str, times: int, provider: str = "claude") -> None:
        for _ in range(times):
            fault = Fault(Category.UNKNOWN, pattern)
            turn = Turn(
                update_id=1, place=Place(1), message_id=1, user_id=1, at=0.0, prompt="", provider=provider
            )
            await self.heal.on_turn_end(turn, fault, 1.0)


@pytest.fixture
def scene() -> HostFixture:
    return HostFixture()


async def test_all_is_well_and_nothing_is_said(scene: HostFixture) -> None:
    """An hour of cycles without an alert or an act."""
    running = asyncio.create_task(scene.watch.run())
    await scene.clock.run_for(3600.0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (scene.operator.heard, scene.host.acts, scene.pool.acts) == ([], [], [])
    assert scene.watch.reading.telegram_reachable is True
    # The healer's replacements are asked for in every one of them.
    assert scene.pool.looked >= 60


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_three_failures_bring_the_conversation_back_once(scene: HostFixture, provider: str) -> None:
    """In the next cycle, and not again for the same three."""
    await scene.fail("timeout", 3, provider)
    for _ in range(20):
        await scene.watch.check()
        scene.clock.advance(60.0)
    assert scene.pool.acts == [A]
    assert [each.proposal.kind for each in scene.heal.actions] == [HealKind.RESTART_KEY]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_missing_login_restarts_nothing(scene: HostFixture, provider: str) -> None:
    """Its mode is entered instead."""
    await scene.fail(AUTH_REQUIRED, 10, provider)
    await scene.watch.check()
    assert (scene.degraded, scene.pool.acts) == ([provider], [])


async def test_repeated_tool_failures_are_told(scene: HostFixture) -> None:
    """And nothing else happens."""
    await scene.fail(Category.MCP_TOOL_FAILURE, 3)
    await scene.watch.check()
    assert scene.pool.acts == []
    assert "mcp_tool_failure" in scene.operator.heard[-1][1]


@pytest.mark.parametrize(("after_percent", "acts"), [(50.0, []), (99.0, ["all"])])
def test_memory_is_looked_at_again_once_it_was_collected(
    scene: HostFixture, after_percent: float, acts: list[str]
) -> None:
    """In the same cycle; sessions go only if collecting did not help."""
    scene.host.now = HostReading(memory_percent=97)
    scene.host.memory_after_collecting = after_percent
    asyncio.run(scene.watch.check())
    assert (scene.host.acts, scene.pool.acts) == (["collect"], acts)


async def test_a_full_disk_is_told_and_cleaned_with_a_rest_between(scene: HostFixture) -> None:
    """Cleaned every five minutes at most, reported every half hour."""
    scene.host.now = HostReading(disk_percent=95)
    for _ in range(10):
        await scene.watch.check()
        scene.clock.advance(60.0)
    assert (scene.host.acts, scene.operator.levels) == (["clean", "clean"], ["warning"])


async def test_an_act_that_fails_is_written_down_and_rests_too(scene: HostFixture) -> None:
    """No loop of failing restarts; the words say what happened."""
    scene.pool.problem = ChatRefused(reason="no")
    await scene.fail("timeout", 3)
    await scene.watch.check()
    await scene.watch.check()
    assert scene.pool.acts == [A]
    assert scene.heal.actions[0].words.startswith("failed: ")


def test_a_runaway_goes_through_the_gate(scene: HostFixture) -> None:
    """By its conversation; the monitor itself signals no process."""
    scene.host.found = (Hog(A, "pid 7", 100, 600, 5),)
    asyncio.run(scene.watch.check())
    assert scene.pool.acts == [f"{A} even busy"]


def test_a_runaway_that_the_daemon_does_not_end_is_reported(scene: HostFixture) -> None:
    """It still takes what the host lacks, so an administrator must know."""
    scene.host.found = (Hog(A, "pid 7", 100, 600, 5),)
    scene.pool.restarts = False
    asyncio.run(scene.watch.check())
    assert scene.operator.levels == ["warning"]
    assert "still runs" in scene.operator.heard[0][1]


def test_a_busy_process_of_whose_turn_something_is_heard_is_only_told(scene: HostFixture) -> None:
    """Who takes a whole processor and answers is at work."""
    scene.host.found = (Hog(A, "pid 7", 100, 600, 5),)
    scene.pool.heard_of = frozenset({A})
    asyncio.run(scene.watch.check())
    assert (scene.pool.acts, scene.operator.levels) == ([], ["warning"])


@pytest.mark.parametrize(
    ("problem", "reachable"),
    [(ChatFailed(reason="x"), False), (ChatRefused(reason="x"), True), (BotRejected(reason="x"), True)],
)
def test_telegram_is_reachable_if_it_answers_anything(
    scene: HostFixture, problem: Exception, reachable: bool
) -> None:
    """A refusal is an answer."""
    scene.chat.problem = problem
    asyncio.run(scene.watch.check())
    assert scene.watch.reading.telegram_reachable is reachable
    assert [alert.key for alert in wrong_with(scene.watch.reading)] == ([] if reachable else ["telegram"])


async def test_patterns_are_told_with_their_age(scene: HostFixture) -> None:
    """For `/errors patterns`."""
    await scene.fail("timeout", 2)
    scene.clock.advance(30.0)
    assert scene.heal.patterns() == (("timeout", 2, 30.0),)
