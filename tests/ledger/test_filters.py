"""By which rule a ledger accepts: each bound against an oracle, the whole against adversaries."""

import math
from itertools import pairwise, permutations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sudare.foundations.checks import InvalidInput
from sudare.foundations.curves import (
    concentrated_delta,
    concentrated_epsilon,
    gaussian_delta,
    gaussian_epsilon,
)
from sudare.foundations.gaussian import concentrated_rho, gaussian_mu
from sudare.foundations.privacy import (
    ApproximateEvent,
    ConcentratedEvent,
    Event,
    GaussianEvent,
    Guarantee,
    LocalEvent,
    NearGaussianEvent,
    PureEvent,
)
from sudare.ledger import _filters as filters
from sudare.ledger._filters import enforced
from tests.events import EVENTS
from tests.ledger.adversary import Accepts, Adversary, after_gaussian, gaussian_curve

mpmath.mp.dps = 40


def by_fixed_prices(epsilon: float, delta: float) -> Accepts:
    """The rule that is not a filter: all events composed as if their prices were fixed."""
    return lambda events: Guarantee(events, delta).epsilon() <= epsilon


def by_filters(epsilon: float, delta: float) -> Accepts:
    return lambda events: enforced(events, epsilon, delta).epsilon <= epsilon * (1 + 1e-9)


def test_prices_composed_as_if_they_were_fixed_can_be_overdrawn() -> None:
    """Why there are filters: ten small releases, then whatever suits what they showed."""
    epsilon, delta = 1.0, 1e-3
    opening = (PureEvent(0.1),) * 10
    follow_ups: list[Event] = [PureEvent(0.29), GaussianEvent(0.22), PureEvent(0.2)]
    follow_ups += [ApproximateEvent(1e-6, 9.99e-4), ApproximateEvent(0.1, 5e-4)]
    reached = {}
    for rule in (by_fixed_prices, by_filters):
        accepts = rule(epsilon, delta)
        assert accepts(opening)
        accepted = [event for event in follow_ups if accepts((*opening, event))]
        reached[rule] = sum(
            stats.binom.pmf(ups, 10, 1 / (1 + math.exp(-0.1)))
            * max(
                hockey_stick(event, epsilon - 0.1 * (2 * ups - 10)) for event in [None, *accepted]
            )
            for ups in range(11)
        )
        assert (len(accepted) == len(follow_ups)) == (rule is by_fixed_prices)
    assert reached[by_fixed_prices] > 2 * delta
    assert reached[by_filters] <= delta


def hockey_stick(event: Event | None, epsilon: float) -> float:
    """δ(ε) of the worst release with this price, at any real ε; of nothing, for no event."""
    match event:
        case None:
            return max(0.0, -math.expm1(epsilon))
        case GaussianEvent(mu=mu):
            return float(gaussian_curve(np.array(epsilon), mu))
        case PureEvent(epsilon=loss):
            p = 1 / (1 + math.exp(-loss))
            above = p * max(0.0, -math.expm1(epsilon - loss))
            return above + (1 - p) * max(0.0, -math.expm1(epsilon + loss))
        case ApproximateEvent(epsilon=loss, delta=delta):
            return delta + (1 - delta) * hockey_stick(PureEvent(loss), epsilon)
    raise NotImplementedError


CAPS = {
    "a small δ": (1.0, 1e-6, 0.1, (1, 2, 5), 40),
    "a large δ": (1.0, 1e-3, 0.1, (1, 2), 40),
    "a large ε": (3.0, 1e-5, 0.25, (1, 2), 60),
    "a small ε": (0.3, 1e-2, 0.02, (1, 3), 60),
}


@pytest.mark.parametrize(
    ("epsilon", "delta", "step", "multiples", "most"), CAPS.values(), ids=CAPS.keys()
)
@pytest.mark.parametrize("share", [None, 0.5, 0.75], ids=["", "Gaussian first", "a large one"])
def test_no_adversary_overdraws_a_filter(
    epsilon: float,
    delta: float,
    step: float,
    multiples: tuple[int, ...],
    most: int,
    share: float | None,
) -> None:
    largest = gaussian_mu(epsilon, delta)
    mus = [largest * part for part in (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95)]
    rule = by_filters(epsilon, delta)
    deltas = [delta * part for part in (0.1, 0.25, 0.5, 0.9, 1.0)]
    adversary = Adversary(epsilon, rule, step, multiples, mus, most, deltas=deltas)
    if share is None:
        (reached,) = adversary.best()
    else:
        adversary.losses, weights = after_gaussian(share * largest)
        adversary.opening = (GaussianEvent(share * largest),)
        reached = float(weights @ adversary.best())
        alone = gaussian_delta(epsilon, share * largest)
        assert reached > 1.01 * alone  # it does better by looking
    assert delta / 50 < reached <= delta * (1 + 1e-9)


