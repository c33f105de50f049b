"""Models from sums: without noise they are the plain regressions, in the study's own units."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from sudare.estimation import Family, Model, NoisySums, estimate_linear, estimate_session
from sudare.estimation._coefficients import HIDDEN, INTERCEPT_HIDDEN, in_study_units
from sudare.foundations import checks
from sudare.foundations.randomness import seeded
from sudare.pooling import NewtonStep
from sudare.study import Study, parse_study
from tests.estimation import people
from tests.statistical import rate_at_least, rate_at_most

Array = NDArray[np.float64]
WIDE = """
name = "units"
[columns.height]
low = 100
high = 220
centre = 150
scale = 70
[columns.kind]
categories = ["a", "b", "c"]
[columns.half]
categories = ["no", "yes"]
[target]
"""
NUMBER = 'column = "y"\nlow = -50\nhigh = 150\n'
CLASS = 'column = "y"\nclasses = ["no", "yes"]\n'
TERMS = "[privacy]\nepsilon = 1.0\ndelta = 1e-6\nrow_norm = 0.9\n"


def units(target: str) -> Study:
    """Targets to ±100, a row norm of .9, and features that are neither 0 nor 1."""
    return parse_study(WIDE + target + TERMS)


class Table:
    """Rows in the study's own units, and as its parties see them."""

    def __init__(self, n: int, seed: int, study: Study) -> None:
        rng = seeded(seed)
        height = rng.uniform(105, 215, n)
        kind, half = rng.integers(0, 3, n), rng.random(n) < 0.4
        self.design = np.column_stack([height, kind == 1, kind == 2, half, np.ones(n)]) * 1.0
        features = study.features
        encoded = [
            (self.design[:, k] - each.centre) / each.scale for k, each in enumerate(features)
        ]
        self.rows = study.contract.rows(np.column_stack(encoded)) / study.contract.full_norm
        self.rng = rng


def session(table: Table, y: Array, start: Array, family: Family, noise: float) -> NewtonStep:
    scores, rng, p = table.rows @ start, table.rng, len(start)
    mean = expit(scores) if family == "logistic" else np.exp(scores)
    weights = mean * (1 - mean) if family == "logistic" else mean
    hessian = (table.rows * weights[:, None]).T @ table.rows
    extra = noise / 4 * rng.standard_normal((p, p))
    extra = np.triu(extra, 1) + np.triu(extra, 1).T + np.sqrt(2) * np.diag(np.diag(extra))
    score = (y - mean) @ table.rows + noise * rng.standard_normal(p)
    return NewtonStep(start, score, hessian + extra, noise, noise / 4)


def numbers(model: Model) -> tuple[Array, Array]:
    assert all(each.told for each in model.coefficients)
    found = [(each.estimate, each.std_error) for each in model.coefficients]
    return np.array([a for a, _ in found], float), np.array([b for _, b in found], float)


def test_without_noise_a_linear_model_is_least_squares_in_the_studys_units() -> None:
    study = units(NUMBER)
    table = Table(4000, 1, study)
    y = table.design @ [0.3, 5.0, -8.0, 12.0, -10.0] + table.rng.normal(0, 6, 4000)
    target = (y - study.target_middle) / study.target_reach
    assert np.abs(target).max() < 1
    rows = table.rows
    sums = NoisySums(
        study.contract, 4000, target @ rows, rows.T @ rows, float(target @ target), 1e-7
    )
    model = estimate_linear(sums, study)
    plain, *_ = np.linalg.lstsq(table.design, y, rcond=None)
    left = y - table.design @ plain
    variance = left @ left / (4000 - 5)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(table.design.T @ table.design)))
    values, std_errors = numbers(model)
    assert values == pytest.approx(plain, rel=1e-6, abs=1e-5)
    assert std_errors == pytest.approx(errors, rel=1e-4)
    assert model.residual_deviation == pytest.approx(np.sqrt(variance), rel=1e-4)
    assert model.noise_share == pytest.approx(0.0, abs=1e-4)
    first = model.coefficients[0]
    assert first.numbers[1] == pytest.approx(plain[0] - 1.959964 * errors[0], rel=1e-4)
    assert first.p == pytest.approx(2 * stats.norm.sf(abs(plain[0] / errors[0])), rel=1e-2)
    assert [each.term.name for each in model.coefficients] == [
        "height", "kind=b", "kind=c", "half=yes", "intercept",
    ]  # fmt: skip
    assert model.coefficients[1].term.reference == "a"
    covariance = np.array(model.covariance)
    assert np.sqrt(np.diag(covariance)) == pytest.approx(std_errors)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_without_noise_sessions_lead_to_the_maximum_of_the_likelihood(family: Family) -> None:
    study = units(CLASS)
    table = Table(4000, 2, study)
    truth = np.array([0.02, 0.7, -0.5, 1.1, -3.0])
    scores = table.design @ truth
    if family == "logistic":
        y = (table.rng.random(4000) < expit(scores)) * 1.0
        peer: Any = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    else:
        y = table.rng.poisson(np.exp(scores)) * 1.0
        peer = PoissonRegressor(alpha=0.0, tol=1e-10, max_iter=1000)
    scale = np.array([20.0, 1.0, 1.0, 1.0])
    peer.fit((table.design[:, :-1] - [160.0, 0, 0, 0]) / scale, y)
    plain = np.ravel(peer.coef_) / scale
    expected = np.append(plain, np.ravel(peer.intercept_) - plain[0] * 160)
    matrix, _ = in_study_units(study, family)
    start = np.linalg.solve(matrix, truth)
    for _ in range(8):
        step = session(table, y, start, family, 1e-7)
        model = estimate_session(step, 4000, study, family)
        values, std_errors = numbers(model)
        start = np.linalg.solve(matrix, values)
    assert values == pytest.approx(expected, rel=1e-4, abs=1e-5)
    mean = expit(table.design @ expected) if family == "logistic" else np.exp(
        table.design @ expected
    )  # fmt: skip
    weights = mean * (1 - mean) if family == "logistic" else mean
    information = (table.design * weights[:, None]).T @ table.design
    assert std_errors == pytest.approx(np.sqrt(np.diag(np.linalg.inv(information))), rel=1e-4)
    ratio = model.coefficients[3].ratio
    assert ratio[0] == pytest.approx(np.exp(expected[3]), rel=1e-4)


