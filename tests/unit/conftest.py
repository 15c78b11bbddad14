"""What several unit tests share."""

from collections.abc import AsyncIterator

import pytest

from support import gateway_virtual, healing_fixture
from support.gateway_virtual import Gateway, GatewayParts
from support.healing_fixture import HealingFixture
from support.supervisor_fixture import SupervisorFixture


@pytest.fixture(params=["claude", "codex"])
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The client of this test's gateway; the test runs once with each."""
    name: str = request.param
    monkeypatch.setattr(gateway_virtual, "PROVIDER", name)
    return name


@pytest.fixture
def house() -> SupervisorFixture:
    return SupervisorFixture()


@pytest.fixture
async def clinic() -> AsyncIterator[HealingFixture]:
    async with healing_fixture.opened() as clinic:
        yield clinic


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with gateway_virtual.opened() as (_, gateway):
        yield gateway


@pytest.fixture
def parts(gateway: Gateway) -> GatewayParts:
    """The parts of a gateway that runs."""
    return gateway.parts
