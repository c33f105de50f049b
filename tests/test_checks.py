"""Every validator over many types: what it lets through, and the exact words of what it refuses.

The array validator is held to more: neither its message nor the printed traceback may contain
anything of the array.
"""

import math
import sys
import traceback
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare import checks
from sudare.checks import InvalidInput, PrivacyError, SudareError

NEXT_TO_ONE = math.nextafter(1, 0)

ACCEPTED = {
    checks.real: [0, -1, 1.5, -1e308, 5e-324],
    checks.positive: [1, 0.5, 5e-324, 1e308],
    checks.non_negative: [0, 0.0, -0.0, 5e-324, 1e308],
    checks.delta_like: [0, 0.0, 5e-324, 0.5, NEXT_TO_ONE],
    checks.proportion: [5e-324, 0.5, NEXT_TO_ONE],
    checks.share: [0, 0.5, 1, 1.0],
}
REFUSED = {
    checks.real: [],
    checks.positive: [0, -1, -5e-324],
    checks.non_negative: [-1, -5e-324],
    checks.delta_like: [-5e-324, 1, 1.5],
    checks.proportion: [0, -0.0, 1, 1.0],
    checks.share: [-5e-324, math.nextafter(1, 2)],
}
CONDITION = {
    checks.real: "a finite number",
    checks.positive: "> 0",
    checks.non_negative: ">= 0",
    checks.delta_like: "in [0, 1)",
    checks.proportion: "in (0, 1)",
    checks.share: "in [0, 1]",
}
# A number of any of these types is a number to every validator.
HALVES = [
    0.5,
    np.float16(0.5),
    np.float32(0.5),
    np.float64(0.5),
    np.longdouble(0.5),
    Fraction(1, 2),
]
# These are numbers to none of them.
NOT_NUMBERS = [
    (True, "True"),
    (False, "False"),
    (np.True_, "<bool>"),
    (None, "None"),
    ("0.5", "'0.5'"),
    ("x" * 41, "<str>"),
    (b"0.5", "<bytes>"),
    (Decimal("0.5"), "0.5"),
    (0.5 + 0j, "(0.5+0j)"),
    ([0.5], "<list>"),
    ({"secret": 1}, "<dict>"),
    (np.array(0.5), "<ndarray>"),
    (np.array([0.5]), "<ndarray>"),
    (pd.NA, "<NAType>"),
    (float, "<type>"),
]


def message(validator: Any, *args: Any, **named: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        validator(*args, **named)
    return str(caught.value)


def test_the_documented_message() -> None:
    assert message(checks.positive, epsilon=-1) == "Expected epsilon=-1 > 0"


def test_errors_can_be_told_apart() -> None:
    assert issubclass(InvalidInput, SudareError)
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(PrivacyError, SudareError)
    assert not issubclass(PrivacyError, ValueError)


@pytest.mark.parametrize("validator", CONDITION, ids=lambda v: v.__name__)
def test_numbers_are_judged_by_their_value(validator: Any) -> None:
    for value in [*ACCEPTED[validator], *HALVES]:
        validator(level=value)
    for value in REFUSED[validator]:
        expected = f"Expected level={value} {CONDITION[validator]}"
        assert message(validator, level=value) == expected


@pytest.mark.parametrize("validator", CONDITION, ids=lambda v: v.__name__)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_only_finite_numbers_pass(validator: Any, value: float) -> None:
    assert message(validator, mu=value) == f"Expected mu={value} {CONDITION[validator]}"


@pytest.mark.parametrize("validator", CONDITION, ids=lambda v: v.__name__)
@pytest.mark.parametrize(
    "value", [10**400, -(10**400), Fraction(10**400, 3), 10**5000, -(10**5000)], ids=str
) if not hasattr(sys, "set_int_max_str_digits") else pytest.mark.parametrize(
    "power", [400, 5000]
)
def test_numbers_beyond_double_range_are_refused(validator: Any, power: int) -> None:
    huge = 10**power
    for value in (huge, -huge, Fraction(huge, 3)):
        shown = f"Expected n=<{type(value).__name__}> {CONDITION[validator]}"
        assert message(validator, n=value) == shown
