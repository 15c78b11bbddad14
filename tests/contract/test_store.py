"""The store contract, once per engine."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.lease_contract import LeaseContract, OpenTimedStore
from contract.machine_contract import ONE, TWO, MachineContract, OpenStores
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


class TestMemoryMachines(MachineContract):
    @pytest.fixture
    def open_stores(self) -> OpenStores:
        async def opened(now: Callable[[], float]) -> tuple[Store, Store]:
            store = MemoryStore(machine=ONE, now=now)
            return store, store.on_machine(TWO)

        return opened


class TestSqliteMachines(MachineContract):
    @pytest.fixture
    def open_stores(self, tmp_path: Path) -> OpenStores:
        async def opened(now: Callable[[], float]) -> tuple[Store, Store]:
            path = tmp_path / "shared.db"
            one = await SqliteStore.open(path, machine=ONE, now=now)
            return one, await SqliteStore.open(path, machine=TWO, now=now)

        return opened
