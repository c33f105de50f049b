"""Entries of the sums that are public."""

import numpy as np
import polars as pl
import pytest

from sudare.estimation import NoisySums, describe, estimate_linear, estimate_session
from sudare.estimation._models import linear_equations
from sudare.estimation._structure import known_moments, known_zeros, noise_variances
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.pooling import NewtonStep
from sudare.study import parse_study, read_table
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


PERSONS = """
name = "a"
[columns.ward]
categories = ["a", "b", "c"]
[columns.half]
categories = ["no", "yes"]
[target]
column = "y"
low = -10
high = 30
[person]
column = "id"
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "patient"
row_norm = 0.9
"""


def test_of_averaged_rows_only_the_constant_is_public() -> None:
    study = parse_study(PERSONS)
    rows = {"id": ["1", "1", "2"], "ward": ["b", "c", "b"], "half": ["no", "yes", "yes"]}
    block = read_table(pl.DataFrame({**rows, "y": [1.0, 2.0, 3.0]}), study)
    assert block.rows[0, 0] * block.rows[0, 1] > 0  # in two wards, by halves
    table = study.contract.rows(block.rows) / study.contract.full_norm
    known, gram = known_moments(study), table.T @ table / len(table)
    assert (~np.isnan(known)).sum() == 1
    assert known[-1, -1] == pytest.approx(gram[-1, -1])
    assert np.isnan(known_zeros(study)).all()
    sums = NoisySums(study.contract, 2, np.zeros(4), table.T @ table, 1.0, 0.1)
    with pytest.raises(InvalidInput, match="averages of rows"):
        describe(sums, study)


def test_sums_with_marked_rows_are_not_taken_for_those_of_complete_ones() -> None:
    text = PERSONS.replace('[person]\ncolumn = "id"\n', "")
    study = parse_study(text.replace('name = "a"', 'name = "a"\nincomplete = "leave out"'))
    sums = NoisySums(study.contract, 9, np.zeros(5), np.eye(5), 1.0, 0.1)
    step = NewtonStep(np.zeros(5), np.zeros(5), np.eye(5), 0.1, 0.2)
    for make in (
        lambda: estimate_linear(sums, study),
        lambda: estimate_session(step, 9, study, "poisson"),
        lambda: describe(sums, study),
    ):
        with pytest.raises(InvalidInput, match="complete rows and gaps together"):
            make()


def test_noise_is_that_of_a_symmetric_sum_where_nothing_is_known() -> None:
    known = np.array([[np.nan, 0.0], [0.0, np.nan]])
    assert noise_variances(known, 3.0) == pytest.approx(np.array([[18.0, 0.0], [0.0, 18.0]]))
    assert noise_variances(np.full((2, 2), np.nan), 3.0)[0, 1] == 9.0
