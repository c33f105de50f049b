"""Exact draws from logistic posteriors: the envelopes, and the law.

In one and two dimensions the law is compared with quadrature; in ten and twenty with posteriors
that fall apart into one-dimensional ones after a hidden rotation, and with importance weights. A
right law is refused with probability at most 1e-12 by each distribution test (tests/statistical.py)
and about 1e-12 by each comparison of means (seven standard errors). In one and two dimensions a
temperature a fifth off is refused, in more dimensions one that is far off. All coins are seeded.
"""

import dataclasses
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.foundations.sampling import (
    LogisticPosterior,
    RadialEnvelope,
    draw_radial,
    radial_envelope,
    settle,
)
from sudare.foundations.sampling.logistic import _fourth_moment, _psi, _psi_inverse, _Shape, propose
from tests.foundations.sampling.oracle import projected
from tests.statistical import fits

LINE = np.array([[1.2], [0.7], [-0.4], [2.0], [1.1], [0.3], [-1.5], [0.0], [2.2], [1.9]])
PLANE = seeded(4).normal(size=(25, 2)) @ [[1.5, 0.4], [0.0, 0.6]] + [0.5, 0.2]


def mode(target: LogisticPosterior) -> Any:
    value: Any = lambda theta: float(target.potential(theta[None])[0])  # noqa: E731
    slope: Any = target.gradient
    found = minimize(
        value,
        np.zeros(target.rows.shape[1]),
        jac=slope,
        method="BFGS",
        options={"gtol": 1e-6},
    )
    return found.x


def scaled(target: LogisticPosterior, factor: float) -> LogisticPosterior:
    return target._replace(temperature=target.temperature * factor)


def random_problem(seed: int) -> tuple[LogisticPosterior, Any]:
    """A target and a centre, of every kind that could upset an envelope."""
    rng = seeded(seed)
    n, p = int(rng.integers(1, 60)), int(rng.integers(1, 9))
    rows = rng.normal(size=(n, p)) * np.exp(rng.normal(size=p)) * 10.0 ** rng.uniform(-2, 1)
    if seed % 3 == 0:
        rows[rng.integers(n)] *= 100.0
    if seed % 4 == 1:
        rows = np.concatenate([rows, np.repeat(rows[:1], 30, axis=0), np.zeros((5, p))])
    target = LogisticPosterior(rows, 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-3, 2))
    centre = mode(target)
    if seed % 2:
        centre = centre + rng.normal(size=p) * 10.0 ** rng.uniform(-3, 0)
    return target, centre


def all_kinds(envelope: RadialEnvelope) -> list[RadialEnvelope]:
    """The lower bounds of both kinds and several stretches, each with a reach computed here."""
    target, centre = envelope.target, envelope.centre
    share = 1 / (1 + np.exp(np.clip(target.rows @ centre, -700, 700)))
    weights = target.temperature * share * (1 - share)
    m = target.curvature + envelope.pull
    values, vectors = np.linalg.eigh((target.rows.T * weights) @ target.rows)
    gradient = target.gradient(centre) + envelope.pull * centre
    made = []
    for kind, stretch in (("leverage", 1.0), ("leverage", 0.6), ("leverage", 0.1), ("fourth", 1.0)):
        spread = m + stretch * np.maximum(values, 0.0)
        whitening = vectors / np.sqrt(spread)
        a = target.rows @ whitening
        floor = m / float(spread.max())
        if kind == "leverage":
            reach = float(np.sqrt((a * a).sum(axis=1).max()))
        else:
            reach = math.sqrt(_fourth_moment(a, weights) / max(1 - floor, 1e-12))
        tilt = float(np.linalg.norm(whitening.T @ gradient)) * (1 + 1e-9) + 1e-12
        shape = _Shape(len(centre), reach, floor, tilt, stretch)
        made.append(dataclasses.replace(envelope, whitening=whitening, kind=kind, shape=shape))
    return made


