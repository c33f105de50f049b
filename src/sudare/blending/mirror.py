"""Exponential weights over received learners, and their average over time.

After t own rows, learner m has weight ∝ prior_m·exp(−Σ_{i≤t} ℓ_m(i)/τ). *Mirror averaging*
(Juditsky, Rigollet and Tsybakov 2008) averages these weights over time. Over t = 0, …, n, the
uniform start included, its expected risk is at most that of the best learner plus τ·log M/(n + 1)
(docs/theory/mirror.md); averaging over t = 1, …, n, as Minami et al. (2015) print it, has a
slightly weaker promise. The weights after the last row alone are those of the averaging expert
(Kivinen and Warmuth 1999): often better, nothing is proved for new rows.

Weights depend on the rows they were computed from and must stay inside: one row can move them by
2·tanh(H/(2τ)) in L1, H the largest loss, however many rows there are. `publish_choice` and
`publish_combination` make what may leave.

Everything runs in log-space and in time: a state and pure functions. Energies are cumulative losses
over τ, less those of the best learner; a learner whose weight stays below e⁻⁶⁰ for a whole block of
rows is skipped there. Beyond 4,096 learners the averaged weights have single precision, a relative
error of 5e-6 at most and mostly 1e-7, because exponentials are what time is spent on; energies and
last weights are always in doubles.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from sudare.blending._base import Array, Blend, Mixing, OwnRows
from sudare.blending._losses import LossName, block_rows, loss_blocks, theory_temperature
from sudare.blending._received import Learners
from sudare.blending._theory import oracle_price
from sudare.foundations import checks
from sudare.releases import Contract, Release

_NEGLIGIBLE = 60.0
_MANY = 4096
"""More learners than this, and exponentials are taken in single precision: see above."""


class ExponentialWeights(Blend):
    """Weights ∝ exp(−cumulative loss/τ) after the last own row.

    Args:
        releases: What other parties released: learners, or moments, from which each makes one.
        contract: What the releases are expected to agree on; by default that of the first.
        loss: "squared" for regression, "logistic" or "zero-one" for classification; "auto" takes
            the first of these.
        temperature: τ, or "theory" for the least one whose promise is proved.

    After `fit` there are also `temperature_` and, for more rows later, `state_`.
    """

    temperature_: float
    state_: "Averaging"

    def __init__(
        self,
        releases: Sequence[Release] = (),
        *,
        contract: Contract | None = None,
        loss: str = "auto",
        temperature: float | str = "theory",
    ) -> None:
        self.releases = releases
        self.contract = contract
        self.loss = loss
        self.temperature = temperature

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Go on with more rows, as if they had followed the earlier ones in one `fit`."""
        if not hasattr(self, "state_"):
            return self.fit(X, y)
        contract, rows = self._rows(X)
        targets = contract.targets(y)
        if len(targets) != len(rows):
            raise checks.InvalidInput("Expected as many targets as rows")
        if self._loss(contract) == "zero-one" and isinstance(self.temperature, str):
            raise checks.InvalidInput(
                "Expected a temperature in numbers: for zero-one loss the theory's depends on how "
                "many rows there will be"
            )
        self._go_on(self.state_, rows, targets, contract)
        self.weights_ = self._result()
        return self

    def _weigh(self, learners: Learners, rows: OwnRows, targets: Array) -> Array:
        contract = self.received_.contract
        loss = self._loss(contract)
        if isinstance(self.temperature, str):
            checks.one_of(("theory",), temperature=self.temperature)
            self.temperature_ = theory_temperature(
                loss, bound=_bound(contract), learners=len(learners), rows=len(rows)
            )
        else:
            checks.positive(temperature=self.temperature)
            self.temperature_ = float(self.temperature)
        self.components_ = learners.coefficients
        self._go_on(init(len(learners)), rows, targets, contract)
        return self._result()

    def _go_on(self, state: "Averaging", rows: OwnRows, targets: Array, contract: Contract) -> None:
        loss, scale = self._loss(contract), 1 / self.temperature_
        blocks = loss_blocks(rows, targets, self.components_, loss, _bound(contract), scale)
        self.state_ = run(state, blocks)

    def _result(self) -> Array:
        return last_weights(self.state_)

    def _loss(self, contract: Contract) -> LossName:
        suited: tuple[LossName, ...] = ("squared",)
        if contract.task == "classification":
            suited = ("logistic", "zero-one")
        if self.loss == "auto":
            return suited[0]
        checks.one_of(suited, loss=self.loss)
        return cast(LossName, self.loss)

    def _mixing(self) -> Mixing:
        return "votes" if self.loss == "zero-one" else "predictions"


