"""The line of least squares through everybody's rows, for classes too: from sums of moments.

With classes as −1 and +1 the slopes θ* = E[xxᵀ]⁻¹E[yx] exist whatever the law of the rows. So sums
of xxᵀ and yx tell them honestly, and log-odds only where rows are normal. The equations are those
of a linear model (`_models`, `_solving`): noise counted exactly, sampling to first order.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.estimation._forms import NoisySums
from sudare.estimation._models import linear_equations
from sudare.estimation._solving import solve
from sudare.study import Study

Array = NDArray[np.float64]


class Line(NamedTuple):
    """Slopes of the target within [−1, 1] on rows at most 1 long, the constant's last."""

    slopes: Array
    variances: Array
    """Of noise and sampling together."""
    told: NDArray[np.bool_]


def least_squares(sums: NoisySums, study: Study, scatter: float) -> Line:
    """The line through all these rows.

    Args:
        sums: Of releases under this study.
        scatter: The mean square about the line, for sums of numbers without their squares.
    """
    if study.target.classes is not None:
        sums = NoisySums(sums.contract, sums.n, sums.cross, sums.gram, sums.n, sums.noise_std)
    equations = linear_equations(sums, study, None if sums.squares is None else sums)
    if sums.squares is None:
        equations = equations._replace(
            scale=lambda theta, covariance, positive: np.full(theta.shape[:-1], scatter)
        )
    solved = solve(equations)
    variances = np.diagonal(solved.covariance, axis1=-2, axis2=-1)
    return Line(solved.theta, np.asarray(variances), ~solved.hidden)
