"""Exact privacy of laws over whole numbers and of transcripts."""

import itertools
import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from sudare.calibration import MaskLaw


def epsilon_at(delta: float, delta_of: Callable[[float], float], high: float) -> float:
    """The ε at which a falling δ(ε) meets `delta`; zero if it is never so large."""
    if delta_of(0.0) <= delta:
        return 0.0
    return float(brentq(lambda epsilon: delta_of(epsilon) - delta, 0.0, high, xtol=1e-12))


def steps_delta(epsilon: float, steps: int, scale: float) -> float:
    """δ of the discrete Gaussian of this scale, moved by whole steps: an exact sum."""
    reach = math.ceil(40 * scale) + steps
    k = np.arange(-reach, reach + steps + 1, dtype=np.float64)
    log = -(k**2) / (2 * scale**2)
    log -= math.log(np.exp(log).sum())
    moved = -((k - steps) ** 2) / (2 * scale**2)
    moved -= math.log(np.exp(moved).sum())
    with np.errstate(under="ignore"):
        return float(np.maximum(np.exp(log) - np.exp(epsilon + moved), 0).sum())


def transcripts_epsilon(law: MaskLaw, stretches: int) -> float:
    """ε of all reports of a tree: every input and every transcript of so many stretches.

    The j-th movement that is not zero is sent through the j-th flip of the mask; zeros, and
    movements after the last flip, send a fair coin.
    """
    table = []
    for moves in itertools.product((-1, 0, 1), repeat=stretches):
        used = [i for i, move in enumerate(moves) if move][: law.slots]
        row = []
        for bits in itertools.product((0, 1), repeat=stretches):
            flips = [bits[i] ^ (moves[i] > 0) for i in used]
            rest = law.slots - len(flips)
            chance = sum(
                math.comb(rest, ones) * law.probability(sum(flips) + ones)
                for ones in range(rest + 1)
            )
            row.append(chance / 2 ** (stretches - len(used)))
        table.append(row)
    logs = np.log(np.array(table))
    return float((logs.max(axis=0) - logs.min(axis=0)).max())
