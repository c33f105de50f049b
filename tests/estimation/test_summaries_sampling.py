"""What sampling adds to every interval, where the noise is next to nothing: textbook formulas."""

import math
from typing import Any

import pytest

from sudare.estimation import Summaries
from sudare.estimation._propagation import Estimate
from sudare.foundations.randomness import seeded
from tests.estimation.people import classes, clipped, noisy, numbers, people

N, Z = 900, 1.9599639845400545
FRAME = people(N, seeded(30))
ROWS: Any = clipped(FRAME)
READ = Summaries(noisy(FRAME, numbers(), 1e-7, seeded(31)), numbers(), sampling=True)


def half(found: Estimate) -> float:
    return float(found.high - found.low) / 2


def test_a_mean_has_the_standard_error_of_a_mean() -> None:
    for name in ("weight", "pressure"):  # the second has gaps: over the rows where it is known
        known = ROWS[name].dropna()
        error = known.std(ddof=0) / math.sqrt(len(known))
        assert half(READ.mean(name)) == pytest.approx(Z * error, rel=1e-4)
    assert half(READ.outcome()) == pytest.approx(
        Z * ROWS["days"].std(ddof=0) / math.sqrt(N), rel=1e-4
    )


def test_a_share_has_that_of_a_coin() -> None:
    share = (ROWS["stage"] == "I").mean()
    error = math.sqrt(share * (1 - share) / N)
    assert half(READ.share("stage", "I")) == pytest.approx(Z * error, rel=1e-4)


def test_a_groups_mean_counts_the_most_its_variance_can_be() -> None:
    inside = ROWS["stage"] == "III"
    mean = ROWS["days"][inside].mean()
    error = math.sqrt((30 - mean) * mean / inside.sum())  # days are between 0 and 30
    assert half(READ.group("stage", "III")) == pytest.approx(Z * error, rel=1e-4)


@pytest.mark.parametrize(("name", "low", "high"), [("pressure", 80, 200), ("days", 0, 30)])
def test_a_deviation_counts_the_most_the_fourth_moment_can_be(
    name: str, low: float, high: float
) -> None:
    known = ROWS[name].dropna()
    variance = float(known.var(ddof=0))
    error = math.sqrt(variance * ((high - low) ** 2 - variance) / len(known))
    found = READ.outcome_deviation() if name == "days" else READ.deviation(name)
    assert found.low**2 == pytest.approx(max(variance - Z * error, 0), rel=1e-3)
    assert found.high**2 == pytest.approx(variance + Z * error, rel=1e-3)
    assert (found.least, found.most) == (0.0, (high - low) / 2)


def test_a_variance_that_the_noise_hides_is_taken_as_the_largest() -> None:
    """Everybody weighs 55 kg, of 40 to 160: the variance is 0, which the noise cannot show."""
    frame = people(N, seeded(32)).assign(weight=55.0)
    read = Summaries(noisy(frame, classes(), 0.05, seeded(33)), classes(), sampling=True)
    error = math.sqrt((160 - 55) * (55 - 40) / N)
    assert half(read.mean("weight")) == pytest.approx(Z * error, rel=0.02)
    quiet = Summaries(noisy(frame, classes(), 0.05, seeded(33)), classes())
    assert half(quiet.mean("weight")) < 0.2 * Z * error
