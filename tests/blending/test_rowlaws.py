"""Laws of rows: from own rows and releases, and from releases alone."""

from typing import Any

import numpy as np
import pytest

from sudare.blending._records import Records
from sudare.blending._rowlaws import released_law, row_law
from sudare.foundations.randomness import seeded
from sudare.releases import Contract
from tests.blending.parties import CLASSES, many_moments, own_records, rows_and_targets


def truth_of(contract: Contract) -> tuple[Any, Any]:
    table, _, _ = rows_and_targets(contract, 50_000, 99)
    rows = contract.rows(table) / contract.full_norm
    return rows.mean(axis=0), rows.T @ rows / len(rows)


def test_row_law_is_that_of_the_rows() -> None:
    mean, second = truth_of(CLASSES)
    own = own_records(CLASSES).rows
    law, error, mean_error = row_law(
        many_moments(CLASSES, n=2000, noise_std=1e-3).moments, CLASSES, own
    )
    np.testing.assert_allclose(law.mean, mean, atol=0.01)
    np.testing.assert_allclose(law.second, second, atol=0.01)
    assert 0 <= error < 1e-5
    assert 0 < mean_error < 1e-3


def test_noisy_releases_leave_the_row_law_to_own_rows_and_shrink_it() -> None:
    own = own_records(CLASSES).rows
    law, _, _ = row_law(many_moments(CLASSES, noise_std=1e5).moments, CLASSES, own)
    np.testing.assert_allclose(np.trace(law.second), (own**2).sum(axis=1).mean(), rtol=0.1)
    assert (np.abs(law.mean) <= np.abs(own.mean(axis=0)) + 1e-3).all()
    raw = own[:, :3].T @ own[:, :3] / len(own)
    found = law.second[:3, :3]
    assert _flatness(found) < _flatness(raw)
    assert (np.linalg.eigvalsh(law.spread)[1:] > 0).all()


def test_means_are_kept_where_they_are_sure_and_drawn_to_zero_where_not() -> None:
    rows = np.column_stack([np.full(40, 0.5), np.zeros((40, 2)), np.full(40, 0.2)])
    rows[:, :3] += 0.1 * seeded(2).normal(size=(40, 3))
    noise = many_moments(CLASSES, noise_std=1e5).moments
    law, _, error = row_law(noise, CLASSES, rows)
    np.testing.assert_allclose(law.mean[:3], rows.mean(axis=0)[:3], atol=0.05)
    assert error > 0
    rows[:, 0] -= rows[:, 0].mean()
    law, _, error = row_law(noise, CLASSES, rows)
    assert np.linalg.norm(law.mean[:3]) < np.linalg.norm(rows.mean(axis=0)[:3])


def _flatness(matrix: Any) -> float:
    values = np.linalg.eigvalsh(matrix)
    return float(values[-1] / values[0])


def test_rows_without_a_constant_are_centred() -> None:
    contract = Contract(features=3, row_norm=1.0, classes=("no", "yes"))
    table, _, _ = rows_and_targets(contract, 60, 5)
    law, _, _ = row_law(many_moments(contract).moments, contract, contract.rows(table))
    assert not law.mean.any()


def test_the_released_law_is_that_of_the_rows_behind_the_sums() -> None:
    """Own rows have no say, and noise below which nothing is told is the floor."""
    mean, second = truth_of(CLASSES)
    own = own_records(CLASSES)
    precise = many_moments(CLASSES, n=2000, noise_std=1e-3).moments
    law, error, mean_error = released_law(precise, own)
    np.testing.assert_allclose(law.mean, mean, atol=0.01)
    np.testing.assert_allclose(law.second, second, atol=0.01)
    noise = np.sqrt(12) * 1e-3 / 24_000
    assert error == pytest.approx(noise**2)
    assert mean_error == pytest.approx((noise / own.constant) ** 2)
    odd = Records(3 * own.rows, own.targets, constant=own.constant)
    np.testing.assert_array_equal(released_law(precise, odd).law.spread, law.spread)
    vague, _, _ = released_law(many_moments(CLASSES, noise_std=1e3).moments, own)
    assert np.trace(vague.second) <= 1 + 1e-9
    assert np.linalg.eigvalsh(vague.spread).min() > -1e-12
