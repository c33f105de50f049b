"""Learnt summaries: each sees what it is for, and none stumbles. Seeds are fixed."""

import numpy as np
import pytest

from sudare.audit import _statistics as statistics
from sudare.foundations.randomness import seeded


def learnt(first, second):
    """Statistics by the words of their upper tail at zero."""
    return {s.describe(0.0, True): s for s in statistics.learn(first, second)}


def separation(statistic, first, second):
    """Gap of the medians in units of the pooled spread."""
    a, b = statistic.evaluate(first), statistic.evaluate(second)
    return abs(np.median(a) - np.median(b)) / np.concatenate([a, b]).std()


def test_plain_summaries_are_what_they_say():
    x = np.array([[3.0, -4.0], [0.0, 0.0], [1e200, -1e200]])
    found = learnt(np.repeat(x, 5, axis=0), np.repeat(x, 5, axis=0))
    assert found["output 2 at least 0"].evaluate(x) == pytest.approx([-4.0, 0.0, -1e200])
    absolute = found["the absolute value of output 2 at least 0"]
    assert absolute.evaluate(x) == pytest.approx([4.0, 0.0, 1e200])
    norm = found["the Euclidean norm of the output at least 0"]
    assert norm.evaluate(x) == pytest.approx([5.0, 0.0, np.sqrt(2) * 1e200])


def test_words_of_both_tails():
    statistic = learnt(*(seeded(0).normal(size=(2, 50, 1))))["output 1 at least 0"]
    assert statistic.describe(-3.25, True) == "output 1 at least −3.25"
    assert statistic.describe(-3.25, False) == "output 1 below −3.25"


def test_linear_discriminant_finds_a_hidden_direction():
    """Two thin parallel stripes: hopeless by coordinate, plain by combination."""
    rng = seeded(1)
    along = rng.normal(size=(2, 4000, 1)) * 10
    first, second = (np.hstack([a, -a]) + 0.1 * rng.normal(size=(4000, 2)) for a in along)
    second = second + 0.3
    found = learnt(first, second)
    linear = found["the best linear combination of the outputs at least 0"]
    assert separation(linear, first, second) > 1.5
    assert separation(found["output 1 at least 0"], first, second) < 0.1


def test_gaussian_ratio_is_the_true_one_for_gaussian_outputs():
    rng = seeded(2)
    first, second = rng.normal(size=(200_000, 2)), 1.5 * rng.normal(size=(200_000, 2)) + 1
    statistic = learnt(first, second)["the Gaussian log-likelihood ratio of the output at least 0"]
    x = rng.normal(size=(100, 2))
    truth = -0.5 * (x**2).sum(axis=1) + 0.5 * ((x - 1) ** 2).sum(axis=1) / 1.5**2 + 2 * np.log(1.5)
    assert statistic.evaluate(x) == pytest.approx(truth, abs=0.1)


def test_histogram_ratio_sees_a_bimodal_difference():
    rng = seeded(3)
    first = rng.normal(size=(20_000, 1))
    second = rng.choice([-1.0, 1.0], size=(20_000, 1)) * 1.0 + 0.05 * rng.normal(size=(20_000, 1))
    words = "the output among the histogram cells whose learnt log ratio is at least 0"
    statistic = learnt(first, second)[words]
    ratio = statistic.evaluate(np.array([[0.0], [1.0], [-1.0]]))
    assert ratio[0] > 2
    assert (ratio[1:] < -0.5).all()


def test_exact_values_and_patterns_of_discrete_outputs():
    rng = seeded(4)
    first = rng.integers(0, 2, size=(3000, 3)).astype(float)
    second = first.copy()
    second[:, 2] = second[:, 0]  # only the joint law differs
    found = learnt(first, second)
    assert "output 1 equals 1" in found
    pattern = found["the output among the outcomes whose learnt log ratio is at least 0"]
    impossible, doubled, never_seen = pattern.evaluate(
        np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [7.0, 7.0, 7.0]])
    )
    assert impossible > 4
    assert doubled == pytest.approx(-np.log(2), abs=0.2)
    assert never_seen == 0.0


def test_continuous_outputs_have_no_exact_values():
    rng = seeded(5)
    words = " ".join(learnt(rng.normal(size=(5000, 1)), rng.normal(size=(5000, 1))))
    assert "equals" not in words
    assert "outcomes" not in words


def test_outputs_that_are_not_finite():
    rng = seeded(6)
    first, second = rng.normal(size=(2, 400, 2))
    first[::3, 0], second[::5, 1], second[0, 1] = np.nan, np.inf, -np.inf
    found = learnt(first, second)
    assert found["output 1 is not a number"].evaluate(first).sum() == len(first[::3])
    assert found["output 2 is plus infinity"].evaluate(second).sum() == len(second[::5]) - 1
    assert found["output 2 is minus infinity"].evaluate(second).sum() == 1
    assert "output 2 is not a number" not in found
    assert np.isnan(found["output 1 at least 0"].evaluate(first)[::3]).all()
    for words, statistic in found.items():
        if "output 1 at" not in words and "output 2 at" not in words:
            assert np.isfinite(statistic.evaluate(first)).all(), words


@pytest.mark.parametrize(
    "column", [np.zeros(300), np.full(300, 1e308), np.arange(300) * 1e-320, np.full(300, np.nan)]
)
def test_degenerate_columns_do_no_harm(column):
    rng = seeded(7)
    x = np.column_stack([column, rng.normal(size=300), rng.normal(size=300)])
    y = x + np.array([0.0, 2.0, 0.0])
    found = learnt(x, y)
    gaussian = found["the Gaussian log-likelihood ratio of the output at least 0"]
    assert separation(gaussian, x, y) > 1


def test_of_many_columns_the_telling_one_is_kept():
    rng = seeded(8)
    first, second = rng.normal(size=(2, 300, 500))
    second[:, 321] += 3
    found = learnt(first, second)
    assert "output 322 at least 0" in found
    assert len(found) < 100
