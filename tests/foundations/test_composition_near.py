"""Releases that are only close to a μ-GDP one: the stated distance covers the real law's δ.

The real laws here are discrete Gaussians on coarse lattices, far from the Gaussian curve, and laws
made to be as bad as their statement allows; their exact δ is a finite sum in 40 digits.
"""

import math
from typing import Any

import pytest
from mpmath import MPContext

from sudare.foundations.checks import InvalidInput
from sudare.foundations.composition import delta, epsilon, parts
from sudare.foundations.gaussian import gaussian_mu, lattice_log_ratio, near_gaussian_mu
from sudare.foundations.privacy import Event, GaussianEvent, NearGaussianEvent, account
from tests.exact_losses import exact_gaussian

mp = MPContext()
mp.dps = 40
mpf = mp.mpf

NEAR = [(0.3, 1e-6, 1e-20), (0.3, 0.01, 1e-9), (2.0, 0.05, 1e-12), (1.0, 0.0, 1e-8), (1.0, 0.1, 0)]


def stated(mu: float, log_ratio: float, failure: float, at: Any) -> Any:
    """e^κ·δ_μ(ε − 2κ) + (1 + e^ε)·β, in many digits."""
    kappa = mpf(log_ratio)
    ideal = exact_gaussian(mpf(at) - 2 * kappa, mpf(mu))
    return mp.exp(kappa) * ideal + (1 + mp.exp(at)) * mpf(failure)


def lattice_delta(scale: float, shifts: tuple[int, ...], at: Any) -> Any:
    """The exact δ of discrete Gaussians moved by whole numbers, one coordinate each."""
    sigma, reach = mpf(scale), int(14 * scale)
    weights = {k: mp.exp(-(mpf(k) ** 2) / (2 * sigma**2)) for k in range(-reach, reach + 1)}
    total = mp.fsum(weights.values())
    laws = [{(k * s, 1): w / total for k, w in weights.items()} for s in shifts]
    losses: dict[int, Any] = {0: mpf(1)}
    for law in laws:
        # The loss is (s² − 2ks)/2σ²: its whole part −ks adds up over the coordinates.
        added: dict[int, Any] = {}
        for one, mass in losses.items():
            for (two, _), weight in law.items():
                added[one + two] = added.get(one + two, mpf(0)) + mass * weight
        losses = added
    squares = sum(s * s for s in shifts)
    found = mpf(0)
    for moved, mass in losses.items():
        loss = (mpf(squares) - 2 * moved) / (2 * sigma**2)
        if loss > at:
            found += mass * (1 - mp.exp(mpf(at) - loss))
    return found


@pytest.mark.parametrize(("mu", "log_ratio", "failure"), NEAR)
@pytest.mark.parametrize("at", [0.3, 1.0, 3.0])
def test_a_single_release_is_what_its_statement_says(
    mu: float, log_ratio: float, failure: float, at: float
) -> None:
    release = parts((), [mu], (), (), [(log_ratio, failure)])
    answer, exact = delta(release, at), stated(mu, log_ratio, failure, at)
    if (1 + mp.exp(at)) * failure > exact / 2:
        # Failures count for more at a larger ε: there the smaller ε's guarantee is the better one.
        assert answer <= exact * (1 + mpf(10) ** -9)
        assert min(stated(mu, log_ratio, failure, at * k / 200) for k in range(201)) <= answer
        return
    assert exact <= answer <= exact * (1 + mpf(10) ** -9)
    back = epsilon(release, answer)
    assert back == pytest.approx(at, rel=1e-4)
    assert stated(mu, log_ratio, failure, back) <= answer


@pytest.mark.parametrize(("mu", "log_ratio", "failure"), NEAR)
def test_the_largest_mu_is_the_largest(mu: float, log_ratio: float, failure: float) -> None:
    at = 1.5
    asked = float(stated(mu, log_ratio, failure, at)) * (1 + 1e-9)
    found = near_gaussian_mu(at, asked, log_ratio, failure)
    assert stated(found, log_ratio, failure, at) <= asked
    assert stated(found * (1 + 1e-4), log_ratio, failure, at) > asked


