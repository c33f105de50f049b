"""How far one record can move a gradient: the sensitivities behind private regression.

For a loss ℓ and a ball of coefficients of radius B, the gradient bound ζ is the largest ‖∇ℓ‖ and
the gradient diameter S the largest ‖∇ℓ(θ; d) − ∇ℓ(θ; d')‖ over the ball and over all admissible
records d, d'. S ≤ 2ζ always; for ridge it is about half of that, so that half the noise suffices.

Pure objective perturbation also pays for the curvature of one of the two records, at the same θ.
`GradientPairs` says how far apart gradients can be where that curvature is large.
"""

import itertools
import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit

from sudare.foundations import checks
from sudare.foundations.rounding import up

_EXCESS = 2.0**-12
"""How far above the conjectured maximum the proved logistic diameter may stand."""
_MOST_BOXES = 400_000
_PULL = 0.27846454276107385
"""w, the largest v/(1 + e^v), which is reached at v = 1 + w."""
_WIDEST = 4.031622588125585
"""Where σ(u) + w/u is largest: 1.0516…"""
_ANGLES = np.linspace(0.0, math.pi, 385)
_SLOPES = np.linspace(-10.0, 10.0, 385)
_FLAT = 1e6
"""On balls larger than this the bounds that hold without a ball are as good."""


class GradientPairs(NamedTuple):
    """Bounds for two records at one θ, that hold together.

    For all records d, d' and every θ of the ball there is an entry with `curvature` no less than
    the curvature of d at θ and `distance` no less than ‖∇ℓ(θ; d) − ∇ℓ(θ; d')‖.
    """

    curvature: NDArray[np.float64]
    distance: NDArray[np.float64]


def ridge_gradient_bound(row_norm: float, target_bound: float, radius: float) -> float:
    """ζ = 2X(Y + BX), rounded up."""
    checks.positive(row_norm=row_norm)
    checks.non_negative(target_bound=target_bound, radius=radius)
    x, y, b = float(row_norm), float(target_bound), float(radius)
    return up(2 * x * (y + b * x))


def ridge_gradient_diameter(
    row_norm: float, target_bound: float, radius: float, dimension: int
) -> float:
    """S for the squared loss (y − θ·x)², exact and rounded up.

    With a = 2XY and b = 2X²B: in two or more dimensions S = 2√(1−q²)(a + bq) at
    q = 2b/(a + √(a² + 8b²)); in one, S = 2a if b ≤ a/2 and a + b + a²/(4b) otherwise.
    """
    checks.positive(row_norm=row_norm)
    checks.non_negative(target_bound=target_bound, radius=radius)
    checks.count(dimension=dimension)
    x = float(row_norm)
    a, b = 2 * x * float(target_bound), 2 * x * x * float(radius)
    if a == 0 and b == 0:
        return 0.0
    if dimension == 1:
        return up(2 * a if b <= a / 2 else a + b + a / b * (a / 4))
    q = 2 * b / (a + math.hypot(a, math.sqrt(8) * b))
    return up(2 * math.sqrt((1 - q) * (1 + q)) * (a + b * q))


def logistic_gradient_bound(row_norm: float, radius: float | None = None) -> float:
    """ζ = X·σ(BX), rounded up; X without a ball."""
    checks.positive(row_norm=row_norm)
    x = float(row_norm)
    if radius is None:
        return x
    checks.non_negative(radius=radius)
    return min(x, up(x * float(expit(x * float(radius)))))


def logistic_gradient_diameter(
    row_norm: float, dimension: int, radius: float | None = None
) -> float:
    """S for the logistic loss, rounded up.

    In two or more dimensions and without a ball S = 2X, approached as ‖θ‖ grows. With one, and
    t = BX, gradients are vectors of length X·σ(t cos α) at angle α to θ, and the widest pair is two
    mirror images: S = 2X·max over α of sin α·σ(t cos α). That no other pair is wider is proved for
    the given t by exhaustive subdivision, up to a factor 1 + 2⁻¹²; should the subdivision not
    finish, 2X is used.
    In one dimension the opposite of a full row's gradient is that of a row shortened to (1 + w)/u:
    S = X·(σ(u) + w/u) at u = min(t, 4.03…), with w = 0.278… the largest v/(1 + e^v), and X up to
    u = 1 + w. Beyond 4.03… it falls again, so that without a ball S = 1.0516…·X (proof:
    docs/theory/objective.md).
    """
    checks.positive(row_norm=row_norm)
    checks.count(dimension=dimension)
    x, t = float(row_norm), math.inf
    if radius is not None:
        checks.non_negative(radius=radius)
        t = up(x * float(radius))
    if dimension == 1:
        u = min(t, _WIDEST)
        return up(x * (1.0 if u <= 1 + _PULL else float(expit(u)) + _PULL / u))
    return 2 * x if radius is None else min(2 * x, up(x * _unit_logistic_diameter(t)))


def logistic_gradient_pairs(
    row_norm: float, dimension: int, radius: float | None = None
) -> GradientPairs:
    """Curvature and distance for the logistic loss, rounded up: see `GradientPairs`.

    Curvature is largest where a record is in doubt, σ = ½, and there its gradient has only half of
    its length: the largest curvature X²/4 and the largest distance S never meet.
    """
    diameter = logistic_gradient_diameter(row_norm, dimension, radius)
    x = float(row_norm)
    largest = up(x * x / 4)
    if dimension == 1:
        return GradientPairs(np.array([largest]), np.array([diameter]))
    t = math.inf if radius is None else up(x * float(radius))
    curvature, distance = _unit_logistic_pairs(t if t <= _FLAT else math.inf)
    distance = np.minimum(distance * x * (1 + 1e-12), diameter)
    # What comes after the largest distance has less curvature and is no farther apart.
    needed = slice(int(np.argmax(distance)) + 1)
    return GradientPairs(curvature[needed] * largest, distance[needed])