def spare(envelope: RadialEnvelope, directions: Any, radii: Any) -> Any:
    """U(θ̂ + h) − U(θ̂) − G(ρ), in units of what rounding can do to it."""
    thetas = envelope.centre + (radii[:, None] * directions) @ envelope.whitening.T
    values = envelope.target.potential(thetas)
    bound = envelope.lower_bound(radii)
    size = np.abs(values) + abs(envelope.value) + np.abs(bound) + envelope.shape.tilt * radii
    inside = np.linalg.norm(thetas, axis=1) <= envelope.target.limit
    with np.errstate(invalid="ignore"):
        gap = (values - envelope.value - bound) / (1e-10 * (1e-3 + size))
    return np.where(inside, gap, np.inf)


def trial_directions(envelope: RadialEnvelope, rng: Any) -> Any:
    """At random, along the longest rows, along the gradient and along the axes."""
    p = len(envelope.centre)
    a = envelope.target.rows @ envelope.whitening
    longest = a[np.argsort(-(a * a).sum(axis=1))[:10]]
    longest = longest[np.linalg.norm(longest, axis=1) > 0]
    gradient = envelope.whitening.T @ envelope.target.gradient(envelope.centre)
    chosen = np.concatenate([longest, gradient[None] + 1e-300, np.eye(p)])
    near = np.repeat(chosen, 20, axis=0) + 0.01 * rng.normal(size=(20 * len(chosen), p))
    every = np.concatenate([rng.normal(size=(600, p)), chosen, -chosen, near, -near])
    norms = np.linalg.norm(every, axis=1)
    return every[norms > 1e-200] / norms[norms > 1e-200, None]


class TestEnvelope:
    def test_never_above_the_potential(self) -> None:
        """A million points, at random and where rows, gradient and axes point; on balls too."""
        points, worst, broken = 0, math.inf, 0
        for seed in range(160):
            target, centre = random_problem(seed)
            pull = 0.0
            if seed % 5 < 2:
                radius = float(np.linalg.norm(centre)) * (0.5 if seed % 5 else 1.1) + 0.1
                wall = 1e4 * seeded(seed).random() if seed % 2 else 0.0
                target = target._replace(radius=radius, wall=wall)
                centre, pull = settle(target, centre)
            envelope = radial_envelope(target, centre, 10**9, pull)
            rng = seeded(1000 + seed)
            for one in [envelope, *all_kinds(envelope)]:
                directions = trial_directions(one, rng)
                for low, high in ((-4, 0), (0, 2), (0, 4)):
                    radii = 10.0 ** rng.uniform(low, high, len(directions))
                    gap = spare(one, directions, radii)
                    worst = min(worst, float(gap.min()))
                    points += int(np.isfinite(gap).sum())
                wrong = dataclasses.replace(
                    one, shape=one.shape._replace(reach=one.shape.reach / 2)
                )
                radii = 10.0 ** rng.uniform(-1, 2, len(directions))
                broken += bool((spare(wrong, directions, radii) < -1e3).any())
        assert points > 1_000_000
        assert worst > -1.0
        assert broken > 30  # half the reach would be found out

    def test_psi(self) -> None:
        s = np.concatenate([[0.0], np.geomspace(1e-12, 1e6, 400), [0.00999999, 0.01, 1e150]])
        for x, found in zip(s.tolist(), _psi(s).tolist(), strict=True):
            with mpmath.workdps(60):
                exact = (mpmath.exp(-mpmath.mpf(x)) + x - 1) / mpmath.mpf(x) ** 2 if x else 0.5
            assert found == pytest.approx(float(exact), rel=2e-13)

    def test_psi_inverse(self) -> None:
        for value in (0.4999, 0.45, 0.25, 0.05, 1e-3):
            s = _psi_inverse(value)
            assert float(_psi(np.array([s]))[0]) == pytest.approx(value, rel=1e-9)

    def test_whitening_and_tilt(self) -> None:
        target, _ = random_problem(6)
        envelope = radial_envelope(target, mode(target), 1)
        whitened = envelope.whitening
        share = 1 / (1 + np.exp(target.rows @ envelope.centre))
        weights = target.temperature * share * (1 - share)
        hessian = envelope.shape.stretch * (target.rows.T * weights) @ target.rows
        hessian += target.curvature * np.eye(len(hessian))
        assert np.abs(whitened.T @ hessian @ whitened - np.eye(len(hessian))).max() < 1e-8
        assert envelope.shape.tilt < 1e-3

    def test_the_cheaper_one_always(self) -> None:
        """Many spread rows favour the fourth moment; one long row the leverage, stretched."""
        rng = seeded(1)
        spread = LogisticPosterior(rng.normal(size=(2000, 3)), 1.0, 0.1)
        lone = LogisticPosterior(np.array([[3.0] + [0.0] * 9]), 4.0, 1.0)
        for target, expected in ((spread, "fourth"), (lone, "leverage")):
            envelopes = [radial_envelope(target, mode(target), 1000) for _ in range(3)]
            assert {e.kind for e in envelopes} == {expected}
            assert len({e.hull.log_mass for e in envelopes}) == 1
        assert envelopes[0].shape.stretch < 1
        assert envelopes[0].share > 0.3
        few = LogisticPosterior(rng.normal(size=(3000, 12)), 1.0, 1.0)
        assert radial_envelope(few, mode(few), 1).kind == "leverage"
        assert radial_envelope(few, mode(few), 10**6).kind == "fourth"

    def test_the_share_is_about_what_is_kept(self) -> None:
        for seed in (2, 8, 10):
            target, centre = random_problem(seed)
            envelope = radial_envelope(target, centre, 1)
            kept = len(propose(envelope, 20_000, seeded(seed)))
            assert envelope.share / 3 < kept / 20_000 < 3 * envelope.share

    @pytest.mark.parametrize("seed", range(6))
    def test_fourth_moment(self, seed: int) -> None:
        rng = seeded(seed)
        n, p = int(rng.integers(1, 40)), seed + 1
        a, weights = rng.normal(size=(n, p)) * np.exp(rng.normal(size=p)), rng.random(n)
        # Climbing (a convex function lies above its tangents) from many points.
        v = np.concatenate([rng.normal(size=(300, p)), a])
        for _ in range(300):
            v /= np.linalg.norm(v, axis=1)[:, None]
            v = (weights * (v @ a.T) ** 3) @ a
        v /= np.linalg.norm(v, axis=1)[:, None]
        most = float((weights * (v @ a.T) ** 4).sum(axis=1).max())
        bound = _fourth_moment(a, weights)
        assert most * (1 - 1e-12) <= bound <= 1.3 * most

    def test_fourth_moment_of_many_rows(self) -> None:
        a = seeded(9).normal(size=(5000, 6))
        bound = _fourth_moment(a, np.full(5000, 1 / 5000))
        assert 3.0 < bound < 4.0  # E(v·a)⁴ = 3 in every direction


