"""Every validator over many types: what it lets through, and the exact words of what it refuses.

The array validator is held to more: neither its message nor the printed traceback may contain
anything of the array.
"""

import math
import traceback
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.foundations import checks
from sudare.foundations.checks import InvalidInput, PrivacyError, SudareError

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
@pytest.mark.parametrize("power", [400, 5000])
def test_numbers_beyond_double_range_are_refused(validator: Any, power: int) -> None:
    huge = 10**power
    for value in (huge, -huge, Fraction(huge, 3)):
        shown = f"Expected n=<{type(value).__name__}> {CONDITION[validator]}"
        assert message(validator, n=value) == shown


@pytest.mark.parametrize("validator", CONDITION, ids=lambda v: v.__name__)
@pytest.mark.parametrize(("value", "shown"), NOT_NUMBERS, ids=repr)
def test_only_numbers_pass(validator: Any, value: object, shown: str) -> None:
    assert message(validator, rho=value) == f"Expected rho={shown} to be a number"


def test_every_name_is_checked_and_the_wrong_one_is_named() -> None:
    checks.positive(epsilon=1, mu=2)
    assert message(checks.positive, epsilon=1, mu=0, rho=-1) == "Expected mu=0 > 0"
    assert message(checks.count, rows=1, columns=0) == "Expected columns=0 >= 1"
    assert message(checks.one_of, ("a",), x="a", y="b") == "Expected y='b' to be one of 'a'"


@pytest.mark.parametrize("value", [1, 7, np.int8(3), np.uint64(2**64 - 1), 10**400])
def test_counts(value: int) -> None:
    checks.count(n=value)
    checks.count(minimum=1, n=value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [*NOT_NUMBERS, (3.0, "3.0"), (np.float64(3), "3.0"), (Fraction(3), "3"), (math.nan, "nan")],
    ids=repr,
)
def test_not_counts(value: object, shown: str) -> None:
    assert message(checks.count, n=value) == f"Expected n={shown} to be a whole number"


def test_counts_below_the_minimum() -> None:
    checks.count(minimum=0, seed=0)
    checks.count(minimum=-3, shift=-3)
    assert message(checks.count, n=0) == "Expected n=0 >= 1"
    assert message(checks.count, minimum=0, seed=np.int64(-1)) == "Expected seed=-1 >= 0"
    assert message(checks.count, n=-(10**5000)) == "Expected n=<int> >= 1"


def test_one_of_compares_types_too() -> None:
    allowed = ("l2", 1, None)
    for value in allowed:
        checks.one_of(allowed, penalty=value)
    assert message(checks.one_of, allowed, penalty="l1") == (
        "Expected penalty='l1' to be one of 'l2', 1, None"
    )
    for other in (True, 1.0, np.int64(1), "L2", b"l2", ["l2"], np.array([1]), np.str_("l2")):
        assert message(checks.one_of, allowed, penalty=other).startswith("Expected penalty=")


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        (1.0, 2.0),
        range(1, 3),
        np.array([1, 2], dtype=np.int8),
        np.array([1, 2], dtype=np.float16),
        np.array([1, 2], dtype=np.longdouble),
        [Fraction(1), Decimal(2)],
        pd.Series([1, 2]),
        pd.Series([1.0, 2.0], dtype="Float64"),
        np.array([1, 2], dtype=object),
    ],
    ids=lambda v: type(v).__name__,
)
def test_arrays_become_doubles(value: Any) -> None:
    array = checks.finite_array(dimensions=1, rows=value)
    assert array.dtype == np.float64
    assert array.tolist() == [1.0, 2.0]


def test_an_array_of_doubles_is_not_copied() -> None:
    array = np.ones((2, 3))
    assert checks.finite_array(dimensions=2, rows=array) is array


def test_any_number_of_dimensions_is_allowed_unless_one_is_asked_for() -> None:
    for value in (3.0, [3.0], [[3.0]], [True]):
        checks.finite_array(rows=value)
    assert message(checks.finite_array, dimensions=2, rows=[3.0]) == (
        "Expected rows to have 2 dimension(s), not 1"
    )
    assert message(checks.finite_array, dimensions=1, rows=3.0) == (
        "Expected rows to have 1 dimension(s), not 0"
    )


NOT_NUMERIC = "Expected rows to hold only numbers"
NOT_FINITE = "Expected rows to hold only finite numbers; it has NaN or infinity"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], "Expected rows not to be empty"),
        (np.empty((0, 3)), "Expected rows not to be empty"),
        ([1.0, math.nan], NOT_FINITE),
        ([[1.0], [-math.inf]], NOT_FINITE),
        ([1.0, None], NOT_FINITE),
        (np.array([1.0, None], dtype=object), NOT_FINITE),
        (np.array([np.finfo(np.longdouble).max]), NOT_FINITE),
        (["1.5"], NOT_NUMERIC),
        ([b"1.5"], NOT_NUMERIC),
        ([1.0, "2"], NOT_NUMERIC),
        (np.array([1.0, "2"], dtype=object), NOT_NUMERIC),
        (pd.Series(["1", "2"]), NOT_NUMERIC),
        ([1 + 2j], NOT_NUMERIC),
        (np.array([1 + 2j]), NOT_NUMERIC),
        (np.array([1 + 2j], dtype=object), NOT_NUMERIC),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), NOT_NUMERIC),
        (np.array([3], dtype="timedelta64[s]"), NOT_NUMERIC),
        (np.array([pd.NA], dtype=object), NOT_NUMERIC),
        ([10**400], NOT_NUMERIC),
        ([[1.0], [2.0, 3.0]], NOT_NUMERIC),
        ([{}], NOT_NUMERIC),
        ({"a": 1}, NOT_NUMERIC),
        (object(), NOT_NUMERIC),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_is_not_an_array_of_finite_numbers(value: Any, expected: str) -> None:
    assert message(checks.finite_array, rows=value) == expected


# Long enough not to occur in a message by chance, and never part of its words.
SECRET_NUMBERS = st.floats(1e5, 1e300).filter(lambda x: len(repr(x)) > 6)
SECRET_TEXTS = st.text("QXZ0123456789", min_size=6, max_size=60)


@given(
    st.lists(SECRET_NUMBERS, max_size=5),
    st.lists(SECRET_TEXTS, max_size=3),
    st.sampled_from([math.nan, math.inf, 10**400, None, [1.0], "4", 2j]),
    st.randoms(use_true_random=False),
)
def test_array_errors_never_show_a_value(
    secrets: list[float], texts: list[str], bad: object, shuffler: Any
) -> None:
    values = [*secrets, *texts, bad]
    shuffler.shuffle(values)
    containers: list[Any] = [values, np.array([*values, None], dtype=object)[:-1]]
    for container in containers:
        with pytest.raises(InvalidInput) as caught:
            checks.finite_array(dimensions=1, rows=container)
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
        for secret in [*map(repr, secrets), *texts]:
            assert secret not in shown


class Talkative:
    """Has a way to become a float that fails, and says why."""

    def __float__(self) -> float:
        raise ValueError("QX12345 is no number")


def test_array_errors_hide_what_led_to_them() -> None:
    rows: Any = [Talkative()]
    with pytest.raises(InvalidInput) as caught:
        checks.finite_array(rows=rows)
    assert "QX12345" not in "".join(traceback.format_exception(caught.value))


def test_the_search_for_values_would_find_one() -> None:
    """The previous test looks at the right text: numpy's own error does show the value."""
    with pytest.raises(ValueError, match="could not convert") as caught:
        np.asarray(["QX12345"], dtype=np.float64)
    assert "QX12345" in "".join(traceback.format_exception(caught.value))