def test_without_an_intercept_the_line_still_goes_through_the_centres() -> None:
    study = parse_study(WIDE + NUMBER + TERMS + "intercept = false\n")
    table = Table(3000, 11, units(NUMBER))
    rows = table.rows[:, :-1] * units(NUMBER).contract.full_norm / study.contract.full_norm
    theta = np.array([0.5, -0.3, 0.2, 0.4])
    y = rows @ theta + 0.02 * table.rng.standard_normal(3000)
    sums = NoisySums(study.contract, 3000, y @ rows, rows.T @ rows, float(y @ y), 1e-7)
    model = estimate_linear(sums, study)
    plain, *_ = np.linalg.lstsq(rows, y, rcond=None)
    beta = numbers(model)[0]
    expected = study.target_middle + study.target_reach * (rows @ plain)
    assert table.design @ beta == pytest.approx(expected, rel=1e-5, abs=1e-4)


def test_all_columns_of_a_real_study_against_pandas() -> None:
    study, rng = people.numbers(), seeded(4)
    frame = people.people(6000, rng)
    model = estimate_linear(people.noisy(frame, study, 1e-7, rng), study)
    rows = people.clipped(frame)
    design = np.column_stack(
        [
            rows["age"],
            rows["sex"] == "m",
            rows["pressure"].fillna(130.0),
            rows["pressure"].isna(),
            *[rows["stage"].fillna("II") == level for level in ("II", "III", "IV")],
            rows["stage"].isna(),
            rows["smoker"] == "yes",
            rows["weight"],
            np.ones(len(rows)),
        ]
    ).astype(float)
    plain, *_ = np.linalg.lstsq(design, rows["days"].to_numpy(), rcond=None)
    assert numbers(model)[0] == pytest.approx(plain, rel=1e-5, abs=1e-5)
    missing = [each.term.missing for each in model.coefficients]
    assert missing == [False, False, False, True, False, False, False, True, *[False] * 3]


def coverage(change: Callable[[NoisySums], NoisySums]) -> tuple[int, int]:
    """How many intervals hold the least-squares line of the law, of how many; 400 draws."""
    study, inside, runs = units(NUMBER), 0, 0
    table = Table(3000, 7, study)
    truth = np.array([0.3, 5.0, -8.0, 12.0, -10.0])
    rng, rows, std = table.rng, table.rows, 2.5
    for _ in range(400):
        y = table.design @ truth + rng.normal(0, 6, 3000)
        target = (y - study.target_middle) / study.target_reach
        noise = std * rng.standard_normal((5, 5))
        noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.sqrt(2) * np.diag(np.diag(noise))
        sums = NoisySums(
            study.contract,
            3000,
            target @ rows + std * rng.standard_normal(5),
            rows.T @ rows + noise,
            float(target @ target + np.sqrt(2) * std * rng.standard_normal()),
            std,
        )
        for found, true in zip(estimate_linear(change(sums), study).coefficients, truth,
                               strict=True):  # fmt: skip
            assert found.told
            runs += 1
            inside += found.numbers[1] <= true <= found.numbers[2]
    return inside, runs


