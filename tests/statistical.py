"""Statistical tests whose false-alarm rate is a theorem, not an approximation.

Budget of the whole suite: each function below refuses a right law with probability at most
FALSE_ALARM = 1e-12, whatever the sample size. The suite asks them fewer than a thousand times with
coins that cannot be repeated (the secure generator, OpenDP), so a right program fails a run of the
suite with probability below 1e-9. With a seeded generator the answer is the same on every run.

A test that cannot refuse is worth nothing, so every use has two arms: the right law is accepted and
the same law, a little off, is refused. `only_fits` and `only_counts_fit` hold both. Where the coins
cannot be repeated, the step off is large enough for the second arm to fail as rarely as the first.

    KS       Massart (1990): P(sup |F̂ − F| > x) ≤ 2·exp(−2nx²), for any law
    counts   Agrawal (2020): P(n·KL(p̂ ‖ p) ≥ x) ≤ e^{−x}·(e·x/(k−1))^{k−1} for x > k − 1, k cells
    rates    Clopper and Pearson (1934): exact binomial limits
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv, rel_entr

FALSE_ALARM = 1e-12


def fits(sample: ArrayLike, cdf: Callable[[NDArray[Any]], ArrayLike]) -> bool:
    """Whether the sample can come from the law with this distribution function (P(X ≤ x))."""
    values, counts = np.unique(np.asarray(sample), return_counts=True)
    reached = np.cumsum(counts)
    n = reached[-1]
    expected = np.asarray(cdf(values))
    # For a continuous law the largest gap may stand just below a value; for a law on a grid it
    # never does, but comparing there would count the jump itself.
    gaps = [reached / n - expected]
    if len(values) > n / 2:
        gaps.append(expected - (reached - counts) / n)
    distance = max(float(np.max(np.abs(gap))) for gap in gaps)
    return 2 * math.exp(-2 * n * distance**2) > FALSE_ALARM


def only_fits(
    sample: ArrayLike, cdf: Callable[[NDArray[Any]], ArrayLike], off: float = 0.03
) -> bool:
    """Whether the sample fits, and no longer does once it is scaled down or up by `off`."""
    values = np.asarray(sample)
    return fits(values, cdf) and not any(fits(values * f, cdf) for f in (1 - off, 1 + off))


def counts_fit(counts: ArrayLike, probabilities: ArrayLike) -> bool:
    """Whether the counts of all cells can come from these probabilities, which add up to one."""
    seen = np.asarray(counts, dtype=np.float64).ravel()
    expected = np.asarray(probabilities, dtype=np.float64).ravel()
    assert seen.shape == expected.shape
    assert abs(expected.sum() - 1) < 1e-9
    if np.any(seen[expected == 0] > 0):
        return False
    cells = int(np.count_nonzero(expected))
    divergence = float(rel_entr(seen, seen.sum() * expected).sum())
    if divergence <= cells - 1:
        return True
    log_rate = -divergence + (cells - 1) * (1 + math.log(divergence / (cells - 1)))
    return log_rate > math.log(FALSE_ALARM)


def only_counts_fit(
    counts: ArrayLike, probabilities: ArrayLike, wrong: Sequence[ArrayLike]
) -> bool:
    """Whether the counts fit the right probabilities and none of the wrong ones."""
    return counts_fit(counts, probabilities) and not any(counts_fit(counts, w) for w in wrong)


def tally(sample: ArrayLike, cells: int) -> NDArray[np.int64]:
    """Counts of the whole numbers 0, …, cells − 1; everything beyond goes to the nearest end."""
    return np.bincount(np.clip(np.asarray(sample), 0, cells - 1), minlength=cells)


def rate_at_least(hits: int, runs: int, error: float = FALSE_ALARM) -> float:
    """A lower confidence limit for the probability behind the hits."""
    return float(betaincinv(hits, runs - hits + 1, error)) if hits else 0.0


def rate_at_most(hits: int, runs: int, error: float = FALSE_ALARM) -> float:
    """An upper confidence limit for the probability behind the hits."""
    return float(betainccinv(hits + 1, runs - hits, error)) if hits < runs else 1.0


def rate_is(hits: int, runs: int, probability: float) -> bool:
    """Whether the hits can come from exactly this probability."""
    half = FALSE_ALARM / 2
    return rate_at_least(hits, runs, half) <= probability <= rate_at_most(hits, runs, half)


def refutes(likely: int, unlikely: int, runs: int, epsilon: float, delta: float = 0.0) -> bool:
    """Whether an event seen this often on two neighbouring inputs refutes (ε, δ)."""
    half = FALSE_ALARM / 2
    most_allowed = math.exp(epsilon) * rate_at_most(unlikely, runs, half) + delta
    return rate_at_least(likely, runs, half) > most_allowed
