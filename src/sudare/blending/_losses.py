"""Losses of many learners on many rows, and the temperatures under which mixing them pays.

    squared    (y − f)², f the score clipped to ±Y as the targets are
    logistic   −log P(y), P(+1) = 1/(1 + e^{−score}); what is mixed are the probabilities
    zero-one   1 where the sign of the score is wrong; what is mixed are votes

Exponential weights with temperature τ do nearly as well as the best learner if
E log Σ λ_m exp(−(ℓ_m − ℓ_λ)/τ) ≤ 0 for all weights λ, ℓ_λ the loss of their mixture (Juditsky,
Rigollet and Tsybakov 2008). That holds for squared loss from τ = 2·max(y − f)² ≤ 8Y² on, and for
logistic loss of mixed probabilities from τ = 1 on, without any bound on the scores
(docs/theory/mirror.md). A bounded loss allows no such constant: its temperature grows with the
number of rows, and the promise is about a learner drawn by the weights, not about their majority.
"""

import math
from collections.abc import Iterator
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from sudare.foundations import checks

Array = NDArray[np.float64]
LossName = Literal["squared", "logistic", "zero-one"]
LOSSES: tuple[LossName, ...] = get_args(LossName)

_BLOCK_ROWS = 4096
_BLOCK_NUMBERS = 2**17
"""Rows times learners at a time: about a processor core's own cache."""
_FEWEST_ROWS = 32
"""Fewer rows at a time would read all coefficients too often."""
_TILE = 2048
"""Learners at a time, for the same reason."""


class RowSource(Protocol):
    """Rows that can be had some at a time: an array, or what makes one."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Array: ...


def block_rows(learners: int) -> int:
    """How many rows to take at a time."""
    return max(_FEWEST_ROWS, min(_BLOCK_ROWS, _BLOCK_NUMBERS // max(1, learners)))


def loss_blocks(
    rows: RowSource,
    targets: Array,
    coefficients: Array,
    loss: LossName,
    bound: float,
    scale: float = 1.0,
) -> Iterator[Array]:
    """Losses of all learners times `scale`, some rows at a time: (rows, learners), reused."""
    size, learners = block_rows(len(coefficients)), len(coefficients)
    table = np.empty((min(size, len(rows)), learners))
    spare = np.empty((len(table), min(_TILE, learners)))
    for start in range(0, len(rows), size):
        block, y = rows[start : start + size], targets[start : start + size, None]
        for first in range(0, learners, _TILE):
            part = table[: len(block), first : first + _TILE]
            np.matmul(block, coefficients[first : first + _TILE].T, out=part)
            to_losses(part, y, loss, bound, spare[: part.shape[0], : part.shape[1]])
            if scale != 1:
                part *= scale
        yield table[: len(block)]


def to_losses(scores: Array, targets: Array, loss: LossName, bound: float, spare: Array) -> None:
    """Scores turned into losses in place; `spare` is room for as many numbers."""
    if loss == "squared":
        np.clip(scores, -bound, bound, out=scores)
        scores -= targets
        scores *= scores
    elif loss == "logistic":
        scores *= -targets
        np.abs(scores, out=spare)
        np.negative(spare, out=spare)
        np.exp(spare, out=spare)
        spare += 1.0
        np.log(spare, out=spare)  # off by 2⁻⁵³ at most, in half the time of log1p
        np.maximum(scores, 0.0, out=scores)
        scores += spare
    else:
        np.not_equal(scores > 0, targets > 0, out=scores)


def theory_temperature(loss: LossName, *, bound: float, learners: int, rows: int) -> float:
    """The least temperature for which the oracle inequality is proved.

    `bound` is the bound on targets and predictions; it matters for squared loss alone. `rows` and
    `learners` matter for zero-one loss alone.
    """
    checks.one_of(LOSSES, loss=loss)
    if loss == "squared":
        checks.positive(bound=bound)
        return 8 * bound**2
    if loss == "logistic":
        return 1.0
    checks.count(learners=learners)
    checks.count(minimum=0, rows=rows)
    return math.sqrt((rows + 1) / (8 * math.log(max(2, learners))))
