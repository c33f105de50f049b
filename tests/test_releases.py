import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sudare.foundations.checks import InvalidInput
from sudare.releases import Contract, LearnerRelease, MomentsRelease, Release, shortening
from tests.exchange import releases as samples

CLASSIFY = Contract(features=2, row_norm=2.0, constant=0.5, classes=("ill", "well"))
PREDICT = Contract(features=2, row_norm=2.0, target_bound=10.0)


def learner(**changed: Any) -> LearnerRelease:
    numbers = {"contract": CLASSIFY, "coefficients": (1.0, -0.1, 2.0**-40), "radius": 4.0}
    return samples.learner(**{**numbers, "noise_std": 0.5, "slack": 0.01, **changed})


def moments(**changed: Any) -> MomentsRelease:
    sums = {"cross": (10.0, -3.0, 1.0), "gram": (20.0, 1.0, 2.0, 15.0, 3.0, 10.0)}
    return samples.moments(**{"party": "Clinic B", "contract": CLASSIFY, **sums, **changed})


def test_a_contract_knows_its_task_and_its_sizes() -> None:
    assert (CLASSIFY.task, CLASSIFY.dimension) == ("classification", 3)
    assert (PREDICT.task, PREDICT.dimension) == ("regression", 2)
    assert 0 <= CLASSIFY.full_norm - math.hypot(2.0, 0.5) <= 1e-12
    assert Fraction(CLASSIFY.full_norm) ** 2 >= Fraction(17, 4)


def test_rows_are_shortened_and_carry_the_constant() -> None:
    rows = CLASSIFY.rows(np.array([[0.6, 0.8], [30.0, 40.0]]))
    np.testing.assert_allclose(rows, [[0.6, 0.8, 0.5], [1.2, 1.6, 0.5]])
    np.testing.assert_array_equal(PREDICT.rows(np.array([[1.0, -1.0]])), [[1.0, -1.0]])


@given(arrays(np.float64, (4, 3), elements=st.floats(-1.7e308, 1.7e308)), st.floats(1e-30, 1e30))
def test_no_row_is_longer_than_its_bound(table: Any, bound: float) -> None:
    kept, factors = shortening(table, bound)
    assert ((factors > 0) & (factors <= 1)).all()
    for row in kept * factors[:, None]:
        assert sum(Fraction(x) ** 2 for x in row.tolist()) <= Fraction(bound) ** 2
    inside = np.abs(table).max(axis=1) <= bound / 4
    np.testing.assert_array_equal((kept * factors[:, None])[inside], table[inside])


def test_targets_are_signs_or_clipped() -> None:
    np.testing.assert_array_equal(CLASSIFY.targets(["well", "ill"]), [1.0, -1.0])
    np.testing.assert_array_equal(PREDICT.targets([-20.0, 3.0]), [-10.0, 3.0])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"features": 0}, "features"),
        ({"row_norm": 0.0}, "row_norm"),
        ({"row_norm": math.nan}, "row_norm"),
        ({"constant": -1.0}, "constant"),
        ({"classes": None}, "either classes"),
        ({"target_bound": 1.0}, "either classes"),
        ({"classes": None, "target_bound": 0.0}, "target_bound"),
        ({"classes": (1, 1.0)}, "two different labels"),
    ],
)
def test_a_contract_that_cannot_be_is_refused(changed: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"features": 2, "row_norm": 1.0, "classes": (0, 1)}
    with pytest.raises(InvalidInput, match=message):
        Contract(**settings | changed)


def test_data_outside_the_contract_is_refused_without_its_values() -> None:
    with pytest.raises(InvalidInput, match="2 columns as in the contract, found 3"):
        CLASSIFY.rows(np.zeros((1, 3)))
    with pytest.raises(InvalidInput, match="X"):
        CLASSIFY.rows(np.array([[math.nan, 1.0]]))
    with pytest.raises(InvalidInput, match="two labels of the contract") as problem:
        CLASSIFY.targets(["well", "unwell"])
    assert "unwell" not in str(problem.value)
    with pytest.raises(InvalidInput, match="one label for each row"):
        CLASSIFY.targets([["well"]])


@pytest.mark.parametrize(
    ("make", "changed", "message"),
    [
        (learner, {"party": " "}, "printable name"),
        (learner, {"party": "a\nb"}, "printable name"),
        (learner, {"party": "a" * 201}, "200 letters"),
        (learner, {"n": 0}, "n=0"),
        (learner, {"noise_std": 0.0}, "noise_std"),
        (learner, {"radius": -1.0}, "radius"),
        (learner, {"slack": -1.0}, "slack"),
        (learner, {"coefficients": (1.0,)}, "3 numbers in coefficients, found 1"),
        (learner, {"coefficients": (1.0, 2.0, math.inf)}, "coefficients to be finite"),
        (moments, {"cross": (1.0, 2.0)}, "3 numbers in cross"),
        (moments, {"gram": (1.0,) * 9}, "6 numbers in gram"),
        (moments, {"gram": (math.nan,) * 6}, "gram to be finite"),
    ],
)
def test_a_release_that_cannot_be_is_refused(
    make: Any, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        make(**changed)


def test_the_gram_matrix_is_symmetric() -> None:
    np.testing.assert_array_equal(
        moments().gram_matrix, [[20.0, 1.0, 2.0], [1.0, 15.0, 3.0], [2.0, 3.0, 10.0]]
    )


@pytest.mark.parametrize("release", [learner(), moments(), learner(simulated=True)])
def test_releases_round_trip_exactly(release: Release) -> None:
    assert msgspec.json.decode(msgspec.json.encode(release), type=Release) == release
