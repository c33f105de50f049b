"""A user's secret coins from a stream of random words: one way, the same in every language.

Python and the browser's `client.js` draw their coins by the same rules from 64-bit words, so that
one file of test cases binds both. All rules are exact for uniform words:

    a number below n    The next word w, unless w ≥ 2⁶⁴ − (2⁶⁴ mod n): such a word is dropped and
                        the one after it taken. The number is w mod n.
    fair coins          64 to a word, the least significant bit first.
    a mask              A number below the law's total says how many flips are ones: the first k
                        with number < Σ_{i≤k} C(g, i)·weight(i). They start in the first k places
                        and are shuffled (Fisher and Yates): for i from g−1 down to 1, place i is
                        exchanged with place j, a number below i + 1.

A device draws in this order: for `tree` a fair coin for each of its stretches; then one mask, or
for `rappor` one for each round.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sudare.counting._survey import Survey
from sudare.counting._tickets import Ticket
from sudare.foundations.masks import MaskLaw
from sudare.foundations.randomness import Generator, uniform_words

WordSource = Callable[[int], NDArray[np.uint64]]
"""Gives as many uniform 64-bit words as it is asked for, none of them twice."""

_WORDS = 1 << 64


def words_of(rng: Generator) -> WordSource:
    """The words of a generator."""
    return lambda count: uniform_words(count, rng)


def draw_coins(survey: Survey, ticket: Ticket, words: WordSource) -> tuple[bytes, bytes]:
    """The flips and the fair coins of a ticket, a byte of 0 or 1 for each."""
    slots, law = ticket.slots(survey), survey.law_at(ticket.level)
    coins = _fair_coins(slots, words) if survey.method == "tree" else b""
    if survey.method == "rappor":
        return _single_flips(law, slots, words), coins
    return _mask(law, _stream(words, law.slots)), coins


def _fair_coins(count: int, words: WordSource) -> bytes:
    drawn = words(-(-count // 64)).astype("<u8")
    return np.unpackbits(drawn.view(np.uint8), count=count, bitorder="little").tobytes()


def _mask(law: MaskLaw, stream: Iterator[int]) -> bytes:
    drawn = _below(law.total, stream)
    ones = next(k for k, upper in enumerate(_ladder(law)) if drawn < upper)
    mask = bytearray(law.slots)
    mask[:ones] = b"\1" * ones
    for i in range(law.slots - 1, 0, -1):
        j = _below(i + 1, stream)
        mask[i], mask[j] = mask[j], mask[i]
    return bytes(mask)


def _single_flips(law: MaskLaw, count: int, words: WordSource) -> bytes:
    """Masks of one flip each, from as many words as it takes: what `_mask` would make of them."""
    end = np.uint64(_WORDS - _WORDS % law.total)
    kept = np.zeros(0, np.uint64)
    while kept.size < count:
        drawn = words(count - kept.size)
        kept = np.concatenate([kept, drawn[drawn < end]])
    flips: NDArray[np.bool_] = kept % np.uint64(law.total) >= np.uint64(law.near_weight)
    return flips.astype(np.uint8).tobytes()


def _below(bound: int, stream: Iterator[int]) -> int:
    end = _WORDS - _WORDS % bound
    while (word := next(stream)) >= end:
        pass
    return word % bound


def _stream(words: WordSource, at_once: int) -> Iterator[int]:
    while True:
        yield from words(at_once).tolist()


@lru_cache(maxsize=256)
def _ladder(law: MaskLaw) -> tuple[int, ...]:
    """The weight of all masks with at most k ones, for k = 0 … g."""
    weights = (
        math.comb(law.slots, ones) * (law.near_weight if ones <= law.threshold else law.far_weight)
        for ones in range(law.slots + 1)
    )
    return tuple(accumulate(weights))
