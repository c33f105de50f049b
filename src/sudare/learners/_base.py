"""What all private learners share: public bounds, validation, and what a result looks like.

A learner's constructor only stores; `fit` validates. Everything that decides the noise is a public
number: the parameters, the number of rows and the number of columns. Rows are clipped to the public
norm one by one, which needs no look at the others, and of what is computed only the sealed
coefficients survive `fit`.
"""

import html
import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from sudare.foundations import checks
from sudare.foundations.mechanisms import gamma_noise, gaussian_noise
from sudare.foundations.privacy import Event, Guarantee, PureEvent, account
from sudare.foundations.randomness import Generator, as_generator
from sudare.foundations.rounding import up
from sudare.foundations.seal import Seal, Sealed
from sudare.learners._gibbs import GibbsRecipe
from sudare.learners._recipe import Mechanism, NoiseTarget, Recipe, event_of
from sudare.learners._solvers import Array, Rows, into_ball
from sudare.releases import INTERCEPT_SHARE, Contract, LearnerRelease, Release, shortening


class PublicNoise(NamedTuple):
    """What a release says of itself besides its numbers."""

    noise_std: float
    radius: float | None
    """The ball that coefficients keep within; None for moments, as is the next."""
    slack: float | None
    """How far the seal can carry them beyond it."""


