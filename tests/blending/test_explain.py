"""What an explanation says, for every kind of outcome."""

from dataclasses import replace

import numpy as np
import pytest

from sudare.blending._explain import (
    CandidateWeight,
    Expected,
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
    low: float = -1.0,
    releases: tuple[ReleaseInfluence, ...] = SOME,
    dropped: tuple[Dropped, ...] = (),
    high: float = 1.0,
) -> Explanation:
    weights = (
        CandidateWeight("own model", "own", own_weight),
        CandidateWeight("all", "together", 1 - own_weight),
    )
    return Explanation(weights, releases, Gain("log loss", 0.5, estimate, low, high), dropped)


@pytest.mark.parametrize(
    ("explanation", "begins", "helped"),
    [
        (told(0.1, 0.05, 0.01), "The releases helped.", True),
        (told(0.1, 0.05, -0.01), "The releases most likely help, though own rows are", True),
        (told(0.8, 0.05, 0.01), "The releases helped.", True),
        (told(0.8, 0.01), "Too few own rows to tell whether the releases help: the own", False),
        (told(0.3, -0.01), "Too few own rows to tell whether the releases help: the own", False),
        (told(0.95, 0.01), "The releases change next to nothing: the own model keeps 95%", False),
        (told(0.3, -0.2, high=-0.1), "The releases did not help: on own rows left out", False),
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


OWN, BLEND = np.array([0.5, 0.7, 0.9, 0.3]), np.array([0.4, 0.5, 0.9, 0.4])
T_3 = 3.1824463


def test_gain_is_between_what_rows_left_out_say_and_what_the_blend_expects() -> None:
    expected = Expected(np.array([0.02, 0.04, 0.06, 0.04]), 0.001)
    gain = gain_of("log loss", OWN, BLEND, expected)
    assert gain.own == pytest.approx(0.6)
    assert gain.estimate == pytest.approx((0.05 + 1.5 * 0.04) / 2)
    of_rows = T_3**2 * 1.5 * np.var(OWN - BLEND, ddof=1) / 4
    error = np.sqrt(of_rows + 0.04**2)
    assert (gain.low, gain.high) == pytest.approx((gain.estimate - error, gain.estimate + error))


def test_rows_that_happen_to_agree_say_no_more_than_the_blend_knows() -> None:
    expected = Expected(np.array([0.0, 0.1, 0.1, 0.2]), 0.7)
    gain = gain_of("log loss", OWN, OWN - 0.05, expected)
    error = np.sqrt(T_3**2 * 1.5 * (0.7 + 0.005) / 4 + 0.1**2)
    assert gain.high - gain.estimate == pytest.approx(error)


def test_no_difference_is_no_gain() -> None:
    gain = gain_of("log loss", OWN, OWN, Expected(np.zeros(4), 0.0))
    assert (gain.low, gain.estimate, gain.high) == (0, 0, 0)
