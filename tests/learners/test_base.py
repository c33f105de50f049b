"""The contract on every learner, the clipping of rows, memory, and errors that keep quiet."""

import traceback
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sudare.foundations.checks import InvalidInput
from sudare.learners import (
    MomentsClassifier,
    MomentsRegressor,
    PrivateLogisticRegression,
    PrivateRidge,
    PublicScaler,
)
from sudare.learners._base import check_bound
from sudare.releases import INTERCEPT_SHARE
from tests.learners.contract import CHECKS, Make

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(60, 3)) * 0.8
NUMBERS = TABLE @ [0.5, -0.3, 0.2] + 0.1 * RNG.normal(size=60)
LABELS = np.where(NUMBERS + 0.2 * RNG.normal(size=60) > 0, "yes", "no")


def maker(kind: Any, **defaults: Any) -> Make:
    def make(**changes: Any) -> Any:
        return kind(**({"rng": 0, "row_norm": 2.0} | defaults | changes))

    return make


def learners() -> dict[str, tuple[Make, Any]]:
    """Every learner with every mechanism, and a target for it."""
    found: dict[str, tuple[Make, Any]] = {}
    for mechanism in ("objective", "output"):
        for delta in (0.0, 1e-5):
            common = {"epsilon": 2.0, "mechanism": mechanism, "delta": delta}
            name = f"{mechanism}, δ = {delta}"
            ridge = maker(PrivateRidge, target_bound=2.0, radius=3.0, **common)
            found[f"ridge, {name}"] = ridge, NUMBERS
            found[f"logistic, {name}"] = maker(PrivateLogisticRegression, **common), LABELS
    moments = {"epsilon": 2.0, "delta": 1e-5}
    found["moments, numbers"] = maker(MomentsRegressor, target_bound=2.0, **moments), NUMBERS
    found["moments, labels"] = maker(MomentsClassifier, **moments), LABELS
    return found


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__[6:])
@pytest.mark.parametrize("name", learners())
def test_contract(name: str, check: Any) -> None:
    make, target = learners()[name]
    check(make, TABLE, target)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", [PrivateRidge, PrivateLogisticRegression])
def test_what_is_published_is_what_was_sealed(kind: Any, fit_intercept: bool) -> None:
    bounds = {"target_bound": 2.0, "radius": 3.0} if kind is PrivateRidge else {}
    learner = kind(1.0, row_norm=2.0, rng=0, fit_intercept=fit_intercept, **bounds)
    learner.fit(TABLE, NUMBERS if kind is PrivateRidge else LABELS)
    values = learner.sealed_.values
    assert (np.ravel(learner.coef_) == values[:3]).all()
    assert len(values) == 3 + fit_intercept
    constant = INTERCEPT_SHARE * 2.0
    assert np.ravel(learner.intercept_)[0] == (values[3] * constant if fit_intercept else 0.0)
    full = np.hypot(2.0, constant * fit_intercept)
    assert full <= learner.noise_.target.row_norm <= full * (1 + 1e-12)


def test_what_is_clipped_is_counted_only_on_request() -> None:
    table, target = TABLE / 10, NUMBERS / 10
    table[3], table[7], target[5] = 50.0, -1e200, -9.0
    make = maker(PrivateRidge, target_bound=1.0, radius=1.0)
    learner = make(count_clipped=True).fit(table, target)
    assert learner.n_clipped_ == 3
    assert not hasattr(learner.set_params(count_clipped=False).fit(table, target), "n_clipped_")
    logistic = maker(PrivateLogisticRegression, count_clipped=True)()
    assert logistic.fit(table, LABELS).n_clipped_ == 2
    assert logistic.fit(TABLE / 10, LABELS).n_clipped_ == 0


floats = st.one_of(
    st.floats(-1e308, 1e308),
    st.floats(-1.0, 1.0),
    st.sampled_from([0.0, 5e-324, -1e-300, 1e150, 1.7976931348623157e308]),
)


@settings(max_examples=200)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=floats),
    st.sampled_from([1e-30, 1e-3, 0.3, 1.0, 7.0, 1e30]),
    st.booleans(),
)
def test_no_row_gets_past_its_bound(table: Any, row_norm: float, fit_intercept: bool) -> None:
    """In exact arithmetic; and a row within the bound (a little inside) is left alone."""
    learner = PrivateRidge(1.0, row_norm=row_norm, fit_intercept=fit_intercept)
    before = table.copy()
    rows = learner._rows(table)
    assert (table == before).all()
    assert rows.constant == (0.25 * row_norm if fit_intercept else 0.0)
    for row, original, factor in zip(rows.features, table, rows.factors, strict=True):
        assert 0 <= factor <= 1
        squared = sum(Fraction(float(factor)) ** 2 * Fraction(float(x)) ** 2 for x in row)
        assert squared <= Fraction(row_norm) ** 2
        true = sum(Fraction(float(x)) ** 2 for x in original)
        if true <= Fraction(row_norm) ** 2 * Fraction(1 - 1e-12):
            assert factor == 1
            assert (row == original).all()
        if true >= Fraction(row_norm) ** 2:
            assert squared >= Fraction(row_norm) ** 2 * Fraction(1 - 1e-12)
        # The direction is kept.
        largest = int(np.abs(original).argmax())
        if abs(original[largest]) > 1e-300:
            ratio = row / row[largest]
            assert ratio == pytest.approx(original / original[largest], abs=1e-12)


