"""What an explanation says, for every kind of outcome."""

from dataclasses import replace

import numpy as np
import pytest

from sudare.blending._explain import (
    CandidateWeight,
    Explanation,
    Gain,
    ReleaseInfluence,
    gain_of,
)
from sudare.blending._received import Dropped

SOME = (ReleaseInfluence("A", 0.5, 0.0), ReleaseInfluence("B", 0.2, 0.95))


def told(
    own_weight: float,
    estimate: float,
    low: float = 0.0,
    releases: tuple[ReleaseInfluence, ...] = SOME,
    dropped: tuple[Dropped, ...] = (),
) -> Explanation:
    weights = (
        CandidateWeight("own model", "own", own_weight),
        CandidateWeight("all", "together", 1 - own_weight),
    )
    return Explanation(weights, releases, Gain("log loss", 0.5, estimate, low, 1.0), dropped)


@pytest.mark.parametrize(
    ("explanation", "begins", "helped"),
    [
        (told(0.1, 0.05, 0.01), "The releases helped.", True),
        (told(0.1, 0.05, -0.01), "The releases helped, though own rows are too few", True),
        (told(0.8, 0.01), "The releases did not help: own rows speak against them", False),
        (told(0.3, -0.01), "The releases did not help: on own rows left out", False),
        (told(1.0, 0.0, releases=()), "No releases were given", False),
        (told(1.0, 0.0, releases=(), dropped=(Dropped("X", "why"),)), "No release could be", False),
    ],
)
def test_verdicts(explanation: Explanation, begins: str, helped: bool) -> None:
    assert explanation.verdict.startswith(begins)
    assert explanation.helped == helped
    assert str(explanation).startswith(explanation.verdict)


def test_own_weight_is_told_when_it_decides() -> None:
    assert "keeps 80% of the weight" in told(0.8, 0.01).verdict


def test_doubtful_and_dropped_releases_are_named() -> None:
    text = str(told(0.1, 0.05, dropped=(Dropped("X", "too long"),)))
    assert "beyond what noise explains: B" in text
    assert "X: too long" in text
    assert "Unlike" not in str(told(0.1, 0.05, releases=SOME[:1]))


def test_a_note_comes_before_every_other_verdict() -> None:
    noted = replace(told(0.1, 0.05, 0.01), note="Own rows hold one class only")
    assert noted.verdict == "Own rows hold one class only: this is the own model."


def test_a_table_that_just_fits_has_no_rest() -> None:
    fitting = tuple(ReleaseInfluence(f"P{k}", 0.1, 0.0) for k in range(8))
    assert "more" not in str(told(0.2, 0.05, releases=fitting))


def test_long_tables_are_summed_up() -> None:
    many = tuple(ReleaseInfluence(f"P{k}", 0.05, 0.0) for k in range(20))
    text = str(told(0.0, 0.05, releases=many))
    assert "P7" in text
    assert "P8" not in text
    assert "60.0%   12 more" in text


def test_gain_is_the_mean_difference_with_its_error() -> None:
    own, blend = np.array([0.5, 0.7, 0.9, 0.3]), np.array([0.4, 0.5, 0.9, 0.4])
    gain = gain_of("log loss", own, blend)
    assert gain.own == pytest.approx(0.6)
    assert gain.estimate == pytest.approx(0.05)
    error = 1.96 * np.std(own - blend, ddof=1) / 2
    assert (gain.low, gain.high) == pytest.approx((0.05 - error, 0.05 + error))
