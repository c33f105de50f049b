"""Draw the pictures of the README from seeded runs: `python -m tools.pictures`."""

from pathlib import Path

import numpy as np

from sudare.counting import Survey, empty_tally, estimate, open_office, smooth
from sudare.mechanisms import draw_masks
from sudare.randomness import seeded
from sudare.site import plan_learning
from sudare.site.charts import Series, curves, standalone

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def learning() -> str:
    """Own model, blend and pooled ceiling against ε: a hundred organisations of fifty rows."""
    return plan_learning(rows=50, features=10, epsilon=1.0, parties=100, runs=10).to_svg()


def counting() -> str:
    """A day and a half of households at home: truth, estimate with its band, smoothed."""
    rounds, users, rng = 36, 20_000, seeded(4)
    hours = np.arange(rounds)
    shares = 0.55 + 0.35 * np.cos((hours - 2) / 24 * 2 * np.pi)
    survey = Survey(name="at-home", rounds=rounds, epsilon=2.0, method="masks", slots=2)
    office, serials = open_office(survey, bytes(32)), np.arange(users)
    bits, masks = rng.random((users, rounds)) < shares, draw_masks(survey.law, users, rng)
    tally = empty_tally(survey)
    for slot in range(survey.slots):
        cells = office.cells(serials, np.full(users, slot))
        tally = tally.add(cells, bits[serials, cells] ^ masks[:, slot].astype(bool))
    found = estimate(tally, survey)
    x = hours.astype(float).tolist()
    chart = curves(
        [
            Series(
                "estimate",
                x,
                found.share.tolist(),
                "party",
                found.low.tolist(),
                found.high.tolist(),
            ),
            Series("smoothed", x, smooth(found).tolist(), "blend"),
            Series("truth", x, bits.mean(axis=0).tolist(), "own"),
        ],
        "share of households at home, by the hour",
        "hour",
        "share at home",
    )
    return standalone(chart)


if __name__ == "__main__":
    (IMAGES / "learn.svg").write_text(learning(), encoding="utf-8")
    (IMAGES / "count.svg").write_text(counting(), encoding="utf-8")
