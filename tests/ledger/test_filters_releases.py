"""What the releases of real studies cost a ledger, whatever the model, the rows and the cap."""

import math
from functools import cache
from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.foundations.privacy import ApproximateEvent, Event, Guarantee, PureEvent
from sudare.ledger._filters import enforced
from sudare.site import ReleasePlan
from sudare.study import parse_study
from tests.site.clinics import CLASSES, NUMBERS

MODELS = ("moments", "objective", "output", "gibbs")
CAPS = (1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 20.0, 25.0, 30.0, 50.0, 300.0, 1e4)
SMALL = PureEvent(0.01, unit="patient")


@cache
def released(model: str, epsilon: float, n: int) -> Event:
    """The event of a study's release, which claims (ε, 1e-6)."""
    return ReleasePlan.of(parse_study(CLASSES.format(model=model, epsilon=epsilon)), n).event


def fits(events: list[Event], epsilon: float, delta: float) -> bool:
    return enforced(events, epsilon, delta).epsilon <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("n", [50, 200, 500, 2000, 20000])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_second_release_and_a_small_one_fit(model: str, epsilon: float, n: int) -> None:
    event = released(model, epsilon, n)
    assert fits([event] * 2, 2 * epsilon, 2e-6)
    for order in permutations([event, SMALL]):
        assert enforced(order, 5.0, 1e-5).epsilon < 1.0 * epsilon + 0.01 + 1e-9


@pytest.mark.parametrize("model", ["moments", "output", "gibbs"])
@pytest.mark.parametrize("n", [50, 2000])
def test_twelve_releases_compose_under_any_cap(model: str, n: int) -> None:
    twelve = [released(model, 0.5, n)] * 12
    fixed = Guarantee(tuple(twelve), 1e-5).epsilon()
    for cap in CAPS:
        found = enforced(twelve, cap, 1e-5).epsilon
        assert 1.0 < fixed / 1.05 < found < 1.9  # added up, 6
    costs = [enforced(twelve[:k], 3.0, 1e-5).epsilon for k in range(13)]
    assert all(before < after for before, after in pairwise(costs))


@pytest.mark.parametrize("model", MODELS)
def test_larger_caps_accept_more(model: str) -> None:
    for k in (2, 4, 12, 40):
        for n in (50, 2000):
            asked: list[Event] = [released(model, 0.5, n)] * k
            for delta in (1e-6, 1e-5, 1e-4):
                accepted = [fits([*asked, SMALL], cap, delta) for cap in CAPS]
                assert accepted == sorted(accepted)
                if delta > 1e-6 * k:
                    assert accepted[-1]


def test_a_ridge_release_of_each_model_too() -> None:
    for model in MODELS:
        text = NUMBERS.format(model=model, more="" if model == "moments" else "radius = 2.0")
        event = ReleasePlan.of(parse_study(text), 500).event
        costs = [enforced([event] * k, 30.0, 1e-5).epsilon for k in (1, 2, 4)]
        assert costs[1] < 2.001 * costs[0]
        assert costs[2] < 4.001 * costs[0]


kinds = st.one_of(
    st.builds(
        lambda model, epsilon, n: (epsilon, released(model, epsilon, n)),
        st.sampled_from(MODELS),
        st.sampled_from([0.1, 0.5, 1.0, 2.0]),
        st.sampled_from([50, 2000]),
    ),
    st.floats(0.01, 2.0).map(lambda epsilon: (epsilon, PureEvent(epsilon, unit="patient"))),
)
plain = st.floats(0.01, 2.0).map(
    lambda epsilon: (epsilon, ApproximateEvent(epsilon, 1e-6, unit="patient"))
)


@settings(max_examples=100, deadline=None)
@given(st.lists(plain, max_size=3), st.lists(kinds, min_size=1, max_size=6))
def test_what_fits_when_added_up_fits(
    before: list[tuple[float, Event]], after: list[tuple[float, Event]]
) -> None:
    """Each release at the price that it claims: with one curve among them exactly, at its end …"""
    everything = [*before, *sorted(after, key=lambda each: not isinstance(each[1], PureEvent))]
    events = [event for _, event in everything]
    curves = sum(not isinstance(event, PureEvent) for _, event in after)
    epsilon = math.fsum(each for each, _ in everything)
    delta = 1e-6 * (len(before) + curves)
    if curves <= 1:
        assert fits(events, epsilon, delta)
    # … and in any order but for a tenth of what the curves claim (docs/theory/filters.md).
    events = [event for _, event in (*before, *after)]
    claimed = math.fsum(each for each, event in after if not isinstance(event, PureEvent))
    assert fits(events, epsilon + claimed / 10, delta)