class PrivateLearner(BaseEstimator):
    """Base of the private regressions; not for use on its own."""

    epsilon: float
    delta: float
    mechanism: str
    row_norm: float | None
    regularization: float | str
    fit_intercept: bool
    count_clipped: bool
    rng: Generator | int | None

    guarantee_: Guarantee
    event_: Event
    noise_: Recipe | GibbsRecipe
    sealed_: Sealed
    n_features_in_: int

    def plan(self) -> Event:
        """What `fit` will spend at most, from the parameters alone."""
        checks.positive(epsilon=self.epsilon)
        checks.delta_like(delta=self.delta)
        checks.one_of(("objective", "output", "gibbs"), mechanism=self.mechanism)
        if self.mechanism == "gibbs" and self.delta == 0:
            raise checks.InvalidInput(
                'Expected delta > 0 with mechanism="gibbs": a draw from a posterior has no pure '
                "guarantee"
            )
        return event_of(self.mechanism, float(self.epsilon), float(self.delta))

    def _check_bounds(self, **reasons: str) -> None:
        """Bounds that must be given, each with what it is for."""
        for name, reason in reasons.items():
            if getattr(self, name) is None:
                raise checks.InvalidInput(
                    f"Expected {name}: {reason}. Choose it without looking at the data"
                )
            check_bound(**{name: getattr(self, name)})
        checks.one_of((True, False), fit_intercept=self.fit_intercept)

    def _chosen_regularization(self) -> float | None:
        """λ, or None for "auto"."""
        if isinstance(self.regularization, str):
            checks.one_of(("auto",), regularization=self.regularization)
            return None
        checks.non_negative(regularization=self.regularization)
        if self.mechanism == "output":
            checks.positive(regularization=self.regularization)
        if self.mechanism == "gibbs" and self.regularization == 0:
            raise checks.InvalidInput(
                'Expected regularization > 0 with mechanism="gibbs": it is the strength of the '
                "prior, and without a prior one row could move the draw by any amount"
            )
        return float(self.regularization)

    def _table(self, X: Any, y: Any) -> tuple[Array, NDArray[Any]]:
        """The data as arrays."""
        table, target = read_rows(self, X, y, order="C")
        return table, target

    def recipe(self, n: int, features: int) -> Recipe | GibbsRecipe:
        """All that decides the noise for n rows of so many features: known without the rows."""
        raise NotImplementedError

    def plan_for(self, n: int, features: int) -> Event:
        """What `fit` will spend on n rows of so many features: `plan()`, or what is known beyond.

        Gamma noise is pure also where δ > 0 was allowed, and a draw from a posterior is Gaussian
        but for a stated distance: several of them compose to much less than their ε's add up to.
        """
        return self.recipe(n, features).event

    def public_noise(self, n: int, features: int) -> PublicNoise:
        """What `release` will say of noise and ball, for n rows: known without the rows."""
        return _public(self.recipe(n, features))

    def _target(self, n: int, features: int) -> NoiseTarget:
        return NoiseTarget(
            float(self.epsilon),
            float(self.delta),
            cast(Mechanism, self.mechanism),
            n,
            features + bool(self.fit_intercept),
            self._full_norm(),
        )

    def _constant(self) -> float:
        assert self.row_norm is not None
        return INTERCEPT_SHARE * float(self.row_norm) if self.fit_intercept else 0.0

    def _full_norm(self) -> float:
        """Largest norm of a row with its constant feature."""
        assert self.row_norm is not None
        return up(float(np.hypot(self.row_norm, self._constant())))

    def _rows(self, table: Array) -> Rows:
        """Rows within the public norm, the constant feature on top."""
        assert self.row_norm is not None
        table, factors = shortening(table, float(self.row_norm))
        return Rows(table, factors, self._constant())

    def _learn(self, solve: Callable[[Array], Array], recipe: Recipe) -> Array:
        """Noise, minimise, seal: the only way from rows to coefficients."""
        rng = as_generator(self.rng)
        p = recipe.target.dimension
        if recipe.target.mechanism == "objective":
            draw = _NOISE[recipe.law]
            theta = solve(draw(recipe.scale, p, rng))
        else:
            theta = solve(np.zeros(p))
            if recipe.law == "gamma":
                theta = into_ball(theta + gamma_noise(recipe.scale, p, rng), recipe.reach)
        return self._publish(theta, recipe, rng)

    def _publish(self, theta: Array, recipe: Recipe | GibbsRecipe, rng: Generator) -> Array:
        """Seal: what survives of the coefficients."""
        self.sealed_ = recipe.seal.apply(theta, rng)
        self.event_ = recipe.event
        self.guarantee_ = account([self.event_], float(self.delta))
        self.noise_ = recipe
        return self.sealed_.values

    def release(self, party: str) -> Release:
        """What `fit` made, in the form that others can blend; spends nothing more."""
        check_is_fitted(self)
        public = _public(self.noise_)
        assert public.radius is not None
        assert public.slack is not None
        return LearnerRelease(
            party=party,
            contract=self._contract(),
            n=self.noise_.target.n,
            event=self.event_,
            noise_std=public.noise_std,
            simulated=self.sealed_.simulated,
            coefficients=tuple(self.sealed_.values.tolist()),
            radius=public.radius,
            slack=public.slack,
        )

    def _contract(self) -> Contract:
        """The public bounds this learner worked under."""
        assert self.row_norm is not None
        labels = getattr(self, "classes_", None)
        bound = getattr(self, "target_bound", None)
        return Contract(
            features=self.n_features_in_,
            row_norm=float(self.row_norm),
            constant=self._constant(),
            classes=None if labels is None else tuple(labels.tolist()),
            target_bound=None if bound is None else float(bound),
        )

    def _split(self, theta: Array) -> tuple[Array, float]:
        """Coefficients and intercept, the latter in the target's own units."""
        if not self.fit_intercept:
            return theta, 0.0
        return theta[:-1], float(theta[-1]) * self._constant()

    def _count_clipped(self, rows: Rows, clipped_targets: int) -> None:
        """For the owner of the data only: these counts are not protected."""
        if self.count_clipped:
            self.n_clipped_ = int((rows.factors < 1).sum()) + clipped_targets
        elif hasattr(self, "n_clipped_"):
            del self.n_clipped_

    @property
    def _repr_html_(self) -> Any:
        picture = super()._repr_html_
        if not hasattr(self, "guarantee_"):
            return picture
        told = html.escape(str(self.guarantee_))
        note = " <b>Simulated noise: not a release.</b>" if self.sealed_.simulated else ""
        return lambda: f"{picture()}<p><b>Privacy.</b> {told}{note}</p>"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """What notebooks ask for first."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_()
        return bundle


_NOISE: dict[str, Callable[[float, int, Generator], Array]] = {
    "gamma": gamma_noise,
    "gaussian": gaussian_noise,
}


def _public(recipe: Recipe | GibbsRecipe) -> PublicNoise:
    return PublicNoise(recipe.coefficient_std, recipe.reach, _carry(recipe.seal))


def _carry(seal: Seal) -> float:
    """How far a seal moves a vector, but for a probability of e⁻⁴⁰."""
    p = seal.dimension
    if isinstance(seal.event, PureEvent):
        return math.sqrt(p / 2) * seal.noise_std * (40 + math.log(p))
    return seal.noise_std * (math.sqrt(p) + 9)


def check_bound(**named: object) -> None:
    """Public bounds; far beyond these, squares and products of them leave the floats."""
    checks.positive(**named)
    for name, value in named.items():
        if not 1e-30 <= float(value) <= 1e30:  # type: ignore[arg-type]
            raise checks.InvalidInput(
                f"Expected {name}={value} between 1e-30 and 1e30: choose other units"
            )


def read_rows(estimator: BaseEstimator, *data: Any, **how: Any) -> Any:
    """scikit-learn's validation and its words for bad data, without the data's values."""
    try:
        # No warnings: what is too large becomes infinite and is refused as such, and a sum that
        # overflows on the way says nothing but that some values are large.
        with np.errstate(over="ignore", invalid="ignore"):
            return validate_data(estimator, *data, dtype=np.float64, **how)
    except OverflowError:
        raise checks.InvalidInput("Expected numbers that fit a float; one is too large") from None
    except ValueError as problem:
        said = str(problem)
        if "could not convert" in said:
            raise checks.InvalidInput(
                "Expected only numbers, but a column holds text: encode it with public "
                "categories first"
            ) from None
        if "Complex data" in said:
            raise checks.InvalidInput("Complex data not supported: expected real numbers") from None
        if "Reshape your data" in said:
            raise checks.InvalidInput(
                "Expected a table with a row for each record. Reshape your data: "
                ".reshape(-1, 1) for a single column, .reshape(1, -1) for a single record"
            ) from None
        raise


def refuse_weights(unsupported: dict[str, Any]) -> None:
    """Weights would let one row count for many, beyond what the noise covers."""
    for name, value in unsupported.items():
        if name != "sample_weight":
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}")
        if value is not None:
            raise checks.InvalidInput(
                "Expected no sample_weight: a weighted row could count for more than the noise "
                "covers"
            )
