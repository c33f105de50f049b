"""What a pool sums, session by session, and what that costs: computed once from the plan.

A session is one secure sum of a vector that every organisation computes from its own rows:

    moments   Σyx, Σxxᵀ, for numbers Σy², and one number that says how far organisations differ
    newton    the gradient of the logistic loss at a public θ, and its Hessian
    poisson   the same of the Poisson loss, in parts of the largest count and of a largest weight
    gradient  the gradient of the logistic or squared loss at a public θ, each row's part clipped

Rows are in units of the contract: ‖x‖ ≤ 1 with the constant feature, |y| ≤ 1. Symmetric matrices
enter as their half-Frobenius vector (entries off the diagonal once, the diagonal over √2), in which
one row moves the moments by at most 2, Σy² included: ½‖zzᵀ − z'z'ᵀ‖² ≤ ½(‖z‖⁴ + ‖z'‖⁴) ≤ 4 for
z = (x, y). A row's gradient is at most `CLIP` long, and moves their sum by twice that. Proofs:
docs/theory/pooling.md.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sudare.calibration import (
    SESSION_WEIGHT,
    poisson_session_sensitivity,
    session_sensitivity,
)
from sudare.foundations import checks
from sudare.foundations.gaussian import gaussian_mu, lattice_log_ratio, near_gaussian_mu
from sudare.foundations.privacy import GaussianEvent, NearGaussianEvent, account
from sudare.foundations.rounding import down, up
from sudare.foundations.seal import FINE, lattice_event, lattice_steps
from sudare.pooling._plan import PoolPlan
from sudare.pooling._shares import NoiseShares, share_loudness, shares_event

SessionKind = Literal["moments", "newton", "poisson", "gradient"]
BLOCK = 512
"""Rows summed at a time: bounds the depth of every sum, and so its rounding."""
LARGEST_THETA = 16.0
"""Public θ are shortened to this: rows are at most 1 long, and e^±16 is certainty."""
LARGEST_POISSON = 64.0
"""Of Poisson sessions: the intercept alone is log(mean)/constant, and rare events have one far
below. Their noise does not depend on it."""
POISSON_WEIGHT = 1.375
"""k of a Poisson session, whose residuals and weights are at most 1."""
_POISSON_SENSITIVITY = poisson_session_sensitivity(1.0, 1.0, POISSON_WEIGHT)
CLIP = 0.25
"""Length of a row's gradient; unclipped, that of a logistic loss is at most 1."""
FARTHEST_THETA = 256.0
"""Public θ of gradient sessions: with many features, every row looks only a little their way."""
APART_WEIGHT = 0.25
APART_RADIUS = 0.5
"""Organisations' Σyx/n count up to this length in the number that says how far they differ."""
APART_ROWS = 10
"""Organisations with fewer rows are left out of it."""
_LONGEST: dict[SessionKind, float] = {
    "moments": 0.0,
    "newton": LARGEST_THETA,
    "poisson": LARGEST_POISSON,
    "gradient": FARTHEST_THETA,
}
_LARGEST_EPSILON = 200.0
"""A larger ε promises next to nothing, and is not worked out."""
_MOST_SUM = 2.0**60
"""Steps: what all rows together may come to, with room for noise below 2⁶³."""


class HonestCost(NamedTuple):
    """What the whole pool costs one row if so many organisations are honest."""

    honest: int
    epsilon: float


