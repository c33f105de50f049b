"""Randomised bits and masks: exact probabilities and laws."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sudare.foundations.checks import InvalidInput
from sudare.foundations.masks import MaskLaw, flip_threshold, mask_law
from sudare.foundations.mechanisms import (
    bernoulli,
    draw_masks,
    flip_bits,
)
from sudare.foundations.randomness import Generator, secure, seeded
from tests.coins import SOURCES, Floats, Tape
from tests.statistical import (
    counts_fit,
    only_counts_fit,
    rate_is,
    tally,
)


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