class TestLaw:
    @pytest.mark.parametrize("radius", [math.inf, 0.9])
    @pytest.mark.parametrize("shift", [0.0, 0.15, -0.25])
    def test_line(self, shift: float, radius: float) -> None:
        target = LogisticPosterior(LINE, 2.5, 0.3, radius)
        envelope = radial_envelope(target, mode(target) + shift, 1000)
        sample = draw_radial(envelope, 40_000, seeded(2)).values[:, 0]
        for factor in (1 / 1.2, 1.0, 1.2):
            other = scaled(target, factor)
            cdf = projected(other.potential, [1.0], mode(target), 12.0, radius)
            assert fits(sample, cdf) == (factor == 1)

    @pytest.mark.parametrize("radius", [math.inf, 0.8])
    @pytest.mark.parametrize("shift", [(0.0, 0.0), (0.1, -0.1), (-0.1, 0.15)])
    def test_plane(self, shift: Any, radius: float) -> None:
        target = LogisticPosterior(PLANE, 2.0, 0.5, radius)
        envelope = radial_envelope(target, mode(target) + shift, 1000)
        sample = draw_radial(envelope, 40_000, seeded(5)).values
        refused = 0
        for u in ([1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-0.8, 0.6]):
            right = projected(target.potential, u, mode(target), 5.0, radius)
            assert fits(sample @ u, right)
            for factor in (1 / 1.2, 1.2):
                wrong = projected(scaled(target, factor).potential, u, mode(target), 5.0, radius)
                refused += not fits(sample @ u, wrong)
        assert refused >= 4
        if radius < math.inf:
            assert np.linalg.norm(sample, axis=1).max() <= radius

    @pytest.mark.parametrize("radius", [0.05, 0.3])
    @pytest.mark.parametrize("wall", [0.0, 40.0, 4e3])
    def test_deep_in_a_ball(self, radius: float, wall: float) -> None:
        """The mode far outside; the edge hard, soft and steep. A wrong pull changes nothing."""
        target = LogisticPosterior(PLANE, 20.0, 0.5, radius, wall)
        settled = settle(target)
        assert settled.pull > 0
        directions = ([1.0, 0.0], [0.0, 1.0], [0.6, 0.8])

        def laws(factor: float) -> list[Any]:
            smooth = scaled(target, factor).potential
            return [projected(smooth, u, np.zeros(2), 5.0, target.limit) for u in directions]

        right, wrong = laws(1.0), [laws(1 / 1.5), laws(1.5)]
        for pull in (settled.pull, settled.pull / 3):
            envelope = radial_envelope(target, settled.centre, 1000, pull)
            sample = draw_radial(envelope, 4_000, seeded(7)).values
            assert np.linalg.norm(sample, axis=1).max() <= target.limit
            seen = [sample @ u for u in directions]
            assert all(map(fits, seen, right))
            assert not all(all(map(fits, seen, each)) for each in wrong)

    @pytest.mark.parametrize("p", [10, 20])
    def test_many_dimensions(self, p: int) -> None:
        """Rows along the axes of a rotated frame: the coordinates there are independent."""
        rng = seeded(p)
        rotation = np.linalg.qr(rng.normal(size=(p, p)))[0]
        axis_rows = [0.7 * rng.normal(size=(40, 1)) + 0.5 for _ in range(p)]
        rows = np.concatenate([z * rotation[k] for k, z in enumerate(axis_rows)])
        target = LogisticPosterior(rows, 1.0, 1.5 * p)
        envelope = radial_envelope(target, mode(target) + 0.003, 20_000)
        own = draw_radial(envelope, 4000, seeded(8)).values @ rotation.T
        scores = np.empty_like(own)
        refused = 0
        for k, z in enumerate(axis_rows):
            line = LogisticPosterior(z, 1.0, 1.5 * p)
            cdf = projected(line.potential, [1.0], mode(line), 4.0)
            assert fits(own[:, k], cdf)
            wrong = projected(scaled(line, 2.0).potential, [1.0], mode(line), 4.0)
            refused += not fits(own[:, k], wrong)
            scores[:, k] = stats.norm.ppf(np.clip(cdf(own[:, k]), 1e-12, 1 - 1e-12))
        assert refused > p / 2
        # Independence: any signed sum of the scores is normal, their squares' sum chi-squared.
        for signs in np.where(seeded(0).random((20, p)) < 0.5, -1, 1):
            assert fits(scores @ signs / math.sqrt(p), stats.norm.cdf)
        assert fits((scores**2).sum(axis=1), stats.chi2(p).cdf)
        together = scores.copy()
        together[:, 1] = scores[:, 0]
        assert not fits((together[:, 0] + together[:, 1]) / math.sqrt(2), stats.norm.cdf)

    def test_ten_correlated_dimensions(self) -> None:
        """Moments against a Gaussian proposal, weighted."""
        rng = seeded(21)
        rows = rng.normal(size=(60, 10)) @ rng.normal(size=(10, 10)) / 5 + 0.2
        target = LogisticPosterior(rows, 1.0, 8.0)
        centre = mode(target)
        envelope = radial_envelope(target, centre + 0.005, 20_000)
        sample = draw_radial(envelope, 5000, seeded(3)).values
        inflated = rng.normal(size=(60_000, 10)) * 1.15
        proposals = centre + inflated @ envelope.whitening.T

        def gap(kept: LogisticPosterior) -> float:
            logs = (inflated**2).sum(axis=1) / (2 * 1.15**2) - kept.potential(proposals)
            weights = np.exp(logs - logs.max())
            weights /= weights.sum()
            worst = 0.0
            for power in (1, 2, 3):
                theirs, ours = (proposals - centre) ** power, (sample - centre) ** power
                mean = weights @ theirs
                error = np.sqrt(weights**2 @ (theirs - mean) ** 2 + ours.var(axis=0) / len(ours))
                worst = max(worst, float(np.abs((ours.mean(axis=0) - mean) / error).max()))
            return worst

        assert gap(target) < 7
        assert gap(scaled(target, 1.5)) > 7

    def test_all_rows_zero_is_the_prior(self) -> None:
        target = LogisticPosterior(np.zeros((4, 3)), 2.0, 4.0)
        sample = draw_radial(radial_envelope(target, np.full(3, 0.1)), 40_000, seeded(0)).values
        assert fits(2 * sample[:, 0], stats.norm.cdf)
        assert not fits(2.4 * sample[:, 0], stats.norm.cdf)

    def test_repeats_with_the_same_coins(self) -> None:
        target = LogisticPosterior(PLANE, 2.0, 0.5)
        draws = [draw_radial(radial_envelope(target, np.zeros(2)), 5, seeded(1)) for _ in range(2)]
        assert draws[0].values.shape == (5, 2)
        assert (draws[0].values == draws[1].values).all()
        assert (draws[0].sampler, draws[0].total_variation) == ("radial, fourth", 0.0)


