"""Gibbs, section 4.2: the normal mean. The δ that was asked for, and the δ that is spent.

Rows in [−1, 1], unit variances, so that two neighbouring posteriors are a pair of normal laws whose
δ is known exactly. β comes from equation 32 as printed (with the set confined to ±3, as α = 2
makes it), from theorem 8 without the set, and from the exact curve.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from papers import drawing
from papers.figure import (
    Conclusion,
    Figure,
    Finding,
    Results,
    Sample,
    Setting,
    computed,
)
from papers.formulas.posterior import (
    paper_normal_mean_discriminant,
    paper_normal_mean_inverse_temperature,
    tail_inverse_temperature,
)
from sudare.calibration import normal_mean_inverse_temperature, normal_mean_variance, posterior_mu
from sudare.foundations import checks
from sudare.foundations.curves import gaussian_delta

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

BOUND, RADIUS = 1.0, 3.0
"""a, and b = a + ατ with α = 2."""
EPSILON, ROWS, DELTA = 1.0, 100, 1e-5
PRINTED, TAIL, EXACT = "equation 32, printed", "theorem 8, no set", "exact (sudare)"
SPENT, WIDTH_ = "δ spent against δ asked for", "spread of the draw against rows"
DELTAS = [float(f"{x:.6g}") for x in np.geomspace(1e-10, 1e-2, 33)]
SIZES = [int(n) for n in np.unique(np.round(np.geomspace(5, 5_000, 40)))]
KNOWN = {TAIL: 3.0e-8, EXACT: 1.0e-5}
"""True δ at n = 100, ε = 1, δ = 1e-5, from an independent computation."""
_MODEL = {"gradient_diameter": 2 * BOUND, "prior_curvature": 1.0, "loss_curvature": 1.0}
_FLOOR = 1e-300


class Task(NamedTuple):
    """One panel."""

    panel: str


def tasks(setting: Setting) -> list[Task]:
    return [Task(SPENT), Task(WIDTH_)]


def measure(task: Task) -> list[Sample]:
    found = []
    if task.panel == SPENT:
        for delta in DELTAS:
            for name, beta in temperatures(ROWS, delta).items():
                found.append(computed(SPENT, name, delta, true_delta(beta, ROWS)))
        return found
    for n in SIZES:
        for name, beta in temperatures(n, DELTA).items():
            variance = normal_mean_variance(beta, n=n, noise_std=1.0, prior_std=1.0)
            found.append(computed(WIDTH_, name, n, float(np.sqrt(variance))))
    return found


def temperatures(n: int, delta: float) -> dict[str, float]:
    """β of each formula that gives one."""
    found = {}
    try:
        found[PRINTED] = paper_normal_mean_inverse_temperature(
            EPSILON, delta, n=n, bound=BOUND, radius=RADIUS
        )
    except checks.InvalidInput:
        # The wrong sign: there is no root.
        assert paper_normal_mean_discriminant(EPSILON, delta, n=n, bound=BOUND, radius=RADIUS) < 0
    found[TAIL] = tail_inverse_temperature(EPSILON, delta, n=n, **_MODEL)
    found[EXACT] = normal_mean_inverse_temperature(
        EPSILON, delta, n=n, bound=BOUND, noise_std=1.0, prior_std=1.0
    )
    return found


def true_delta(beta: float, n: int) -> float:
    """Of two neighbouring posteriors: normal laws of one variance, as far apart as can be."""
    return max(_FLOOR, gaussian_delta(EPSILON, posterior_mu(beta, n=n, **_MODEL)))


def conclude(results: Results) -> Conclusion:
    spent = {name: results.at(SPENT, name, DELTA).value for name in (PRINTED, TAIL, EXACT)}
    every = {name: results.series(SPENT, name) for name in (PRINTED, TAIL, EXACT)}
    undefined = [n for n in SIZES if float(n) not in results.places(WIDTH_, PRINTED)]
    spread = {name: results.series(WIDTH_, name).value[-1] for name in (PRINTED, TAIL, EXACT)}
    tight = float(np.abs(every[EXACT].value / every[EXACT].x - 1).max())
    rising = bool(np.all(np.diff(results.series(WIDTH_, PRINTED).value) < 0))
    return Conclusion(
        f"Asked for δ = 1e-5 with 100 rows, the printed β spends {_power(spent[PRINTED])}, theorem "
        f"8 without the confined set {spent[TAIL]:.1e} and the exact one {spent[EXACT]:.3e}; with "
        f"5,000 rows the draw's spread is {spread[PRINTED]:.3f}, {spread[TAIL]:.4f} and "
        f"{spread[EXACT]:.4f}.",
        f"Equation 32 has the wrong sign under its root, so that below {max(undefined) + 1} rows "
        "there is no β at all; where it has one it is safe but wastes nearly everything, because "
        "the confined set inflates a Lipschitz constant that the difference of two losses does not "
        "have. Without the set the true δ can be exactly the one asked for.",
        (
            Finding(
                "(ε, δ) is kept",
                "true δ at most the one asked for",
                f"{max(float((e.value / e.x).max()) for e in every.values()):.6f} of it at most",
                all(bool((e.value <= e.x * (1 + 1e-6)).all()) for e in every.values()),
            ),
            Finding(
                "equation 32 gives a β",
                "for every n",
                f"not for n ≤ {max(undefined)}" if undefined else "for every n",
                not undefined,
            ),
            Finding(
                "more rows allow a narrower draw",
                "narrower with every step",
                "so" if rising else "not so",
                rising,
            ),
            Finding(
                "the exact β spends exactly δ",
                f"{KNOWN[EXACT]:.3e}",
                f"{spent[EXACT]:.3e}, within {tight:.0e} at every δ",
                tight < 1e-6,
                corrected=True,
            ),
            Finding(
                "theorem 8 without the set",
                f"{KNOWN[TAIL]:.1e}",
                f"{spent[TAIL]:.1e}",
                abs(spent[TAIL] / KNOWN[TAIL] - 1) < 0.02,
                corrected=True,
            ),
        ),
    )


def _power(value: float) -> str:
    return "less than 1e-300" if value <= _FLOOR else f"{value:.0e}"


_STYLE = {
    PRINTED: drawing.Line(drawing.VERMILION, dashes=":"),
    TAIL: drawing.Line(drawing.GREEN, dashes="-."),
    EXACT: drawing.Line(drawing.BLUE),
}


def draw(results: Results, canvas: "Canvas") -> None:
    canvas.set_size_inches(drawing.WIDTH, 4.6)
    left, right = canvas.subplots(1, 2)
    left.plot(DELTAS, DELTAS, color=drawing.MUTED, linewidth=5, alpha=0.3, label="δ asked for")
    drawing.curves(left, results, SPENT, _STYLE)
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_ylim(1e-16, 0.1)
    left.set_xlabel("δ asked for")
    left.set_ylabel("true δ")
    left.set_title("100 rows, ε = 1")
    left.annotate(
        f"equation 32: {_power(results.series(SPENT, PRINTED).value.max())} at most",
        (0.5, 0.03),
        xycoords="axes fraction",
        ha="center",
        color=drawing.VERMILION,
        fontsize=10,
    )
    drawing.curves(right, results, WIDTH_, _STYLE)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("rows n")
    right.set_ylabel("standard deviation of the draw")
    right.set_title("ε = 1, δ = 1e-5")
    for axes in (left, right):
        axes.minorticks_off()
    drawing.legend(canvas, 4)


FIGURE = Figure(
    name="gibbs-normal",
    title="A private normal mean: δ asked for, δ spent",
    paper="Minami 2015, section 4.2, equation 32",
    claim="A draw from the posterior of a normal mean, confined to an interval, is (ε, δ)-private "
    "for β up to B of equation 32, which grows with n.",
    columns=("panel", "formula", "x", "value"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    draw=draw,
)
