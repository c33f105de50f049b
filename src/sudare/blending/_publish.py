"""What may leave of a blend: one learner chosen privately, or a private combination of them.

A blend's weights are computed from own rows without noise. Publishing them, or the blend itself,
can give a row away: in L1 the weights move by up to `weight_sensitivity` when one row is replaced,
however many rows there are. The two functions here make releases of their own, each with its own
event. What was received is public already, so only own rows are at stake; if own rows also went
into one of the releases, both events count (add them up with `sudare.foundations.privacy.account`).

Guarantees, for replace-one neighbours with the number of own rows public:

    publish_choice        ε-DP: the exponential mechanism (McSherry and Talwar 2007) over learners,
                          P(m) ∝ exp(−ε·Σℓ_m/(2H)), losses clipped to [0, H]. Losses are counted in
                          whole 2⁻²⁰ths of H, so that sums are exact, and the draw is exact.
                          Expected excess of the mean loss: at most 2H·log M/(ε·n).
    publish_combination   what `PrivateLogisticRegression` or `PrivateRidge` states, of which the
                          features are the learners' scores, scaled by public numbers
"""

import math
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sudare.blending._base import Array
from sudare.blending._losses import LOSSES, LossName, loss_blocks
from sudare.blending._received import Learners, Received, receive
from sudare.foundations import checks
from sudare.foundations.mechanisms import choose
from sudare.foundations.privacy import PureEvent
from sudare.foundations.randomness import Generator, as_generator, is_secure
from sudare.foundations.rounding import up
from sudare.learners import PrivateLogisticRegression, PrivateRidge
from sudare.releases import Contract, LearnerRelease, Release

_STEPS = 2**20
"""Into which a loss of H is divided."""


def weight_sensitivity(loss_bound: float, temperature: float) -> float:
    """How far one replaced row can move exponential weights, in L1: 2·tanh(H/(2τ)), attained."""
    checks.positive(loss_bound=loss_bound, temperature=temperature)
    return 2 * math.tanh(loss_bound / (2 * temperature))


def publish_choice(
    releases: Iterable[Release],
    X: Any,
    y: Any,
    *,
    epsilon: float,
    party: str,
    loss: Literal["auto", "squared", "logistic", "zero-one"] = "auto",
    loss_bound: float | None = None,
    contract: Contract | None = None,
    rng: Generator | int | None = None,
) -> LearnerRelease:
    """One of the received learners, chosen by its loss on own rows: ε-DP for them.

    Args:
        releases: What other parties released; made without the rows in `X`.
        X: Own rows.
        y: Own targets.
        epsilon: Privacy budget of the choice.
        party: Under whose name it is published.
        loss: "squared" for regression; "zero-one" or "logistic" for classification. "auto" takes
            the first of these.
        loss_bound: H, to which losses are clipped. By default 1 for zero-one loss and 4Y² for
            squared loss, which cannot be exceeded, and 2 for logistic loss.
        contract: What the releases are expected to agree on; by default that of the first.
        rng: None for secure randomness; a number or a generator simulates.
    """
    checks.positive(epsilon=epsilon)
    received, learners = _candidates(releases, contract)
    agreed = received.contract
    rows, targets = _own(agreed, X, y)
    name, bound = _loss(agreed, loss, loss_bound)
    lost = steps_lost(rows, targets, learners.coefficients, name, bound, agreed.target_bound or 1.0)
    generator = as_generator(rng)
    chosen = choose(-lost.astype(np.float64), float(epsilon), float(_STEPS), generator)
    theta = learners.coefficients[chosen]
    return LearnerRelease(
        party=party,
        contract=agreed,
        n=len(rows),
        event=PureEvent(float(epsilon)),
        noise_std=float(learners.noise_std[chosen]),
        simulated=not is_secure(generator),
        coefficients=tuple(theta.tolist()),
        radius=_longest(learners),
        slack=0.0,
    )


