"""The private mean of normal rows: one draw from its posterior.

Guarantee. For replace-one neighbours with n public, the sealed draw is (ε, δ)-DP. Rows x ~ N(θ, σ²)
are shortened to a public norm; under the prior θ ~ N(0, τ²) and at inverse temperature β the
posterior is N(β·v·Σx/σ², v), v = 1/(nβ/σ² + 1/τ²). Two neighbours' posteriors are a Gaussian
location pair, so that the β of `normal_mean_inverse_temperature` is exactly the largest that (ε, δ)
allows, in one dimension or many, and θ need not be confined (docs/theory/gibbs.md).

The noise is a float draw, and the seal, which takes 1 % of ε and δ, covers its distance from a real
one. Exact discrete noise would need no such cover, but is accounted as zCDP, and that costs 4 to
8 % more noise (ε from 10 to 0.1 at δ = 1e-6): the seal is the better buy.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from sudare import checks
from sudare.calibration import normal_mean_inverse_temperature, normal_mean_variance
from sudare.learners.base import check_bound, read, refuse_weights
from sudare.learners.recipe import SEAL_SHARE
from sudare.learners.solvers import BLOCK, Array, Rows, into_ball
from sudare.mechanisms import draw_error, gaussian_noise
from sudare.privacy import ApproximateEvent, Event, Guarantee, account
from sudare.randomness import Generator, as_generator
from sudare.releases import shortening
from sudare.rounding import down, up
from sudare.seal import Seal, Sealed, plan_seal


@dataclass(frozen=True)
class NormalMeanRecipe:
    """Everything that is public about one draw."""

    n: int
    temperature: float
    """β."""
    weight: float
    """β·v/σ²: what one row adds to the posterior mean."""
    posterior_std: float
    """√v, of each coordinate of the draw."""
    reach: float
    """Radius that the draw is brought back to before the seal; all but e⁻⁶⁴ are within it."""
    seal: Seal


class PrivateNormalMean(BaseEstimator):
    """The mean of normally distributed rows, as one draw from a tempered posterior.

    Args:
        epsilon: Privacy budget of the release.
        delta: Probability with which ε may fail; must be above zero.
        bound: Public bound on a row's Euclidean norm; longer rows are shortened to it.
        noise_std: Standard deviation of a row's entries around the mean, taken as known.
        prior_std: Standard deviation of the mean's entries around zero before any data.
        rng: None for secure randomness; a number or a generator simulates, and the result is
            marked as no release.

    Attributes:
        mean_: The draw.
        posterior_std_: Standard deviation of each of its entries, given the rows.
        guarantee_: What is promised.
        event_: The same, for a ledger.
        noise_: All that is public about the draw.
        sealed_: `mean_`, exactly.
    """

    mean_: Array
    posterior_std_: float
    guarantee_: Guarantee
    event_: Event
    noise_: NormalMeanRecipe
    sealed_: Sealed
    n_features_in_: int

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        bound: float | None = None,
        noise_std: float | None = None,
        prior_std: float | None = None,
        rng: Generator | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bound = bound
        self.noise_std = noise_std
        self.prior_std = prior_std
        self.rng = rng

    def plan(self) -> Event:
        """The privacy event that `fit` will spend, from the parameters alone."""
        checks.positive(epsilon=self.epsilon)
        checks.proportion(delta=self.delta)
        return ApproximateEvent(self.epsilon, self.delta)

    def fit(self, X: Any, y: Any = None, **unsupported: Any) -> Self:
        """Draw from the posterior of the mean of the rows of X; spends `plan()`."""
        event = self.plan()
        refuse_weights(unsupported)
        bounds = [
            self._public("bound", "how long a row may be (Euclidean norm)"),
            self._public("noise_std", "how far a row's entries are from the mean"),
            self._public("prior_std", "how far the mean's entries may be from zero"),
        ]
        table: Array = read(self, X, order="C")
        n, p = table.shape
        recipe = normal_mean_recipe(n, p, float(self.epsilon), float(self.delta), *bounds)
        total = Rows(*shortening(table, bounds[0]), 0.0).moments(np.ones(n))
        rng = as_generator(self.rng)
        draw = recipe.weight * total + gaussian_noise(recipe.posterior_std, p, rng)
        self.sealed_ = recipe.seal.apply(into_ball(draw, recipe.reach), rng)
        self.mean_ = self.sealed_.values
        self.posterior_std_ = recipe.posterior_std
        self.event_ = event
        self.guarantee_ = account([event], float(self.delta))
        self.noise_ = recipe
        return self

    def _public(self, name: str, meaning: str) -> float:
        value = getattr(self, name)
        if value is None:
            raise checks.InvalidInput(
                f"Expected {name}: {meaning}. Choose it without looking at the data"
            )
        check_bound(**{name: value})
        return float(value)


@lru_cache(maxsize=512)
def normal_mean_recipe(
    n: int,
    dimension: int,
    epsilon: float,
    delta: float,
    bound: float,
    noise_std: float,
    prior_std: float,
) -> NormalMeanRecipe:
    """The draw for n rows, from public numbers.

    Each coordinate's sum of n terms in blocks errs by (BLOCK + n/BLOCK + 16)·2⁻⁵³ of the sum of
    their sizes, and weight·n ≤ 1. The noise errs by its relative precision: within the ball that
    moves the draw by at most twice that of its radius, and outside its direction alone.
    """
    beta = normal_mean_inverse_temperature(
        down(epsilon * (1 - SEAL_SHARE)),
        delta * (1 - 1.001 * SEAL_SHARE),
        n=n,
        bound=bound,
        noise_std=noise_std,
        prior_std=prior_std,
    )
    variance = normal_mean_variance(beta, n=n, noise_std=noise_std, prior_std=prior_std)
    std = math.sqrt(variance)
    # Rounded down: a smaller weight moves the mean less.
    weight = min(down(beta * variance / noise_std / noise_std, 2.0**-43), 1 / n)
    reach = bound + std * (math.sqrt(dimension) + 12)
    rounding = (min(n, BLOCK) + n / BLOCK + 16) * 2.0**-52 * bound
    displacement = up(rounding + 4 * (draw_error(dimension) + dimension * 2.0**-51) * reach)
    seal = plan_seal(
        dimension=dimension,
        epsilon=epsilon * SEAL_SHARE,
        delta=delta * SEAL_SHARE,
        displacement=displacement,
    )
    return NormalMeanRecipe(n, beta, weight, std, reach, seal)
