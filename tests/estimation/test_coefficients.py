"""Coefficients in the study's own units, one by one."""

import math

import pytest
from scipy import stats

from sudare.estimation import Term
from sudare.estimation._coefficients import coefficient, in_study_units, not_told
from tests.estimation.test_models import NUMBER, Table, units


def test_predictions_are_those_of_the_encoded_rows() -> None:
    """Intercept and coefficients are all that is needed, to rounding."""
    study = units(NUMBER)
    table = Table(50, 3, study)
    matrix, shift = in_study_units(study, "linear")
    theta = table.rng.standard_normal(5)
    beta = matrix @ theta
    beta[-1] += shift
    expected = study.target_middle + study.target_reach * (table.rows @ theta)
    assert table.design @ beta == pytest.approx(expected, rel=1e-12, abs=1e-10)


def test_intervals_are_the_normal_laws_or_students() -> None:
    term = Term(name="age", column="age")
    usual = coefficient(term, 1.5, 0.25, 0.9)
    assert usual.numbers[2] == pytest.approx(1.5 + stats.norm.ppf(0.95) * 0.5)
    assert usual.z == 3.0
    assert usual.p == pytest.approx(2 * stats.norm.sf(3.0))
    few = coefficient(term, 1.5, 0.25, 0.9, 4)
    assert few.numbers[1] == pytest.approx(1.5 - stats.t(4).ppf(0.95) * 0.5)
    assert few.p == pytest.approx(2 * stats.t(4).sf(3.0))
    assert usual.ratio == pytest.approx(tuple(map(math.exp, usual.numbers)))
    large = coefficient(term, 1e6, 1.0, 0.95)
    assert math.isfinite(large.ratio[0])  # JSON has no infinity


def test_what_is_not_told_has_a_reason_alone() -> None:
    found = not_told(Term(name="intercept"), "because")
    assert (found.told, found.estimate, found.z, found.reason) == (False, None, None, "because")