def publish_combination(
    releases: Iterable[Release],
    X: Any,
    y: Any,
    *,
    epsilon: float,
    party: str,
    delta: float = 0.0,
    contract: Contract | None = None,
    rng: Generator | int | None = None,
) -> LearnerRelease:
    """A linear model in the span of the received learners, fitted privately to own rows.

    With u_m = θ_m/‖θ_m‖, the features of a row x are the M numbers u_m·x. They are at most
    ‖U‖·row norm long, ‖U‖ ≤ √M the largest singular value of the matrix of the u_m: public numbers.
    Worth it for a handful of learners; from about as many learners as columns on it is a private
    regression on the rows themselves, only noisier.

    Args:
        releases: What other parties released; made without the rows in `X`.
        X: Own rows.
        y: Own targets.
        epsilon: Privacy budget of the fit.
        party: Under whose name it is published.
        delta: Probability with which ε may fail; zero gives pure ε-DP.
        contract: What the releases are expected to agree on; by default that of the first.
        rng: None for secure randomness; a number or a generator simulates.
    """
    received, learners = _candidates(releases, contract)
    agreed = received.contract
    rows, targets = _own(agreed, X, y)
    norms = np.linalg.norm(learners.coefficients, axis=1)
    directions = learners.coefficients[norms > 0] / norms[norms > 0, None]
    if not len(directions):
        raise checks.InvalidInput("Expected at least one learner that is not zero everywhere")
    stretch = up(float(np.linalg.norm(directions, 2)), 1e-9)
    private: dict[str, Any] = {
        "delta": delta,
        "row_norm": stretch * agreed.full_norm,
        "fit_intercept": False,
        "rng": rng,
    }
    learner: PrivateLogisticRegression | PrivateRidge
    if agreed.target_bound is None:
        learner = PrivateLogisticRegression(epsilon, classes=(-1.0, 1.0), **private)
    else:
        learner = PrivateRidge(
            epsilon, target_bound=agreed.target_bound, radius=_longest(learners), **private
        )
    released = learner.fit(rows @ directions.T, targets).release(party)
    assert isinstance(released, LearnerRelease)
    return LearnerRelease(
        party=party,
        contract=agreed,
        n=released.n,
        event=released.event,
        # Each coefficient adds up the noise of M weights, by one column of U.
        noise_std=released.noise_std * float(np.linalg.norm(directions, axis=0).max()),
        simulated=released.simulated,
        coefficients=tuple((released.theta @ directions).tolist()),
        radius=stretch * released.radius,
        slack=stretch * released.slack,
    )


def steps_lost(
    rows: Array,
    targets: Array,
    coefficients: Array,
    loss: LossName,
    loss_bound: float,
    bound: float,
) -> NDArray[np.int64]:
    """Each learner's total loss in whole 2⁻²⁰ths of H: one row counts for 2²⁰ at most, exactly."""
    lost = np.zeros(len(coefficients), dtype=np.int64)
    for block in loss_blocks(rows, targets, coefficients, loss, bound):
        np.minimum(block, loss_bound, out=block)
        block *= _STEPS / loss_bound
        np.clip(np.rint(block, out=block), 0, _STEPS, out=block)
        lost += block.astype(np.int64).sum(axis=0)
    return lost


def _candidates(
    releases: Iterable[Release], contract: Contract | None
) -> tuple[Received, Learners]:
    received = receive(releases, contract)
    learners = received.as_learners()
    if not len(learners):
        reasons = "; ".join(str(one) for one in received.dropped) or "none was given"
        raise checks.InvalidInput(f"Expected at least one usable release: {reasons}")
    return received, learners


def _own(contract: Contract, X: Any, y: Any) -> tuple[Array, Array]:
    rows, targets = contract.rows(X), contract.targets(y)
    if len(rows) != len(targets):
        raise checks.InvalidInput("Expected as many targets as rows")
    return rows, targets


def _loss(contract: Contract, loss: str, loss_bound: float | None) -> tuple[LossName, float]:
    if loss == "auto":
        loss = "squared" if contract.task == "regression" else "zero-one"
    checks.one_of(LOSSES, loss=loss)
    if (loss == "squared") != (contract.task == "regression"):
        raise checks.InvalidInput(f"Expected another loss than {loss!r} for {contract.task}")
    if loss_bound is not None:
        checks.positive(loss_bound=loss_bound)
        return loss, float(loss_bound)  # type: ignore[return-value]
    if loss == "squared":
        return "squared", 4 * (contract.target_bound or 1.0) ** 2
    return ("zero-one", 1.0) if loss == "zero-one" else ("logistic", 2.0)


def _longest(learners: Learners) -> float:
    """A bound on every learner's norm, from what was received alone."""
    return up(float(np.linalg.norm(learners.coefficients, axis=1).max()), 1e-9) or 1.0
