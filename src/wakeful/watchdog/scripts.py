"""The scripts of this adapter, read from their files. Each runs alone in Redis: no other command sees half of it."""

from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
_COMMON: Final = (_HERE / "common.lua").read_text("utf-8")


def _script(name: str) -> str:
    return f"{_COMMON}\n{(_HERE / name).read_text('utf-8')}"


REVIVE: Final = _script("revive.lua")
FENCE: Final = _script("fence.lua")
ENQUEUE: Final = _script("enqueue.lua")
WITHDRAW: Final = _script("withdraw.lua")
ADVANCE: Final = (_HERE / "advance.lua").read_text("utf-8")
YIELD: Final = (_HERE / "yield.lua").read_text("utf-8")
