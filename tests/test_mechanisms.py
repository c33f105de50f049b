"""The random steps: coin by coin against ideal draws, and as laws.

`Tape` plays chosen words instead of random ones. `Ideal` reads the same coins with 60 digits and
goes on where the float draw stops, with whatever coins one likes: the two may never be farther
apart than `draw_error` says.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy import stats

from sudare import mechanisms
from sudare.calibration.gaussian import gaussian_mu
from sudare.calibration.masks import MaskLaw, flip_threshold, mask_law
from sudare.checks import InvalidInput
from sudare.mechanisms import (
    bernoulli,
    choose,
    draw_error,
    draw_masks,
    flip_bits,
    gamma_noise,
    gaussian_noise,
)
from sudare.randomness import Generator, secure, seeded
from tests.statistical import (
    counts_fit,
    fits,
    only_counts_fit,
    only_fits,
    rate_is,
    refutes,
    tally,
)

WORD = 2**64
Floats = NDArray[np.float64]


class Tape:
    """A generator that plays the given 64-bit words, and then more from a seeded one."""

    def __init__(self, words: Iterable[int], seed: int = 0) -> None:
        self.words = [int(word) for word in words]
        self.used = 0
        self._more = seeded(seed)
        self.bit_generator = self

    def random_raw(self, size: int) -> NDArray[np.uint64]:
        while len(self.words) < self.used + size:
            self.words.append(int(self._more.bit_generator.random_raw()))
        played = self.words[self.used : self.used + size]
        self.used += size
        return np.array(played, dtype=np.uint64)


class Ideal:
    """Real-valued draws from the coins of a tape; `rest` in [0, 1] stands for all later coins."""

    def __init__(self, words: list[int], rest: float) -> None:
        self.words, self.rest = iter(words), mpf(rest)
        self.out_of_coins = False
        """64 tails (53 for a lone angle) and 18 more: the exception that the promise names."""

    def take(self, size: int) -> list[int]:
        return list(itertools.islice(self.words, size))

    def exponentials(self, size: int) -> list[Any]:
        return self._exponentials([word >> 54 for word in self.take(size)])

    def _exponentials(self, digits: list[int]) -> list[Any]:
        tails = [10 - digit.bit_length() for digit in digits]
        open_ = [k for k, digit in enumerate(digits) if digit == 0]
        while open_:
            more = [word >> 54 for word in self.take(len(open_))]
            for k, digit in zip(open_, more, strict=True):
                tails[k] += 10 - digit.bit_length()
            open_ = [k for k, digit in zip(open_, more, strict=True) if digit == 0]
        v = self.take(len(digits))
        parts = [(mpf(word), WORD) for word in v]
        small = [k for k, word in enumerate(v) if word < 2**58]
        for k, word in zip(small, self.take(len(small)), strict=True):
            parts[k] = (mpf(v[k] * WORD + word), WORD**2)
            self.out_of_coins |= v[k] == 0 and word < 2**46
        uniforms = [(value + self.rest) / whole for value, whole in parts]
        return [
            tail * mp.log(2) - mp.log1p(-uniform / 2)
            for tail, uniform in zip(tails, uniforms, strict=True)
        ]

    def normals(self, columns: int) -> list[Any]:
        half = columns // 2
        words = self.take(half)
        lengths = [mp.sqrt(2 * e) for e in self._exponentials([word >> 54 for word in words])]
        turns = []
        for word in words:
            angle = word % 2**54
            turns.append((angle - 2**54 * (angle >= 2**53) + self.rest) / mpf(2) ** 53 * mp.pi)
        vector = [r * mp.cos(a) for r, a in zip(lengths, turns, strict=True)]
        vector += [r * mp.sin(a) for r, a in zip(lengths, turns, strict=True)]
        if columns % 2:
            (word,) = self.take(1)
            (exponential,) = self._exponentials([word >> 54])
            angle, whole = mpf(word % 2**53), mpf(2) ** 53
            if angle < 2**48:
                (more,) = self.take(1)
                self.out_of_coins |= angle == 0 and more < 2**46
                angle, whole = angle * WORD + more, whole * WORD
            sine = mp.sin((angle + self.rest) / whole * mp.pi / 2)
            sign = -1 if word & 2**53 else 1
            vector.append(sign * mp.sqrt(2 * exponential) * sine)
        return vector

    def gamma(self, dimension: int) -> list[Any]:
        vector = self.normals(dimension)
        norm = mp.sqrt(sum(x * x for x in vector))
        length = sum(self.exponentials(dimension))
        return [x / norm * length for x in vector]


def distance(drawn: Floats, ideal: list[Any]) -> Any:
    """‖drawn − ideal‖/‖ideal‖."""
    gap = mp.sqrt(sum((mpf(float(a)) - b) ** 2 for a, b in zip(drawn, ideal, strict=True)))
    return gap / mp.sqrt(sum(b * b for b in ideal))


def words(rng: Generator, size: int) -> list[int]:
    """Words of every kind: random ones, few leading coins, corners of angle and exponential."""
    corners = [
        0,
        1,
        2**46,
        2**52,
        2**53 - 1,
        2**53,
        2**53 + 2**52,
        2**54 - 1,
        2**54,
        2**58 - 1,
        2**58,
        2**63,
        WORD - 2**52,
        WORD - 1,
    ]
    chosen = []
    for _ in range(size):
        word = int(rng.bit_generator.random_raw())
        match int(rng.integers(5)):
            case 0:
                word >>= int(rng.integers(64))
            case 1:
                word = corners[int(rng.integers(len(corners)))]
            case 2:
                near = corners[int(rng.integers(len(corners)))]
                word = (near + int(rng.integers(-3, 4))) % WORD
            case _:
                pass
        chosen.append(word)
    return chosen


def worst_distance(
    draw: Callable[[Any], Floats], ideal: Callable[[Ideal], list[Any]], tries: int
) -> float:
    rng = seeded(60)
    worst = 0.0
    with mp.workdps(60):
        for seed in range(tries):
            tape = Tape(words(rng, 12), seed)
            drawn = draw(tape)
            played = tape.words[: tape.used]
            for rest in (1e-9, 0.5, 1):
                reader = Ideal(played, rest)
                meant = ideal(reader)
                assert next(reader.words, None) is None, "some coins were drawn and not used"
                if not reader.out_of_coins:
                    worst = max(worst, float(distance(drawn, meant)))
    return worst


class TestCloseDraws:
    def test_exponentials(self) -> None:
        worst = worst_distance(
            lambda tape: mechanisms.exponentials(1, tape), lambda i: i.exponentials(1), 1500
        )
        assert draw_error(1) / 100 < worst <= draw_error(1)

    @pytest.mark.parametrize("columns", [1, 2, 3, 4, 7])
    def test_normals(self, columns: int) -> None:
        worst = worst_distance(
            lambda tape: gaussian_noise(1.0, columns, tape), lambda i: i.normals(columns), 400
        )
        assert draw_error(columns) / 100 < worst <= draw_error(columns)

    @pytest.mark.parametrize("dimension", [1, 2, 3, 4, 7])
    def test_gamma_vectors(self, dimension: int) -> None:
        worst = worst_distance(
            lambda tape: gamma_noise(1.0, dimension, tape), lambda i: i.gamma(dimension), 300
        )
        assert draw_error(dimension) / 100 < worst <= draw_error(dimension)

    def test_many_dimensions(self) -> None:
        """Sums of many terms, at the size where they matter."""
        worst = worst_distance(
            lambda tape: gamma_noise(1.0, 2001, tape), lambda i: i.gamma(2001), 1
        )
        assert worst <= draw_error(2001)

    @pytest.mark.parametrize("tails", [0, 1, 9, 10, 11, 25, 70])
    def test_every_number_of_tails(self, tails: int) -> None:
        full, left = divmod(tails, 10)
        coins = [*[5] * full, (1 << (9 - left)) << 54, 2**63]
        (drawn,) = mechanisms.exponentials(1, Tape(coins))  # type: ignore[arg-type]
        assert drawn == pytest.approx((tails - math.log2(0.75)) * math.log(2), rel=1e-15)

    def test_every_first_digit(self) -> None:
        for digit in range(1, 1024):
            (drawn,) = mechanisms.exponentials(1, Tape([digit << 54, 2**63]))  # type: ignore[arg-type]
            expected = 10 - digit.bit_length() - math.log2(0.75)
            assert drawn == pytest.approx(expected * math.log(2), rel=1e-15)

    def test_smallest_exponentials(self) -> None:
        """All of the first 64 coins tails: 64 more decide, and never give zero."""
        heads = 2**63
        for extra in (WORD - 1, 2**60, 2**46):
            (drawn,) = mechanisms.exponentials(1, Tape([heads, 0, extra]))  # type: ignore[arg-type]
            ideal = mpf(extra) / mpf(2) ** 129
            assert abs(mpf(float(drawn)) / ideal - 1) <= draw_error(1)
        (drawn,) = mechanisms.exponentials(1, Tape([heads, 0, 0]))  # type: ignore[arg-type]
        assert 0 < drawn < 2.0**-128

    def test_the_exception_is_rarer_than_it_says(self) -> None:
        """Only 64 tails and then 20 more, at least, leave the promised distance."""
        heads, first_bad = 2**63, 2**44
        with mp.workdps(60):
            for extra, kept in ((first_bad, False), (2 * first_bad, True)):
                tape = Tape([heads, 0, extra])
                (drawn,) = mechanisms.exponentials(1, tape)  # type: ignore[arg-type]
                (ideal,) = Ideal(tape.words[: tape.used], 1).exponentials(1)
                assert (abs(mpf(float(drawn)) / ideal - 1) <= draw_error(1) * 0.9) is kept
        assert mpf(first_bad) / WORD**2 < mpf(2) ** -70

    def test_halves_of_pairs_would_not_be_close(self) -> None:
        """Near an axis one half of a pair is all rounding, which is why no draw ends in one."""
        sideways = (2**63) + 2**52
        with mp.workdps(60):
            tape = Tape([sideways, 2**63])
            cosine, sine = gaussian_noise(1.0, 2, tape)  # type: ignore[arg-type]
            ideal = Ideal(tape.words, 0.5).normals(2)
            assert distance(np.array([cosine, sine]), ideal) <= draw_error(2)
            assert distance(np.array([cosine]), ideal[:1]) > 1000 * draw_error(1)

    def test_no_vector_of_a_batch_holds_half_a_pair(self) -> None:
        """Row by row the same coins as one row alone, whatever the number of rows."""
        rng, with_lone = seeded(1), (3, 2, 5)
        for columns in with_lone:
            rows = mechanisms._normals(4, columns, rng)
            assert rows.shape == (4, columns)
        tape = Tape([2**63 + k * 2**50 for k in range(4)] + [2**63] * 4)
        rows = mechanisms._normals(4, 2, tape)  # type: ignore[arg-type]
        assert np.hypot(rows[:, 0], rows[:, 1]) == pytest.approx(
            np.full(4, math.sqrt(-2 * math.log(0.75)))
        )

    def test_error_grows_with_the_dimension(self) -> None:
        assert draw_error(1) == 2.0**-45 + 2.0**-51
        assert draw_error(10_000) < 2.0**-37
        with pytest.raises(InvalidInput, match="dimension"):
            draw_error(0)


def gamma_cdf(shape: float, scale: float) -> Callable[[Any], Any]:
    return stats.gamma(shape, scale=scale).cdf


SOURCES = pytest.mark.parametrize("source", [lambda: seeded(1), secure], ids=["seeded", "secure"])


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


class TestBernoulli:
    @pytest.mark.parametrize(
        "threshold",
        [
            1,
            2**55,
            2**56 - 1,
            2**56,
            2**56 + 1,
            2**63,
            0xABCDEF0123456789,
            2**64 - 2**56,
            2**64 - 1,
        ],
    )
    def test_word_by_word(self, threshold: int) -> None:
        """All 256 first bytes; in a tie the next 56 coins decide, and the last 8 are not looked at.

        So the bit is one for top·2⁵⁶ + rest of the 2⁶⁴ equally likely continuations: threshold/2⁶⁴.
        """
        top, rest = divmod(threshold, 2**56)
        first = np.arange(256, dtype=np.uint8).view(np.uint64).tolist()
        for tie in sorted({0, max(rest - 1, 0), rest, min(rest + 1, 2**56 - 1), 2**56 - 1}):
            for ignored in (0, 255):
                tape = Tape([*first, (tie << 8) + ignored])
                drawn = bernoulli(threshold, 256, tape)  # type: ignore[arg-type]
                expected = [b < top or (b == top and tie < rest) for b in range(256)]
                assert drawn.tolist() == expected
                assert tape.used == 33

    def test_every_tie_gets_coins_of_its_own(self) -> None:
        """Sixteen ties in a row, decided by sixteen words."""
        tie = int.from_bytes(bytes([7] * 8), "little")
        decisions = [(k % 3 == 0) for k in range(16)]
        tape = Tape([tie, tie, *((2**63 - 1 if d else 2**63) for d in decisions)])
        drawn = bernoulli((7 << 56) + 2**55, 16, tape)  # type: ignore[arg-type]
        assert drawn.tolist() == decisions

    @SOURCES
    @pytest.mark.parametrize("threshold", [2**56 + 2**55, 2**64 // 3, 2**64 - 2**57 - 2**50])
    def test_law(self, threshold: int, source: Callable[[], Generator]) -> None:
        runs = 2_000_000
        hits = int(bernoulli(threshold, runs, source()).sum())
        p = threshold / 2**64
        step = 16 * math.sqrt(p * (1 - p) / runs)
        assert rate_is(hits, runs, p)
        assert not rate_is(hits, runs, p - step)
        assert not rate_is(hits, runs, p + step)

    def test_independence(self) -> None:
        bits = bernoulli(2**62, 3_000_000, seeded(1)).astype(int)
        cells = bits.reshape(-1, 3) @ [1, 2, 4]
        law = np.array(
            [0.25 ** int.bit_count(k) * 0.75 ** (3 - int.bit_count(k)) for k in range(8)]
        )
        assert counts_fit(tally(cells, 8), law)
        assert not counts_fit(tally(cells, 8), law[[1, 0, 2, 3, 4, 5, 6, 7]])

    def test_edges(self) -> None:
        for rng in (seeded(0), secure()):
            assert not bernoulli(0, 5000, rng).any()
            assert bernoulli(2**64, 5000, rng).all()
            for threshold in (0, 5, 2**64):
                assert bernoulli(threshold, 0, rng).shape == (0,)
            for size in (1, 7, 8, 9):
                assert bernoulli(2**63, size, rng).shape == (size,)

    @pytest.mark.parametrize("wrong", [-1, 2**64 + 1])
    def test_bad_threshold(self, wrong: int) -> None:
        with pytest.raises(InvalidInput, match="threshold"):
            bernoulli(wrong, 3, seeded(0))


class TestFlipBits:
    @SOURCES
    @pytest.mark.parametrize(("epsilon", "off"), [(0.1, 0.4), (1.0, 0.1), (4.0, 0.1)])
    def test_law(self, epsilon: float, off: float, source: Callable[[], Generator]) -> None:
        runs = 1_000_000
        rng = source()
        for bit in (0, 1):
            flipped = flip_bits(np.full(runs, bit), epsilon, rng) != bit
            hits = int(flipped.sum())
            assert rate_is(hits, runs, 1 / (1 + math.exp(epsilon)))
            assert not rate_is(hits, runs, 1 / (1 + math.exp(epsilon * (1 - off))))
            assert not rate_is(hits, runs, 1 / (1 + math.exp(epsilon * (1 + off))))

    def test_flips_where_the_word_is_below_the_threshold(self) -> None:
        threshold = flip_threshold(1.0)
        bytes_ = np.arange(256, dtype=np.uint8)
        bits = bytes_ % 2
        tape = Tape([*bytes_.view(np.uint64).tolist(), 0])
        flipped = flip_bits(bits, 1.0, tape) != bits  # type: ignore[arg-type]
        assert flipped.tolist() == [b <= threshold >> 56 for b in range(256)]

    def test_tiny_and_large_epsilon(self) -> None:
        runs = 1_000_000
        zeros = np.zeros(runs, dtype=np.uint8)
        assert rate_is(int(flip_bits(zeros, 1e-12, seeded(0)).sum()), runs, 0.5)
        assert not flip_bits(zeros, 40.0, seeded(0)).any()
        assert flip_threshold(40.0) > 0

    @pytest.mark.parametrize(
        "bits",
        [
            [0, 1, 1],
            [False, True, True],
            np.array([0, 1, 1], dtype=np.int8),
            np.array([0, 1, 1], dtype=np.uint64),
            np.array([False, True, True]),
        ],
        ids=["list", "booleans", "int8", "uint64", "bool"],
    )
    def test_kinds_of_bits(self, bits: Any) -> None:
        kept = np.array(bits, copy=True)
        drawn = flip_bits(bits, 1.0, seeded(3))
        assert drawn.dtype == np.uint8
        assert drawn.tolist() == flip_bits(np.array([0, 1, 1]), 1.0, seeded(3)).tolist()
        assert np.array_equal(bits, kept), "the input was changed"

    def test_shapes(self) -> None:
        for shape in ((), (0,), (3,), (2, 5), (4, 0)):
            assert flip_bits(np.zeros(shape, dtype=int), 1.0, seeded(0)).shape == shape
        turned = np.array([[0, 1], [1, 1], [0, 0]]).T
        assert flip_bits(turned, 40.0, seeded(0)).tolist() == turned.tolist()

    @pytest.mark.parametrize(
        "bits", [[0.0, 1.0], [2], [-1, 0], ["0"], [None], np.array([1], dtype=np.float32)], ids=str
    )
    def test_what_is_not_a_bit(self, bits: Any) -> None:
        with pytest.raises(InvalidInput, match="bits"):
            flip_bits(bits, 1.0, seeded(0))

    @pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan])
    def test_bad_epsilon(self, wrong: float) -> None:
        with pytest.raises(InvalidInput, match="epsilon"):
            flip_bits([0, 1], wrong, seeded(0))


def mask_probabilities(law: MaskLaw) -> Floats:
    """Of every mask, in binary order, from the definition."""
    weights = [
        law.near_weight if int.bit_count(mask) <= law.threshold else law.far_weight
        for mask in range(2**law.slots)
    ]
    return np.array([weight / law.total for weight in weights])


LAWS = [(slots, threshold) for slots in range(1, 5) for threshold in range(slots)]


class TestMasks:
    @pytest.mark.parametrize(("slots", "threshold"), LAWS)
    def test_law(self, slots: int, threshold: int) -> None:
        law = mask_law(1.0, slots, threshold)
        masks = draw_masks(law, 100_000, seeded(slots))
        seen = tally(masks @ (1 << np.arange(slots)), 2**slots)
        wrong = [mask_law(1.0, slots, other) for other in range(slots) if other != threshold]
        wrong += [mask_law(epsilon, slots, threshold) for epsilon in (0.7, 1.4)]
        assert only_counts_fit(seen, mask_probabilities(law), list(map(mask_probabilities, wrong)))

    def test_law_of_the_secure_generator(self) -> None:
        law = mask_law(2.0, 3, 1)
        seen = tally(draw_masks(law, 100_000, secure()) @ [1, 2, 4], 8)
        wrong = [mask_probabilities(mask_law(2.0, 3, other)) for other in (0, 2)]
        assert only_counts_fit(seen, mask_probabilities(law), wrong)

    def test_weights_are_met_to_the_unit(self) -> None:
        """The word drawn picks the number of ones at exactly the cumulated weights."""
        law = mask_law(1.0, 3, 1)
        near, far = law.near_weight, law.far_weight

        class Chosen:
            def __init__(self, word: int) -> None:
                self.word = word

            def integers(self, low: int, high: int, size: int, dtype: Any) -> Any:
                assert (low, high) == (0, law.total)
                return np.full(size, self.word, dtype=dtype)

            def permuted(self, masks: Any, axis: int, out: Any) -> Any:
                return masks

        steps = [near, 4 * near, 4 * near + 3 * far]
        for ones, step in enumerate(steps):
            for word, expected in ((step - 1, ones), (step, ones + 1)):
                masks = draw_masks(law, 1, Chosen(word))  # type: ignore[arg-type]
                assert masks.sum() == expected
        assert draw_masks(law, 1, Chosen(law.total - 1)).sum() == 3  # type: ignore[arg-type]

    def test_is_repeatable_only_when_seeded(self) -> None:
        law = mask_law(1.0, 20, 5)
        first = draw_masks(law, 50, seeded(9))
        assert first.dtype == np.uint8
        assert first.shape == (50, 20)
        assert np.array_equal(first, draw_masks(law, 50, seeded(9)))
        assert not np.array_equal(draw_masks(law, 50, secure()), draw_masks(law, 50, secure()))

    @pytest.mark.parametrize("wrong", [0, -1, 2.0])
    def test_bad_number_of_users(self, wrong: Any) -> None:
        with pytest.raises(InvalidInput, match="users"):
            draw_masks(mask_law(1.0, 2), wrong, seeded(0))


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