@lru_cache(maxsize=256)
def _unit_logistic_pairs(t: float) -> GradientPairs:
    """Pairs for row norm 1 on a ball of radius t, curvature in units of ¼; a proof.

    As in `_no_wider_pair`, rows have full length and stand on opposite sides of θ. Both curvatures
    depend on u = θ·x alone, and for given u, u' the distance grows with ‖θ‖ (the angle α + α'
    widens), so ‖θ‖ = t. The gradients are then points of one fixed curve. Between neighbouring
    nodes it is nowhere farther than `bend` from its chord, and a distance is convex in both of its
    ends: distances between nodes, with both bends added, bound all. Without a ball distances are
    below σ(u) + 1.
    """
    if math.isinf(t):
        ends = np.linspace(0.5, 1.0, 1025)
        return GradientPairs(4 * ends[:-1] * (1 - ends[:-1]), 1 + ends[1:])
    angle = np.union1d(_ANGLES, np.arccos(np.clip(_SLOPES / max(t, 1e-300), -1.0, 1.0)))
    step = np.diff(angle)
    size, curvature = _size_and_curvature(t * np.cos(angle))
    most = np.maximum(curvature[:-1], curvature[1:])
    # The second derivative by the angle, with |σ''| ≤ σ'; or, where σ is nearly constant, an arc.
    second = np.minimum(0.0963, most / 4) * t * t + most * t / 2 + 1.224
    bend = np.minimum(second * step**2, 16 * np.abs(np.diff(size)) + step**2) / 8 * 1.001
    x, y = size * np.cos(angle), size * np.sin(angle)
    squares = (size**2)[:, None] + size**2 - 2 * (np.outer(x, x) - np.outer(y, y))
    # The other gradient may be in any cell: its bend is added before the maximum is taken.
    farthest = np.max(np.sqrt(squares) + np.maximum(np.append(bend, 0), np.append(0, bend)), axis=1)
    # Along a chord the largest distance is convex, so below its interpolation.
    inner = np.linspace(0.0, 1.0, 9)
    _, curvature = _size_and_curvature(t * np.cos(angle[:-1, None] + step[:, None] * inner))
    reach = farthest[:-1, None] * (1 - inner) + farthest[1:, None] * inner + bend[:, None]
    curvature = np.maximum(curvature[:, :-1], curvature[:, 1:]).ravel()
    distance = np.maximum(reach[:, :-1], reach[:, 1:]).ravel()
    order = np.lexsort((-distance, -curvature))
    curvature, distance = curvature[order], np.maximum.accumulate(distance[order])
    new = np.append(True, np.diff(distance) > 0)
    return GradientPairs(np.minimum(curvature[new] * (1 + 1e-9), 1.0), distance[new])


def _size_and_curvature(slope: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Length of a full row's gradient, and its curvature in units of ¼."""
    size = expit(slope)
    return size, 4 * size * expit(-slope)


@lru_cache(maxsize=1024)
def _unit_logistic_diameter(t: float) -> float:
    mirror = minimize_scalar(
        lambda angle: -math.sin(angle) * float(expit(t * math.cos(angle))),
        bounds=(0.0, math.pi / 2),
        method="bounded",
        options={"xatol": 1e-12},
    )
    claim = -2 * float(mirror.fun) * (1 + _EXCESS)
    return claim if claim < 2 and _no_wider_pair(t, claim) else 2.0


def _no_wider_pair(t: float, claim: float) -> bool:
    """Whether no two gradients at one θ of the ball are wider apart than `claim`: a proof, if true.

    Row norm 1, ball t. At angles α, α' on opposite sides of θ the squared distance is
    ρ² + ρ'² − 2ρρ'cos(α + α'), ρ = σ(‖θ‖cos α). Shorter rows are no farther apart (lengthen them
    across θ), nor are pairs with α + α' > π (take their mirror images). On a box of (‖θ‖, α, α')
    the extremes of ρ and ρ' are at corners, −cos(α + α') rises, and the form is convex in (ρ, ρ'),
    so that its corners bound it; boxes are halved until all stay below the claim.
    """
    low, side = np.zeros((1, 3)), np.array([t, math.pi, math.pi])
    halves = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    while len(low):
        if len(low) > _MOST_BOXES:
            return False
        side = side / 2
        low = (low[:, None, :] + halves * side).reshape(-1, 3)
        low = low[(low[:, 1] <= low[:, 2] + side[2]) & (low[:, 1] + low[:, 2] <= math.pi)]
        high = low + side
        ends = []
        for j in (1, 2):
            u = [s * np.cos(a) for s in (low[:, 0], high[:, 0]) for a in (low[:, j], high[:, j])]
            ends.append((expit(np.min(u, axis=0)), expit(np.max(u, axis=0))))
        cosine = np.cos(np.minimum(high[:, 1] + high[:, 2], math.pi))
        corners = [a * a + b * b - 2 * a * b * cosine for a in ends[0] for b in ends[1]]
        # The factor pays for rounding in the corners.
        low = low[np.max(corners, axis=0) * (1 + 1e-12) > claim**2]
    return True
