from pathlib import Path

import pytest

from sudare import site
from sudare.demo import _clinics as clinics
from sudare.demo._patients import study
from sudare.exchange import load_keyring
from sudare.foundations.randomness import seeded
from sudare.ledger import Ledger


def test_a_day_ends_with_a_model_and_two_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clinics, "CLINICS", 6)
    ticks: list[tuple[str, int, int]] = []
    day = clinics.run_day(tmp_path, seeded(1), lambda *tick: ticks.append(tick))
    assert day.accepted == 6
    assert "changed" in day.forged
    assert "Nothing was spent" in day.overdrawn
    assert ticks[5] == ("clinics release", 6, 6)
    assert site.load_model(day.model_path) == day.model
    assert len(day.model.story.parties) == 5
    agreed = study(clinics.EPSILON, clinics.DELTA)
    ring = load_keyring(tmp_path / "trust.toml")
    checked = site.collect([str(tmp_path / "releases")], ring, agreed)
    assert sum(each.problem is None for each in checked) == 6
    with Ledger(tmp_path / "ledgers" / "clinic-1.db") as ledger:
        assert len(ledger.account("Clinic 1").entries) == 1
