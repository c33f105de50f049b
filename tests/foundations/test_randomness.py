"""Where the bits come from: an independent AES, real processes, and what counts as secure.

Streams are compared over 512 bits or more, so two independent ones agree with probability 2^-512
at most: no false alarm is to be expected, ever.
"""

import copy
import gc
import multiprocessing
import operator
import os
import pickle
import secrets
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.random import MT19937, PCG64, Generator, RandomState, default_rng
from randomgen import AESCounter
from sklearn.base import BaseEstimator, clone

from sudare.foundations.checks import InvalidInput, PrivacyError
from sudare.foundations.randomness import (
    SecureGenerator,
    _alive,
    as_generator,
    is_secure,
    secure,
    seeded,
)

forking = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def key_of(rng: Generator) -> bytes:
    """An AES key schedule starts with the key itself."""
    words = rng.bit_generator.state["s"]["seed"]
    return np.asarray(words[:2], dtype="<u8").tobytes()


def keystream(key: bytes, blocks: int) -> bytes:
    """AES-128 of 0, 1, 2, … as little-endian blocks."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(b"".join(k.to_bytes(16, "little") for k in range(blocks)))


def raw(rng: Generator, words: int = 8) -> bytes:
    return np.asarray(rng.bit_generator.random_raw(words), dtype="<u8").tobytes()


def in_child(draw: Callable[[], bytes]) -> bytes:
    """What `draw` gives in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, draw())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        drawn = pipe.read()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert drawn
    return drawn


# The stream


def test_the_stream_is_aes_in_counter_mode() -> None:
    rng = secure()
    assert raw(rng, 20_000) == keystream(key_of(rng), 10_000)


def test_the_comparison_would_notice_another_key_or_counter() -> None:
    rng = secure()
    key, drawn = key_of(rng), raw(rng, 8)
    other = bytes([key[0] ^ 1]) + key[1:]
    assert drawn != keystream(other, 4)
    assert drawn != keystream(key, 5)[16:]
    assert keystream(bytes(range(16)), 1).hex() == "c6a13b37878f5b826f4f8162a1c8d879"


def test_numpy_draws_are_made_of_that_stream() -> None:
    rng = secure()
    key = key_of(rng)
    words = np.frombuffer(keystream(key, 500), dtype="<u8")
    assert rng.random(1000).tolist() == ((words >> np.uint64(11)) * 2.0**-53).tolist()


def test_the_key_is_all_the_operating_system_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    number = int.from_bytes(bytes(range(1, 17)), "little")

    def randbits(bits: int) -> int:
        asked.append(bits)
        return number

    monkeypatch.setattr(secrets, "randbits", randbits)
    rng = secure()
    assert asked == [128]
    assert key_of(rng) == number.to_bytes(16, "little")


def test_every_generator_has_a_key_of_its_own() -> None:
    assert len({key_of(secure()) for _ in range(500)}) == 500


def test_keys_do_not_come_from_a_generator_that_can_be_seeded() -> None:
    streams = []
    for _ in range(2):
        np.random.seed(1)  # noqa: NPY002
        streams.append(raw(secure()))
    assert streams[0] != streams[1]


# Copies


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        lambda rng: copy.deepcopy({"rng": [rng]})["rng"][0],
        *(
            lambda rng, protocol=protocol: pickle.loads(pickle.dumps(rng, protocol))
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
        ),
    ],
)
def test_a_copy_has_a_stream_of_its_own(duplicate: Callable[[Any], Any]) -> None:
    rng = secure()
    rng.random(3)
    copied = duplicate(rng)
    assert is_secure(copied)
    assert key_of(copied) != key_of(rng)
    assert raw(copied) != raw(rng)


def test_a_pickle_holds_no_key_and_reads_as_a_new_stream_each_time() -> None:
    rng = secure()
    pickled = pickle.dumps(rng)
    assert key_of(rng) not in pickled
    assert raw(pickle.loads(pickled)) != raw(pickle.loads(pickled))


def test_one_object_copied_twice_in_one_go_stays_one_object() -> None:
    rng = secure()
    first, second = copy.deepcopy([rng, rng])
    assert first is second


class Holder(BaseEstimator):  # type: ignore[misc]
    def __init__(self, rng: Generator | None = None) -> None:
        self.rng = rng


def test_cloned_estimators_do_not_share_a_stream() -> None:
    holder = Holder(secure())
    copies = [clone(holder) for _ in range(3)]
    assert all(is_secure(each.rng) for each in copies)
    assert len({raw(each.rng) for each in [holder, *copies]}) == 4


def test_a_seeded_generator_does_copy_its_stream() -> None:
    """What the tests above would see, were a secure generator copied like any other."""
    rng = seeded(1)
    for copied in (copy.deepcopy(rng), pickle.loads(pickle.dumps(rng)), clone(Holder(rng)).rng):
        assert raw(copied) == raw(copy.deepcopy(rng))


# Processes


