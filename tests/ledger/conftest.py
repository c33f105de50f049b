"""What holds for every test of ledgers."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the keys of ledgers on a server are."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SUDARE_LEDGER_KEY", raising=False)
    return tmp_path / "config" / "sudare"
