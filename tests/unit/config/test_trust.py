"""Claims about the record of trusted files."""

from pathlib import Path

import pytest

from wakeful.config.trust import TrustDamaged, TrustFile


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"[]", b"[" * 60_000])
def test_a_damaged_record_trusts_nothing_and_says_so(tmp_path: Path, content: bytes | None) -> None:
    """Not JSON, or a folder in its place: one error that every caller expects."""
    record = tmp_path / "trusted"
    if content is None:
        record.mkdir()
    else:
        record.write_bytes(content)
    with pytest.raises(TrustDamaged):
        TrustFile(str(record)).is_trusted("/x/wakeful.toml", b"")
    with pytest.raises(TrustDamaged):
        TrustFile(str(record)).trust("/x/wakeful.toml", b"")