def test_the_adversary_finds_what_is_known() -> None:
    """With one kind of step and no choice it is plain composition."""
    adversary = Adversary(0.5, lambda events: len(events) <= 12, 0.1, (1,), (), losses=np.zeros(1))
    p = 1 / (1 + math.exp(-0.1))
    exact = sum(
        stats.binom.pmf(ups, 12, p) * max(0.0, -math.expm1(0.5 - 0.1 * (2 * ups - 12)))
        for ups in range(13)
    )
    assert adversary.best()[0] == pytest.approx(exact, rel=1e-12)
    losses, weights = after_gaussian(0.7)
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    hinge = np.maximum(0.0, -np.expm1(1.0 - losses))
    assert weights @ hinge == pytest.approx(gaussian_delta(1.0, 0.7), rel=1e-2)


def test_each_rule_has_its_use() -> None:
    tenths: list[Event] = [PureEvent(0.1)] * 10
    small: list[Event] = [GaussianEvent(0.05)] * 4
    assert enforced(tenths, 1.0, 1e-6).rule == "sum"
    assert enforced(tenths * 2, 2.0, 1e-6).rule == "sum"
    assert enforced(small, 1.0, 1e-6).rule == "gaussian"
    assert enforced([*small, ConcentratedEvent(0.001)], 1.0, 1e-6).rule == "renyi"
    assert enforced([PureEvent(0.01)] * 1000, 3.0, 1e-6).rule == "renyi"
    assert enforced([ApproximateEvent(0.1, 1e-7), *tenths], 1.0, 1e-6).rule == "added up"
    assert enforced([*tenths[:3], *small[:1]], 1.0, 1e-6).rule == "added up"
    assert enforced([*small[:1], *tenths[:3]], 1.0, 1e-6).rule == "added up"
    assert enforced(tenths[:1], 1.0, 1e-6).rule == "alone"
    assert enforced(small[:1], 1.0, 1e-6).rule == "alone"
    for events in ([*tenths], [*small], [*small, ConcentratedEvent(0.001)]):
        assert enforced(events, 1.0, 1e-6).epsilon <= 1 + 1e-9


def test_what_is_expected_to_fit_fits() -> None:
    def fits(events: list[Event], epsilon: float, delta: float) -> bool:
        return by_filters(epsilon, delta)(tuple(events))

    assert fits([ApproximateEvent(0.5, 5e-7)] * 2, 1.0, 1e-6)
    assert not fits([ApproximateEvent(0.5, 5e-7)] * 3, 1.6, 1e-6)
    assert fits([ApproximateEvent(0.25, 1e-6 / 3)] * 3, 1.0, 1e-6)
    for delta in (0.0, 1e-6):
        assert fits([PureEvent(0.1)] * 10, 1.0, delta)
        assert fits([LocalEvent(0.1)] * 10, 1.0, delta)
    assert not fits([PureEvent(0.1)] * 11, 1.0, 1e-6)
    assert fits([GaussianEvent(gaussian_mu(1.0, 1e-6))], 1.0, 1e-6)
    assert fits([ConcentratedEvent(concentrated_rho(1.0, 1e-6))], 1.0, 1e-6)
    assert not fits([ConcentratedEvent(concentrated_rho(1.0, 1e-6)), PureEvent(1e-9)], 1.0, 1e-6)
    year = [GaussianEvent(gaussian_mu(0.5, 1e-6))] * 12
    assert 1.8 < enforced(year, 3.0, 1e-5).epsilon < 1.9
    assert not fits([GaussianEvent(1e-9)], 1.0, 0.0)
    assert not fits([PureEvent(0.1), GaussianEvent(1e-9)], 1.0, 0.0)


def test_sums_have_all_of_the_cap_before_the_first_curve() -> None:
    cap = (1.0, 1e-6)
    three: list[Event] = [PureEvent(0.3), ApproximateEvent(0.5, 1e-6), PureEvent(0.2)]
    for released in permutations(three):
        assert enforced(released, *cap).epsilon == pytest.approx(1.0, rel=1e-9)
    twenty: list[Event] = [ApproximateEvent(0.05, 5e-8)] * 20
    assert by_filters(*cap)(tuple(twenty))
    assert not by_filters(*cap)((*twenty, ApproximateEvent(1e-12, 5e-8)))
    # A curve after them has all that is left to itself.
    curve = GaussianEvent(gaussian_mu(0.4, 4e-7))
    found = enforced([PureEvent(0.2), ApproximateEvent(0.4, 6e-7), curve], *cap).epsilon
    assert found == pytest.approx(1.0, rel=1e-9)


