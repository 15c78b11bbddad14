"""What several unit tests share."""

import pytest

from support import gateway_virtual


@pytest.fixture(params=["claude", "codex"])
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who answers in a gateway of this test, and that it is made for each."""
    name: str = request.param
    monkeypatch.setattr(gateway_virtual, "PROVIDER", name)
    return name