def test_distances_add_up() -> None:
    """The worst law within the statement: three releases, each as far out as it may be."""
    events: list[Event] = [
        NearGaussianEvent(0.4, 0.01, 1e-9),
        NearGaussianEvent(0.3, 0.02, 2e-9),
        GaussianEvent(1.2),
    ]
    together = account(events, 1e-4)
    exact = stated(1.3, 0.03, 3e-9, together.epsilon())
    assert 1e-4 * (1 - 1e-4) <= exact <= 1e-4


def test_with_pure_releases() -> None:
    """Given the outcome of the pure release the rest is the stated curve, shifted."""
    one, near = 0.5, (0.7, 0.02, 1e-9)
    answer = epsilon(parts([one], [near[0]], (), (), [near[1:]]), 1e-3)
    mass = 1 / (1 + mp.exp(-mpf(one)))
    kappa = mpf(near[1])
    exact = mp.exp(kappa) * (
        mass * exact_gaussian(mpf(answer) - 2 * kappa - one, near[0])
        + (1 - mass) * exact_gaussian(mpf(answer) - 2 * kappa + one, near[0])
    ) + (1 + mp.exp(answer)) * mpf(near[2])
    assert 1e-3 * 0.97 <= exact <= 1e-3


@pytest.mark.parametrize(
    ("scale", "shifts"), [(1.0, (1,)), (2.0, (1,)), (3.0, (4,)), (5.0, (2, 1)), (2.0, (1, 1, 2))]
)
@pytest.mark.parametrize("at", [0.1, 0.5, 1.5])
def test_the_distance_covers_coarse_lattices(
    scale: float, shifts: tuple[int, ...], at: float
) -> None:
    """Discrete Gaussians on lattices so coarse that they are visibly off the curve."""
    mu = math.hypot(*shifts) / scale
    surprise = 40.0
    log_ratio = lattice_log_ratio(len(shifts), scale, surprise)
    exact = lattice_delta(scale, shifts, at)
    assert exact <= delta(parts((), [mu], (), (), [(log_ratio, math.exp(-surprise))]), at)


def test_the_curve_alone_would_not_do() -> None:
    """Without the distance the statement is false: on a coarse lattice δ is above the curve."""
    exact = lattice_delta(2.0, (1,), 1.0)
    assert exact > 1.02 * exact_gaussian(1.0, 0.5)


@pytest.mark.parametrize("scale", [1.0, 1.7, 6.0])
def test_the_log_ratio_against_both_laws(scale: float) -> None:
    """Discrete against rounded Gaussian, number by number; and how much lies outside."""
    surprise = 12.0
    bound = lattice_log_ratio(1, scale, surprise)
    sigma = mpf(scale)
    reach = scale * (1 + math.sqrt(2 * surprise)) + 0.5
    every = range(-int(40 * scale) - 1, int(40 * scale) + 2)
    total = mp.fsum(mp.exp(-(mpf(k) ** 2) / (2 * sigma**2)) for k in every)
    outside = [mpf(0), mpf(0)]
    largest = mpf(0)
    for k in every:
        discrete = mp.exp(-(mpf(k) ** 2) / (2 * sigma**2)) / total
        low, high = (mpf(k) - mpf(1) / 2) / sigma, (mpf(k) + mpf(1) / 2) / sigma
        rounded = (mp.erfc(low / mp.sqrt(2)) - mp.erfc(high / mp.sqrt(2))) / 2
        if k < 0:  # where both complements are near one: by symmetry
            rounded = (mp.erfc(-high / mp.sqrt(2)) - mp.erfc(-low / mp.sqrt(2))) / 2
        if abs(k) <= reach:
            largest = max(largest, abs(mp.log(discrete / rounded)))
        else:
            outside = [outside[0] + discrete, outside[1] + rounded]
    assert bound / 4 <= largest <= bound
    assert max(outside) <= mp.exp(-surprise)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.45])
