"""Integrals with known values: the result is right, and the error estimate covers it."""

import numpy as np
import pytest

from sudare.audit._quadrature import Box, Kink, integrate, split

WHOLE = {1: np.array([[[0.0, 1.0]]]), 2: np.array([[[0.0, 1.0], [0.0, 1.0]]])}


def over(domain, function, *, tolerance=1e-12, max_points=1_000_000):
    box = Box(domain)

    def integrand(unit):
        place, log_volume = box.points(unit)
        return (function(place) * np.exp(log_volume))[:, None]

    cells = WHOLE[box.dimension]
    for _ in range(4):
        cells = split(cells)
    value, error = integrate(integrand, cells, tolerance=tolerance, max_points=max_points)
    return value[0], error[0]


@pytest.mark.parametrize(
    ("domain", "function", "exact"),
    [
        (((-2.0, 3.0),), lambda x: x[:, 0] ** 3, 65 / 4),
        (((0.0, 1.0),), lambda x: np.abs(x[:, 0] - 0.3141), (0.3141**2 + 0.6859**2) / 2),
        (((0.0, 1.0),), lambda x: np.sqrt(x[:, 0]), 2 / 3),
        (((-np.inf, np.inf),), lambda x: np.exp(-(x[:, 0] ** 2) / 2), np.sqrt(2 * np.pi)),
        (((-np.inf, np.inf),), lambda x: np.exp(-np.abs(x[:, 0] - 7.7)), 2.0),
        (((-np.inf, np.inf),), lambda x: 1 / (1 + x[:, 0] ** 2), np.pi),
        (((3.0, np.inf),), lambda x: np.exp(-x[:, 0]), np.exp(-3)),
        (((-np.inf, -1.0),), lambda x: np.exp(x[:, 0]), np.exp(-1)),
    ],
)
def test_one_dimension(domain, function, exact):
    value, error = over(domain, function)
    assert value == pytest.approx(exact, abs=5e-12)
    assert abs(value - exact) <= error + 1e-14
    assert error <= 1e-12


@pytest.mark.parametrize(
    ("domain", "function", "exact"),
    [
        (((0.0, 1.0), (0.0, 2.0)), lambda x: x[:, 0] ** 2 * x[:, 1], 2 / 3),
        (((-np.inf, np.inf),) * 2, lambda x: np.exp(-(x**2).sum(axis=1)), np.pi),
        (((-np.inf, np.inf),) * 2, lambda x: np.exp(-np.linalg.norm(x - 1, axis=1)), 2 * np.pi),
    ],
)
def test_two_dimensions(domain, function, exact):
    value, error = over(domain, function, max_points=3_000_000)
    assert abs(value - exact) <= error + 1e-13
    assert error < 1e-6


def kinked(guard, kinks, max_points=1_500_000):
    """The integral over the unit square of the positive part of `guard`, and its error."""

    def integrand(x):
        value = guard(x)
        return np.stack([np.maximum(0, value), np.ones(len(x)), value], axis=1)

    cells = WHOLE[2]
    for _ in range(4):
        cells = split(cells)
    value, error = integrate(integrand, cells, tolerance=1e-12, max_points=max_points, kinks=kinks)
    return value[0], error[0]


def cone(centre, radius):
    return lambda x: radius - np.linalg.norm(x - np.array(centre), axis=1)


def slope(edge):
    return lambda x: x[:, 0] - edge


# The slopes start just beside the edge of a first cell, where none of its points is.
KINKED = [
    (cone([0.5, 0.5], 0.5), np.pi * 0.5**3 / 3),
    (cone([0.41, 0.55], 0.3), np.pi * 0.3**3 / 3),
    (slope(0.374), 0.626**2 / 2),
    (slope(0.3126), 0.6874**2 / 2),
]


@pytest.mark.parametrize(("guard", "exact"), KINKED)
def test_the_error_estimate_covers_a_kink_between_points(guard, exact):
    value, error = kinked(guard, (Kink(0, 1, 2),))
    assert abs(value - exact) <= error < 1e-7


@pytest.mark.parametrize(("guard", "exact"), KINKED[1:])
def test_only_if_it_is_told_of_the_kink(guard, exact):
    value, error = kinked(guard, ())
    assert abs(value - exact) > error


def test_the_allowance_of_points_is_kept_and_the_error_says_so():
    asked = 0

    def rough(x):
        nonlocal asked
        asked += len(x)
        return (np.abs(x[:, 0] - 1 / 3) ** -0.5)[:, None]

    value, error = integrate(rough, WHOLE[1], tolerance=1e-15, max_points=2_000)
    exact = 2 * (np.sqrt(1 / 3) + np.sqrt(2 / 3))
    assert asked < 3_000
    assert 1e-6 < abs(value[0] - exact) < error[0] * 10


def test_split_keeps_the_parts_of_a_cell_together():
    cells = np.array([[[0.0, 1.0], [0.0, 2.0]], [[5.0, 6.0], [7.0, 8.0]]])
    parts = split(cells)
    assert parts.shape == (8, 2, 2)
    area = (parts[:, :, 1] - parts[:, :, 0]).prod(axis=1).reshape(2, 4).sum(axis=1)
    assert area == pytest.approx([2.0, 1.0])
    assert parts[:4].max() == 2.0
    assert parts[4:].min() == 5.0