@dataclass(frozen=True)
class Session:
    """One secure sum: its numbers in their order, and its noise."""

    number: int
    kind: SessionKind
    dimension: int
    """p, of a row with its constant feature."""
    squares: bool
    """Moments of numbers: Σy² is summed, too."""
    most_rows: int
    """Of one organisation."""
    loudness: float
    failure: float
    """Probability that the lattice's distance from Gaussian noise neglects."""

    @property
    def entries(self) -> int:
        """How many numbers are summed."""
        p = self.dimension
        if self.kind == "gradient":
            return p
        return p + p * (p + 1) // 2 + (1 + self.squares if self.kind == "moments" else 0)

    @property
    def longest_theta(self) -> float:
        """How long the coefficients may be that it is evaluated at; 0 if there are none."""
        return _LONGEST[self.kind]

    @property
    def weight(self) -> float:
        """k, by which the Hessian is multiplied that is summed beside a gradient."""
        return POISSON_WEIGHT if self.kind == "poisson" else SESSION_WEIGHT

    def shares(self, theta: ArrayLike | None = None) -> NoiseShares:
        """The noise; of a Newton session, for the coefficients it is evaluated at."""
        n, p = self.most_rows, self.dimension
        depth = min(n, BLOCK) + n / BLOCK + 32
        if self.kind == "moments":
            # min(‖s‖, R·n)²/n rises with ‖s‖ by no more than 2R, and a row moves ‖s‖ by 2.
            weighed = APART_WEIGHT * 4 * APART_RADIUS
            sensitivity, largest = up(math.hypot(2.0, weighed)), 1.0
        elif self.kind == "gradient":
            sensitivity, largest = 2 * CLIP, CLIP
        elif self.kind == "poisson":
            sensitivity, largest = _POISSON_SENSITIVITY, POISSON_WEIGHT
        else:
            # Rounded up to a few values, so that each is proved once.
            length = math.ceil(4 * up(math.hypot(*np.asarray(theta, dtype=float)))) / 4
            sensitivity, largest = session_sensitivity(length, SESSION_WEIGHT), SESSION_WEIGHT
        if self.longest_theta:
            depth += (p + 8) * (self.longest_theta + 1)
        rounding = up(4 * n * depth * largest * 2.0**-52)
        exponent, hidden = lattice_steps(self.entries, sensitivity, rounding)
        return NoiseShares(self.entries, exponent, hidden, self.loudness)

    def event(self, honest: int) -> NearGaussianEvent:
        """What it costs a row if so many are honest, whatever it is evaluated at."""
        return shares_event(self.entries, self.loudness, honest, self.failure)


