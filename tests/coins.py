"""A generator that plays back chosen words, and the two kinds of real ones."""

from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

from sudare.foundations.randomness import secure, seeded

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


SOURCES = pytest.mark.parametrize("source", [lambda: seeded(1), secure], ids=["seeded", "secure"])
