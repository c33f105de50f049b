"""Confidence bounds on probabilities, and on epsilon, from counts.

A mechanism that is (epsilon, delta)-private on two neighbouring inputs satisfies, for every event,
`p <= exp(epsilon) * q + delta` with `p` and `q` the probabilities of the event under the two
inputs. Read backwards, any event proves `epsilon >= log((p - delta) / q)`. The bounds here
replace `p` and `q` by what counts allow us to claim: `p` at least, `q` at most.

Guarantee: for an event fixed before the counting, `epsilon_lower` exceeds the true epsilon with
probability at most `error`; half of it is spent on `p` and half on `q` (union bound).

Reference: Clopper and Pearson (1934), exact limits for a binomial proportion.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]

# Quantiles of the beta law are computed to about 1e-13; the margin keeps each bound safe.
_MARGIN = 1e-9


def proportion_lower(count: ArrayLike, total: int, error: float) -> Floats:
    """A number that exceeds the success probability with probability `error` at most."""
    hits = np.asarray(count, dtype=np.float64)
    bound = special.betaincinv(np.maximum(hits, 1.0), total - hits + 1.0, error)
    return np.asarray(np.where(hits > 0, bound * (1.0 - _MARGIN), 0.0), dtype=np.float64)


def proportion_upper(count: ArrayLike, total: int, error: float) -> Floats:
    """A number that the success probability exceeds with probability `error` at most."""
    hits = np.asarray(count, dtype=np.float64)
    bound = special.betainccinv(hits + 1.0, np.maximum(total - hits, 1.0), error)
    return np.asarray(
        np.where(hits < total, np.minimum(bound * (1.0 + _MARGIN), 1.0), 1.0), dtype=np.float64
    )


def epsilon_lower(
    likely: ArrayLike, unlikely: ArrayLike, total: int, *, delta: float, error: float
) -> Floats:
    """Lower confidence bound on epsilon; minus infinity where the counts show nothing.

    `likely` and `unlikely` count the same event in `total` runs on each of the two inputs.
    The result may be negative: that is still a true statement, and it ranks candidate events.
    """
    p = proportion_lower(likely, total, error / 2) - delta
    q = proportion_upper(unlikely, total, error / 2)
    shown = p > 0
    return np.asarray(
        np.where(shown, np.log(np.where(shown, p, 1.0) / q), -np.inf), dtype=np.float64
    )
