"""Masks: they cancel in the whole sum, and nothing smaller than the whole is anything but noise.

Keys come from the system's entropy; what must look uniform is refused with probability 1e-12 at
most, once for each set of organisations (`tests/statistical.py`).
"""

import hmac
import itertools
import json
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB

from sudare.pooling._masks import Roster, Seat, add_up, is_proper, mask, masked, new_secret
from sudare.pooling._plan import PoolPlan
from tests.pooling import pools
from tests.pooling.pools import is_uniform

PARTIES = pools.parties(4)
PLAN = pools.plan(PARTIES)
KEYS = [each.fingerprint for each in PARTIES]
SECRETS = [new_secret() for _ in PARTIES]
ENTRIES = 20_000
WORD = 2**64
P = 2**255 - 19
LOW_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
    P,
    P + 1,
]
"""Every point of order 1, 2, 4 or 8, on the curve or its twist (Bernstein)."""


def roster(secrets: Sequence[X25519PrivateKey] = SECRETS, plan: PoolPlan = PLAN) -> Roster:
    seats = [
        Seat(key, secret.public_key().public_bytes_raw(), 20 + number)
        for number, (key, secret) in enumerate(zip(KEYS, secrets, strict=True))
    ]
    return Roster(plan.digest(), tuple(seats))


def masks(entries: int = ENTRIES, session: int = 0) -> list[np.ndarray]:
    return [
        mask(secret, PLAN, roster(), key, session, entries)
        for key, secret in zip(KEYS, SECRETS, strict=True)
    ]


def test_masks_cancel_in_the_whole_sum_alone() -> None:
    every = masks()
    for size in range(1, 5):
        for some in itertools.combinations(every, size):
            assert is_uniform(sum(some[1:], start=some[0])) == (size < 4)
    assert not sum(every[1:], start=every[0]).any()


def test_the_test_for_uniform_words_refuses_others() -> None:
    words = masks()[0]
    assert not is_uniform(np.arange(ENTRIES, dtype=np.uint64))
    assert not is_uniform(words & np.uint64(WORD - 1 - 2**40))
    rare = np.where(np.arange(ENTRIES) % 20 == 0, np.uint64(5), words)
    assert not is_uniform(rare)


def test_numbers_come_back_with_their_signs() -> None:
    sums = [[-5, 2**61, 0], [7, 2**61, -(2**61)], [-(2**62), 1, 2**61], [2**62, -2, 3]]
    words = [masked(one, hidden) for one, hidden in zip(sums, masks(3), strict=True)]
    assert add_up(words).tolist() == [2, 2**62 - 1, 3]
    assert words[0].tolist() != [step % WORD for step in sums[0]]


def naive_mask(own: int, session: int, entries: int) -> list[int]:
    """As the theory page has it, a second time: RFC 5869 by hand, counter mode block by block."""
    whole, total = roster(), [0] * entries
    for other, seat in enumerate(whole.seats):
        if other == own:
            continue
        shared = SECRETS[own].exchange(X25519PublicKey.from_public_bytes(seat.public))
        pair = sorted([KEYS[own], KEYS[other]])
        about = json.dumps(
            [PLAN.digest(), whole.digest, session, *pair, entries], separators=(",", ":")
        )
        first = hmac.digest(bytes.fromhex(PLAN.study), shared, "sha256")
        key = hmac.digest(first, b"sudare-pool/1 mask\0" + about.encode() + b"\x01", "sha256")
        blocks = Cipher(AES256(key), ECB()).encryptor()
        stream = b"".join(
            blocks.update(block.to_bytes(16, "big")) for block in range(entries // 2 + 1)
        )
        sign = 1 if KEYS[own] < KEYS[other] else -1
        for i in range(entries):
            total[i] += sign * int.from_bytes(stream[8 * i : 8 * i + 8], "little")
    return [each % WORD for each in total]


def test_the_mask_written_a_second_time() -> None:
    for own, (key, secret) in enumerate(zip(KEYS, SECRETS, strict=True)):
        found = mask(secret, PLAN, roster(), key, 2, 7)
        assert found.tolist() == naive_mask(own, 2, 7)


def test_the_same_mask_again() -> None:
    assert all(np.array_equal(a, b) for a, b in zip(masks(), masks(), strict=True))


def test_every_use_has_streams_of_its_own() -> None:
    """Study, plan, roster, session, organisation and length each change every single word."""
    own, entries = KEYS[0], 50

    def words(
        plan: PoolPlan = PLAN, by: str = PLAN.digest(), session: int = 0, size: int = entries
    ) -> np.ndarray:
        seats = Roster(by, roster().seats)
        return mask(SECRETS[0], plan, seats, own, session, size)[:entries]

    others = [*SECRETS[:3], new_secret()]
    counted = [*roster().seats[:3], roster().seats[3]._replace(rows=99)]
    uses = [
        words(),
        words(plan=msgspec.structs.replace(PLAN, study="cd" * 32)),
        words(by=msgspec.structs.replace(PLAN, attempt=2).digest()),
        words(session=1),
        words(size=entries + 1),
        mask(SECRETS[0], PLAN, roster(others), own, 0, entries),
        mask(SECRETS[0], PLAN, Roster(PLAN.digest(), tuple(counted)), own, 0, entries),
        *masks(entries)[1:],
    ]
    for one, other in itertools.combinations(uses, 2):
        assert not np.any(one == other)


def test_a_roster_is_known_by_everything_in_it() -> None:
    seats = roster().seats
    changed = [
        Roster("0" * 64, seats),
        Roster(PLAN.digest(), (seats[0]._replace(rows=21), *seats[1:])),
        Roster(PLAN.digest(), (seats[0]._replace(public=seats[1].public), *seats[1:])),
        Roster(PLAN.digest(), (seats[0]._replace(key=seats[1].key), *seats[1:])),
        Roster(PLAN.digest(), seats[:3]),
    ]
    assert len({each.digest for each in [roster(), *changed]}) == 6
    assert roster().rows == 20 + 21 + 22 + 23


@pytest.mark.parametrize("point", LOW_ORDER)
@pytest.mark.parametrize("high_bit", [0, 2**255])
def test_points_of_low_order_are_no_keys(point: int, high_bit: int) -> None:
    """Whatever the secret key, they make the same secret: zero."""
    public = (point | high_bit).to_bytes(32, "little")
    assert not is_proper(public)
    with pytest.raises(ValueError, match="shared key"):
        SECRETS[0].exchange(X25519PublicKey.from_public_bytes(public))


def test_proper_keys() -> None:
    assert all(is_proper(new_secret().public_key().public_bytes_raw()) for _ in range(20))
    for public in (b"", bytes(31), b"\x09" + bytes(32)):
        assert not is_proper(public)
    assert is_proper((9).to_bytes(32, "little"))