@pytest.mark.parametrize("kind", [PrivateRidge, PrivateLogisticRegression])
def test_memory_does_not_grow_with_the_table(kind: Any) -> None:
    """No copy of a table of 48 MB; the exact sums go through it in blocks."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((200_000, 30))
    score = table[:, 0] + rng.standard_normal(200_000)
    target = score if kind is PrivateRidge else score > 0
    bounds = {"target_bound": 5.0, "radius": 2.0} if kind is PrivateRidge else {}
    learner = kind(1.0, row_norm=8.0, rng=0, **bounds)
    learner.fit(table[:100], target[:100])  # whatever is set up once
    tracemalloc.start()
    try:
        learner.fit(table, target)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.6 * table.nbytes


# Numbers and words that no message holds by chance.
secrets = st.integers(10**9, 10**10 - 1)


def told(problem: BaseException) -> str:
    """All that a user, a log or a traceback shows of it."""
    return "".join(traceback.format_exception(problem))


def calls(number: float, word: str, where: int) -> dict[str, Any]:
    """Every way we know to hand a learner something it must refuse, each holding the secrets."""
    table = np.full((6, 2), number)
    table[where] = -number
    labels = np.array([word, word[::-1]] * 3)
    numbers = np.linspace(number, 2 * number, 6)
    odd = table.astype(object)
    odd[where, 1] = word
    with_nan = table.copy()
    with_nan[where, 0] = np.nan
    ridge = PrivateRidge(1.0, row_norm=1.0, target_bound=1.0, radius=1.0, rng=0)
    logistic = PrivateLogisticRegression(1.0, row_norm=1.0, rng=0)
    moments = MomentsRegressor(1.0, row_norm=1.0, target_bound=1.0, rng=0)
    scaler = PublicScaler(-1.0, 1.0)
    tables: dict[str, Any] = {
        "text": odd,
        "texts": np.full((6, 2), word),
        "bytes": np.full((6, 2), word.encode()),
        "NaN": with_nan,
        "one dimension": table[:, 0],
        "three dimensions": table[None],
        "complex": table + 1j * number,
        "none": None,
        "scalar": number,
        "ragged": [[number, number], [number]],
        "objects": np.array([[{word: number}, number]] * 6, dtype=object),
        "too large": [[10**400 + int(number), 1]] * 6,
        "long double": np.full((6, 2), np.longdouble("1e4000")) * number,
        "empty": table[:0],
        "named wrongly": np.zeros(6, dtype=[("a", float), ("b", float)]),
    }
    targets: dict[str, Any] = {
        "text": labels,
        "complex": numbers + 1j * number,
        "objects": np.array([word, number, None] * 2, dtype=object),
        "numbers first": np.array([number, word] * 3, dtype=object),
        "pairs": [(word, number)] * 6,
        "short": numbers[:5],
        "NaN": np.where(np.arange(6) == where, np.nan, numbers),
        "too large": [10**400 + int(number)] * 6,
        "nothing": None,
    }
    many = {
        "three labels": [word, word[::-1], word * 2] * 2,
        "one label": [word] * 6,
        "continuous": numbers + 0.5,
    }
    found: dict[str, Any] = {}
    good = np.eye(6)[:, :2]
    for kind, value in tables.items():
        found[f"ridge, table {kind}"] = lambda v=value: ridge.fit(v, numbers)
        found[f"logistic, table {kind}"] = lambda v=value: logistic.fit(v, labels)
        found[f"scaler, table {kind}"] = lambda v=value: scaler.fit(v)
        found[f"scaler, transform {kind}"] = lambda v=value: scaler.fit(good).transform(v)
        found[f"scaler, inverse {kind}"] = lambda v=value: scaler.fit(good).inverse_transform(v)
        fitted = ridge.fit(good, np.zeros(6))
        found[f"ridge, predict {kind}"] = lambda v=value, m=fitted: m.predict(v)
        classes = logistic.fit(good, [0, 1] * 3)
        found[f"logistic, predict {kind}"] = lambda v=value, m=classes: m.predict_proba(v)
    for kind, value in targets.items():
        found[f"ridge, target {kind}"] = lambda v=value: ridge.fit(good, v)
        found[f"moments, target {kind}"] = lambda v=value: moments.fit(good, v)
        if kind != "text":
            found[f"logistic, target {kind}"] = lambda v=value: logistic.fit(good, v)
    for kind, value in many.items():
        found[f"logistic, {kind}"] = lambda v=value: logistic.fit(good, v)
    return found


@settings(max_examples=8)
@given(secrets, secrets, st.integers(0, 5))
def test_errors_never_quote_the_data(first: int, second: int, where: int) -> None:
    number, word = first / 1e4, f"w{second}"
    for name, call in calls(number, word, where).items():
        with pytest.raises((ValueError, TypeError)) as problem:
            call()
        text = told(problem.value)
        for secret in (str(first)[:6], str(first)[:5] + "." + str(first)[5:6], word, word[::-1]):
            assert secret not in text, name


def test_a_quoted_value_would_be_noticed() -> None:
    """The other arm: what numpy itself says does quote it."""
    with pytest.raises(ValueError, match="could not convert") as problem:
        np.asarray(["w1234567890"], dtype=float)
    assert "w1234567890" in told(problem.value)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, 1e-31, 2e30, "2", None, True])
def test_bounds_out_of_range_are_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidInput, match="radius"):
        check_bound(radius=value)
    check_bound(radius=1e-30)
    check_bound(radius=np.float64(1e30))
