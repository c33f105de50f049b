"""One vocabulary of validators, and the errors a user can meet.

Every validator takes keyword arguments, so that the message can name the parameter:
`checks.positive(epsilon=-1)` raises ``Expected epsilon=-1 > 0``. Parameters are public numbers and
may be shown; rows, targets and reports are not, so the array validators name the problem and never
the values.
"""

import contextlib
import math
import numbers
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


class SudareError(Exception):
    """Anything a user can put right; its message says how, and never shows a person's values."""


class InvalidInput(SudareError, ValueError):
    """A parameter or a table does not meet the condition its function states."""


class PrivacyError(SudareError):
    """What was asked would break a privacy promise, so it was refused."""


def real(**named: object) -> None:
    """Finite real numbers."""
    _each(named, lambda x: True, "a finite number")


def positive(**named: object) -> None:
    """Finite real numbers above zero."""
    _each(named, lambda x: x > 0, "> 0")


def non_negative(**named: object) -> None:
    """Finite real numbers, zero or above."""
    _each(named, lambda x: x >= 0, ">= 0")


def delta_like(**named: object) -> None:
    """Numbers in [0, 1): a probability of failure, where zero means never."""
    _each(named, lambda x: 0 <= x < 1, "in [0, 1)")


def proportion(**named: object) -> None:
    """Numbers in (0, 1), both ends excluded."""
    _each(named, lambda x: 0 < x < 1, "in (0, 1)")


def share(**named: object) -> None:
    """Numbers in [0, 1], both ends included."""
    _each(named, lambda x: 0 <= x <= 1, "in [0, 1]")


def between(low: float, high: float, **named: object) -> None:
    """Finite real numbers in [low, high]."""
    _each(named, lambda x: low <= x <= high, f"in [{low:g}, {high:g}]")


def count(minimum: int = 1, **named: object) -> None:
    """Whole numbers of at least `minimum` (numpy integers too; not booleans, not 3.0)."""
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise InvalidInput(f"Expected {name}={_shown(value)} to be a whole number")
        if value < minimum:
            raise InvalidInput(f"Expected {name}={_shown(value)} >= {minimum}")


def one_of(allowed: Collection[object], **named: object) -> None:
    """Values from a closed set."""
    for name, value in named.items():
        if not any(type(value) is type(choice) and value == choice for choice in allowed):
            choices = ", ".join(repr(choice) for choice in allowed)
            raise InvalidInput(f"Expected {name}={_shown(value)} to be one of {choices}")


def finite_array(*, dimensions: int | None = None, **named: "ArrayLike") -> "NDArray[np.float64]":
    """The one named argument as a float array, refused if empty, not numeric or not finite."""
    import numpy as np  # not above: to say that a file is missing takes no arrays

    ((name, value),) = named.items()
    try:
        raw = np.asarray(value)
        texts = raw.dtype.kind == "O" and any(isinstance(x, str | bytes) for x in raw.flat)
        if texts or raw.dtype.kind not in "biufO":
            raise TypeError
        with np.errstate(over="ignore"):  # a long double becomes infinite, and is refused below
            array = raw.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        # `from None`: numpy's own message quotes the offending value.
        raise InvalidInput(f"Expected {name} to hold only numbers") from None
    if dimensions is not None and array.ndim != dimensions:
        raise InvalidInput(f"Expected {name} to have {dimensions} dimension(s), not {array.ndim}")
    if array.size == 0:
        raise InvalidInput(f"Expected {name} not to be empty")
    if not np.isfinite(array).all():
        raise InvalidInput(f"Expected {name} to hold only finite numbers; it has NaN or infinity")
    return array


def _each(named: dict[str, object], holds: Callable[[float], bool], condition: str) -> None:
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise InvalidInput(f"Expected {name}={_shown(value)} to be a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not (math.isfinite(number) and holds(number)):
            raise InvalidInput(f"Expected {name}={_shown(value)} {condition}")


def _shown(value: Any) -> str:
    """A parameter as the user wrote it; whole objects and long texts by their type alone."""
    if value is None or (isinstance(value, str) and len(value) <= 40):
        return repr(value)
    if isinstance(value, numbers.Number):
        with contextlib.suppress(ValueError):  # more digits than Python prints
            if len(text := str(value)) <= 40:
                return text
    return f"<{type(value).__name__}>"
