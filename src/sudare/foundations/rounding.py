"""Rounding to the safe side.

A calibrated number is used to make a promise, so its last bits must err towards privacy: noise
scales and spent budgets upwards, inverse temperatures and remaining budgets downwards. The default
slack covers a dozen roundings of double arithmetic and costs nothing anyone can notice.
"""

import math

SLACK = 2.0**-45


def up(value: float, slack: float = SLACK) -> float:
    """A float above every number within relative distance `slack` of `value`."""
    if math.isinf(value):
        return value
    return math.nextafter(value + abs(value) * slack, math.inf) if math.isfinite(value) else value


def down(value: float, slack: float = SLACK) -> float:
    """A float below every number within relative distance `slack` of `value`."""
    if math.isinf(value):
        return value
    return math.nextafter(value - abs(value) * slack, -math.inf) if math.isfinite(value) else value
