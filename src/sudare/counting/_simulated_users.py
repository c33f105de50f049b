"""Simulated reports of users one by one: the part of `sudare.counting._simulation` that needs them.

Every function yields batches of runs as (reporters, ones), one row a run and one column a cell.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sudare.calibration import MaskLaw
from sudare.counting import tree
from sudare.counting._survey import Survey
from sudare.foundations.mechanisms import bernoulli, draw_masks
from sudare.foundations.randomness import Generator

Bits = NDArray[np.uint8]
Counts = NDArray[np.int64]
Batch = tuple[Counts, Counts]
Rounds = NDArray[np.unsignedinteger]

_BLOCK = 2**16
"""Users drawn at a time: their arrays stay in the processor's cache."""
_TABLE_SLOTS = 16
"""Up to here the masks with few flips fit in a table."""


def slot_reports(
    survey: Survey,
    users: int,
    bits: Bits | None,
    runs: int,
    rng: Generator,
    *,
    blocks: bool = False,
) -> Iterator[Batch]:
    """Methods in which a user reports in `slots` rounds, each through one bit of a mask.

    Without bits all users hold zeros, and the ones are the flipped reports.
    """
    rounds = survey.rounds
    part = max(1, _BLOCK // rounds) * rounds  # whole blocks of tickets
    together = max(1, _BLOCK // users)
    assign = _block_rounds if blocks else _distinct_rounds
    for start in range(0, runs, together):
        batch = min(together, runs - start)
        everyone = np.tile(np.arange(users), (batch, 1))
        if blocks and bits is not None:
            # Rows that are neighbours may be alike; who gets which ticket does not depend on that.
            rng.permuted(everyone, axis=1, out=everyone)
        counts = np.zeros(batch * rounds * 2, np.int64)
        for first in range(0, users, part):
            who = everyone[:, first : first + part]
            slots = assign(survey, who.shape[1], batch, rng)
            counts += _count(bits, who, rounds, slots, _flips(survey.law, who.size, rng))
        by_cell = counts.reshape(batch, rounds, 2)
        yield by_cell.sum(axis=2), by_cell[:, :, 1]


def tree_reports(survey: Survey, bits: Bits, runs: int, rng: Generator) -> Iterator[Batch]:
    """The dyadic tree, levels drawn independently.

    A stretch over which a user did not move brings a fair coin, so only the number of those is
    drawn; movements that count by themselves, a few a user, go one by one.
    """
    users, rounds = bits.shape
    levels = survey.levels
    laws = [survey.law_at(level) for level in range(levels)]
    moves = [_movements(bits, level, each.slots) for level, each in enumerate(laws)]
    for _ in range(runs):
        level_of = rng.integers(0, levels, (users,), dtype=np.uint8)
        at_level = np.bincount(level_of, minlength=levels)
        law, masks = laws[0], draw_masks(laws[0], users, rng)
        heard, said = np.empty(survey.cells, np.int64), np.empty(survey.cells, np.int64)
        for level, (user, stretch, nth, up) in enumerate(moves):
            stretches = rounds >> level
            if laws[level] != law:  # nobody is at two levels: who is at this one draws anew
                law, masks = laws[level], draw_masks(laws[level], users, rng)
            (here,) = np.nonzero(level_of[user] == level)
            told = np.bitwise_xor(up[here], masks[user[here], nth[here]])
            by_cell = np.bincount(2 * stretch[here] + told, minlength=2 * stretches).reshape(-1, 2)
            coins = rng.binomial(at_level[level] - by_cell.sum(axis=1), 0.5)
            start = tree.offset(rounds, level)
            heard[start : start + stretches] = at_level[level]
            said[start : start + stretches] = by_cell[:, 1] + coins
        yield heard[None], said[None]


def ranked(held: Counts, users: int) -> Bits:
    """Users who change as seldom as the shares allow: user i holds a one while i < held."""
    return (np.arange(users)[:, None] < held).astype(np.uint8)


def _count(
    bits: Bits | None, who: NDArray[np.intp], rounds: int, slots: list[Rounds], flips: list[Bits]
) -> Counts:
    """Reports by run, round and bit; `who` holds one row of users a run."""
    runs, users = who.shape
    row = (who * rounds).ravel()
    run = np.repeat(np.arange(0, runs * rounds * 2, rounds * 2), users) if runs > 1 else None
    counts = np.zeros(runs * rounds * 2, np.int64)
    for slot, flip in zip(slots, flips, strict=True):
        cell = slot.astype(np.intp)
        said = flip if bits is None else flip ^ bits.take(row + cell)
        cell *= 2
        cell += said
        if run is not None:
            cell += run
        counts += np.bincount(cell, minlength=counts.size)
    return counts


def _distinct_rounds(survey: Survey, users: int, runs: int, rng: Generator) -> list[Rounds]:
    """For each user a set of different rounds, every set equally likely (Floyd's method).

    The order within a set is not uniform, which is no matter: masks treat all slots alike.
    """
    size, rounds = users * runs, survey.rounds
    small = np.min_scalar_type(rounds)
    chosen: list[Rounds] = []
    for last in range(rounds - survey.slots, rounds):
        drawn = rng.integers(0, last + 1, size, dtype=small)
        if chosen:
            taken = drawn == chosen[0]
            for before in chosen[1:]:
                taken |= drawn == before
            drawn[taken] = last
        chosen.append(drawn)
    return chosen


def _block_rounds(survey: Survey, users: int, runs: int, rng: Generator) -> list[Rounds]:
    """Rounds from blocks of tickets, as `sudare.counting._tickets` gives them out.

    A block has a seat for each round and deals them to its users; with more than one slot, seat i
    takes the rounds of a set of the block's own, moved on by i.
    """
    rounds = survey.rounds
    blocks = -(-users // rounds)
    seats = np.tile(np.arange(rounds, dtype=np.min_scalar_type(2 * rounds)), (runs * blocks, 1))
    rng.permuted(seats, axis=1, out=seats)
    if survey.slots == 1:
        return [seats.reshape(runs, -1)[:, :users].ravel()]
    sets = _distinct_rounds(survey, blocks, runs, rng)
    return [
        ((seats + own[:, None].astype(seats.dtype)) % rounds).reshape(runs, -1)[:, :users].ravel()
        for own in sets
    ]


def _flips(law: MaskLaw, users: int, rng: Generator) -> list[Bits]:
    """One mask a user: for each slot, every user's flip."""
    g = law.slots
    if g == 1:
        return [bernoulli((law.far_weight << 64) // law.total, users, rng).view(np.uint8)]
    if g > _TABLE_SLOTS:
        return list(np.ascontiguousarray(draw_masks(law, users, rng).T))
    # Every mask has the weight of the unlikely ones; what the likely ones have on top of that is
    # shared evenly among them.
    extra = law.near_masks * (law.near_weight - law.far_weight)
    small = np.uint8 if g <= 8 else np.uint16
    masks = rng.integers(0, np.iinfo(small).max, users, dtype=small, endpoint=True)
    near = bernoulli((extra << 64) // law.total, users, rng)
    if law.threshold == 0:
        masks *= ~near
    else:
        every = np.arange(2**g, dtype=small)
        likely = every[np.bitwise_count(every) <= law.threshold]
        masks[near] = likely[rng.integers(0, len(likely), np.count_nonzero(near))]
    return [((masks >> j) & 1).astype(np.uint8, copy=False) for j in range(g)]


def _movements(
    bits: Bits, level: int, most: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], Bits]:
    """Who moved over which stretch, the how-many-th time, and whether up; at most `most` each."""
    ends = bits[:, (1 << level) - 1 :: 1 << level].astype(np.int8)
    moved = np.diff(ends, axis=1, prepend=np.int8(0))
    user, stretch = np.nonzero(moved)
    nth = np.arange(user.size) - np.searchsorted(user, user)
    kept = nth < most
    user, stretch, nth = user[kept], stretch[kept], nth[kept]
    return user, stretch, nth, (moved[user, stretch] > 0).astype(np.uint8)