@dataclass(frozen=True)
class PoolTerms:
    """The plan, worked out: sessions, noise, price, and what holds for every number of honest."""

    plan: PoolPlan
    sessions: tuple[Session, ...]

    @classmethod
    def of(cls, plan: PoolPlan) -> "PoolTerms":
        many = len(plan.split)
        one = lattice_event(plan.epsilon, plan.delta, whole_epsilon=_worst_epsilon(plan))
        if not isinstance(one, NearGaussianEvent):
            raise checks.InvalidInput(
                "Expected an epsilon and a delta of ordinary size: a pool is accounted by the "
                "Gaussian curve"
            )
        mu = near_gaussian_mu(plan.epsilon, plan.delta, many * one.log_ratio, many * one.failure)
        alone = None if plan.alone is None else _alone_mu(plan, one, many)
        made = []
        for number, share in enumerate(plan.split):
            root = math.sqrt(share)
            part = None if alone is None else down(alone * root)
            loudness = share_loudness(down(mu * root), plan.honest, part)
            made.append(_session(plan, number, loudness, one.failure))
        terms = cls(plan, tuple(made))
        if terms.epsilon(plan.honest) > plan.epsilon or (
            plan.alone is not None and terms.epsilon_alone > plan.alone
        ):
            raise checks.PrivacyError("The noise of this plan is too small: a fault in sudare")
        return terms

    @cached_property
    def digest(self) -> str:
        """Of the plan."""
        return self.plan.digest()

    def event(self, honest: int | None = None) -> NearGaussianEvent:
        """All sessions as one event: what a row pays if so many are honest (as the plan says)."""
        honest = self.plan.honest if honest is None else honest
        return self._event(honest, self.assumptions if honest == self.plan.honest else ())

    def _event(self, honest: int, assumptions: tuple[str, ...] = ()) -> NearGaussianEvent:
        parts = [session.event(honest) for session in self.sessions]
        return NearGaussianEvent(
            up(math.sqrt(sum(part.mu**2 for part in parts))),
            up(sum(part.log_ratio for part in parts)),
            up(sum(part.failure for part in parts)),
            unit=self.plan.unit,
            assumptions=assumptions,
        )

    def epsilon(self, honest: int) -> float:
        """What holds at the plan's δ if so many are honest."""
        return account([self._event(honest)], self.plan.delta).epsilon()

    @cached_property
    def curve(self) -> tuple[HonestCost, ...]:
        """From everybody honest down to only oneself: every h, or some of many."""
        many = len(self.plan.members)
        counts = set(range(1, many + 1))
        if many > 20:
            steps = {round(many * share / 8) for share in range(1, 9)}
            counts = {1, 2, 3, self.plan.honest, many} | steps
        return tuple(HonestCost(h, self.epsilon(h)) for h in sorted(counts, reverse=True))

    @property
    def assumptions(self) -> tuple[str, str]:
        """What the price of the plan rests on, in words."""
        plan, alone = self.plan, self.epsilon_alone
        return (
            f"at least {plan.honest} of the {len(plan.members)} organisations of the pool drew "
            "their share of the noise and keep it to themselves",
            f"X25519, HKDF-SHA256 and AES-256 hold (if they are broken one day, ε = {alone:.3g})",
        )

    @cached_property
    def epsilon_alone(self) -> float:
        """What remains if nobody else is honest, or if the masks are broken."""
        return self.epsilon(1)

    @property
    def apart_noise_std(self) -> float:
        """Of the number that says how far organisations differ."""
        return self.noise_std / APART_WEIGHT

    @property
    def noise_std(self) -> float:
        """Of each number of the first session: the pooled moments, or the first gradient."""
        return self.sessions[0].shares().noise_std(len(self.plan.members))

    def check_rows(self, rows: int) -> None:
        """So many rows in all must fit the arithmetic of sums."""
        origin = np.zeros(self.plan.contract.dimension)
        steps = max(math.ldexp(1.0, -each.shares(origin).grid_exponent) for each in self.sessions)
        if rows * steps * SESSION_WEIGHT > _MOST_SUM:
            raise checks.InvalidInput(
                f"Expected fewer than {rows} rows in all: their sums would not fit 64 bits"
            )


def _worst_epsilon(plan: PoolPlan) -> float:
    """The largest ε stated, with one honest organisation only: failures count e^ε times there."""
    if plan.alone is not None:
        return min(plan.alone, _LARGEST_EPSILON)
    mu = math.sqrt(plan.honest) * gaussian_mu(plan.epsilon, plan.delta)
    return min(account([GaussianEvent(mu)], plan.delta).epsilon(), _LARGEST_EPSILON)


def _alone_mu(plan: PoolPlan, one: NearGaussianEvent, many: int) -> float:
    assert plan.alone is not None
    largest = gaussian_mu(plan.alone, plan.delta)
    failure = many * one.failure
    try:
        # One share is narrower than all that are honest, and farther from Gaussian noise.
        ratio = lattice_log_ratio(1, down(FINE / largest), -math.log(one.failure))
        return near_gaussian_mu(plan.alone, plan.delta, many * ratio, failure)
    except checks.InvalidInput:
        raise checks.InvalidInput(
            f"Expected alone = {plan.alone:g} to be of ordinary size (μ = {largest:.3g})"
        ) from None


def _session(plan: PoolPlan, number: int, loudness: float, failure: float) -> Session:
    step: SessionKind = "poisson" if plan.kind == "poisson" else "newton"
    kind: SessionKind = "moments" if number == 0 else step
    if plan.kind == "gradients":
        kind = "gradient"
    squares = kind == "moments" and plan.contract.task == "regression"
    return Session(
        number, kind, plan.contract.dimension, squares, plan.most_rows, loudness, failure
    )
