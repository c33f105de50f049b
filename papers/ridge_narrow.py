"""Ridge, section 2.2: organisations that each see only a narrow part of the range.

One column between −1 and 1, and a line with an intercept. Each organisation's rows lie in an
interval of its own, and together they cover the range; the first organisation sits at the left end.
The error is the squared distance from the true line: at each place, and over the whole range.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from papers import drawing, regressions
from papers.figure import (
    Array,
    Conclusion,
    Figure,
    Finding,
    Results,
    Sample,
    Setting,
    measured,
)
from papers.regressions import HEDGED, MIRROR, OWN, POOLED, Bounds, Party
from sudare.foundations.randomness import Generator, seeded
from sudare.releases import MomentsRelease, Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

OTHERS, EACH, OWN_ROWS, NOISE = 20, 200, 50, 0.2
INTERCEPT, SLOPE = 0.3, 0.5
EPSILON = 2.0
# The constant feature is a quarter, so that the coefficients (0.5, 1.2) have norm 1.3.
BOUNDS = Bounds(target_bound=1.5, radius=2.0, temperature="theory")
WIDTHS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Share of the range that an organisation sees."""
NARROW = 0.2
PLACES = np.round(np.linspace(-1, 1, 21), 1)
SUMMED = "moments, added up"
ALONG, OVERALL = "error along the range", "error over the whole range"


class Task(NamedTuple):
    """One draw of everybody's rows."""

    width: float
    seed: int


def tasks(setting: Setting) -> list[Task]:
    runs = setting.runs(full=100, quick=15, smoke=2)
    return [
        Task(width, seed)
        for width in WIDTHS
        for seed in setting.seeds(f"ridge-narrow/{width:g}", runs)
    ]


def measure(task: Task) -> list[Sample]:
    rng = seeded(task.seed)
    # Left ends of the intervals, evenly over where they can be; the own is the leftmost.
    starts = np.linspace(-1, 1 - 2 * task.width, OTHERS + 1)
    own = _party(OWN_ROWS, starts[0], task.width, rng)
    others = [_party(EACH, start, task.width, rng) for start in starts[1:]]
    found = []
    truth = INTERCEPT + SLOPE * PLACES
    published = regressions.publish(others, EPSILON, BOUNDS, rng)
    lines = {
        name: model.predict(PLACES[:, None])
        for name, model in regressions.models(own, others, published, BOUNDS).items()
    }
    lines[SUMMED] = summed(own, published.moments)
    for name, line in lines.items():
        errors = (line - truth) ** 2
        found.append(measured(OVERALL, name, task.width, errors.mean()))
        if task.width == NARROW:
            found += [
                measured(ALONG, name, x, error)
                for x, error in zip(PLACES.tolist(), errors, strict=True)
            ]
    return found


def summed(own: Party, releases: list[Release]) -> Array:
    """Least squares from own and released moments, all added up, at each place."""
    contract = releases[0].contract
    bound = contract.target_bound or 1.0
    rows = contract.rows(own.rows) / contract.full_norm
    gram, cross = rows.T @ rows, contract.targets(own.targets) / bound @ rows
    for release in releases:
        assert isinstance(release, MomentsRelease)
        gram, cross = gram + release.gram_matrix, cross + release.cross_vector
    theta = np.linalg.solve(gram, cross)
    line: Array = contract.rows(PLACES[:, None]) @ theta * (bound / contract.full_norm)
    return line


def _party(n: int, start: float, width: float, rng: Generator) -> Party:
    x: Array = start + 2 * width * rng.random((n, 1))
    return Party(x, INTERCEPT + SLOPE * x[:, 0] + NOISE * rng.standard_normal(n))


def conclude(results: Results) -> Conclusion:
    def error(curve: str) -> float:
        return results.at(OVERALL, curve, NARROW).value

    inside, outside = (results.at(ALONG, OWN, x).value for x in (-0.8, 1.0))
    return Conclusion(
        f"Where everyone sees a fifth of the range, the own line is {outside / inside:,.0f} times "
        f"as wrong at the far end as at home; over the range its mean squared error is "
        f"{error(OWN):.4f}, that of mirror averaging {error(MIRROR):.4f}, of sudare's blend "
        f"{error(HEDGED):.4f}, of moments added up {error(SUMMED):.4f} and of all rows in one "
        f"place {error(POOLED):.5f} (ε = {EPSILON:g}).",
        "Borrowing rows does what the paper expects, but exchanging lines does not do much of it: "
        "a private line from a narrow interval is as uncertain elsewhere as the own one, and own "
        "rows cannot tell which lines are right there. Sums of x·xᵀ and y·x do carry it, noise and "
        "all.",
        (
            Finding(
                "own rows from a narrow interval predict badly outside it",
                "at least ten times the error at home",
                f"{outside / inside:,.0f} times",
                outside >= 10 * inside,
            ),
            Finding(
                "others' rows mend that (all rows in one place)",
                "a tenth of the error or less",
                f"{error(POOLED) / error(OWN):.4f} of it",
                error(POOLED) <= 0.1 * error(OWN),
            ),
            Finding(
                "so does the aggregate of private regressions",
                "a tenth of the error or less",
                f"{error(MIRROR) / error(OWN):.2f} of it",
                error(MIRROR) <= 0.1 * error(OWN),
            ),
            Finding(
                "private moments, added up, do",
                "a tenth of the error or less",
                f"{error(SUMMED) / error(OWN):.2f} of it",
                error(SUMMED) <= 0.1 * error(OWN),
                corrected=True,
            ),
        ),
    )


_STYLE = {
    **regressions.STYLE,
    SUMMED: drawing.Line(drawing.GREEN, "^", label="moments added up, δ = 10⁻⁵"),
}


def draw(results: Results, canvas: "Canvas") -> None:
    canvas.set_size_inches(drawing.WIDTH, 4.6)
    left, right = canvas.subplots(1, 2, sharey=True)
    left.axvspan(-1, -1 + 2 * NARROW, color=drawing.GRID, linewidth=0)
    drawing.curves(left, results, ALONG, {k: v._replace(marker="") for k, v in _STYLE.items()})
    left.set_xlabel("x")
    left.set_title("each sees a fifth of the range")
    left.set_yscale("log")
    left.set_ylabel("mean squared error of the line")
    left.annotate(
        "own rows",
        (-1 + NARROW, 0.02),
        xycoords=("data", "axes fraction"),
        ha="center",
        color=drawing.MUTED,
        fontsize=10,
    )
    drawing.curves(right, results, OVERALL, _STYLE)
    drawing.on_log_axis(right, WIDTHS)
    right.set_xlabel("share of the range that each sees")
    right.set_title("mean over the range")
    drawing.legend(canvas, 2)


FIGURE = Figure(
    name="ridge-narrow",
    title="When each organisation sees only a part of the range",
    paper="Minami, Arai, Sato and Nakagawa 2015, section 2.2",
    claim="An organisation whose rows lie in a narrow region predicts badly outside it, and "
    "borrowing from organisations that together cover the range improves the regression.",
    columns=("panel", "method", "x", "error"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    positive=True,
    draw=draw,
)