def test_intervals_hold_and_those_that_leave_out_the_noise_do_not() -> None:
    inside, runs = coverage(lambda sums: sums)
    assert rate_at_least(inside // 5, runs // 5) < 0.95 < rate_at_most(inside // 5, runs // 5)
    assert inside / runs > 0.93
    naive, runs = coverage(
        lambda sums: NoisySums(sums.contract, sums.n, sums.cross, sums.gram, sums.squares, 1e-6)
    )
    assert naive / runs < 0.6


def test_what_the_noise_hides_has_no_number() -> None:
    study, rng = people.numbers(), seeded(8)
    model = estimate_linear(people.noisy(people.people(2000, rng), study, 12.0, rng), study)
    told = {each.term.name: each.told for each in model.coefficients}
    assert not told["pressure"]
    assert told["sex=m"]
    for each in model.coefficients:
        if not each.told:
            assert (each.estimate, each.low, each.p) == (None, None, None)
            expected = INTERCEPT_HIDDEN if each.term.column is None else HIDDEN
            assert each.reason == expected
    assert model.covariance is None
    assert model.noise_share is None
    assert any("pressure" in note and "prior" in note for note in model.notes)
    clear = estimate_linear(people.noisy(people.people(2000, rng), study, 0.1, rng), study)
    assert any("no prior" in note for note in clear.notes)


def test_without_squares_residuals_are_bounded_or_those_of_a_part() -> None:
    study, rng = people.numbers(), seeded(9)
    frame = people.people(8000, rng)
    whole = people.noisy(frame, study, 0.5, rng)
    part = people.noisy(frame[:3000], study, 0.5, rng)
    without = people.noisy(frame, study, 0.5, rng, squares=False)
    exact, bounded = estimate_linear(whole, study), estimate_linear(without, study)
    borrowed = estimate_linear(without, study, residuals=part)
    wide, narrow, third = (numbers(each)[1] for each in (bounded, exact, borrowed))
    assert (wide > 2 * narrow).all()
    assert third == pytest.approx(narrow, rel=0.1)
    assert bounded.bounded
    assert bounded.residual_deviation is None
    assert any("squares of the target" in note for note in bounded.notes)
    assert not borrowed.bounded
    with pytest.raises(checks.InvalidInput, match="squares"):
        estimate_linear(without, study, residuals=without)


def test_what_does_not_fit_is_refused() -> None:
    study = people.numbers()
    sums = people.noisy(people.people(200, seeded(1)), study, 1.0, seeded(1))
    with pytest.raises(checks.InvalidInput, match="target is a number"):
        estimate_linear(sums, people.classes())
    with pytest.raises(checks.InvalidInput, match="bounds are others"):
        estimate_linear(sums, units(NUMBER))
    with pytest.raises(checks.InvalidInput, match="level"):
        estimate_linear(sums, study, level=1.5)
    step = NewtonStep(np.zeros(3), np.zeros(3), np.eye(3), 1.0, 1.0)
    with pytest.raises(checks.InvalidInput, match="other features"):
        estimate_session(step, 10, study, "poisson")
    with pytest.raises(checks.InvalidInput, match="logistic or a Poisson"):
        estimate_session(step, 10, study, "linear")


def test_level_is_that_of_the_intervals() -> None:
    study, rng = units(CLASS), seeded(1)
    table = Table(3000, 5, study)
    y: Array = np.asarray(rng.random(3000) < 0.4, dtype=np.float64)
    step = session(table, y, np.zeros(5), "logistic", 1.0)
    usual = estimate_session(step, 3000, study, "logistic")
    wide = estimate_session(step, 3000, study, "logistic", level=0.99)
    for a, b in zip(usual.coefficients, wide.coefficients, strict=True):
        ratio = (b.numbers[2] - b.numbers[1]) / (a.numbers[2] - a.numbers[1])
        assert ratio == pytest.approx(2.5758293 / 1.9599640)


@pytest.mark.parametrize("huge", [1e4, 1e15, 2.0**61, np.inf, np.nan])
@pytest.mark.parametrize("place", ["score", "hessian"])
def test_sums_that_no_rows_have_are_refused(huge: float, place: str) -> None:
    study, p = units(CLASS), 5
    good = NewtonStep(np.zeros(p), np.ones(p), 100 * np.eye(p), 3.0, 2.0)
    if place == "score":
        bad = good._replace(score=np.full(p, huge))
    else:
        bad = good._replace(hessian=np.full((p, p), huge))
    estimate_session(good, 5000, study, "logistic")
    for step, earlier in ((bad, None), (good, bad)):
        with pytest.raises(checks.InvalidInput, match="Nobody can tell who"):
            estimate_session(step, 5000, study, "logistic", earlier=earlier)


def test_a_last_session_that_says_nothing_leaves_what_the_one_before_says() -> None:
    study, p = units(CLASS), 5
    good = NewtonStep(np.zeros(p), np.ones(p), 800 * np.eye(p), 0.1, 0.1)
    none = good._replace(hessian=np.zeros((p, p)), noise_std=1e3)
    model = estimate_session(none, 5000, study, "logistic", earlier=good)
    assert model.noise_share is None
    for each in model.coefficients:
        assert not each.told or np.isfinite(each.numbers).all()
