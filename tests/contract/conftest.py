"""The contract suites are imported, not collected: pytest needs an order to explain their assertions too."""

import pytest

pytest.register_assert_rewrite(
    "contract.store_contract",
    "contract.store_model",
    "contract.lease_contract",
    "contract.lease_model",
    "contract.machine_contract",
)
