"""Pure guarantees for Gibbs posteriors whose losses differ by a bounded amount.

The released θ has density ∝ π(θ)·exp(−β·H(θ, D)), on any set and with any π; nothing needs to be
convex. What counts is the range of the difference that a neighbouring table D' makes,

    range = sup over neighbours D, D' of [sup_θ (H(θ, D) − H(θ, D')) − inf_θ (H(θ, D) − H(θ, D'))],

for then the log-ratio of the two densities lies in [−β·range, β·range]: the numerators differ by
a factor e^{−β·difference}, and the normalising constants by a mean of such factors. One draw is
ε-DP with ε = β·range. Two points of Θ and a suitable π come as close to it as one likes, so nothing
less will do.

    exponential mechanism (McSherry and Talwar 2007; Minami 2015, Theorem 2)
        |H(θ, D) − H(θ, D')| ≤ Δ gives a range of 2Δ. When a row is only added or removed and losses
        lie in [0, Δ], the range is Δ: half the price.
    bounded likelihoods (Wang, Fienberg and Smola 2015; Minami 2015, Theorem 3)
        `likelihood_difference_range` and `lipschitz_difference_range`.
"""

from sudare.foundations import checks
from sudare.foundations.rounding import down, up

__all__ = [
    "exponential_epsilon",
    "exponential_inverse_temperature",
    "likelihood_difference_range",
    "lipschitz_difference_range",
]


def exponential_epsilon(inverse_temperature: float, *, difference_range: float) -> float:
    """The ε for which one draw at this inverse temperature is ε-DP: β·range, rounded up."""
    checks.positive(inverse_temperature=inverse_temperature)
    checks.non_negative(difference_range=difference_range)
    return up(inverse_temperature * difference_range)


def exponential_inverse_temperature(epsilon: float, *, difference_range: float) -> float:
    """The β at which one draw is exactly ε-DP: ε/range, rounded down.

    `exponential_epsilon` of the result never exceeds ε.
    """
    checks.positive(epsilon=epsilon, difference_range=difference_range)
    beta = down(epsilon / difference_range, 2.0**-43)
    checks.positive(inverse_temperature=beta)
    return beta


def likelihood_difference_range(lowest: float, highest: float) -> float:
    """The range for log-likelihoods in [lowest, highest] when a row is replaced, rounded up.

    H = −Σ log p(x_i | θ) changes by a number in ±(highest − lowest): the range is twice that. If
    |log p| ≤ B is all that is known, it is 4B, as in Theorem 3(i) of Minami (2015).
    """
    checks.real(lowest=lowest, highest=highest)
    if not lowest <= highest:
        raise checks.InvalidInput(f"Expected lowest={lowest} <= highest={highest}")
    return up(2 * (highest - lowest))


def lipschitz_difference_range(lipschitz: float, distance: float) -> float:
    """The range when H(θ, ·) is Lipschitz in the data for every θ: 2·L·distance, rounded up.

    `distance` is the largest between neighbouring tables in the metric in which L is taken. Theorem
    3(ii) of Minami (2015) uses the diameter 2R of the space of all tables, which is never smaller.
    """
    checks.non_negative(lipschitz=lipschitz, distance=distance)
    return up(2 * lipschitz * distance)
