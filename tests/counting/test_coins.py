"""Coins follow their law exactly: every word counts, by arithmetic where there are too many."""

import math
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.calibration import mask_law
from sudare.counting import Survey, Ticket
from sudare.counting._coins import draw_coins, words_of
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import secure, seeded
from tests.coins import Tape

WORDS = 2**64


def coins(survey: Survey, slots: int, words: list[int], seed: int = 0) -> tuple[bytes, bytes]:
    tape: Any = Tape(words, seed)
    own = Ticket(survey.digest(), 7, bytes(16), tuple(range(slots)), 0)
    return draw_coins(survey, own, words_of(tape))


def masks(slots: int, threshold: int = 0) -> Survey:
    return Survey(
        name="m", rounds=slots, epsilon=1.0, method="masks", slots=slots, threshold=threshold
    )


@pytest.mark.parametrize("slots", [2, 3, 4])
def test_every_shuffle_is_equally_likely(slots):
    """Words below 12, which 2, 3 and 4 divide: every place is drawn equally often at every step."""
    survey = masks(slots)
    law = survey.law
    below = 0
    for ones in range(slots + 1):
        found: Counter[bytes] = Counter()
        for words in product(range(12), repeat=slots - 1):
            flips, _ = coins(survey, slots, [below, *words])
            assert sum(flips) == ones
            found[flips] += 1
        assert len(found) == math.comb(slots, ones)
        assert len(set(found.values())) == 1
        below += math.comb(slots, ones) * (law.near_weight if ones == 0 else law.far_weight)


@pytest.mark.parametrize(("slots", "threshold"), [(1, 0), (2, 0), (5, 2), (30, 14)])
def test_each_number_of_ones_has_its_weight(slots, threshold):
    """The first and the last number that lead to k ones, so all between them do."""
    survey = masks(slots, threshold)
    law = survey.law
    below = 0
    for ones in range(slots + 1):
        each = law.near_weight if ones <= threshold else law.far_weight
        weight = math.comb(slots, ones) * each
        for drawn in (below, below + weight - 1):
            # Any word that leaves the same remainder does as well.
            for word in (drawn, drawn + law.total * (WORDS // law.total - 1)):
                assert sum(coins(survey, slots, [word])[0]) == ones
        below += weight
    assert below == law.total


@pytest.mark.parametrize("survey", [masks(1), masks(3), masks(30, 7)])
def test_words_that_would_favour_small_numbers_are_dropped(survey):
    """Of 2⁶⁴ words a whole multiple of the total is kept: every number has as many."""
    total, slots = survey.law.total, survey.slots
    kept = WORDS // total * total
    assert kept % total == 0
    rest = [0] * slots
    assert kept < WORDS, "choose another survey: nothing would be dropped"
    for dropped in ([kept], [WORDS - 1], [kept, WORDS - 1, kept]):
        for first in (0, kept - 1):
            expected = coins(survey, slots, [first, *rest])
            assert coins(survey, slots, [*dropped, first, *rest]) == expected


def test_rappor_is_one_mask_after_another():
    survey = Survey(name="r", rounds=5, epsilon=2.0, method="rappor")
    law = survey.law
    kept = WORDS // law.total * law.total
    words = [0, law.near_weight - 1, kept, law.near_weight, WORDS - 1, kept - 1, law.total]
    assert coins(survey, 5, words)[0] == bytes([0, 0, 1, 1, 0])


@given(st.lists(st.integers(0, WORDS - 1), min_size=2, max_size=2), st.integers(1, 128))
def test_fair_coins_are_the_bits_of_the_words(words, count):
    survey = Survey(name="t", rounds=count, epsilon=1.0, method="tree", changes=2)
    expected = [(words[i // 64] >> (i % 64)) & 1 for i in range(count)]
    assert list(coins(survey, count, words)[1]) == expected


def test_only_tree_has_fair_coins_and_they_come_first():
    for method in ("glance", "harmony", "harmony-signed", "rappor"):
        survey = Survey(name="s", rounds=3, epsilon=1.0, method=method)
        flips, fair = coins(survey, 3 if method == "rappor" else 1, [])
        assert fair == b""
        assert len(flips) == (3 if method == "rappor" else 1)
    tree = Survey(name="t", rounds=3, epsilon=1.0, method="tree", changes=2)
    far = mask_law(1.0, 2, tree.law.threshold).total - 1  # the last number: all ones
    assert coins(tree, 3, [0b101, far]) == (b"\1\1", b"\1\0\1")


def test_a_generator_of_short_words_is_refused():
    with pytest.raises(InvalidInput, match="64-bit"):
        words_of(np.random.Generator(np.random.MT19937(1)))(1)
    for rng in (seeded(1), secure()):
        assert words_of(rng)(3).dtype == np.uint64
