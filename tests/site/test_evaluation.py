import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from scipy.stats import bootstrap, rankdata
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import (
    brier_score_loss,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)

from sudare.foundations.checks import InvalidInput
from sudare.site import _measures
from sudare.site._evaluation import KEEP_INSIDE, evaluate
from sudare.site._metrics import calibration
from sudare.site._model import Component, Model, Story
from sudare.study import Study
from tests.site.clinics import classes, numbers, write_patients, write_stays


def model(study: Study, *coefficients: float) -> Model:
    return Model(
        study=study,
        party="A",
        moment="2026-01-01",
        rows=10,
        components=(Component(name="own model", weight=1.0, coefficients=coefficients),),
        story=Story(sentence="Fine.", weights={}),
    )


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return pd.read_csv(write_patients(tmp_path_factory.mktemp("rows") / "a.csv", 300, 8))


ILL = model(classes(), 8.0, 1.5, 4.0, 0.0, 1.0)
DAYS = model(numbers(), 0.4, -0.5)


def test_classes_are_judged_as_scikit_learn_does(patients: pd.DataFrame) -> None:
    found = evaluate(ILL, patients, threshold=0.3)
    ill, chances = patients["ill"] == "yes", ILL.predict_proba(patients)[:, 1]
    values = {name: measure.value for name, measure in found.measures.items()}
    assert values["auc"] == pytest.approx(roc_auc_score(ill, chances), abs=1e-12)
    assert (values["calibration_slope"], values["calibration_intercept"]) == pytest.approx(
        calibration(ill, chances), abs=1e-9
    )
    called = chances > 0.3
    assert values["share_correct"] == pytest.approx((called == ill).mean())
    assert values["sensitivity"] == pytest.approx(called[ill].mean())
    assert values["specificity"] == pytest.approx((~called[~ill]).mean())
    told = found.confusion
    assert told is not None
    assert told.second_as_first == (ill & ~called).sum()
    assert told.first_as_second == (~ill & called).sum()
    assert told.first_as_first + told.second_as_second == (called == ill).sum()
    assert (found.rows, found.note) == (300, KEEP_INSIDE)
    for measure in found.measures.values():
        assert measure.low < measure.value < measure.high  # type: ignore[operator]


def test_numbers_are_judged_in_their_own_units(tmp_path: Path) -> None:
    data = pd.read_csv(write_stays(tmp_path / "s.csv", 200, 1))
    found = evaluate(DAYS, data)
    days, told = data["days"].clip(0, 30), DAYS.predict(data)
    values = {name: measure.value for name, measure in found.measures.items()}
    assert values["rmse"] == pytest.approx(math.sqrt(((days - told) ** 2).mean()))
    assert values["mae"] == pytest.approx((days - told).abs().mean())
    assert values["r_squared"] == pytest.approx(r2_score(days, told))
    line = np.polyfit(told, days, 1)
    assert [values["calibration_slope"], values["calibration_intercept"]] == pytest.approx(line)
    assert found.confusion is None


def test_intervals_are_those_of_scipys_bootstrap(patients: pd.DataFrame) -> None:
    """Both are quantiles of 4,000 resamples: their ends differ by less than 0.15 widths, but for
    a chance of about 1e-4 (four ends, each with a standard error of 0.03 widths)."""
    found = evaluate(ILL, patients, resamples=4000, level=0.9).measures
    ill, chances = (patients["ill"] == "yes").to_numpy(), ILL.predict_proba(patients)[:, 1]
    told = bootstrap(
        (((chances > 0.5) == ill).astype(float),), np.mean, n_resamples=4000,
        confidence_level=0.9, method="percentile", rng=1,
    ).confidence_interval  # fmt: skip

    def area(ill: Any, chances: Any, axis: int = -1) -> Any:
        """By Mann and Whitney, for all resamples at once."""
        ones, zeros = ill.sum(axis), (~ill).sum(axis)
        ranks = (rankdata(chances, axis=axis) * ill).sum(axis)
        return (ranks - ones * (ones + 1) / 2) / (ones * zeros)

    assert area(ill, chances) == pytest.approx(roc_auc_score(ill, chances))
    areas = bootstrap(
        (ill, chances), area, n_resamples=4000, paired=True, vectorized=True,
        confidence_level=0.9, method="percentile", rng=2,
    ).confidence_interval  # fmt: skip
    for name, peer in (("share_correct", told), ("auc", areas)):
        ours, width = found[name], peer.high - peer.low  # type: ignore[index]
        assert ours.low == pytest.approx(peer.low, abs=0.15 * width)
        assert ours.high == pytest.approx(peer.high, abs=0.15 * width)