def test_after_the_first_curve_plain_deltas_have_a_quarter() -> None:
    first, cap = GaussianEvent(0.01), (1.0, 1e-6)
    for share, fits in [(0.25, True), (0.2501, False)]:
        found = enforced([first, ApproximateEvent(0.1, share * 1e-6)], *cap).epsilon
        assert math.isfinite(found) == fits
    # A quarter of what is left, that is.
    late: list[Event] = [ApproximateEvent(0.1, 6e-7), first, ApproximateEvent(0.1, 1.1e-7)]
    assert math.isinf(enforced(late, *cap).epsilon)
    late[-1] = ApproximateEvent(0.1, 0.99e-7)
    assert enforced(late, *cap).epsilon < 0.25


def test_curves_that_are_added_up_share_half_of_delta() -> None:
    mu, cap = 0.1, (5.0, 1e-6)
    released: list[Event] = [GaussianEvent(mu), PureEvent(2.0)]
    found = enforced(released, *cap).epsilon
    assert found == pytest.approx(2 + gaussian_epsilon(mu, 3 / 8 * 1e-6), rel=1e-9)
    released.append(ConcentratedEvent(1e-4))
    found = enforced(released, *cap).epsilon - found
    assert found == pytest.approx(concentrated_epsilon(1e-4, 3 / 32 * 1e-6), rel=1e-6)


def test_the_seventeenth_pure_release_begins_what_composes() -> None:
    many: list[Event] = [PureEvent(0.01)] * 1016
    cost = enforced(many, 3.0, 1e-6)
    tail = enforced([GaussianEvent(1e-9), *many[:1000]], 3.0 - 0.16, 1e-6)  # no head
    assert cost.rule == tail.rule == "renyi"
    assert cost.epsilon == pytest.approx(0.16 + tail.epsilon, rel=1e-9)


def test_not_all_sums_can_be_accepted_beside_a_curve() -> None:
    """Why a first curve costs somewhat more than at all of δ: a rule that took it so is no filter.

    Whoever has seen a Gaussian release spends all that its ε leaves on one pure release if the loss
    is large, and otherwise goes on with Gaussian ones.
    """
    epsilon, delta, mu = 3.0, 1e-5, gaussian_mu(0.5, 1e-6)
    rest, whole = epsilon - gaussian_epsilon(mu, delta), gaussian_mu(epsilon, delta / 8)
    losses, weights = after_gaussian(mu, nodes=4000)
    more = gaussian_curve(epsilon - losses, math.sqrt(whole**2 - mu**2))
    pure = np.array([hockey_stick(PureEvent(rest), epsilon - loss) for loss in losses])
    assert weights @ pure <= delta
    assert weights @ more <= delta / 8 * (1 + 1e-6)
    assert weights @ np.maximum(pure, more) > 1.04 * delta


def test_units_do_not_add_up() -> None:
    with pytest.raises(InvalidInput, match="same unit"):
        enforced([PureEvent(0.1), PureEvent(0.1, unit="visit")], 1.0, 1e-6)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 0.1, 0.999, 1.0, 1.5, 7.0, 30.0, 300.0])
def test_a_pure_release_is_gaussian_with_this_mu(epsilon: float) -> None:
    mu = filters.pure_mu(epsilon)
    p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
    exact = 2 * mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1) if epsilon < 20 else None
    if exact is None:  # 40 digits are too few to tell 2p − 1 from 1
        with mpmath.workdps(300):
            far = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
            exact = 2 * mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(-x) / far), mu / 2)
    assert exact <= mu <= exact * (1 + 1e-11)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0, 6.0])
def test_the_gaussian_trade_off_lies_below_that_of_any_pure_release(epsilon: float) -> None:
    mu = filters.pure_mu(epsilon)
    false_alarms = np.linspace(1e-6, 1 - 1e-6, 20001)
    gaussian = stats.norm.cdf(stats.norm.isf(false_alarms) - mu)
    pure = np.maximum(1 - math.exp(epsilon) * false_alarms, math.exp(-epsilon) * (1 - false_alarms))
    assert np.all(gaussian <= np.maximum(pure, 0) + 1e-12)
    too_small = stats.norm.cdf(stats.norm.isf(false_alarms) - mu * 0.99)
    assert not np.all(too_small <= np.maximum(pure, 0))


