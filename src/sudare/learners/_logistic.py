"""Private logistic regression.

Guarantee. For replace-one neighbours with n public, the coefficients are

    mechanism="objective", delta=0    ε-DP: the exact minimiser over a ball of the perturbed
                                      objective (Chaudhuri, Monteleoni and Sarwate 2011, with the
                                      constants and the proof of docs/theory/objective.md), sealed
    mechanism="objective", delta>0    (ε, δ)-DP, Gaussian b
    mechanism="output", delta=0       ε-DP: Gamma-norm noise on the minimiser, and the seal
    mechanism="output", delta>0       ρ-zCDP, hence (ε, δ)-DP: exact discrete Gaussian noise
    mechanism="gibbs", delta>0        (ε, δ)-DP: one draw from a tempered posterior (Minami, Arai,
                                      Sato and Nakagawa 2016, with the constants and the proofs of
                                      docs/theory/gibbs.md), and the seal

The intercept is a regularised constant feature whose norm counts; an unpenalised one leaks the
class counts: `sudare audit logistic-free-intercept`. The two labels are part of the public
contract: which values they take is not protected.
"""

from collections.abc import Sequence
from typing import Any, Self

from sudare.foundations import checks
from sudare.foundations.randomness import Generator, as_generator
from sudare.learners._base import PrivateLearner, check_bound, refuse_weights
from sudare.learners._gibbs import GibbsRecipe, draw_logistic, logistic_gibbs
from sudare.learners._linear import TwoClasses
from sudare.learners._recipe import Recipe, logistic_recipe
from sudare.learners._solvers import logistic_in_ball


class PrivateLogisticRegression(TwoClasses, PrivateLearner):
    """A two-class linear classifier whose coefficients may be published.

    Minimises (1/n)Σlog(1 + e^{−yθ·x}) + (λ/2)‖θ‖² with noise.

    Args:
        epsilon: Privacy budget of the release.
        delta: Probability with which ε may fail; zero gives pure ε-DP.
        mechanism: "objective" (usually better), "output", or "gibbs": a draw from the posterior
            under the prior N(0, I/(n·regularization)) at an inverse temperature that follows from ε
            and δ.
        row_norm: Public bound on a row's Euclidean norm; longer rows are shortened to it.
        radius: Public bound on the norm of the coefficients. "auto" allows log-odds of ±8, more
            when rows are plentiful; None sets no bound of consequence. A smaller ball needs less
            noise.
        regularization: λ, or "auto" for as much as the noise calls for. Above zero for "output" and
            "gibbs".
        fit_intercept: Add a constant feature (0.25·row_norm), regularised like the others.
        classes: The two labels, if they are agreed on beforehand; then data that happens to hold
            only one of them is no error. By default the labels found in the data.
        count_clipped: Also learn `n_clipped_`, how many rows met their bound. That count is not
            private: for the owner's eyes only.
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
        radius: float | str | None = "auto",
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        classes: Sequence[Any] | None = None,
        count_clipped: bool = False,
        rng: Generator | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.row_norm = row_norm
        self.radius = radius
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.count_clipped = count_clipped
        self.rng = rng

    def recipe(self, n: int, features: int) -> Recipe | GibbsRecipe:
        """All that decides the noise for n rows of so many features: known without the rows."""
        self.plan()
        self._check_bounds(
            row_norm="how long a row may be (Euclidean norm); longer rows are shortened"
        )
        if isinstance(self.radius, str):
            checks.one_of(("auto",), radius=self.radius)
        elif self.radius is not None:
            check_bound(radius=self.radius)
        make = logistic_gibbs if self.mechanism == "gibbs" else logistic_recipe
        return make(
            self._target(n, features),
            "auto" if isinstance(self.radius, str) else self.radius,
            self._chosen_regularization(),
        )

    def fit(self, X: Any, y: Any, **unsupported: Any) -> Self:
        """Learn from rows and two-valued labels; spends `plan()`."""
        self.plan()
        refuse_weights(unsupported)
        table, labels = self._table(X, y)
        recipe = self.recipe(*table.shape)
        signs = self._signs(labels)
        rows = self._rows(table)
        if isinstance(recipe, GibbsRecipe):
            rng = as_generator(self.rng)
            theta = self._publish(draw_logistic(rows, signs, recipe, rng), recipe, rng)
        else:
            tolerance = recipe.tolerance
            theta = self._learn(
                lambda noise: logistic_in_ball(rows, signs, noise, tolerance), recipe
            )
        self._keep(*self._split(theta))
        self._count_clipped(rows, 0)
        return self
