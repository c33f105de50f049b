"""Blends that fit weights to own rows: the learners' outputs as features of a small regression.

Let F hold the outputs of M learners on n own rows, one column each: clipped predictions, or twice
the probability of the second class minus one; y the targets, −1 and +1 for classes. Columns are
scaled to mean square 1 where a penalty compares them. The systems that Minami et al. compare with:

    ConvexStack      least loss over the simplex, without penalty
    RidgeStack       L2 penalty, over scores; for classes the logistic regression of Pathak et al.
                     (2010)
    SelectionStack   least squares over few learners, by BIC (Bunea, Tsybakov and Wegkamp 2007)
    LassoStack       ½·mean square error + r·‖b‖₁ (the same authors)
    DantzigStack     least ‖b‖₁ with max |Fᵀ(y − Fb)|/n ≤ r (Candès and Tao 2007)

r = "auto" is the universal level s·√(2·log(2M)/n), with s² the mean square error of the best single
learner.

None of these may leave the organisation: the weights are fitted to its rows without noise.
"""

import math
import warnings
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.linear_model import Lasso, LogisticRegression

from papers.blends.simplex import Array, minimise_on_simplex
from sudare.blending import Blend, Learners, Mixing, OwnRows, bounded
from sudare.foundations import checks
from sudare.releases import Contract, Release

_TOLERANCE = 1e-8


class ConvexStack(Blend):
    """The mixture of learners with the least loss on own rows: weights on the simplex.

    Squared loss of mixed predictions, or logistic loss of mixed probabilities.

    Args:
        releases: What other parties released: learners, or moments, from which each makes one.
        contract: What the releases are expected to agree on; by default that of the first.
    """

    def __init__(
        self, releases: Sequence[Release] = (), *, contract: Contract | None = None
    ) -> None:
        self.releases = releases
        self.contract = contract

    def _weigh(self, learners: Learners, rows: OwnRows, targets: Array) -> Array:
        contract = self.received_.contract
        n = len(rows)
        if contract.target_bound is not None:
            bound = contract.target_bound
            outputs = bounded(rows[:] @ learners.coefficients.T, contract) / bound
            y = targets / bound

            def squared(weights: Array) -> tuple[float, Array]:
                error = outputs @ weights - y
                return float(error @ error) / n, 2 * (error @ outputs) / n

            return minimise_on_simplex(squared, len(learners))
        likelihood = expit(targets[:, None] * (rows[:] @ learners.coefficients.T))
        # Rows that no learner allows for would make every mixture infinitely bad.
        likelihood = np.maximum(likelihood, 1e-300)

        def logistic(weights: Array) -> tuple[float, Array]:
            mixed = likelihood @ weights
            return -float(np.log(mixed).mean()), -((1 / mixed) @ likelihood) / n

        return minimise_on_simplex(logistic, len(learners))


class RidgeStack(Blend):
    """Learners' scores weighted by a regression with an L2 penalty.

    Classification: Σ log(1 + e^{−y·f}) + (penalty/2)‖b‖², f = Σ b_m·score_m. Regression:
    Σ(y − f)²/Y² + penalty·‖b‖², Y the target's bound. Weights may have any sign.

    Args:
        releases: What other parties released: learners, or moments, from which each makes one.
        contract: What the releases are expected to agree on; by default that of the first.
        penalty: Strength of the penalty, above zero.
    """

    def __init__(
        self,
        releases: Sequence[Release] = (),
        *,
        contract: Contract | None = None,
        penalty: float = 1.0,
    ) -> None:
        self.releases = releases
        self.contract = contract
        self.penalty = penalty

    def _weigh(self, learners: Learners, rows: OwnRows, targets: Array) -> Array:
        checks.positive(penalty=self.penalty)
        contract = self.received_.contract
        scores = rows[:] @ learners.coefficients.T
        if contract.target_bound is not None:
            bound = contract.target_bound
            left, sizes, right = np.linalg.svd(scores / bound, full_matrices=False)
            shrunk = sizes / (sizes**2 + self.penalty)
            weights: Array = (shrunk * (targets / bound @ left)) @ right
            return weights
        if abs(targets.sum()) == len(targets):
            raise checks.InvalidInput("Expected own rows of both classes, found one class only")
        # In the plane of the scores' own directions, which the minimiser never leaves.
        left, sizes, right = np.linalg.svd(scores, full_matrices=False)
        model = LogisticRegression(
            C=1 / self.penalty, fit_intercept=False, solver="newton-cholesky", tol=_TOLERANCE
        )
        with warnings.catch_warnings():
            # Scores of any size may be received. Where its first way fails, it has a second; and a
            # warning that came with some rows and not with others would be an output of them.
            warnings.simplefilter("ignore")
            weights = model.fit(left * sizes, targets).coef_[0] @ right
        return weights

    def _mixing(self) -> Mixing:
        return "scores"


