"""Numbers to draw examples from."""

import math

from hypothesis import strategies as st


def spread(low: float, high: float) -> st.SearchStrategy[float]:
    """Floats spread evenly over the orders of magnitude between two bounds."""
    return st.floats(math.log(low), math.log(high)).map(lambda x: min(high, max(low, math.exp(x))))
