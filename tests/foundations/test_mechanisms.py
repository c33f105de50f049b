"""The random steps: coin by coin against ideal draws, and as laws.

`Tape` plays chosen words instead of random ones. `Ideal` reads the same coins with 60 digits and
goes on where the float draw stops, with whatever coins one likes: the two may never be farther
apart than `draw_error` says.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sudare.foundations import mechanisms
from sudare.foundations.checks import InvalidInput
from sudare.foundations.gaussian import gaussian_mu
from sudare.foundations.masks import mask_law
from sudare.foundations.mechanisms import (
    choose,
    draw_masks,
    flip_bits,
    gamma_noise,
    gaussian_noise,
)
from sudare.foundations.randomness import Generator, secure, seeded
from tests.coins import SOURCES, Floats
from tests.statistical import (
    counts_fit,
    fits,
    only_counts_fit,
    only_fits,
    refutes,
    tally,
)


def gamma_cdf(shape: float, scale: float) -> Callable[[Any], Any]:
    return stats.gamma(shape, scale=scale).cdf


class TestGaussianNoise:
    @SOURCES
    @pytest.mark.parametrize("columns", [1, 2, 3])
    def test_law(self, columns: int, source: Callable[[], Generator]) -> None:
        """Pairs, lone ones and both together."""
        noise = mechanisms._normals(600_000 // columns, columns, source())
        for column in noise.T:
            # Fewer rows: a larger step off.
            assert only_fits(column, stats.norm.cdf, off=0.04 if columns == 1 else 0.07)

    def test_scale(self) -> None:
        noise = gaussian_noise(2.5, 600_000, seeded(2))
        assert only_fits(noise, stats.norm(scale=2.5).cdf)

    @SOURCES
    def test_independence_of_a_pair(self, source: Callable[[], Generator]) -> None:
        noise = gaussian_noise(1.0, 400_000, source())
        cells = (stats.norm.cdf(noise) * 8).astype(int).reshape(2, -1)
        even = np.full(64, 1 / 64)
        assert counts_fit(tally(cells[0] * 8 + cells[1], 64), even)
        # A pair that leaned on one another a little would be seen.
        mixed = noise.reshape(2, -1)
        mixed = np.array([mixed[0], 0.06 * mixed[0] + math.sqrt(1 - 0.06**2) * mixed[1]])
        cells = (stats.norm.cdf(mixed) * 8).astype(int)
        assert not counts_fit(tally(cells[0] * 8 + cells[1], 64), even)

    def test_independence_of_neighbours(self) -> None:
        noise = gaussian_noise(1.0, 400_001, seeded(3))
        cells = (stats.norm.cdf(noise) * 8).astype(int)
        assert counts_fit(tally(cells[:-1:2] * 8 + cells[1::2], 64), np.full(64, 1 / 64))

    def test_blocks_meet(self) -> None:
        """Draws larger than one block are whole: no number missing, none repeated."""
        for size in (2 * 8192 - 1, 2 * 8192, 2 * 8192 + 1, 5 * 8192):
            noise = gaussian_noise(1.0, size, seeded(4))
            assert noise.size == len(set(noise.tolist())) == size
        values = mechanisms.exponentials(3 * 8192 + 1, seeded(4))
        assert values.size == len(set(values.tolist()))

    def test_shapes(self) -> None:
        assert gaussian_noise(1.0, 5, seeded(0)).shape == (5,)
        assert gaussian_noise(1.0, (2, 3), seeded(0)).shape == (2, 3)
        assert gaussian_noise(1.0, (), seeded(0)).shape == ()
        assert gaussian_noise(1.0, 0, seeded(0)).shape == (0,)
        assert gaussian_noise(1.0, (3, 0), seeded(0)).shape == (3, 0)

    def test_is_repeatable_only_when_seeded(self) -> None:
        assert np.array_equal(gaussian_noise(1.0, 9, seeded(5)), gaussian_noise(1.0, 9, seeded(5)))
        assert not np.array_equal(
            gaussian_noise(1.0, 9, secure()), gaussian_noise(1.0, 9, secure())
        )

    @pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf, "1", None])
    def test_bad_scale(self, wrong: Any) -> None:
        with pytest.raises(InvalidInput, match="noise_std"):
            gaussian_noise(wrong, 3, seeded(0))


class TestGammaNoise:
    @SOURCES
    @pytest.mark.parametrize("dimension", [1, 2, 3, 6])
    def test_norm(self, dimension: int, source: Callable[[], Generator]) -> None:
        noise = gamma_noise(0.7, dimension, source(), runs=500_000)
        assert only_fits(np.linalg.norm(noise, axis=1), gamma_cdf(dimension, 0.7))

    def test_on_the_line_it_is_laplace(self) -> None:
        noise = gamma_noise(1.3, 1, seeded(1), runs=500_000)[:, 0]
        assert only_fits(noise, stats.laplace(scale=1.3).cdf)

    @SOURCES
    def test_direction_in_the_plane(self, source: Callable[[], Generator]) -> None:
        noise = gamma_noise(1.0, 2, source(), runs=300_000)
        turn = (np.arctan2(noise[:, 1], noise[:, 0]) / (2 * np.pi)) % 1
        assert fits(turn, lambda x: x)
        stretched = (np.arctan2(1.25 * noise[:, 1], noise[:, 0]) / (2 * np.pi)) % 1
        assert not fits(stretched, lambda x: x)

    @pytest.mark.parametrize("dimension", [3, 6])
    def test_direction_in_space(self, dimension: int) -> None:
        noise = gamma_noise(1.0, dimension, seeded(2), runs=300_000)
        unit = noise / np.linalg.norm(noise, axis=1, keepdims=True)
        shape = (dimension - 1) / 2
        for column in unit.T:
            assert fits((1 + column) / 2, stats.beta(shape, shape).cdf)
        # Every corner of the space alike.
        corner = (unit > 0) @ (1 << np.arange(dimension))
        assert counts_fit(tally(corner, 2**dimension), np.full(2**dimension, 2.0**-dimension))
        wrong = noise * np.where(np.arange(dimension) == 0, 1.05, 1.0)
        wrong /= np.linalg.norm(wrong, axis=1, keepdims=True)
        assert not fits((1 + wrong[:, 0]) / 2, stats.beta(shape, shape).cdf)

    @pytest.mark.parametrize("dimension", [1, 2, 3])
    def test_norm_and_direction_are_independent(self, dimension: int) -> None:
        noise = gamma_noise(1.0, dimension, seeded(3), runs=300_000)
        norms = np.linalg.norm(noise, axis=1)
        length = (stats.gamma(dimension).cdf(norms) * 8).astype(int)
        corner = (noise > 0) @ (1 << np.arange(dimension))
        cells = 8 * 2**dimension
        assert counts_fit(tally(length * 2**dimension + corner, cells), np.full(cells, 1 / cells))

    def test_one_vector_or_many(self) -> None:
        assert gamma_noise(1.0, 3, seeded(4)).shape == (3,)
        assert gamma_noise(1.0, 3, seeded(4), runs=1).shape == (1, 3)
        assert gamma_noise(1.0, 10_000, seeded(4)).shape == (10_000,)
        assert np.array_equal(gamma_noise(1.0, 3, seeded(4)), gamma_noise(1.0, 3, seeded(4)))
        single = gamma_noise(np.float32(0.1), 3, seeded(4))  # type: ignore[arg-type]
        assert np.array_equal(single, gamma_noise(float(np.float32(0.1)), 3, seeded(4)))

    @pytest.mark.parametrize(
        ("name", "wrong"),
        [("scale", 0), ("scale", math.nan), ("dimension", 0), ("dimension", 2.0), ("runs", 0)],
    )
    def test_bad_inputs(self, name: str, wrong: Any) -> None:
        good: dict[str, Any] = {"scale": 1.0, "dimension": 2, "runs": 3, "rng": seeded(0)}
        with pytest.raises(InvalidInput, match=name):
            gamma_noise(**{**good, name: wrong})


def exponential_law(scores: list[float], epsilon: float, sensitivity: float) -> Floats:
    weights = np.exp(epsilon / (2 * sensitivity) * (np.array(scores) - max(scores)))
    return np.asarray(weights / weights.sum())


class TestChoose:
    SCORES = (0.0, 1.0, 1.0, -math.inf, 2.5, -3.0)

    @pytest.mark.parametrize(
        ("source", "runs", "off"),
        [(lambda: seeded(1), 20_000, 1.15), (secure, 5_000, 1.35)],
        ids=["seeded", "secure"],
    )
    @pytest.mark.parametrize("shift", [0.0, 1e6])
    def test_law(
        self, source: Callable[[], Generator], runs: int, off: float, shift: float
    ) -> None:
        rng = source()
        scores = [score + shift for score in self.SCORES]
        seen = tally([choose(scores, 1.5, 0.5, rng) for _ in range(runs)], len(scores))
        law = exponential_law(scores, 1.5, 0.5)
        assert law[3] == 0
        assert law[1] == law[2]
        wrong = [exponential_law(scores, 1.5 * f, 0.5) for f in (1 / off, off)]
        assert only_counts_fit(seen, law, wrong)

    def test_a_shift_changes_nothing(self) -> None:
        def picks(shift: float) -> list[int]:
            rng = seeded(2)
            return [choose([s + shift for s in self.SCORES], 1, 1, rng) for _ in range(200)]

        assert picks(0.0) == picks(2.0**20) == picks(-(2.0**20))

    def test_the_only_possible_one(self) -> None:
        for rng in (seeded(0), secure()):
            assert choose([-math.inf, -7.0, -math.inf], 1e-4, 1.0, rng) == 1
            assert choose([3.0], 1.0, 1.0, rng) == 0

    def test_far_behind_is_never_chosen(self) -> None:
        for rng in (seeded(0), secure()):
            assert {choose([0.0, -1e6], 1.0, 1.0, rng) for _ in range(50)} == {0}

    def test_kinds_of_numbers(self) -> None:
        expected = [choose([0.0, 1.0, 0.0], 1.0, 1.0, seeded(k)) for k in range(30)]
        for scores in (
            [0, 1, 0],
            (False, True, False),
            np.array([0, 1, 0], dtype=np.float32),
            np.array([0, 1, 0], dtype=np.uint8),
        ):
            assert [choose(scores, 1, 1, seeded(k)) for k in range(30)] == expected

    @pytest.mark.parametrize(
        "scores",
        [[], [math.nan, 1.0], [math.inf, 0.0], [-math.inf, -math.inf], [[0.0, 1.0]], 1.0],
        ids=str,
    )
    def test_impossible_scores(self, scores: Any) -> None:
        for rng in (seeded(0), secure()):
            with pytest.raises(InvalidInput, match="score"):
                choose(scores, 1.0, 1.0, rng)

    @pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
    def test_bad_numbers(self, wrong: float) -> None:
        with pytest.raises(InvalidInput, match="epsilon"):
            choose([0.0], wrong, 1.0, seeded(0))
        with pytest.raises(InvalidInput, match="sensitivity"):
            choose([0.0], 1.0, wrong, seeded(0))


class TestBlackBox:
    """Each mechanism as an outsider sees it: counts of the most telling event on two inputs.

    The claim (ε, δ) stands at the nominal noise and falls when the noise is 10–20 % less.
    """

    @pytest.mark.parametrize(("share", "falls"), [(1.0, False), (0.85, True)])
    @pytest.mark.parametrize("dimension", [1, 2])
    def test_gamma_noise(self, dimension: int, share: float, falls: bool) -> None:
        """Moved by one along an axis, at ε = 1: the event lies far out on that side."""
        runs, moved = 1_000_000, np.eye(dimension)[0]
        rng = seeded(1)
        noise = [gamma_noise(share, dimension, rng, runs) for _ in range(2)]

        def event(outputs: Floats) -> int:
            far = np.linalg.norm(outputs, axis=1) - np.linalg.norm(outputs - moved, axis=1)
            return int(np.count_nonzero(far > 0.97))

        assert refutes(event(noise[0] + moved), event(noise[1]), runs, 1.0) is falls

    @pytest.mark.parametrize(("share", "falls"), [(1.0, False), (0.9, True)])
    def test_gaussian_noise(self, share: float, falls: bool) -> None:
        runs, epsilon, delta = 2_000_000, 0.5, 0.05
        mu = gaussian_mu(epsilon, delta)
        rng = seeded(2)
        noise = [gaussian_noise(share / mu, runs, rng) for _ in range(2)]
        cut = 0.5 + epsilon / mu**2
        likely, unlikely = (int(np.count_nonzero(x > cut)) for x in (noise[0] + 1, noise[1]))
        assert refutes(likely, unlikely, runs, epsilon, delta) is falls

    @pytest.mark.parametrize(("share", "falls"), [(1.0, False), (0.85, True)])
    @pytest.mark.parametrize("epsilon", [0.5, 2.0])
    def test_flip_bits(self, epsilon: float, share: float, falls: bool) -> None:
        runs, rng = 1_000_000, seeded(3)
        likely, unlikely = (
            int(flip_bits(np.full(runs, bit), epsilon / share, rng).sum()) for bit in (1, 0)
        )
        assert refutes(likely, unlikely, runs, epsilon) is falls

    @pytest.mark.parametrize(("share", "falls"), [(1.0, False), (0.85, True)])
    def test_masks(self, share: float, falls: bool) -> None:
        """All slots together: the transcript 000 of a user who holds 000, or 111."""
        runs, epsilon, rng = 1_000_000, 1.5, seeded(4)
        law = mask_law(epsilon / share, 3, 1)
        likely, unlikely = (
            int(np.count_nonzero((draw_masks(law, runs, rng) ^ bit).sum(axis=1) == 0))
            for bit in (0, 1)
        )
        assert refutes(likely, unlikely, runs, epsilon) is falls

    @pytest.mark.parametrize(("share", "falls"), [(1.0, False), (0.8, True)])
    def test_choose(self, share: float, falls: bool) -> None:
        """One record moves one score up and the other down."""
        runs, epsilon, rng = 40_000, 2.0, seeded(5)
        likely, unlikely = (
            sum(choose(scores, epsilon / share, 1.0, rng) == 0 for _ in range(runs))
            for scores in ([1.0, 2.0], [0.0, 3.0])
        )
        assert refutes(likely, unlikely, runs, epsilon) is falls


def test_generators_of_short_words_are_refused() -> None:
    short = np.random.Generator(np.random.MT19937(0))
    for use in (
        lambda: mechanisms.gaussian_noise(1.0, 3, short),
        lambda: mechanisms.gamma_noise(1.0, 3, short),
        lambda: mechanisms.flip_bits([0, 1], 1.0, short),
    ):
        with pytest.raises(InvalidInput, match="64-bit"):
            use()


def test_no_bits_and_far_scores_are_fine() -> None:
    assert mechanisms.flip_bits([], 1.0, seeded(0)).shape == (0,)
    assert mechanisms.choose([1e308, -1e308], 1.0, 1.0, seeded(0)) == 0
