"""Private ridge regression.

Guarantee. For replace-one neighbours with n public, the coefficients are

    mechanism="objective", delta=0    ε-DP: the exact minimiser over the ball of the perturbed
                                      objective (Kifer, Smith and Thakurta 2012, with the constants
                                      and the proof of docs/theory/objective.md), and the seal
    mechanism="objective", delta>0    (ε, δ)-DP, Gaussian b
    mechanism="output", delta=0       ε-DP: Gamma-norm noise on the minimiser, and the seal
    mechanism="output", delta>0       ρ-zCDP, hence (ε, δ)-DP: exact discrete Gaussian noise
    mechanism="gibbs", delta>0        (ε, δ)-DP: one draw from a tempered posterior on the ball
                                      (Minami, Arai, Sato and Nakagawa 2016, with the constants and
                                      the proofs of docs/theory/gibbs.md), and the seal

The closed form without the ball, and the closed form clipped to the ball afterwards, are not
differentially private: `sudare audit ridge-without-ball ridge-clipped-afterwards`.
"""

from typing import Any, Self

import numpy as np

from sudare.foundations import checks
from sudare.foundations.randomness import Generator, as_generator
from sudare.learners._base import PrivateLearner, refuse_weights
from sudare.learners._gibbs import GibbsRecipe, draw_ridge, ridge_gibbs
from sudare.learners._linear import Straight
from sudare.learners._recipe import Recipe, ridge_recipe
from sudare.learners._solvers import ridge_in_ball


class PrivateRidge(Straight, PrivateLearner):
    """Linear regression whose coefficients may be published.

    Minimises (1/n)Σ(y − θ·x)² + λ‖θ‖² over ‖θ‖ ≤ radius, with noise.

    Args:
        epsilon: Privacy budget of the release.
        delta: Probability with which ε may fail; zero gives pure ε-DP.
        mechanism: "objective" (usually better), "output", or "gibbs": a draw from the posterior
            under the prior N(0, I/(2n·regularization)) at an inverse temperature that follows from
            ε and δ.
        row_norm: Public bound on a row's Euclidean norm; longer rows are shortened to it.
        target_bound: Public bound on |y|; targets are clipped to it.
        radius: Public bound on the norm of the coefficients (intercept included, in units of its
            constant feature, 0.25·row_norm).
        regularization: λ, or "auto" for as much as the noise calls for. Above zero for "output" and
            "gibbs".
        fit_intercept: Add a constant feature, regularised like the others.
        count_clipped: Also learn `n_clipped_`, how many rows and targets met their bounds. That
            count is not private: for the owner's eyes only.
        rng: None for secure randomness; a number or a generator simulates, and the result is
            marked as no release.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0.0,
        mechanism: str = "objective",
        row_norm: float | None = None,
        target_bound: float | None = None,
        radius: float | None = None,
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        count_clipped: bool = False,
        rng: Generator | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.row_norm = row_norm
        self.target_bound = target_bound
        self.radius = radius
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.count_clipped = count_clipped
        self.rng = rng

    def recipe(self, n: int, features: int) -> Recipe | GibbsRecipe:
        """All that decides the noise for n rows of so many features: known without the rows."""
        self.plan()
        self._check_bounds(
            row_norm="how long a row may be (Euclidean norm); longer rows are shortened",
            target_bound="how large |y| may be; targets beyond are clipped",
            radius="how large the norm of the coefficients may be",
        )
        make = ridge_gibbs if self.mechanism == "gibbs" else ridge_recipe
        return make(
            self._target(n, features),
            float(self.target_bound or 0.0),
            float(self.radius or 0.0),
            self._chosen_regularization(),
        )

    def fit(self, X: Any, y: Any, **unsupported: Any) -> Self:
        """Learn from rows and targets; spends `plan()`."""
        self.plan()
        refuse_weights(unsupported)
        table, target = self._table(X, y)
        recipe = self.recipe(*table.shape)
        rows = self._rows(table)
        bound = float(self.target_bound or 0.0)
        target = checks.finite_array(y=target)
        clipped = np.clip(target, -bound, bound)
        gram, moments = rows.weighted_gram(), rows.moments(clipped)
        if isinstance(recipe, GibbsRecipe):
            rng = as_generator(self.rng)
            theta = self._publish(draw_ridge(gram, moments, recipe, rng), recipe, rng)
        else:
            tolerance = recipe.tolerance
            theta = self._learn(
                lambda noise: ridge_in_ball(gram, moments, noise, tolerance), recipe
            )
        self._keep(*self._split(theta))
        self._count_clipped(rows, int((clipped != target).sum()))
        return self