@pytest.mark.parametrize("order", [1.05, 2.0, 8.18, 24.0, 300.0])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
def test_divergences_of_pure_and_gaussian_releases(order: float, epsilon: float) -> None:
    eps, a = mpmath.mpf(epsilon), mpmath.mpf(order)
    p = 1 / (1 + mpmath.exp(-eps))
    response = mpmath.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
    for event in (PureEvent(epsilon), ApproximateEvent(epsilon, 1e-9)):
        cost = filters.price(event)
        assert response <= min(cost.epsilon, order * cost.rho) <= 0.51 * order * eps**2
    gaussian = mpmath.quad(
        lambda x: mpmath.npdf(x, epsilon) ** a * mpmath.npdf(x) ** (1 - a),
        [a * epsilon + k for k in (-40, -10, 0, 10, 40)],
    )
    found = order * filters.price(GaussianEvent(epsilon)).rho
    assert found == pytest.approx(float(mpmath.log(gaussian) / (a - 1)), rel=1e-10)
    assert filters.price(ConcentratedEvent(epsilon)).rho == epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (3.0, 1e-3), (0.05, 1e-9), (8, 0.3)])
def test_the_order_is_the_best_for_the_cap(epsilon: float, delta: float) -> None:
    rho, excess = concentrated_rho(epsilon, delta), filters.renyi_excess(epsilon, delta)
    found = filters.renyi_epsilon((1 + excess) * rho, excess, delta)
    assert epsilon * (1 - 1e-9) <= found <= epsilon * (1 + 1e-6)
    with mpmath.workdps(40):
        a = 1 + mpmath.mpf(excess)
        constant = (a - 1) ** (a - 1) / a**a
        log_delta = (a - 1) * (a * rho - found) + mpmath.log(constant)
        assert log_delta <= mpmath.log(delta)
        assert log_delta >= mpmath.log(delta) - 1e-9 * a
    assert concentrated_delta(rho, found) <= delta * (1 + 1e-10)


@pytest.mark.parametrize("order", [1.01, 1.5, 8.18, 300.0])
def test_the_hinge_lies_below_its_exponential_and_touches_it(order: float) -> None:
    """(1 − e^−x)₊ ≤ c e^((α−1)x), c = (α−1)^(α−1)/α^α: what the conversion rests on."""
    a = mpmath.mpf(order)
    constant = (a - 1) ** (a - 1) / a**a
    touch = mpmath.log(a / (a - 1))
    for x in [touch * k / 50 for k in range(1, 500)]:
        assert 1 - mpmath.exp(-x) <= constant * mpmath.exp((a - 1) * x) * (
            1 + mpmath.mpf(10) ** -30
        )
    gap = constant * mpmath.exp((a - 1) * touch) - (1 - mpmath.exp(-touch))
    assert abs(gap) < mpmath.mpf(10) ** -30


events = st.one_of(
    st.floats(1e-3, 1.0).map(PureEvent),
    st.floats(1e-3, 1.0).map(GaussianEvent),
    st.floats(1e-5, 0.5).map(ConcentratedEvent),
    st.builds(NearGaussianEvent, st.floats(1e-3, 1.0), st.floats(0, 1e-4), st.floats(0, 1e-7)),
    st.builds(ApproximateEvent, st.floats(1e-3, 1.0), st.floats(1e-9, 1e-7)),
)
caps = st.tuples(st.floats(0.1, 5.0), st.sampled_from([1e-6, 1e-5, 1e-3]))


@settings(max_examples=200, deadline=None)
@given(st.lists(events, min_size=1, max_size=20), caps, st.floats(1, 40), st.floats(1, 1e4))
def test_a_larger_cap_never_refuses_what_a_smaller_one_accepts(
    released: list[Event], cap: tuple[float, float], wider: float, looser: float
) -> None:
    epsilon, delta = cap
    if by_filters(epsilon, delta)(tuple(released)):
        assert by_filters(epsilon * wider, min(0.5, delta * looser))(tuple(released))


