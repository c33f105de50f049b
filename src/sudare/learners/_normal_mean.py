"""The private mean of normal rows: one draw from its posterior.

Guarantee. For replace-one neighbours with n public, the sealed draw is (ε, δ)-DP, and Gaussian but
for a stated distance, so that several compose like Gaussian releases. Rows x ~ N(θ, σ²) are
shortened to a public norm; under the prior θ ~ N(0, τ²) and at inverse temperature β the posterior
is N(β·v·Σx/σ², v), v = 1/(nβ/σ² + 1/τ²). Two neighbours' posteriors are a Gaussian location pair,
so that β is exactly the largest that (ε, δ) allows beside the seal, in one dimension or many, and θ
need not be confined (docs/theory/gibbs.md). The noise is a float draw, and the seal covers its
distance from a real one.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from sudare.calibration import (
    gaussian_inverse_temperature,
    inverse_temperature,
    normal_mean_model,
    normal_mean_variance,
)
from sudare.foundations import checks
from sudare.foundations.mechanisms import draw_error, gaussian_noise
from sudare.foundations.privacy import ApproximateEvent, Event, Guarantee, account
from sudare.foundations.randomness import Generator, as_generator
from sudare.foundations.rounding import down, up
from sudare.foundations.seal import Seal, Sealed, plan_seal
from sudare.learners._base import check_bound, read_rows, refuse_weights
from sudare.learners._gibbs import sealed_draw
from sudare.learners._recipe import SEAL_SHARE
from sudare.learners._solvers import BLOCK, Array, Rows, into_ball
from sudare.releases import shortening

_LARGEST_EPSILON = 200.0
"""More is spent as if it were this: beyond, e^ε times the smallest probabilities counts."""
_LARGEST_SEALED = 24.0
"""The seal's share is that of at most this ε: its noise is negligible long before."""


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
    event: Event


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
        """What `fit` will spend at most, from the parameters alone."""
        checks.positive(epsilon=self.epsilon)
        checks.proportion(delta=self.delta)
        return ApproximateEvent(self.epsilon, self.delta)

    def plan_for(self, n: int, features: int) -> Event:
        """What `fit` will spend on n rows of so many entries: a Gaussian event, nearly."""
        return self.recipe(n, features).event

    def recipe(self, n: int, features: int) -> NormalMeanRecipe:
        """All that decides the noise for n rows of so many entries: known without the rows."""
        self.plan()
        return normal_mean_recipe(
            n,
            features,
            float(self.epsilon),
            float(self.delta),
            self._public("bound", "how long a row may be (Euclidean norm)"),
            self._public("noise_std", "how far a row's entries are from the mean"),
            self._public("prior_std", "how far the mean's entries may be from zero"),
        )

    def fit(self, X: Any, y: Any = None, **unsupported: Any) -> Self:
        """Draw from the posterior of the mean of the rows of X; spends `plan_for` its size."""
        self.recipe(1, 1)  # parameters are refused before data
        refuse_weights(unsupported)
        table: Array = read_rows(self, X, order="C")
        n, p = table.shape
        recipe = self.recipe(n, p)
        total = Rows(*shortening(table, float(self.bound or 0.0)), 0.0).moments(np.ones(n))
        rng = as_generator(self.rng)
        draw = recipe.weight * total + gaussian_noise(recipe.posterior_std, p, rng)
        self.sealed_ = recipe.seal.apply(into_ball(draw, recipe.reach), rng)
        self.mean_ = self.sealed_.values
        self.posterior_std_ = recipe.posterior_std
        self.event_ = recipe.event
        self.guarantee_ = account([self.event_], float(self.delta))
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
    epsilon = min(epsilon, _LARGEST_EPSILON)
    model = normal_mean_model(n=n, bound=bound, noise_std=noise_std, prior_std=prior_std)
    # The seal covers the rounding of whatever draw (ε, δ) allow at all.
    hottest = inverse_temperature(epsilon, delta, **model)
    loosest = normal_mean_variance(hottest / 2, n=n, noise_std=noise_std, prior_std=prior_std)
    reach = bound + math.sqrt(loosest) * (math.sqrt(dimension) + 12)
    rounding = (min(n, BLOCK) + n / BLOCK + 16) * 2.0**-52 * bound
    displacement = up(rounding + 4 * (draw_error(dimension) + dimension * 2.0**-51) * reach)
    seal = plan_seal(
        dimension=dimension,
        epsilon=min(epsilon, _LARGEST_SEALED) * SEAL_SHARE,
        delta=delta * SEAL_SHARE,
        displacement=displacement,
        whole_epsilon=epsilon,
    )
    mu, event = sealed_draw(epsilon, delta, seal)
    beta = gaussian_inverse_temperature(mu, **model)
    variance = normal_mean_variance(beta, n=n, noise_std=noise_std, prior_std=prior_std)
    std = math.sqrt(variance)
    # Rounded down: a smaller weight moves the mean less.
    weight = min(down(beta * variance / noise_std / noise_std, 2.0**-43), 1 / n)
    return NormalMeanRecipe(n, beta, weight, std, reach, seal, event)
