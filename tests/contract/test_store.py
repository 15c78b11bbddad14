"""The store contract, once per engine."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.lease_contract import LeaseContract, OpenTimedStore
from contract.store_contract import OpenStore, StoreContract
from wakeful.storage.base import Store
from wakeful.storage.sqlite.store import SqliteStore
from wakeful.testing.memory_store import MemoryStore


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        async def opened() -> Store:
            return MemoryStore()

        return opened


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        numbers = itertools.count()
        return lambda: SqliteStore.open(tmp_path / f"wakeful-{next(numbers)}.db")


class TestMemoryLeases(LeaseContract):
    @pytest.fixture
    def open_store(self) -> OpenTimedStore:
        async def opened(now: Callable[[], float]) -> Store:
            return MemoryStore(now=now)

        return opened


class TestSqliteLeases(LeaseContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenTimedStore:
        numbers = itertools.count()
        return lambda now: SqliteStore.open(tmp_path / f"wakeful-{next(numbers)}.db", now=now)
