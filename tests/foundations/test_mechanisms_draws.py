"""Close draws against 60-digit ideal draws made from the same coins."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from sudare.foundations import mechanisms
from sudare.foundations.checks import InvalidInput
from sudare.foundations.mechanisms import (
    draw_error,
    gamma_noise,
    gaussian_noise,
)
from sudare.foundations.randomness import Generator, seeded
from tests.coins import WORD, Floats, Tape


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