class _LeastSquares(Blend):
    """Outputs combined with any weights, found for columns scaled to mean square 1."""

    def _weigh(self, learners: Learners, rows: OwnRows, targets: Array) -> Array:
        contract = self.received_.contract
        bound = contract.target_bound or 1.0
        outputs = bounded(rows[:] @ learners.coefficients.T, contract) / bound
        sizes = np.sqrt((outputs * outputs).mean(axis=0))
        # A learner that always says nothing is worth nothing.
        sizes[sizes < 1e-150] = np.inf
        weights: Array = self._coefficients(outputs / sizes, targets / bound) / sizes
        return weights

    def _coefficients(self, features: Array, y: Array) -> Array:
        raise NotImplementedError

    def _mixing(self) -> Mixing:
        return "outputs"


class SelectionStack(_LeastSquares):
    """Least squares over few learners, taken in one by one while BIC falls.

    BIC = n·log(mean square error) + (number of learners)·log n. Each step takes the learner that
    lowers the error most.

    Args:
        releases: What other parties released: learners, or moments, from which each makes one.
        contract: What the releases are expected to agree on; by default that of the first.
    """

    def __init__(
        self, releases: Sequence[Release] = (), *, contract: Contract | None = None
    ) -> None:
        self.releases = releases
        self.contract = contract

    def _coefficients(self, features: Array, y: Array) -> Array:
        n, learners = features.shape
        chosen: list[int] = []
        left, rest = features.copy(), y.copy()
        error = float(y @ y)
        least_error = 1e-30 * error
        while error > least_error and len(chosen) < min(n - 1, learners):
            norms = np.einsum("ij,ij->j", left, left)
            norms[norms <= 1e-10 * n] = np.inf  # only rounding is left beside the chosen ones
            gains = (rest @ left) ** 2 / norms
            best = int(np.argmax(gains))
            after = max(error - float(gains[best]), least_error)
            if n * math.log(after / error) + math.log(n) >= 0:
                break
            chosen.append(best)
            direction = left[:, best] / math.sqrt(norms[best])
            rest -= (direction @ rest) * direction
            left -= np.outer(direction, direction @ left)
            error = float(rest @ rest)
        weights = np.zeros(learners)
        if chosen:
            weights[chosen] = np.linalg.lstsq(features[:, chosen], y)[0]
        return weights


class _Sparse(_LeastSquares):
    def __init__(
        self,
        releases: Sequence[Release] = (),
        *,
        contract: Contract | None = None,
        penalty: float | str = "auto",
    ) -> None:
        self.releases = releases
        self.contract = contract
        self.penalty = penalty

    def _level(self, features: Array, y: Array) -> float:
        """r, in units of the target's bound."""
        if not isinstance(self.penalty, str):
            checks.positive(penalty=self.penalty)
            return float(self.penalty)
        checks.one_of(("auto",), penalty=self.penalty)
        n, learners = features.shape
        explained = float(((y @ features) ** 2).max()) / n**2
        error = max(float(y @ y) / n - explained, 0.0)
        return math.sqrt(2 * error * math.log(2 * learners) / n) + 1e-12


class LassoStack(_Sparse):
    """Least squares with an L1 penalty: few learners, any sign.

    Args:
        releases: What other parties released: learners, or moments, from which each makes one.
        contract: What the releases are expected to agree on; by default that of the first.
        penalty: r, for outputs and targets divided by the target's bound and outputs of mean
            square 1; or "auto".
    """

    def _coefficients(self, features: Array, y: Array) -> Array:
        level = self._level(features, y)
        model = Lasso(alpha=level, fit_intercept=False, tol=1e-10, max_iter=100_000)
        weights: Array = model.fit(features, y).coef_
        return weights


class DantzigStack(_Sparse):
    """The smallest weights that leave no learner correlated with what is unexplained.

    Args:
        releases: What other parties released: learners, or moments, from which each makes one.
        contract: What the releases are expected to agree on; by default that of the first.
        penalty: r, for outputs and targets divided by the target's bound and outputs of mean
            square 1; or "auto".
    """

    def _coefficients(self, features: Array, y: Array) -> Array:
        n, learners = features.shape
        level = self._level(features, y)
        gram, cross = features.T @ features / n, features.T @ y / n
        # b = u − v with u, v ≥ 0.
        limits = np.concatenate([level + cross, level - cross])
        found = linprog(
            np.ones(2 * learners),
            A_ub=np.block([[gram, -gram], [-gram, gram]]),
            b_ub=limits,
            bounds=(0, None),
            method="highs",
        )
        if found.x is None:  # least squares is always feasible, so only rounding can do that
            raise checks.InvalidInput("Expected a larger penalty: rounding leaves no solution")
        weights: Array = found.x[:learners] - found.x[learners:]
        return weights
