"""Encoded rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Block(NamedTuple):
    """Some rows, encoded: features, and targets as −1/+1 or within [−1, 1] (None if not read)."""

    rows: Array
    targets: Array | None