class MirrorAveraging(ExponentialWeights):
    """Exponential weights averaged over time: nearly as good as the best learner, in expectation.

    Args:
        releases: What other parties released: learners, or moments, from which each makes one.
        contract: What the releases are expected to agree on; by default that of the first.
        loss: "squared" for regression, "logistic" or "zero-one" for classification; "auto" takes
            the first of these.
        temperature: τ, or "theory" for the least one whose promise is proved.
        include_prior: Average over t = 0, …, n; False takes t = 1, …, n, as printed by Minami et
            al. (2015).

    The order of the rows matters a little: shuffle them unless they come in random order. After
    `fit`, `oracle_price_` bounds how much worse than the best learner's the expected risk is, if
    the temperature is at least the theory's and the prior is included.
    """

    def __init__(
        self,
        releases: Sequence[Release] = (),
        *,
        contract: Contract | None = None,
        loss: str = "auto",
        temperature: float | str = "theory",
        include_prior: bool = True,
    ) -> None:
        super().__init__(releases, contract=contract, loss=loss, temperature=temperature)
        self.include_prior = include_prior

    @property
    def oracle_price_(self) -> float:
        """τ·log M/(n + 1), or the bounded loss's price; see `oracle_price`."""
        state = self.state_
        loss = self._loss(self.received_.contract)
        return oracle_price(loss, self.temperature_, learners=len(state.prior), rows=state.rows)

    def _result(self) -> Array:
        return mirror_weights(self.state_, self.include_prior)


class Averaging(NamedTuple):
    """Weights in the making: what has to be remembered of the rows seen so far."""

    energies: Array
    """(M,) cumulative losses over τ, minus log prior, the least being zero."""
    total: Array
    """(M,) sum over the rows seen of the weights after each."""
    rows: int
    prior: Array


def init(learners: int, prior: ArrayLike | None = None) -> Averaging:
    """Before the first row; the prior is uniform unless given (positive, any sum)."""
    checks.count(learners=learners)
    if prior is None:
        share = np.full(learners, 1 / learners)
    else:
        share = checks.finite_array(dimensions=1, prior=prior)
        if len(share) != learners or not (share > 0).all():
            raise checks.InvalidInput(f"Expected prior to hold {learners} positive numbers")
        share = share / share.sum()
    energies = -np.log(share)
    return Averaging(energies - energies.min(), np.zeros(learners), 0, share)


def step(state: Averaging, losses: ArrayLike, temperature: float) -> Averaging:
    """After more rows: `losses` holds one row each and one column for each learner."""
    checks.positive(temperature=temperature)
    table = checks.finite_array(dimensions=2, losses=losses)
    learners = len(state.energies)
    if table.shape[1] != learners:
        raise checks.InvalidInput(
            f"Expected losses with {learners} columns, one for each learner, not {table.shape[1]}"
        )
    size = block_rows(learners)
    # The same number for all learners changes no weight.
    blocks = (
        (part - part.min(initial=0.0)) / temperature
        for part in (table[start : start + size] for start in range(0, len(table), size))
    )
    return run(state, blocks)


def run(state: Averaging, blocks: Iterable[Array]) -> Averaging:
    """After all blocks of losses over τ, none negative, each used up; nothing is checked."""
    energies, total, rows = state.energies, state.total.copy(), state.rows
    for block in blocks:
        energies = _advance(energies, block, total)
        rows += len(block)
    return Averaging(energies, total, rows, state.prior)


def mirror_weights(state: Averaging, include_prior: bool = True) -> Array:
    """The weights averaged over t = 0, …, n, or over t = 1, …, n."""
    if include_prior:
        return _normalised(state.total + state.prior)
    if state.rows == 0:
        raise checks.InvalidInput("Expected at least one row: without the prior nothing is left")
    return _normalised(state.total)


def last_weights(state: Averaging) -> Array:
    """The weights after the last row."""
    return _normalised(np.exp(-state.energies))


def _advance(energies: Array, block: Array, total: Array) -> Array:
    """Energies after the block; adds the weights after each of its rows to `total`."""
    best = energies.argmin()
    reach = energies[best] + block[:, best].sum()
    # Losses are not negative: in this block no weight exceeds exp(reach − own energy before it).
    (active,) = np.nonzero(energies - reach <= _NEGLIGIBLE)
    if 2 * len(active) < len(energies):
        after: Array = energies + block.sum(axis=0)
        block = block[:, active]
        block[0] += energies[active]
        accumulate(block)
        total[active] += _sum_of_weights(block)
    else:
        block[0] += energies
        accumulate(block)
        after = block[-1].copy()
        total += _sum_of_weights(block)
    after -= after.min()
    return after


def _sum_of_weights(block: Array) -> Array:
    """Added up over the rows of a block of energies, which is used up."""
    weights: Any = block if block.shape[1] <= _MANY else np.empty(block.shape, np.float32)
    np.subtract(block.min(axis=1, keepdims=True), block, out=weights, casting="same_kind")
    np.exp(weights, out=weights)
    added: Array = (1 / weights.sum(axis=1)) @ weights
    return added


def accumulate(table: Array) -> None:
    """Running sums down the columns, in place, in about 2√rows steps over many rows at once.

    With many columns a step costs nothing beside its numbers, so that one pass is better than two.
    """
    rows, columns = table.shape
    size = math.isqrt(rows) if columns <= _MANY else rows
    whole = rows - rows % size
    groups = table[:whole].reshape(-1, size, columns)
    for i in range(1, size):
        groups[:, i] += groups[:, i - 1]
    for i in range(1, len(groups)):
        groups[i] += groups[i - 1, -1]
    for i in range(whole, rows):
        table[i] += table[i - 1]


def _bound(contract: Contract) -> float:
    return 1.0 if contract.target_bound is None else contract.target_bound


def _normalised(weights: Array) -> Array:
    share: Array = weights / weights.sum()
    return share