def test_failures_take_no_more_of_delta_than_they_need(share: float) -> None:
    """Beside a Gaussian and a zCDP release, whose valid bounds on ε lie far apart: the failures
    count e^ε times, by the least of them."""
    gaussian, concentrated, at = [3.0], [4.0], 1e-6
    alone = epsilon(parts((), gaussian, concentrated, ()), at * (1 - share))
    failure = share * at / (1 + math.exp(alone))
    found = epsilon(parts((), gaussian, concentrated, (), [(0.0, failure)]), at)
    assert alone * (1 - 1e-9) <= found <= alone * (1 + 3e-3)


def test_refuses_a_distance_that_takes_all() -> None:
    with pytest.raises(InvalidInput, match="larger epsilon"):
        near_gaussian_mu(0.1, 1e-6, 0.06, 0.0)
    with pytest.raises(InvalidInput, match="larger epsilon"):
        near_gaussian_mu(1.0, 1e-6, 0.0, 1e-6)


@pytest.mark.parametrize(
    ("dimension", "scale", "surprise"),
    [(1, 1.0, 3.0), (1, 2.5, 12.0), (7, 1.0, 40.0), (30, 1.3, 300.0), (1000, 2048.0, 90.0)],
)
def test_the_log_ratio_is_the_stated_bound(dimension: int, scale: float, surprise: float) -> None:
    """(√D + √(2L) + √D/2σ)²/24σ² and its two small terms, rounded up and by no more than that."""
    d, sigma, rare = mpf(dimension), mpf(scale), mpf(surprise)
    reach = mp.sqrt(d) + mp.sqrt(2 * rare) + mp.sqrt(d) / (2 * sigma)
    right = reach**2 / (24 * sigma**2) + 3 * d * mp.exp(-2 * mp.pi**2 * sigma**2)
    right += 2 * mp.exp(-rare)
    found = lattice_log_ratio(dimension, scale, surprise)
    assert right <= found <= right * (1 + mpf(10) ** -11)


@pytest.mark.parametrize(
    "bad", [{"dimension": 0}, {"scale": 0.999}, {"surprise": 0.0}, {"dimension": 1.5}]
)
def test_lattices_outside_the_proof_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"Expected {next(iter(bad))}"):
        lattice_log_ratio(**({"dimension": 1, "scale": 1.0, "surprise": 1.0} | bad))


@pytest.mark.parametrize(
    ("epsilon", "delta", "log_ratio", "failure", "named"),
    [
        (0, 1e-6, 0.0, 0.0, "epsilon=0 "),
        (1.0, 0.0, 0.0, 0.0, "delta=0.0 "),
        (1.0, 1e-6, -1e-9, 0.0, "log_ratio=-1e-09 "),
        (1.0, 1e-6, 0.0, -1e-9, "failure=-1e-09 "),
        (1.0, 1e-6, 0.0, 1.0, "failure=1.0 "),
        (701.0, 1e-6, 0.0, 0.0, "a larger epsilon or delta"),
        (1.0, 1e-6, 0.5, 0.0, "a larger epsilon or delta"),
    ],
)
def test_refuses_what_no_mu_can_meet(
    epsilon: float, delta: float, log_ratio: float, failure: float, named: str
) -> None:
    with pytest.raises(InvalidInput, match=f"Expected {named}"):
        near_gaussian_mu(epsilon, delta, log_ratio, failure)


def test_without_a_distance_it_is_the_gaussian_mu() -> None:
    for at in (0.01, 1.0, 30.0, 700.0):
        exactly = gaussian_mu(at, 1e-7)
        assert exactly * (1 - 1e-9) <= near_gaussian_mu(at, 1e-7, 0.0, 0.0) <= exactly
