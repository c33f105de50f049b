"""Entries of the sums that are public."""

import numpy as np
import pytest

from sudare.estimation._models import linear_equations
from sudare.estimation._structure import known_moments, known_zeros, noise_variances
from sudare.foundations.randomness import seeded
from tests.estimation import people


def test_public_entries_are_what_the_rows_give_and_carry_no_noise() -> None:
    study = people.numbers()
    frame = people.people(500, seeded(5))
    rows, _ = people.exact(frame, study)
    known, gram = known_moments(study), rows.T @ rows / 500
    told = ~np.isnan(known)
    assert told.sum() == 3 + 3 * 2  # the constant, two columns of two categories; pairs of stages
    assert gram[told] == pytest.approx(known[told], abs=1e-12)
    assert np.isnan(known_zeros(study)).sum() == known.size - 6
    sums = people.noisy(frame, study, 40.0, seeded(6))
    equations = linear_equations(sums, study, sums)
    assert equations.hessian[told] == pytest.approx(500 * known[told])
    assert (equations.hessian_variance[told] == 0).all()
    assert equations.hessian_variance[0, 0] == pytest.approx(2 * 40.0**2)
    assert equations.hessian_variance[0, 1] == pytest.approx(40.0**2)
    # Shortened rows are not what the study says, but for the constant and for what is 0.
    short = known_moments(people.numbers("row_norm = 0.6\n"))
    assert (~np.isnan(short)).sum() == 1 + 6


def test_noise_is_that_of_a_symmetric_sum_where_nothing_is_known() -> None:
    known = np.array([[np.nan, 0.0], [0.0, np.nan]])
    assert noise_variances(known, 3.0) == pytest.approx(np.array([[18.0, 0.0], [0.0, 18.0]]))
    assert noise_variances(np.full((2, 2), np.nan), 3.0)[0, 1] == 9.0
