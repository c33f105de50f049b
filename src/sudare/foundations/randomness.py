"""Where random bits come from: the only place in sudare that makes generators.

`secure()` is for everything that leaves an organisation or a device. It is AES-128 in counter mode
under a key fresh from the operating system: predicting it means breaking AES, and it is nearly as
fast as an ordinary simulation generator. `seeded(n)` is for simulation, tests and figures. Noise
that can be drawn again can be subtracted, so what comes out of a seeded generator, or of any
generator made elsewhere, is never `is_secure` and can never be signed as a release.
"""

import os
import secrets
import weakref
from typing import Any, NoReturn

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from randomgen import AESCounter

from sudare.foundations import checks

__all__ = [
    "Generator",
    "SecureGenerator",
    "as_generator",
    "is_secure",
    "secure",
    "seeded",
    "uniform_words",
]


class SecureGenerator(Generator):
    """A numpy Generator over an AES-128 counter stream, keyed by the operating system.

    Two copies of one secure generator would draw the same noise twice, so a copy, an unpickled
    generator and a forked child each get a key of their own.
    """

    def __init__(self) -> None:
        super().__init__(AESCounter(key=secrets.randbits(128)))
        _alive.add(self)

    def __copy__(self) -> "SecureGenerator":
        return SecureGenerator()

    def __deepcopy__(self, memo: dict[int, Any]) -> "SecureGenerator":
        return SecureGenerator()

    def __reduce__(self) -> Any:
        return SecureGenerator, ()

    def spawn(self, n_children: int) -> NoReturn:
        raise checks.PrivacyError("A secure generator is not spawned: call secure() for each use")

    def __str__(self) -> str:
        return "SecureGenerator"

    def _rekey(self) -> None:
        self.bit_generator.state = AESCounter(key=secrets.randbits(128)).state


_alive: "weakref.WeakSet[SecureGenerator]" = weakref.WeakSet()


def secure() -> SecureGenerator:
    """A generator whose output nobody can predict or draw again."""
    return SecureGenerator()


def seeded(seed: int) -> Generator:
    """A generator that draws the same numbers every time: for simulation only."""
    checks.count(minimum=0, seed=seed)
    return Generator(np.random.PCG64(int(seed)))


def is_secure(rng: Generator) -> bool:
    """Whether what this generator draws may leave as a release."""
    return type(rng) is SecureGenerator


def as_generator(rng: Generator | int | None) -> Generator:
    """None gives `secure()`, a whole number `seeded(n)`, a generator itself."""
    if rng is None:
        return secure()
    if isinstance(rng, Generator):
        return rng
    if isinstance(rng, np.random.RandomState):
        raise checks.InvalidInput("Expected rng to be None, a whole number or a numpy Generator")
    checks.count(minimum=0, rng=rng)
    return seeded(int(rng))


def uniform_words(count: int, rng: Generator) -> NDArray[np.uint64]:
    """Uniform 64-bit words; a generator of shorter ones would make wrong bits of them."""
    if isinstance(rng.bit_generator, np.random.MT19937):
        raise checks.InvalidInput("Expected rng to make 64-bit words; MT19937 makes 32-bit ones")
    drawn: NDArray[np.uint64] = rng.bit_generator.random_raw(count)
    return drawn


def _rekey_all() -> None:
    for generator in list(_alive):
        generator._rekey()


if hasattr(os, "register_at_fork"):  # no fork, no hook: Windows
    os.register_at_fork(after_in_child=_rekey_all)
