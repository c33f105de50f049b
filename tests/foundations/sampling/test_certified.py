"""Certified draws: the law by either way, and every public bound against what it bounds.

A right law is refused with probability at most 1e-12 by each distribution test
(tests/statistical.py), after allowing for the total variation that is stated. Coins are seeded.
"""

import dataclasses
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.foundations.sampling import (
    DrawCertificate,
    LogisticPosterior,
    certified,
    certify_ball,
    certify_logistic,
    draw_certified,
    radial_envelope,
    settle,
)
from sudare.foundations.sampling.certified import easy_reach, radial_acceptance, start_divergence
from sudare.foundations.sampling.logistic import propose
from tests.foundations.sampling.oracle import projected
from tests.statistical import FALSE_ALARM, fits

ROWS = np.array([[1.2], [0.7], [-0.4], [1.4], [1.1], [0.3], [-1.5], [0.0], [1.3], [0.9]])
PLAIN: dict[str, Any] = {
    "n": 10,
    "dimension": 1,
    "row_norm": 1.5,
    "temperature": 2.0,
    "curvature": 1.0,
    "radius": 1.5,
    "total_variation": 0.01,
}


def posterior(certificate: DrawCertificate, factor: float = 1.0) -> LogisticPosterior:
    return LogisticPosterior(ROWS, 2.0 * factor, 1.0, certificate.radius, certificate.wall)


def distance(sample: Any, cdf: Any) -> float:
    x, n = np.sort(sample), len(sample)
    expected = cdf(x)
    steps = np.arange(n + 1) / n
    return float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()))


def no_try_succeeds(patch: pytest.MonkeyPatch) -> None:
    keep = certified._radial
    patch.setattr(certified, "_radial", lambda *a: keep(*a) if a[-1] == 0 else None)


