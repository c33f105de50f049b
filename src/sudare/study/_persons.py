"""All rows of a person as one row: their average.

Bounds are convex: the average of rows within them is within them. What a person's rows become does
not depend on anybody else's, and there is one row for each person. So replacing all rows of one
person, however many, replaces one row of what is learnt from, and every guarantee for one row is
one for one person (docs/theory/guarantees.md).
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sudare.study._contract import label_text

Array = NDArray[np.float64]

_GAPS = frozenset(["", "NA", "NaN", "nan", "NULL", "null"])


def persons_among(column: Any) -> list[str | None]:
    """Whose each row is, by its spelling; None where it does not say."""
    return [_name(value) for value in column]


def by_person(
    rows: Array,
    targets: Array,
    whose: list[str | None],
    task: Literal["classification", "regression"],
) -> tuple[Array, Array]:
    """One row for each person, and one for each row that is nobody's.

    Of classes a person is in the second if at least half of the rows are. The rows of a person are
    added up in an order that follows from them: the same rows in another order give the same sum.
    """
    seen: dict[str | int, int] = {}
    places = np.array(
        [seen.setdefault(i if name is None else name, len(seen)) for i, name in enumerate(whose)]
    )
    table = np.column_stack([rows, targets])
    order = np.lexsort((*table.T, places))
    starts = np.searchsorted(places[order], np.arange(len(seen)))
    sums = np.add.reduceat(table[order], starts, axis=0)
    counts = np.bincount(places, minlength=len(seen))
    means = sums / counts[:, None]
    # Rounding may not carry an average beyond what it is the average of.
    low = np.minimum.reduceat(table[order], starts, axis=0)
    high = np.maximum.reduceat(table[order], starts, axis=0)
    means = np.clip(means, low, high)
    targets = means[:, -1]
    if task == "classification":
        targets = np.where(targets >= 0, 1.0, -1.0)
    return np.ascontiguousarray(means[:, :-1]), targets


def _name(scalar: Any) -> str | None:
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):  # not UTF-8, or a date that no calendar has
        return None
    text = "" if value is None else label_text(value)
    return None if text.strip() in _GAPS else text
