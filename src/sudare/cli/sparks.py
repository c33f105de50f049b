"""Curves in one line of text."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparks(curve: "Sequence[float] | NDArray[np.float64]", width: int = 60) -> str:
    """A line of blocks from 0 (▁) to 1 (█); a blank where there is no value."""
    step = max(1, -(-len(curve) // width))
    return "".join(
        " " if math.isnan(v) else _BLOCKS[min(7, int(8 * min(1.0, max(0.0, v))))]
        for v in curve[::step]
    )