class TestTarget:
    def test_potential_and_gradient(self) -> None:
        rows = seeded(0).normal(size=(5000, 3))
        target = LogisticPosterior(rows, 0.7, 0.2)
        thetas = seeded(1).normal(size=(4, 3)) * 3
        naive = [0.7 * np.log1p(np.exp(-rows @ t)).sum() + 0.1 * t @ t for t in thetas]
        assert target.potential(thetas) == pytest.approx(naive, rel=1e-12)
        for k in range(3):
            step = 1e-5 * np.eye(3)[k]
            rise = target.potential(np.array([thetas[0] + step, thetas[0] - step]))
            numeric = (rise[0] - rise[1]) / 2e-5
            assert target.gradient(thetas[0])[k] == pytest.approx(numeric, rel=1e-5)

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"rows": np.array([[np.nan, 1.0]])}, "rows"),
            ({"rows": np.array([[np.inf, 1.0]])}, "rows"),
            ({"rows": np.ones(3)}, "rows"),
            ({"rows": np.empty((0, 2))}, "rows"),
            ({"temperature": 0.0}, "temperature"),
            ({"temperature": -1.0}, "temperature"),
            ({"curvature": 0.0}, "curvature"),
            ({"curvature": math.nan}, "curvature"),
            ({"radius": 0.0}, "radius"),
            ({"radius": -2.0}, "radius"),
            ({"radius": math.nan}, "radius"),
            ({"wall": -1.0}, "wall"),
            ({"linear": np.ones(3)}, "linear"),
            ({"linear": np.array([np.nan, 0.0])}, "linear"),
        ],
    )
    def test_refused(self, change: dict[str, Any], named: str) -> None:
        right = LogisticPosterior(PLANE, 1.0, 1.0)
        radial_envelope(right, np.zeros(2))
        with pytest.raises(InvalidInput, match=named):
            radial_envelope(right._replace(**change), np.zeros(2))

    @pytest.mark.parametrize("centre", [[np.nan, 0.0], np.zeros((1, 2)), np.zeros(3)])
    def test_refused_centre(self, centre: Any) -> None:
        with pytest.raises(InvalidInput, match="centre"):
            radial_envelope(LogisticPosterior(PLANE, 1.0, 1.0), centre)

    def test_refused_pull(self) -> None:
        """More than the wall covers, negative, or without a ball."""
        target = LogisticPosterior(PLANE, 1.0, 1.0, 0.5, 10.0)
        radial_envelope(target, np.zeros(2), 1, 19.0)
        for wrong, pull in (
            (target, 20.0),
            (target, -1.0),
            (target._replace(radius=math.inf, wall=0.0), 1.0),
        ):
            with pytest.raises(InvalidInput, match="pull"):
                radial_envelope(wrong, np.zeros(2), 1, pull)

    @pytest.mark.parametrize("size", [0, -1, 1.5])
    def test_refused_size(self, size: Any) -> None:
        envelope = radial_envelope(LogisticPosterior(PLANE, 1.0, 1.0), np.zeros(2))
        with pytest.raises(InvalidInput, match="size"):
            draw_radial(envelope, size, seeded(0))
