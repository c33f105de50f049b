"""Both roundings against exact rational arithmetic, over the whole range of doubles."""

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sudare.foundations.rounding import SLACK, down, up

LARGEST, SMALLEST_NORMAL, SMALLEST = sys.float_info.max, sys.float_info.min, 5e-324
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SLACKS = st.one_of(st.just(0.0), st.integers(-60, -3).map(lambda k: 2.0**k), st.floats(1e-17, 0.1))


@given(FINITE, SLACKS)
@example(0.0, SLACK)
@example(-0.0, SLACK)
@example(1.0, SLACK)
@example(-1.0, SLACK)
@example(SMALLEST, SLACK)
@example(-SMALLEST, SLACK)
@example(SMALLEST_NORMAL, SLACK)
@example(math.nextafter(SMALLEST_NORMAL, 0), 0.1)
@example(math.nextafter(1.0, 0.0), SLACK)
@example(1e308, 0.0)
@example(-1e308, 0.1)
def test_every_number_within_the_slack_lies_strictly_between(value: float, slack: float) -> None:
    above, below = up(value, slack), down(value, slack)
    reach = abs(Fraction(value)) * Fraction(slack)
    assert math.isinf(above) or Fraction(value) + reach < Fraction(above)
    assert math.isinf(below) or Fraction(below) < Fraction(value) - reach


@given(FINITE.filter(lambda x: abs(x) < 1e307), SLACKS)
def test_no_more_than_two_steps_are_added(value: float, slack: float) -> None:
    reach = abs(Fraction(value)) * Fraction(slack)
    above, below = up(value, slack), down(value, slack)
    step = 2 * Fraction(math.ulp(max(abs(above), abs(below))))
    assert Fraction(above) <= Fraction(value) + reach + step
    assert Fraction(below) >= Fraction(value) - reach - step


@given(FINITE)
def test_the_two_directions_mirror_each_other(value: float) -> None:
    assert up(-value) == -down(value)


@pytest.mark.parametrize(
    ("value", "above", "below"),
    [
        (0.0, SMALLEST, -SMALLEST),
        (LARGEST, math.inf, LARGEST * (1 - SLACK)),
        (-LARGEST, -LARGEST * (1 - SLACK), -math.inf),
        (math.inf, math.inf, math.inf),
        (-math.inf, -math.inf, -math.inf),
    ],
)
def test_the_ends_of_the_range(value: float, above: float, below: float) -> None:
    assert up(value) == pytest.approx(above, rel=1e-15)
    assert down(value) == pytest.approx(below, rel=1e-15)
    assert (up(value), down(value)) == (above, below) or abs(value) == LARGEST


FACTORS = st.lists(st.floats(0.1, 10.0), min_size=13, max_size=13)


def chain(factors: list[float]) -> tuple[float, Fraction]:
    """A product by twelve rounded multiplications, and the exact one."""
    rounded, exact = factors[0], Fraction(factors[0])
    for factor in factors[1:]:
        rounded, exact = rounded * factor, exact * Fraction(factor)
    return rounded, exact


@given(FACTORS)
def test_the_default_slack_covers_a_dozen_roundings(factors: list[float]) -> None:
    rounded, exact = chain(factors)
    assert Fraction(down(rounded)) < exact < Fraction(up(rounded))


def test_one_step_alone_does_not_cover_a_dozen_roundings() -> None:
    rounded, exact = chain([1.0] + [1.1] * 12)
    assert Fraction(math.nextafter(rounded, 0)) > exact
    assert Fraction(down(rounded)) < exact


def test_the_default_slack_goes_unnoticed() -> None:
    assert up(1.0) < 1 + 1e-13
    assert down(1.0) > 1 - 1e-13
