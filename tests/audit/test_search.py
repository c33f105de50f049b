"""Functions whose peaks and sign changes are known. No randomness here."""

import numpy as np
import pytest

from sudare.audit._search import crossings, grid, peaks


def test_finds_a_narrow_peak_of_a_smooth_slope():
    """A log density far narrower than the grid still leads uphill."""
    found = peaks(lambda u: -1e8 * (u[:, 0] - 0.123456789) ** 2, 1)
    assert np.abs(found - 0.123456789).min() < 1e-8


def test_finds_a_kinked_peak_in_the_plane():
    top = np.array([0.3217, 0.8891])
    found = peaks(lambda u: -np.abs(u - top).sum(axis=1), 2)
    assert np.abs(found - top).max(axis=1).min() < 1e-10


def test_finds_every_one_of_several_peaks():
    tops = np.array([0.1, 0.37, 0.82])
    found = peaks(lambda u: -np.abs(u - tops).min(axis=1), 1)
    for top in tops:
        assert np.abs(found - top).min() < 1e-10


def test_a_plateau_is_covered():
    found = peaks(lambda u: np.minimum(u[:, 0], 0.5), 1)
    assert found.min() < 0.55
    assert found.max() > 0.95


def test_nothing_to_find():
    assert len(peaks(lambda u: np.full(len(u), -np.inf), 1)) == 0


def test_a_peak_at_the_edge_is_approached_but_not_reached():
    found = peaks(lambda u: u[:, 0], 1)
    assert 1 - 1e-9 < found.max() < 1


def test_crossings():
    found = crossings(lambda u: np.cos(3 * np.pi * u[:, 0]), grid(1), 1e-13)
    assert found.ravel() == pytest.approx([1 / 6, 1 / 2, 5 / 6], abs=1e-12)


def test_rounding_noise_is_no_crossing():
    def noisy_zero(u):
        return 1e-15 * np.sign(np.sin(1e5 * u[:, 0]))

    assert len(crossings(noisy_zero, grid(1), 1e-13)) == 0
    assert len(crossings(noisy_zero, grid(1), 0.0)) > 0
