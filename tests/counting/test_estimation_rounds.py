"""Rounds one at a time are the rows of the whole estimate, to the last bit."""

from typing import Any

import numpy as np
import pytest

from sudare.counting import METHODS, Method, Survey, Tally, estimate
from sudare.counting._estimation import estimate_rounds
from sudare.counting.tree import due_in, needed, prefix_cells, rounds_of
from sudare.foundations.checks import InvalidInput


def a_survey(method: Method, rounds: int) -> Survey:
    own: dict[str, Any] = {"masks": {"slots": min(rounds, 2)}, "tree": {"changes": 2}}
    return Survey(name="s", rounds=rounds, epsilon=2.0, method=method, **own.get(method, {}))


def counted(survey: Survey, users: int, most: int, seed: int) -> Tally:
    rng = np.random.default_rng(seed)
    reporters = rng.integers(0, most, survey.cells)
    if survey.method == "rappor":
        reporters = np.full(survey.cells, users)
    return Tally(survey.digest(), reporters, rng.binomial(reporters, 0.4))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rounds", [1, 2, 7, 16])
def test_like_the_whole(method: Method, rounds: int) -> None:
    survey, users = a_survey(method, rounds), 80
    for most, seed in ((3, 0), (15, 1)):
        tally = counted(survey, users, most, seed)
        whole = estimate(tally, survey, users=users, beta=0.1)
        cells = [needed(survey, t) for t in range(rounds)]
        reporters, ones = [tally.reporters[c] for c in cells], [tally.ones[c] for c in cells]
        found = estimate_rounds(survey, range(rounds), reporters, ones, users=users, beta=0.1)
        for name in ("reporters", "raw", "low", "high", "std"):
            assert np.array_equal(getattr(found, name), getattr(whole, name), equal_nan=True)
        last = (reporters[-1:], ones[-1:])
        one = estimate_rounds(survey, [rounds - 1], *last, users=users, beta=0.1)
        assert np.array_equal(one.low, whole.low[-1:])


@pytest.mark.parametrize("rounds", [1, 6, 7, 16])
def test_like_the_whole_where_levels_differ(rounds: int) -> None:
    survey = Survey(
        name="s", rounds=rounds, epsilon=2.0, method="tree", changes=5, flips="stretches"
    )
    tally = counted(survey, 200, 30, 1)
    whole = estimate(tally, survey, users=2000, beta=0.1)
    cells = [needed(survey, t) for t in range(rounds)]
    reporters, ones = [tally.reporters[c] for c in cells], [tally.ones[c] for c in cells]
    found = estimate_rounds(survey, range(rounds), reporters, ones, users=2000, beta=0.1)
    for name in ("reporters", "raw", "low", "high", "std"):
        assert getattr(found, name) == pytest.approx(getattr(whole, name), rel=1e-13, nan_ok=True)


def test_rappor_takes_the_better_interval_round_by_round() -> None:
    survey = a_survey("rappor", 2)
    n, y = [np.array([60]), np.array([59])], [np.array([30]), np.array([30])]
    found = estimate_rounds(survey, [0, 1], n, y, users=60, beta=0.1)
    everybody = Tally(survey.digest(), np.array([60, 60]), np.array([30, 30]))
    some = Tally(survey.digest(), np.array([59, 59]), np.array([30, 30]))
    assert found.low[0] == estimate(everybody, survey, users=60, beta=0.1).low[0]
    assert found.low[1] == estimate(some, survey, users=60, beta=0.1).low[1]
    assert found.low[0] > found.low[1]


@pytest.mark.parametrize("method", METHODS)
def test_cells_and_rounds(method: Method) -> None:
    survey = a_survey(method, 13)
    every = np.concatenate([due_in(survey, t) for t in range(13)])
    assert sorted(every.tolist()) == list(range(survey.cells))
    rounds = rounds_of(survey, np.arange(survey.cells))
    for t in range(13):
        assert (rounds[due_in(survey, t)] == t).all()
        # What a round needs is known when it closes.
        assert rounds[needed(survey, t)].max() == t
    if method == "tree":
        cells, used = prefix_cells(13)
        for t in range(13):
            assert needed(survey, t).tolist() == cells[t][used[t]].tolist()


def test_nothing_asked() -> None:
    for method in METHODS:
        assert estimate_rounds(a_survey(method, 3), [], [], [], users=1, beta=0.1).raw.size == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("users", [0, -1, 2.5, True, 2**53 + 1])
def test_users_are_checked(method: Method, users: Any) -> None:
    survey = a_survey(method, 3)
    counts = [np.ones(len(needed(survey, 0)), np.int64)]
    with pytest.raises(InvalidInput, match="Expected users"):
        estimate_rounds(survey, [0], counts, counts, users=users, beta=0.1)
