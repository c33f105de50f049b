"""Devices whose secret coins are chosen by the test, not drawn: real reporters on edited states."""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import msgspec

from sudare.calibration import MaskLaw
from sudare.counting import MemoryStore, Reporter, Survey, Ticket
from sudare.foundations.randomness import seeded

MARK = bytes(range(16))


def ticket(survey: Survey, rounds: Sequence[int] = (), level: int = 0, serial: int = 7) -> Ticket:
    """A ticket as an office might issue it."""
    return Ticket(survey.digest(), serial, MARK, tuple(rounds), level)


def enrolled(survey: Survey, own: Ticket, seed: int = 0) -> tuple[Reporter, MemoryStore]:
    store = MemoryStore()
    return Reporter.enrol(survey, own, store, seeded(seed)), store


def state_of(store: MemoryStore) -> dict[str, Any]:
    saved = store.load()
    assert saved is not None
    return msgspec.msgpack.decode(saved)


def edit(store: MemoryStore, **fields: object) -> None:
    """Change what is saved; the reporter reads it before its next answer."""
    store.save(msgspec.msgpack.encode({**state_of(store), **fields}))


class Path(NamedTuple):
    """One way a device can be asked and answer: its bits, what it said, the coins that decided."""

    bits: tuple[int, ...]
    said: tuple[int, ...]
    flips: tuple[int, ...]
    """Those of the mask that were used, in order; all other coins were fair."""


class Answer(NamedTuple):
    """One question, one value of the coin that decides it, and what came of it."""

    bit: int
    said: int
    flips: tuple[int, ...]
    after: bytes


def every_path(
    survey: Survey, own: Ticket, rounds: Sequence[int], *, forget: bool = False
) -> list[Path]:
    """All bits and all coins, by asking a real reporter in the given rounds.

    Each answer uses one secret coin. Before each question the coins that could be next are set to
    one value and then to the other, so all values of all used coins are gone through, and no more.
    `forget`: what was said, and the coins it took, are blotted out of the state before the next
    question, so that states which differ in nothing else are asked only once.
    """
    reporter, store = enrolled(survey, own)
    fresh = store.load()
    assert fresh is not None
    heard = [t for t in rounds if own.slot_of(survey, t) is not None]
    nodes = [(_forgotten(fresh) if forget else fresh, Path((), (), ()))]
    for t in heard:
        known: dict[bytes, list[Answer]] = {}
        later = []
        for saved, path in nodes:
            if saved not in known:
                known[saved] = list(_answers(survey, own, reporter, store, saved, t))
            for bit, said, flips, after in known[saved]:
                longer = Path((*path.bits, bit), (*path.said, said), path.flips + flips)
                later.append((_forgotten(after) if forget else after, longer))
        nodes = later
    # Where a device is silent it is so for every bit.
    for t in set(rounds) - set(heard):
        for bit in (0, 1):
            store.save(fresh)
            assert Reporter(survey, store).report(t, bit) is None
            assert store.load() == fresh
    return [path for _, path in nodes]


def _answers(
    survey: Survey, own: Ticket, reporter: Reporter, store: MemoryStore, saved: bytes, t: int
) -> Iterator[Answer]:
    slot = own.slot_of(survey, t)
    assert slot is not None
    before = msgspec.msgpack.decode(saved)
    next_flip = before["moves"] if survey.method == "tree" else slot
    for coin, bit in product((0, 1), repeat=2):
        flips, coins = bytearray(before["flips"]), bytearray(before["coins"])
        if next_flip < len(flips):
            flips[next_flip] = coin
        if coins:
            coins[slot] = coin
        changed = {**before, "flips": bytes(flips), "coins": bytes(coins)}
        store.save(msgspec.msgpack.encode(changed))
        report = reporter.report(t, bit)
        assert report is not None
        assert (report.serial, report.slot, report.mark) == (own.serial, slot, own.mark)
        after = store.load()
        assert after is not None
        by_flip = survey.method != "tree" or state_of(store)["moves"] > before["moves"]
        yield Answer(bit, report.bit, (coin,) if by_flip else (), after)


@cache
def _forgotten(saved: bytes) -> bytes:
    state = msgspec.msgpack.decode(saved)
    blank = {"sent": {}, "flips": bytes(len(state["flips"])), "coins": bytes(len(state["coins"]))}
    return msgspec.msgpack.encode({**state, **blank})


def weight(law: MaskLaw, flips: tuple[int, ...], *, independent: bool = False) -> int:
    """The probability of these used flips, and fair coins for all other reports, times `whole`.

    `independent`: each flip from a mask of its own. Else they are flips of one mask, whichever:
    the law treats all places alike.
    """
    if independent:
        wrong = law.far_weight
        return math.prod(wrong if z else law.total - wrong for z in flips)
    left = law.slots - len(flips)
    masks = sum(
        math.comb(left, ones)
        * (law.near_weight if sum(flips) + ones <= law.threshold else law.far_weight)
        for ones in range(left + 1)
    )
    return masks << len(flips)


def whole(law: MaskLaw, reports: int, *, independent: bool = False) -> int:
    """What the weights of all transcripts of so many reports add up to."""
    return law.total**reports if independent else law.total << reports