def test_a_seed_gives_the_same_intervals_in_blocks_of_any_size(
    patients: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks: list[tuple[int, int]] = []
    whole = evaluate(ILL, patients, resamples=50, seed=3)
    assert evaluate(ILL, patients, resamples=50, seed=4).measures != whole.measures
    monkeypatch.setattr(_measures, "_BLOCK", 20 * len(patients))
    parts = evaluate(ILL, patients, resamples=50, seed=3, progress=lambda *done: ticks.append(done))
    assert ticks == [(20, 50), (40, 50), (50, 50)]
    for name, one in whole.measures.items():
        other = parts.measures[name]
        assert msgspec.structs.astuple(one) == pytest.approx(msgspec.structs.astuple(other))


def test_rows_without_a_label_are_left_out_and_counted(
    patients: pd.DataFrame, tmp_path: Path
) -> None:
    some = patients.copy()
    some.loc[::3, "ill"] = None
    some.to_csv(tmp_path / "some.csv", index=False)
    found, known = evaluate(ILL, tmp_path / "some.csv"), evaluate(ILL, some.dropna(subset="ill"))
    assert (found.rows, found.left_out) == (200, 100)
    assert (known.rows, known.left_out) == (200, 0)
    assert found.measures == known.measures
    with pytest.raises(InvalidInput, match="'ill' is empty in all 300"):
        evaluate(ILL, patients.assign(ill=None).astype({"ill": "str"}).assign(ill=""))


def test_numbers_without_a_target_are_left_out_too(tmp_path: Path) -> None:
    data = pd.read_csv(write_stays(tmp_path / "s.csv", 50, 1))
    data.loc[:9, "days"] = float("nan")
    assert (evaluate(DAYS, data).rows, evaluate(DAYS, data).left_out) == (40, 10)


def test_few_rows_have_a_caution_and_very_few_no_intervals(
    patients: pd.DataFrame, tmp_path: Path
) -> None:
    ill, well = (patients[patients["ill"] == answer] for answer in ("yes", "no"))
    assert evaluate(ILL, patients).caution == ""
    assert "Few rows" in evaluate(ILL, pd.concat([ill[:12], well[:12]])).caution
    assert "Only 6 of one class" in evaluate(ILL, pd.concat([ill[:6], well[:40]])).caution
    tiny = evaluate(ILL, pd.concat([ill[:3], well[:3]]))
    assert "Fewer than 10 rows" in tiny.caution
    assert tiny.measures["brier"].value is not None
    assert {each.low for each in tiny.measures.values()} == {None}
    days = pd.read_csv(write_stays(tmp_path / "s.csv", 29, 1))
    assert "Few rows" in evaluate(DAYS, days).caution
    (one,) = {each.low for each in evaluate(DAYS, days[:1]).measures.values()}
    assert one is None


def test_numbers_are_calibrated_as_scikit_learn_regresses(tmp_path: Path) -> None:
    data = pd.read_csv(write_stays(tmp_path / "s.csv", 150, 4))
    days, told = data["days"].clip(0, 30), DAYS.predict(data)
    values = {name: each.value for name, each in evaluate(DAYS, data).measures.items()}
    line = LinearRegression().fit(told[:, None], days)
    assert values["calibration_slope"] == pytest.approx(line.coef_[0])
    assert values["calibration_intercept"] == pytest.approx(line.intercept_)
    assert values["mae"] == pytest.approx(mean_absolute_error(days, told))


def test_classes_are_calibrated_as_scikit_learn_regresses(patients: pd.DataFrame) -> None:
    values = {name: each.value for name, each in evaluate(ILL, patients).measures.items()}
    ill, chances = (patients["ill"] == "yes").to_numpy(), ILL.predict_proba(patients)[:, 1]
    odds = np.log(chances / (1 - chances))[:, None]
    line = LogisticRegression(C=np.inf, tol=1e-10).fit(odds, ill)
    assert values["calibration_slope"] == pytest.approx(line.coef_[0, 0], rel=1e-5)
    assert values["calibration_intercept"] == pytest.approx(line.intercept_[0], abs=1e-5)
    assert values["brier"] == pytest.approx(brier_score_loss(ill, chances))
    assert values["log_loss"] == pytest.approx(log_loss(ill, chances))


def test_rows_that_nothing_can_be_learned_from(patients: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="both classes in column 'ill', found one"):
        evaluate(ILL, patients[patients["ill"] == "no"])
    with pytest.raises(InvalidInput, match="missing: 'ill'"):
        evaluate(ILL, patients.drop(columns="ill"))
    with pytest.raises(InvalidInput, match="at least one row"):
        evaluate(ILL, patients[:0])
    (tmp_path / "none.csv").write_text("")
    with pytest.raises(InvalidInput, match="is empty"):
        evaluate(ILL, tmp_path / "none.csv")
    with pytest.raises(InvalidInput, match="threshold=1"):
        evaluate(ILL, patients, threshold=1.0)