@forking
def test_a_forked_child_draws_something_else() -> None:
    rng = secure()
    rng.random(5)
    childs = [in_child(lambda: raw(rng)) for _ in range(2)]
    assert len({*childs, raw(rng)}) == 3


@forking
def test_a_forked_child_of_a_forked_child_draws_something_else() -> None:
    rng = secure()
    both = in_child(lambda: in_child(lambda: raw(rng)) + raw(rng))
    assert len({both[:64], both[64:], raw(rng)}) == 3


@forking
def test_a_forked_child_keeps_no_bits_drawn_before() -> None:
    """Half a word, or most of a block, may be waiting in the generator when the process forks."""
    rng = secure()
    rng.integers(2**32, dtype=np.uint32)
    assert rng.bit_generator.state["has_uint32"] == 1
    both = in_child(lambda: key_of(rng) + rng.integers(2**32, size=8, dtype=np.uint32).tobytes())
    assert both[16:] == keystream(both[:16], 2)


@forking
def test_a_forked_child_draws_aes_under_its_new_key() -> None:
    rng = secure()
    both = in_child(lambda: key_of(rng) + raw(rng))
    assert both[16:] == keystream(both[:16], 4)
    assert both[:16] != key_of(rng)


@forking
def test_every_generator_alive_gets_a_new_key_in_the_child() -> None:
    generators = [secure() for _ in range(20)]
    child = in_child(lambda: b"".join(map(key_of, generators)))
    keys = {child[i : i + 16] for i in range(0, len(child), 16)}
    assert len(keys | set(map(key_of, generators))) == 40


@forking
def test_a_seeded_generator_draws_the_same_in_a_forked_child() -> None:
    """What the tests above would see, were nothing done at a fork."""
    rng = seeded(1)
    assert in_child(lambda: raw(rng)) == raw(rng)


def test_spawned_processes_draw_something_else() -> None:
    rng = secure()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        drawn = list(pool.map(operator.methodcaller("bytes", 64), [rng, rng]))
        plain = list(pool.map(operator.methodcaller("bytes", 64), [seeded(1), seeded(1)]))
    assert len({*drawn, rng.bytes(64)}) == 3
    assert len(set(plain)) == 1


def test_generators_are_not_kept_alive() -> None:
    gc.collect()
    before = len(_alive)
    kept = secure()
    secure()
    gc.collect()
    assert len(_alive) == before + 1
    assert kept in _alive


# What counts as secure


class Subclass(SecureGenerator):
    """Could draw its bits from anywhere."""

    def random(self, *args: Any, **kwargs: Any) -> Any:
        return 0.5


@pytest.mark.parametrize(
    "rng",
    [
        seeded(0),
        default_rng(),
        Generator(PCG64()),
        Generator(MT19937()),
        Generator(AESCounter(key=1)),
        Generator(secure().bit_generator),
        Generator(copy.deepcopy(secure().bit_generator)),
        Subclass(),
        RandomState(0),
        None,
        SecureGenerator,
    ],
    ids=lambda rng: type(rng).__name__,
)
def test_nothing_else_is_secure(rng: Any) -> None:
    assert not is_secure(rng)


def test_secure_generators_are_secure() -> None:
    rng = secure()
    assert is_secure(rng)
    assert is_secure(SecureGenerator())
    assert isinstance(rng, Generator)
    assert str(rng) == "SecureGenerator"
    assert key_of(rng).hex() not in repr(rng)


def test_secure_generators_are_not_spawned() -> None:
    with pytest.raises(PrivacyError, match="call secure"):
        secure().spawn(2)


# Seeds, and arguments called rng


def test_seeded_streams_are_the_same_every_time() -> None:
    assert raw(seeded(3)) == raw(seeded(3))
    assert raw(seeded(np.int64(3))) == raw(seeded(3))  # type: ignore[arg-type]
    assert raw(seeded(3)) != raw(seeded(4))
    first = 4193609425186963869, 5843160025838961886  # numpy keeps raw streams as they are
    assert tuple(seeded(12345).bit_generator.random_raw(2)) == first


@pytest.mark.parametrize("seed", [-1, 1.0, True, None, "1", [1]])
def test_bad_seeds(seed: Any) -> None:
    with pytest.raises(InvalidInput, match="seed"):
        seeded(seed)


def test_as_generator() -> None:
    assert is_secure(as_generator(None))
    assert raw(as_generator(None)) != raw(as_generator(None))
    assert raw(as_generator(7)) == raw(seeded(7))
    assert raw(as_generator(np.uint8(7))) == raw(seeded(7))  # type: ignore[arg-type]
    assert not is_secure(as_generator(0))
    for rng in (secure(), seeded(1), default_rng(2)):
        assert as_generator(rng) is rng


@pytest.mark.parametrize(
    "rng", [RandomState(0), PCG64(0), -1, 1.5, True, "secure", np.random, (1, 2)]
)
def test_as_generator_refuses_anything_else(rng: Any) -> None:
    with pytest.raises(InvalidInput, match="rng"):
        as_generator(rng)
