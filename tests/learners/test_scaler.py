"""Scaling by public bounds: what comes out, and that nothing is learnt."""

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sudare.foundations.checks import InvalidInput
from sudare.learners import PublicScaler
from tests.learners.contract import check_scikit_learn

anything = st.floats(allow_nan=False, allow_infinity=False)
ordinary = st.floats(-1e6, 1e6)


@st.composite
def scalers(draw: st.DrawFn, numbers: Any = anything) -> tuple[PublicScaler, int]:
    """A scaler with admissible bounds, and its number of columns."""
    columns = draw(st.integers(1, 6))
    pairs = draw(arrays(np.float64, (columns, 2), elements=numbers))
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    with np.errstate(over="ignore"):
        assume((low < high).all() and np.isfinite(high - low).all())
    centre = None
    if draw(st.booleans()):
        share = draw(arrays(np.float64, columns, elements=st.floats(0, 1)))
        centre = np.clip(low + share * (high - low), low, high)
    return PublicScaler(low, high, centre), columns


@settings(max_examples=300)
@given(st.data())
def test_every_row_has_norm_at_most_one(data: st.DataObject) -> None:
    """Up to the last digit: the learners clip a hair inside the norm, which covers it."""
    scaler, columns = data.draw(scalers())
    table = data.draw(arrays(np.float64, (4, columns), elements=anything))
    bounds = np.array([scaler.low, scaler.high])
    table = np.vstack([table, bounds])
    scaled = scaler.fit(table).transform(table)
    assert np.isfinite(scaled).all()
    assert (np.linalg.norm(scaled, axis=1) <= 1 + 4e-16).all()
    # A bound that is farther from the centre reaches the end of its range.
    assert np.abs(scaled).max(axis=0) == pytest.approx(1 / np.sqrt(columns))


@settings(max_examples=100)
@given(st.data())
def test_inverse(data: st.DataObject) -> None:
    """Values within the bounds come back; others come back as the nearest bound."""
    scaler, columns = data.draw(scalers(ordinary))
    table = data.draw(arrays(np.float64, (3, columns), elements=ordinary))
    scaled = scaler.fit(table).transform(table)
    clipped = np.clip(table, scaler.low, scaler.high)
    back = scaler.inverse_transform(scaled)
    slack = 1e-14 * np.max(np.abs([scaler.low_, scaler.high_]))
    assert np.abs(back - clipped).max() <= slack
    assert np.sign(clipped - scaler.centre_) == pytest.approx(np.sign(scaled))


def test_halfway_and_bounds() -> None:
    scaler = PublicScaler([0.0, -10.0], [100.0, 10.0])
    scaled = scaler.fit_transform([[0.0, -10.0], [50.0, 0.0], [100.0, 10.0], [1e9, -1e9]])
    corner = 1 / np.sqrt(2)
    expected = [[-corner, -corner], [0, 0], [corner, corner], [corner, -corner]]
    assert scaled == pytest.approx(np.array(expected))
    assert PublicScaler(0, 4).fit_transform([[1.0]]) == pytest.approx(-0.5)


def test_a_centre_maps_to_zero_and_the_farther_bound_to_the_end() -> None:
    scaler = PublicScaler(0.0, 120.0, centre=40.0).fit([[1.0]])
    assert scaler.transform([[40.0], [120.0], [0.0]]).ravel() == pytest.approx([0, 1, -0.5])
    assert PublicScaler(0.0, 120.0, centre=0.0).fit_transform([[120.0]]) == pytest.approx(1.0)


@settings(max_examples=50)
@given(st.data())
def test_nothing_is_learnt_from_the_data(data: st.DataObject) -> None:
    scaler, columns = data.draw(scalers())
    tables = [data.draw(arrays(np.float64, (n, columns), elements=anything)) for n in (1, 4)]
    one, two = (vars(clone(scaler).fit(table)) for table in tables)
    assert set(one) == set(two)
    assert "n_features_in_" in one
    for name, value in one.items():
        assert np.array_equal(value, two[name]), name


def test_scikit_learns_own_checks() -> None:
    check_scikit_learn(PublicScaler(-10.0, 10.0))
    check_scikit_learn(PublicScaler(-1.0, 1.0, centre=0.5))


def test_feature_names() -> None:
    frame = pd.DataFrame({"age": [20.0, 30.0], "height": [1.5, 1.8]})
    scaler = PublicScaler([0, 0], [120, 3]).fit(frame)
    assert scaler.get_feature_names_out().tolist() == ["age", "height"]
    out = scaler.set_output(transform="pandas").transform(frame)
    assert list(out.columns) == ["age", "height"]
    with pytest.raises(ValueError, match="feature names should match"):
        scaler.transform(frame[["height", "age"]])


@pytest.mark.parametrize(
    ("low", "high", "centre", "message"),
    [
        (1.0, 1.0, None, "low < high"),
        ([0.0, 2.0], [1.0, 1.0], None, "low < high"),
        (0.0, 1.0, 2.0, "centre between"),
        ([0.0] * 3, 1.0, None, "low to be one number or one for each column"),
        (0.0, [[1.0, 1.0]], None, "high to be one number or one for each column"),
        (0.0, np.nan, None, "high"),
        (-np.inf, 1.0, None, "low"),
        ("a", 1.0, None, "low"),
        (0.0, 1.0, [0.5] * 5, "centre"),
        (-1.7e308, 1.7e308, -1.7e308, "1e308 apart"),
    ],
)
def test_bad_bounds_are_named(low: Any, high: Any, centre: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        PublicScaler(low, high, centre).fit(np.zeros((4, 2)))


def test_bad_tables() -> None:
    scaler = PublicScaler(-1.0, 1.0)
    with pytest.raises(NotFittedError):
        scaler.transform([[0.5]])
    with pytest.raises(NotFittedError):
        scaler.inverse_transform([[0.5]])
    scaler.fit(np.zeros((3, 2)))
    for table, message in (
        ([[np.nan, 0.0]], "NaN"),
        ([[0.0, 0.0, 0.0]], "expecting 2 features"),
        ([["text", "text"]], "holds text"),
        ([0.0, 0.0], "Reshape your data"),
    ):
        with pytest.raises(ValueError, match=message):
            scaler.transform(table)
    with pytest.raises(InvalidInput, match="2 columns, not 3"):
        scaler.inverse_transform([[0.0, 0.0, 0.0]])
    with pytest.raises(InvalidInput, match="2 dimension"):
        scaler.inverse_transform([0.0, 0.0])
