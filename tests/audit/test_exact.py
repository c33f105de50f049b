"""Exact audits against closed forms and independent integration. No randomness here."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sudare.audit import audit_exact, hockey_stick, worst_log_ratio
from sudare.foundations.checks import InvalidInput

LINE = ((-math.inf, math.inf),)
PLANE = LINE * 2


def gaussian(mean, std=1.0):
    return lambda x: norm.logpdf(x, mean, std)


def laplace(mean, scale=1.0):
    return lambda x: -np.abs(x - mean) / scale - math.log(2 * scale)


def gaussian_plane(mean):
    return lambda x: -0.5 * ((x - np.array(mean)) ** 2).sum(axis=1) - math.log(2 * math.pi)


def gamma_plane(mean, scale=1.0):
    constant = math.log(2 * math.pi * scale**2)
    return lambda x: -np.linalg.norm(x - np.array(mean), axis=1) / scale - constant


def gaussian_delta(epsilon, mu):
    with mpmath.workdps(30):
        curve = mpmath.ncdf(-epsilon / mu + mu / 2)
        return float(curve - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2))


def nowhere(x):
    return np.full(len(x), -np.inf)


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_gaussian_closed_form(epsilon, mu):
    expected = gaussian_delta(epsilon, mu)
    found = hockey_stick(gaussian(0), gaussian(mu), epsilon, LINE)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("place", "std"), [(5.0, 1e-4), (5000.0, 1.0), (-0.3, 1e-6), (0.0, 1e6)])
def test_narrow_wide_and_distant_laws_are_found(place, std):
    found = hockey_stick(gaussian(place, std), gaussian(place + std, std), 1.0, LINE)
    assert found == pytest.approx(gaussian_delta(1.0, 1.0), abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 0.9])
def test_laplace_closed_form(epsilon):
    expected = 1 - math.exp((epsilon - 1) / 2)
    assert hockey_stick(laplace(0), laplace(1), epsilon, LINE) == pytest.approx(expected, abs=1e-12)


def test_a_tight_pure_claim_is_accepted_and_less_noise_rejected():
    nominal = audit_exact(laplace(0), laplace(1), epsilon=1.0, domain=LINE)
    assert not nominal.violated
    assert nominal.worst_log_ratio == pytest.approx(1.0, abs=1e-12)
    assert nominal.worst_log_ratio <= 1.0
    for factor in (0.8, 0.99, 0.9999):
        weak = audit_exact(laplace(0, factor), laplace(1, factor), epsilon=1.0, domain=LINE)
        assert weak.violated, factor
        assert weak.worst_log_ratio == pytest.approx(1 / factor, abs=1e-9)
        expected = 1 - math.exp((1 - 1 / factor) / 2)
        assert weak.delta_at_epsilon == pytest.approx(expected, abs=2 * weak.integration_error)


def test_gaussian_claims():
    delta = gaussian_delta(1.0, 0.5)
    claim: dict[str, Any] = {"epsilon": 1.0, "domain": LINE}
    assert not audit_exact(gaussian(0), gaussian(0.5), delta=delta + 1e-11, **claim).violated
    assert audit_exact(gaussian(0), gaussian(0.5), delta=delta - 1e-9, **claim).violated
    assert audit_exact(gaussian(0), gaussian(0.5), delta=0.0, **claim).violated


@pytest.mark.parametrize(("factor", "violated"), [(1.0, False), (0.99, True)])
def test_randomised_response_is_all_atoms(factor, violated):
    truth = 1 / (1 + math.exp(-1 / factor))
    atoms = [(truth, 1 - truth), (1 - truth, truth)]
    finding = audit_exact(nowhere, nowhere, epsilon=1.0, domain=((0.0, 1.0),), atoms=atoms)
    assert finding.violated is violated
    assert finding.worst_log_ratio == pytest.approx(1 / factor)
    expected = max(0.0, truth - math.e * (1 - truth))
    assert finding.delta_at_epsilon == pytest.approx(expected, abs=1e-15)


def test_direction_matters_and_an_audit_takes_both():
    """Uniform on [0, 2] against uniform on [0, 1]: only the first can land beyond 1."""

    def long(x):
        return np.full(len(x), -math.log(2))

    def short(x):
        return np.where(x <= 1, 0.0, -np.inf)

    domain = ((0.0, 2.0),)
    assert hockey_stick(long, short, 0.7, domain) == pytest.approx(0.5, abs=1e-11)
    assert hockey_stick(short, long, 0.7, domain) == 0.0
    assert hockey_stick(short, long, 0.0, domain) == pytest.approx(0.5, abs=1e-11)
    assert worst_log_ratio(long, short, domain) == math.inf
    assert worst_log_ratio(short, long, domain) == pytest.approx(math.log(2))
    for pair in ((long, short), (short, long)):
        finding = audit_exact(*pair, epsilon=0.7, domain=domain)
        assert finding.violated
        assert finding.worst_log_ratio == math.inf


def test_density_and_atoms_together():
    """A Laplace number clipped to [-1, 2]: the ends carry what was clipped."""

    def ends(mean):
        return 0.5 * math.exp(-(1 + mean)), 0.5 * math.exp(-(2 - mean))

    first, second = ends(0.0), ends(1.0)
    atoms = list(zip(first, second, strict=True))
    domain = ((-1.0, 2.0),)
    expected = 1 - math.exp((0.5 - 1) / 2)
    found = hockey_stick(laplace(0), laplace(1), 0.5, domain, atoms=atoms)
    assert found == pytest.approx(expected, abs=1e-12)
    assert worst_log_ratio(laplace(0), laplace(1), domain, atoms=atoms) == pytest.approx(1.0)
    assert worst_log_ratio(laplace(0), laplace(1), domain, atoms=[(0.1, 0.0)]) == math.inf


@pytest.mark.parametrize("domain", [PLANE, ((-9.0, 10.0), (-9.0, 10.0))])
@pytest.mark.parametrize(("epsilon", "shift"), [(1.0, [0.6, 0.8]), (0.3, [1.0, 0.0])])
def test_gaussian_in_the_plane(domain, epsilon, shift):
    finding = audit_exact(
        gaussian_plane([0, 0]), gaussian_plane(shift), epsilon=epsilon, domain=domain
    )
    mistake = abs(finding.delta_at_epsilon - gaussian_delta(epsilon, 1.0))
    assert mistake <= finding.integration_error < 1e-6
    assert mistake < 1e-8


def spherical_gamma_delta(epsilon, shift):
    """Integration in elliptic coordinates, where the log ratio is a coordinate: no kink is left.

    With foci at distance c = shift/2 from the middle, r1 = c(u + v) and r2 = c(u - v), u = cosh t,
    v = sin a; the area element is c²(u² - v²) dt da, and the log ratio is r2 - r1 = -2cv.
    """
    c = shift / 2

    def along(a):
        v = math.sin(a)
        excess = math.exp(-c * v) - math.exp(epsilon + c * v)
        radial, _ = quad(
            lambda t: math.exp(-c * math.cosh(t)) * (math.cosh(t) ** 2 - v**2),
            0,
            6,
            epsabs=1e-12,
        )
        return excess * radial

    area, _ = quad(along, -math.pi / 2, math.asin(-epsilon / shift), epsabs=1e-12)
    return 2 * c**2 * area / (2 * math.pi)


def test_spherical_gamma_in_the_plane():
    shifted = gamma_plane([0.6, 0.8])
    found = hockey_stick(gamma_plane([0, 0]), shifted, 0.5, PLANE)
    assert found == pytest.approx(spherical_gamma_delta(0.5, 1.0), abs=2e-8)
    nominal = audit_exact(gamma_plane([0, 0]), shifted, epsilon=1.0, domain=PLANE)
    assert not nominal.violated
    assert nominal.worst_log_ratio == pytest.approx(1.0, abs=1e-9)
    weak = audit_exact(
        gamma_plane([0, 0], 0.8), gamma_plane([0.6, 0.8], 0.8), epsilon=1.0, domain=PLANE
    )
    assert weak.violated
    assert weak.worst_log_ratio == pytest.approx(1.25, abs=1e-9)


def test_rounding_far_out_is_not_taken_for_a_ratio():
    """At 1e11 the log densities are off by 1e-5; the ratio is one all the same."""
    assert worst_log_ratio(laplace(0), laplace(1), LINE) <= 1.0
    assert worst_log_ratio(laplace(0, 3.7), laplace(1, 3.7), LINE) <= 1 / 3.7


@pytest.mark.parametrize("wrong", [math.log(1.001), math.log(0.999)])
def test_densities_must_have_mass_one(wrong):
    def unnormalised(x):
        return laplace(1)(x) + wrong

    with pytest.raises(InvalidInput, match="log_q and its atoms to have total mass 1"):
        hockey_stick(laplace(0), unnormalised, 1.0, LINE)
    with pytest.raises(InvalidInput, match="log_p and its atoms to have total mass 1"):
        audit_exact(unnormalised, laplace(0), epsilon=1.0, domain=LINE)
    with pytest.raises(InvalidInput, match="mass"):
        hockey_stick(laplace(0), laplace(1), 1.0, LINE, atoms=[(0.01, 0.01)])


def test_a_slight_shortfall_of_mass_becomes_error():
    def slightly_off(x):
        return laplace(1)(x) + 1e-8

    finding = audit_exact(laplace(0), slightly_off, epsilon=1.0, domain=LINE)
    assert 1e-8 < finding.integration_error < 1e-7
    assert not finding.violated, "1e-8 too much mass is no evidence"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"domain": (0.0, 1.0)}, "domain"),
        ({"domain": ((1.0, 0.0),)}, "domain"),
        ({"domain": LINE * 3}, "domain"),
        ({"domain": ((math.nan, 1.0),)}, "domain"),
        ({"atoms": [(0.5, 1.5)]}, "atoms"),
        ({"atoms": [0.5]}, "atoms"),
        ({"log_p": lambda x: 0.0}, "log_p"),
        ({"log_p": lambda x: np.full(len(x), np.nan)}, "log_p"),
        ({"log_q": lambda x: np.full(len(x), np.inf)}, "log_q"),
    ],
)
def test_bad_input_is_named(arguments, message):
    valid = {"log_p": laplace(0), "log_q": laplace(1), "epsilon": 1.0, "domain": LINE}
    with pytest.raises(InvalidInput, match=message):
        audit_exact(**{**valid, **arguments})