@settings(max_examples=60, deadline=None)
@given(st.lists(events, min_size=1, max_size=6), caps)
def test_the_cost_never_falls(released: list[Event], cap: tuple[float, float]) -> None:
    costs = [enforced(released[:n], *cap).epsilon for n in range(len(released) + 1)]
    assert costs[0] == 0
    assert all(before <= after * (1 + 1e-9) for before, after in pairwise(costs))


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.one_of(st.floats(0.05, 1.0).map(PureEvent), st.floats(0.05, 1.0).map(GaussianEvent)),
        min_size=2,
        max_size=5,
    ),
    caps,
)
def test_the_cost_is_never_below_what_fixed_prices_come_to(
    released: list[Event], cap: tuple[float, float]
) -> None:
    """Pure and Gaussian events compose tightly: less would be wrong whatever was seen."""
    tight = Guarantee(tuple(released), cap[1]).epsilon()
    assert enforced(released, *cap).epsilon >= tight * (1 - 1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(EVENTS, min_size=1, max_size=3),
    st.sampled_from([5e-324, 1e-12, 1e-9, 1e-3, 1.0, 900.0, 1e6, 1e300]),
    st.sampled_from([0.0, 5e-324, 1e-300, 1e-12, 0.5, 1 - 2**-53]),
)
def test_whatever_is_asked_has_an_answer(
    released: list[Event], epsilon: float, delta: float
) -> None:
    about = released[0].neighbours, released[0].unit
    same = [each for each in released if (each.neighbours, each.unit) == about]
    assert enforced(same * 2, epsilon, delta).epsilon >= 0  # at a large δ, nothing may be it


def test_even_the_largest_numbers_have_a_cost() -> None:
    for event in (ConcentratedEvent(9e307), GaussianEvent(1e300), PureEvent(1e300)):
        for cap in ((1.0, 1e-6), (1e300, 1e-300), (1e300, 0.5)):
            assert enforced([GaussianEvent(0.1), event], *cap).epsilon > 1e100


@pytest.mark.parametrize(("mu", "ratio"), [(0.1, 1e-3), (0.5, 0.02), (2.0, 0.1)])
def test_laws_within_factors_of_gaussian_ones_are_gaussian_with_this_mu(
    mu: float, ratio: float
) -> None:
    """The worst laws within e^±κ: P raised and Q lowered where P/Q is large, and both made one."""
    cuts = np.linspace(-6, 6 + mu, 601)
    p, q = stats.norm.sf(cuts - mu), stats.norm.sf(cuts)
    best = {}
    for factor in (1.0, 0.3):
        claimed = filters.near_mu(mu, factor * ratio)
        excess = []
        for mass_p, mass_q in zip(p, q, strict=True):
            power = min(math.exp(ratio) * mass_p, 1 - math.exp(-ratio) * (1 - mass_p))
            level = max(math.exp(-ratio) * mass_q, 1 - math.exp(ratio) * (1 - mass_q))
            excess.append(power - stats.norm.cdf(stats.norm.ppf(level) + claimed))
        best[factor] = max(excess)
    assert best[1.0] <= 1e-12
    assert best[0.3] > 0  # three tenths of it would be too few


@pytest.mark.parametrize(("mu", "failure"), [(0.12, 3.4e-8), (0.84, 1e-12), (2.0, 1e-3)])
def test_what_is_lost_to_failures(mu: float, failure: float) -> None:
    """Q lacks the mass `failure` where P/Q is largest: what P has there must be lost as well."""
    with mpmath.workdps(40):
        cut = mpmath.findroot(
            lambda x: mpmath.log(mpmath.ncdf(-x) / failure), -stats.norm.ppf(failure)
        )
        worst = failure + mpmath.ncdf(mu - cut)
        assert worst <= filters.lost_mass(mu, failure) <= worst * (1 + 1e-8)
    # Whatever ε: less than e^ε·failure, and no cap in it.
    for epsilon in (0.0, 0.5, 3.0):
        bound = (1 + math.exp(epsilon)) * failure + gaussian_delta(epsilon, mu)
        assert filters.lost_mass(mu, failure) <= bound * (1 + 1e-8)
    assert filters.lost_mass(mu, 0.0) == 0
    assert filters.lost_mass(mu, 0.6) == 1


def test_a_nearly_gaussian_release_is_a_gaussian_one_and_a_loss() -> None:
    near, cap = NearGaussianEvent(0.1, 3e-4, 1e-10), (1.0, 1e-6)
    mu = filters.near_mu(0.1, 3e-4)
    assert 0.1 + 2 * 2.5 * 3e-4 < mu < 0.1 + 2 * 2.51 * 3e-4
    exact = enforced([GaussianEvent(mu)] * 3, *cap)
    assert enforced([near] * 3, *cap) == exact
    lost = filters.lost_mass(mu, 1e-10, 3e-4)
    most = int(0.25e-6 / lost)
    assert math.isfinite(enforced([near] * most, *cap).epsilon)
    assert math.isinf(enforced([near] * (most + 1), *cap).epsilon)
