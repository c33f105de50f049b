import sqlite3
from pathlib import Path

import pytest

from sudare import site
from sudare.exchange import new_key
from sudare.foundations import checks
from sudare.foundations.privacy import PureEvent
from sudare.ledger import BudgetExceeded, Ledger
from sudare.releases import LearnerRelease, MomentsRelease
from tests.site.clinics import classes, clinic, keyring, numbers, write_patients, write_stays


@pytest.mark.parametrize("model", ["moments", "objective", "output", "gibbs"])
def test_a_release_is_charged_signed_and_verified(tmp_path: Path, model: str) -> None:
    study, ours = classes(model), clinic(tmp_path, "A", seed=1)
    done = ours.publish(study, tmp_path / "out")
    assert not done.repeated
    with Ledger(ours.ledger) as ledger:
        (entry,) = ledger.account("A 2026").entries
    assert entry.released
    assert entry.event == site.ReleasePlan.of(study, 150).event
    (checked,) = site.collect([str(tmp_path / "out")], keyring(ours), study)
    assert checked.problem is None
    assert checked.trusted is not None
    release = checked.trusted.release
    assert isinstance(release, MomentsRelease if model == "moments" else LearnerRelease)
    assert release.contract == study.contract
    assert release.contract.classes == ("no", "yes")
    assert checked.trusted.signed.certificate.receipt == done.receipt.chain


def test_regression_releases_work_too(tmp_path: Path) -> None:
    data = write_stays(tmp_path / "stays.csv", 120, 2)
    key = new_key()
    for name, model, more in (("m", "moments", ""), ("o", "objective", "radius = 2.0")):
        study = numbers(model, more)
        with Ledger(tmp_path / f"{name}.db") as ledger:
            from sudare.study import raw_content

            ledger.open("stays", ledger.fingerprint(raw_content(data)), 2.0, 1e-6)
            done = site.publish(data, study, ledger, key, party="A", place=str(tmp_path / name))
        assert Path(done.address).exists()


def test_asked_again_the_same_bytes_come_out_and_nothing_is_spent(tmp_path: Path) -> None:
    study, ours = classes(), clinic(tmp_path, "A", seed=1)
    first = ours.publish(study, tmp_path / "one")
    again = ours.publish(study, tmp_path / "two")
    assert again.repeated
    assert Path(first.address).read_bytes() == Path(again.address).read_bytes()
    with Ledger(ours.ledger) as ledger:
        assert len(ledger.account("A 2026").entries) == 1


def test_over_the_budget_nothing_is_drawn_or_written(tmp_path: Path) -> None:
    ours = clinic(tmp_path, "A", seed=1, cap=4.0)
    ours.publish(classes(), tmp_path / "out")
    with pytest.raises(BudgetExceeded, match="Nothing was spent"):
        ours.publish(classes(epsilon=3.0), tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_data_without_a_budget_and_bad_data_are_refused_before_any_spend(tmp_path: Path) -> None:
    ours = clinic(tmp_path, "A", seed=1)
    ours.data = write_patients(tmp_path / "other.csv", 50, 9)
    with pytest.raises(checks.PrivacyError, match="ledger open"):
        ours.publish(classes(), tmp_path / "out")
    broken = tmp_path / "broken.csv"
    broken.write_text("pressure,age,sex,ill\n120,not-a-number-7731,f,no\n")
    with Ledger(ours.ledger) as ledger:
        from sudare.study import raw_content

        ledger.open("broken", ledger.fingerprint(raw_content(broken)), 4.0, 1e-6)
    ours.data = broken
    with pytest.raises(checks.InvalidInput, match="age") as problem:
        ours.publish(classes(), tmp_path / "out")
    assert "7731" not in str(problem.value)
    with Ledger(ours.ledger) as ledger:
        assert ledger.account("broken").entries == ()


def test_a_crash_after_the_spend_costs_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, study = clinic(tmp_path, "A", seed=1), classes()
    with monkeypatch.context() as patch:
        patch.setattr("sudare.site._releasing._draw", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ours.publish(study, tmp_path / "out")
    with Ledger(ours.ledger) as ledger:
        (entry,) = ledger.account("A 2026").entries
    assert not entry.released
    done = ours.publish(study, tmp_path / "out")
    assert not done.repeated
    with Ledger(ours.ledger) as ledger:
        (entry,) = ledger.account("A 2026").entries
    assert entry.released


def test_a_crash_before_the_file_is_written_releases_the_kept_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, study = clinic(tmp_path, "A", seed=1), classes()
    with monkeypatch.context() as patch:
        patch.setattr("sudare.site._releasing.put", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ours.publish(study, tmp_path / "out")
    with sqlite3.connect(ours.ledger) as file:
        ((kept,),) = file.execute("SELECT payload FROM ledger_releases").fetchall()
    done = ours.publish(study, tmp_path / "out")
    assert done.repeated
    assert Path(done.address).read_bytes() == kept


def test_the_price_recorded_is_the_price_of_the_study(tmp_path: Path) -> None:
    ours = clinic(tmp_path, "A", seed=1)
    with Ledger(ours.ledger) as ledger:
        ledger.spend("A 2026", PureEvent(1.0, unit="patient"))
    with pytest.raises(BudgetExceeded):
        ours.publish(classes(epsilon=4.0), tmp_path / "out")
    ours.publish(classes(epsilon=2.0), tmp_path / "out")