class TestLaw:
    def test_exact(self, monkeypatch: pytest.MonkeyPatch) -> None:
        certificate = certify_logistic(**PLAIN)
        assert (certificate.tries, certificate.sampler) == (0, "exact")
        rng, target = seeded(1), posterior(certificate)
        settled = settle(target)
        envelope = radial_envelope(target, settled.centre, 1, settled.pull)
        monkeypatch.setattr(certified, "settle", lambda *_: settled)
        monkeypatch.setattr(certified, "radial_envelope", lambda *_: envelope)
        draws = [draw_certified(target, certificate, rng) for _ in range(2500)]
        sample = np.array([d.values[0, 0] for d in draws])
        assert {d.sampler for d in draws} == {"radial"}
        assert draws[0].total_variation == certificate.total_variation < 1e-20
        for factor in (1 / 1.5, 1.0, 1.5):
            other = posterior(certificate, factor)
            cdf = projected(other.potential, [1.0], [0.0], 9.0, certificate.limit)
            assert fits(sample, cdf) == (factor == 1)

    def test_fallback(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where no try succeeds, the draws are as near as stated."""
        monkeypatch.setattr(certified, "easy_reach", lambda p: 1.1)
        certificate = certify_logistic(**PLAIN)
        assert certificate.steps > 4
        assert certificate.total_variation == pytest.approx(0.009, rel=0.01)
        assert certificate.sampler == "exact, else within 9.0e-03 in total variation"
        target, rng = posterior(certificate), seeded(2)
        assert draw_certified(target, certificate, rng).sampler == "radial"
        no_try_succeeds(monkeypatch)
        draws = [draw_certified(target, certificate, rng) for _ in range(120)]
        assert {d.sampler for d in draws} == {"proximal"}
        sample = np.array([d.values[0, 0] for d in draws])
        chance = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * len(draws)))
        cdf = projected(target.potential, [1.0], [0.0], 9.0, certificate.limit)
        assert distance(sample, cdf) < 0.01 + chance
        for shift in (-0.7, 0.7):
            assert distance(sample + shift, cdf) > 0.01 + chance

    def test_tries_come_to_an_end(self) -> None:
        """Here no proposal is kept, since none lies so deep."""
        certificate = dataclasses.replace(certify_logistic(**PLAIN), rise=-1e9)
        assert certified._radial(posterior(certificate), None, certificate, seeded(0), 50) is None

    def test_too_few_steps_would_show(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The chain starts at zero; two of its steps from there are not enough."""
        monkeypatch.setattr(certified, "easy_reach", lambda p: 0.4)
        certificate = dataclasses.replace(certify_logistic(**PLAIN), tries=1, steps=1)
        # A mode far from zero, and no proposal kept.
        target = LogisticPosterior(np.full((10, 1), 1.5), 2.0, 1.0, 1.5, certificate.wall)
        no_try_succeeds(monkeypatch)
        rng = seeded(3)
        sample = [draw_certified(target, certificate, rng).values[0, 0] for _ in range(100)]
        cdf = projected(target.potential, [1.0], [0.0], 9.0, certificate.limit)
        assert distance(np.array(sample), cdf) > 0.5

    def test_progress(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(certified, "easy_reach", lambda p: 1.0)
        no_try_succeeds(monkeypatch)
        certificate, seen = certify_logistic(**PLAIN), []
        drawn = draw_certified(
            posterior(certificate), certificate, seeded(0), progress=lambda *a: seen.append(a)
        )
        assert seen == [(k + 1, certificate.steps) for k in range(certificate.steps)]
        assert (drawn.sampler, drawn.values.shape) == ("proximal", (1, 1))


class TestBounds:
    @pytest.mark.parametrize(("reach", "stated"), [(0.008, 0.64), (0.018, 0.36), (0.035, 0.14)])
    def test_acceptance_in_thirty_dimensions(self, reach: float, stated: float) -> None:
        assert radial_acceptance(30, reach) == pytest.approx(stated, abs=0.006)

    @pytest.mark.parametrize("p", [1, 3, 12])
    @pytest.mark.parametrize("reach", [0.05, 0.5, 3.0])
    def test_acceptance_by_quadrature(self, p: int, reach: float) -> None:
        def mass(sign: float) -> float:
            def value(x: float) -> float:
                s = sign * reach * x
                grown = (math.expm1(s) - s) / reach**2 if s < 700 else math.inf
                return x ** (p - 1) * math.exp(-grown)

            top = 40 * (1 + reach) * p
            points = [0.5, 1, 2, 4, 8, 20]
            return float(integrate.quad(value, 0, top, points=points, limit=500)[0])

        assert radial_acceptance(p, reach) == pytest.approx(mass(1) / mass(-1), rel=2e-3)

    @pytest.mark.parametrize("p", [2, 5, 40])
    def test_easy_reach(self, p: int) -> None:
        assert radial_acceptance(p, easy_reach(p)) == pytest.approx(0.001, rel=1e-3)

    def test_that_share_is_kept(self) -> None:
        """At an adversarial table: all rows alike, saturated."""
        rows = np.full((400, 4), 0.5)
        reach = 0.35
        target = LogisticPosterior(rows, 3.0, 1 / reach**2)
        centre, _ = settle(target)
        kept = len(propose(radial_envelope(target, centre), 4000, seeded(0)))
        assert kept / 4000 > radial_acceptance(4, reach) > 0.2

    @pytest.mark.parametrize("p", [1, 10, 300])
    def test_rise(self, p: int) -> None:
        sizes = certified._Sizes(100, p, 1.0, 1.0, 1e4, 1.0)
        assert stats.gamma(p).logsf(sizes.rise) < -64

    def test_nothing_rises_more_than_a_gamma_variable(self) -> None:
        """U − min U against Gamma(p), by quadrature in one dimension, on balls with walls too."""
        for radius in (0.2, 1.0, 20.0):
            for beta in (0.1, 3.0):
                target = LogisticPosterior(ROWS, beta, 0.7, radius, 50.0)
                x = np.linspace(-target.limit, target.limit, 400_001)
                values = target.potential(x[:, None])
                values -= values.min()
                weights = np.exp(-values)
                for level in (0.5, 2.0, 6.0):
                    beyond = weights[values > level].sum() / weights.sum()
                    assert beyond <= stats.gamma(1).sf(level) * (1 + 1e-4)

    @pytest.mark.parametrize("start", [0.01, 0.3])
    def test_start_divergence(self, start: float) -> None:
        for rows in (ROWS, np.full((10, 1), 1.5), np.full((10, 1), -1.5), np.zeros((10, 1))):
            target = LogisticPosterior(rows, 2.0, 0.3)
            x = np.linspace(-12, 12, 200_001)
            values = target.potential(x[:, None])
            log_mass = math.log(np.exp(-values).sum() * (x[1] - x[0]))
            near = np.linspace(-start, start, 2001)[:, None]
            divergence = target.potential(near).mean() + log_mass - math.log(2 * start)
            assert 0 < divergence <= start_divergence(20.0, 1.5, 1, 0.3, start)

    @pytest.mark.parametrize(("beta", "radius"), [(2.0, 1.5), (300.0, 0.2), (0.01, 30.0)])
    def test_the_wall_is_never_passed(self, beta: float, radius: float) -> None:
        """The steepest outward pull there is: what reaches the last 64th of the wall."""
        certificate = certify_logistic(
            **{**PLAIN, "temperature": beta, "radius": radius, "curvature": beta}
        )
        # Rows that pull outward most at the edge: u/(1 + e^u) is largest at u = 1.278.
        z = min(1.5, 1.2784645 / radius)
        wall, limit = (mpmath.mpf(x) for x in (certificate.wall, certificate.limit))
        edge = mpmath.mpf(radius)

        def density(x: Any) -> Any:
            loss = 10 * beta * mpmath.log(1 + mpmath.exp(-z * x)) + beta * x**2 / 2
            return mpmath.exp(-loss - wall * max(x - edge, 0))

        with mpmath.workdps(60):
            last = limit - (limit - edge) / 64
            whole = mpmath.quad(density, mpmath.linspace(-edge, edge, 40))
            beyond = mpmath.quad(density, [last, limit])
            assert beyond / whole < mpmath.exp(-62)


class TestRounding:
    @pytest.mark.parametrize(("beta", "radius", "m"), [(1.0, 2.0, 1.0), (50.0, 8.0, 30.0)])
    def test_the_accept_step(self, beta: float, radius: float, m: float) -> None:
        """Potential, wall and lower bound of floats, against 40 digits of the same floats."""
        rng = seeded(5)
        rows = rng.normal(size=(700, 3))
        rows *= (np.sqrt(rng.random(700)) / np.linalg.norm(rows, axis=1))[:, None]
        certificate = certify_logistic(
            n=700,
            dimension=3,
            row_norm=1.0,
            temperature=beta,
            curvature=m,
            radius=radius,
            total_variation=1e-6,
        )
        target = LogisticPosterior(rows, beta, m, radius, certificate.wall)
        centre, pull = settle(target)
        envelope = radial_envelope(target, centre, 1, pull)
        radii = np.array([1e-3, 0.5, 1.0, 2.0, 5.0])
        v = rng.normal(size=(5, 3))
        v /= np.linalg.norm(v, axis=1)[:, None]
        thetas = centre + (v * radii[:, None]) @ envelope.whitening.T
        thetas[-1] *= radius * (1 + 5e-4) / np.linalg.norm(thetas[-1])  # in the wall
        found = target.potential(thetas) - envelope.value
        grown = envelope.lower_bound(radii)
        wrong, moved = 0.0, 0.0
        with mpmath.workdps(40):

            def exact(theta: Any, wall: bool) -> Any:
                big = [mpmath.mpf(float(t)) for t in theta]
                total = m * sum(t * t for t in big) / 2
                for row in rows:
                    score = sum(mpmath.mpf(float(z)) * t for z, t in zip(row, big, strict=True))
                    total += beta * mpmath.log(1 + mpmath.exp(-score))
                norm = mpmath.sqrt(sum(t * t for t in big))
                if wall:
                    return total + mpmath.mpf(certificate.wall) * max(norm - radius, 0)
                return total - mpmath.mpf(pull) / 2 * (mpmath.mpf(radius) ** 2 - norm**2)

            base, shape = exact(centre, False), envelope.shape
            for k in range(5):
                wrong = max(wrong, abs(float(exact(thetas[k], True) - base - float(found[k]))))
                rho = mpmath.mpf(float(radii[k]))
                s = mpmath.mpf(shape.reach) * rho
                psi = (mpmath.exp(-s) + s - 1) / s**2
                bend = (1 - mpmath.mpf(shape.floor)) / mpmath.mpf(shape.stretch) * psi
                bend = min(mpmath.mpf(1) / 2, bend + mpmath.mpf(shape.floor) / 2)
                meant = rho**2 * bend * (1 - mpmath.mpf("1e-6")) - mpmath.mpf(shape.tilt) * rho
                wrong = max(wrong, abs(float(meant - float(grown[k]))))
            for k in range(4):
                ideal = [
                    mpmath.mpf(float(centre[i]))
                    + mpmath.mpf(float(radii[k]))
                    * sum(
                        mpmath.mpf(float(envelope.whitening[i, j])) * mpmath.mpf(float(v[k, j]))
                        for j in range(3)
                    )
                    for i in range(3)
                ]
                gap = [x - mpmath.mpf(float(t)) for x, t in zip(ideal, thetas[k], strict=True)]
                moved = max(moved, float(mpmath.sqrt(sum(g * g for g in gap))))
        assert 0 < wrong < certificate.log_ratio / 2
        assert 0 < moved < certificate.displacement
        # The bounds are for the worst of cases, but not out of all proportion.
        assert certificate.log_ratio < 1e-4
        assert certificate.displacement < 1e-9 * radius

    def test_certificates_grow_with_what_they_depend_on(self) -> None:
        base: dict[str, Any] = {**PLAIN, "dimension": 5, "n": 1000, "curvature": 2.0}
        one = certify_logistic(**base)
        for change in ({"n": 10_000}, {"temperature": 20.0}, {"row_norm": 15.0}):
            other = certify_logistic(**{**base, **change})
            assert other.log_ratio > one.log_ratio
            assert other.displacement > one.displacement
        stronger = certify_logistic(**{**base, "curvature": 20.0})
        assert stronger.displacement < one.displacement
        nearer = certify_logistic(**{**base, "dimension": 20, "total_variation": 1e-9})
        assert nearer.steps > certify_logistic(**{**base, "dimension": 20}).steps > 0
        assert nearer.total_variation <= 1e-9

    def test_ball(self) -> None:
        sizes: dict[str, Any] = {
            "n": 1000,
            "dimension": 4,
            "row_norm": 1.0,
            "target_bound": 2.0,
            "temperature": 0.5,
            "curvature": 3.0,
            "radius": 2.0,
        }
        one = certify_ball(**sizes)
        assert (one.sampler, one.limit) == ("exact", 2.0 * (1 + 2**-10))
        assert one.displacement < 1e-10
        assert one.log_ratio < 1e-5
        more = certify_ball(**{**sizes, "n": 10**6})
        assert more.log_ratio > one.log_ratio
        assert more.wall > one.wall


class TestRefused:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"curvature": 0.0}, "curvature"),
            ({"temperature": 0.0}, "temperature"),
            ({"temperature": -1.0}, "temperature"),
            ({"radius": math.inf}, "radius"),
            ({"n": 0}, "n="),
            ({"total_variation": 0.0}, "total_variation"),
            ({"dimension": 200, "n": 10**5, "curvature": 1e-3}, "could take hours"),
            ({"n": 10**9, "curvature": 1.0}, "double arithmetic"),
            ({"total_variation": 1e-26}, "larger delta"),
        ],
    )
    def test_sizes(self, change: dict[str, Any], words: str) -> None:
        with pytest.raises(InvalidInput, match=words):
            certify_logistic(**{**PLAIN, **change})

    @pytest.mark.parametrize("name", ["curvature", "temperature", "radius", "row_norm"])
    def test_ball(self, name: str) -> None:
        sizes: dict[str, Any] = {**PLAIN, "target_bound": 1.0}
        del sizes["total_variation"]
        certify_ball(**sizes)
        with pytest.raises(InvalidInput, match=name):
            certify_ball(**{**sizes, name: 0.0})

    def test_another_target(self) -> None:
        certificate = certify_logistic(**PLAIN)
        for change in ({"radius": 2.0}, {"wall": 0.0}, {"rows": ROWS * np.nan}):
            with pytest.raises(InvalidInput, match=r"certificate|rows"):
                draw_certified(posterior(certificate)._replace(**change), certificate, seeded(0))
