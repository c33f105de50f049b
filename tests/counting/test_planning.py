"""Plans: which method, what it is worth, and how many users or how large an ε it takes."""

import math

import numpy as np
import pytest

from sudare.calibration import dense_condition, error_bound
from sudare.counting import Survey
from sudare.counting._estimation import estimate
from sudare.counting._planning import dense_share, epsilon_needed, plan, users_needed
from sudare.counting._prediction import predict_error
from sudare.counting._simulation import simulate
from sudare.counting._tally import Tally
from sudare.foundations.checks import InvalidInput

USERS, ROUNDS = 10_000, 50


@pytest.mark.parametrize("share", [0.5, 0.9995])
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_the_choice_is_never_worse_than_glance(epsilon: float, share: float) -> None:
    told = plan(USERS, ROUNDS, epsilon, share=share)
    chosen, glance = (
        simulate(way.survey, np.full(ROUNDS, share), USERS, runs=400, rng=1)
        for way in (told.best, told.option("glance"))
    )
    noise = math.hypot(chosen.standard_error, glance.standard_error)
    assert chosen.mean_error <= glance.mean_error + 3 * noise
    if (epsilon, share) == (8.0, 0.5):
        assert chosen.mean_error <= 0.5 * glance.mean_error


def test_options_are_complete_sorted_and_consistent() -> None:
    told = plan(USERS, ROUNDS, 4.0, changes=3, beta=0.1)
    methods = [o.survey.method for o in told.options]
    assert sorted(methods) == ["glance", "harmony", "harmony-signed", "masks", "rappor", "tree"]
    assert [o.error for o in told.options] == sorted(o.error for o in told.options)
    for option in told.options:
        assert option.error == predict_error(option.survey, USERS)
        assert option.survey.rounds == ROUNDS
        assert option.survey.epsilon == 4.0
        assert 0 < option.half_width <= 0.5 or option.survey.method == "tree"
        assert option.bound > option.error
    masks = told.option("masks")
    assert masks.bound == error_bound(masks.survey.law, USERS, ROUNDS, 0.1)
    assert masks.reports == masks.survey.slots * USERS / ROUNDS
    assert told.best == masks
    assert "masks, " in str(told)
    assert "10,000 users, 50 rounds, ε = 4, the worst share" in str(told)
    with pytest.raises(InvalidInput, match="method='tree'"):
        plan(USERS, ROUNDS, 4.0).option("tree")


def test_harmony_is_never_recommended() -> None:
    told = plan(USERS, ROUNDS, 1.0)
    assert told.options[0].survey.method == "harmony-signed"
    assert told.best.survey.method == "glance"


@pytest.mark.parametrize("method", ["glance", "masks", "harmony", "harmony-signed", "rappor"])
def test_bounds_hold_in_simulation(method: str) -> None:
    for share in (0.5, 1.0):
        option = plan(2_000, 10, 3.0, share=share, beta=0.5).option(method)  # type: ignore[arg-type]
        told = simulate(option.survey, np.full(10, share), 2_000, runs=1_000, rng=1)
        beyond = (told.errors > option.bound).mean()
        assert beyond <= 0.5
        # … and are not idle: at half the bound it happens much more often.
        assert (told.errors > option.bound / 2).mean() > max(0.3, 5 * beyond)


def test_half_width_is_that_of_the_interval() -> None:
    option = plan(USERS, ROUNDS, 4.0, share=0.3).option("glance")
    told = simulate(option.survey, np.full(ROUNDS, 0.3), USERS, rng=1)
    tally = Tally(option.survey.digest(), told.reporters[0], told.ones[0])
    shown = estimate(tally, option.survey, interval="binomial")
    assert ((shown.high - shown.low) / 2).mean() == pytest.approx(option.half_width, rel=0.02)


def test_fewer_slots_where_more_gain_nothing() -> None:
    told = plan(USERS, ROUNDS, 8.0).option("masks")
    best = min(
        predict_error(Survey(name="t", rounds=ROUNDS, epsilon=8.0, method="masks", slots=g), USERS)
        for g in range(2, 31)
    )
    assert told.error <= 1.0101 * best
    assert told.survey.slots < 25


def test_users_needed_is_the_fewest() -> None:
    for epsilon, error, share in ((2.0, 0.05, None), (6.0, 0.02, 0.01), (1.0, 0.3, None)):
        users = users_needed(ROUNDS, epsilon, error, share=share)
        assert users is not None
        assert plan(users, ROUNDS, epsilon, share=share).best.error <= error
        fewer = plan(math.floor(users * 0.985), ROUNDS, epsilon, share=share)
        assert fewer.best.error > error
    assert users_needed(50, 0.01, 1e-5) is None
    assert users_needed(1, 40.0, 0.4) == 1


def test_epsilon_needed_is_the_smallest() -> None:
    for users, error, share in ((10_000, 0.05, None), (3_000, 0.03, 0.001)):
        epsilon = epsilon_needed(users, ROUNDS, error, share=share)
        assert epsilon is not None
        assert float(f"{epsilon:.3g}") == epsilon
        assert plan(users, ROUNDS, epsilon, share=share).best.error <= error
        assert plan(users, ROUNDS, 0.98 * epsilon, share=share).best.error > error
    assert epsilon_needed(10_000, 50, 1e-4) is None


def test_dense_shares() -> None:
    # Figure 1 of Ono et al., with the root itself in place of twice the root.
    for users, epsilon in ((10_000, 5.0), (100_000, 5.0), (100_000, 9.0)):
        share = dense_share(epsilon, users, 10, 0.1)
        assert 0 < share < 0.1
        assert dense_condition(share, epsilon, users, 10, 0.1)
        assert dense_condition(1 - 0.99 * share, epsilon, users, 10, 0.1)
        assert not dense_condition(1.001 * share, epsilon, users, 10, 0.1)
    assert dense_share(1.0, 10_000, 10, 0.1) == 0.5
    assert dense_share(5.0, 50, 10, 0.1) == 0.0  # too few users to promise anything
    assert plan(USERS, ROUNDS, 5.0).dense_below == dense_share(5.0, USERS, ROUNDS, 0.05)


def test_extremes_have_plans() -> None:
    assert plan(5, 50, 1.0).best.bound == math.inf
    assert {o.survey.method for o in plan(100, 1, 1.0).options}.isdisjoint({"masks"})
    assert plan(100, 2, 40.0).best.error < 1e-6
    assert plan(10, 3, 1e-6).best.error > 1_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan(0, 5, 1.0), "users=0"),
        (lambda: plan(5, 0, 1.0), "rounds=0"),
        (lambda: plan(5, 5, 0.0), "epsilon=0"),
        (lambda: plan(5, 5, 41.0), "epsilon=41"),
        (lambda: plan(5, 5, 1e-25), "a larger epsilon"),
        (lambda: plan(5, 5, 1.0, share=1.2), "share=1.2"),
        (lambda: plan(5, 5, 1.0, beta=1.0), "beta=1"),
        (lambda: plan(5, 5, 1.0, changes=0), "changes=0"),
        (lambda: users_needed(5, 1.0, 0.0), "error=0"),
        (lambda: users_needed(5, 1.0, 0.5), "error=0.5 < 0.5"),
        (lambda: epsilon_needed(5, 1, -1.0), "error=-1"),
    ],
)
def test_mistakes_are_told(call, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()
