"""The exact law of a tiny survey's counts, by going through every coin: an oracle."""

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import NDArray

from sudare.calibration import MaskLaw
from sudare.counting._survey import Survey

Key = tuple[int, ...]
Law = dict[Key, float]
"""Probabilities of (reporters of every cell, ones of every cell), in one tuple."""


def law_of_matrix(survey: Survey, bits: NDArray[np.uint8]) -> Law:
    """For users whose bits are known and who draw their rounds independently."""
    law: Law = {(0,) * (2 * survey.cells): 1.0}
    for row in bits.tolist():
        law = _added(law, _one_user(survey, row))
    return law


def law_of_shares(survey: Survey, held: list[int], users: int) -> Law:
    """For so many ones in each round, held by users drawn afresh in every round."""
    law: Law = defaultdict(float)
    for bits, chance in _placements(held, users):
        for key, p in law_of_matrix(survey, bits).items():
            law[key] += chance * p
    return law


def law_of_blocks(survey: Survey, held: list[int], users: int) -> Law:
    """The same with rounds from one block of tickets, users on any of its seats."""
    assert users <= survey.rounds
    law: Law = defaultdict(float)
    numbers = range(survey.rounds)
    sets = combinations(numbers, survey.slots)
    ways = list(product(sets, permutations(numbers, users)))
    for bits, chance in _placements(held, users):
        for own, seats in ways:
            part: Law = {(0,) * (2 * survey.cells): chance / len(ways)}
            for seat, row in zip(seats, bits.tolist(), strict=True):
                slots = [(seat + t) % survey.rounds for t in own]
                part = _added(part, _slots_law(survey, row, slots))
            for key, p in part.items():
                law[key] += p
    return law


def indexed(law: Law, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each outcome of the law, in its order, was seen; anything else raises."""
    seen, times = np.unique(counts, axis=0, return_counts=True)
    place = {key: i for i, key in enumerate(law)}
    totals = np.zeros(len(law), np.int64)
    for row, n in zip(seen.tolist(), times, strict=True):
        totals[place[tuple(row)]] = n
    return totals


def _placements(held: list[int], users: int) -> Iterator[tuple[NDArray[np.uint8], float]]:
    ways = [list(combinations(range(users), ones)) for ones in held]
    total = math.prod(len(way) for way in ways)
    for chosen in product(*ways):
        bits = np.zeros((users, len(held)), np.uint8)
        for t, who in enumerate(chosen):
            bits[list(who), t] = 1
        yield bits, 1 / total


def _one_user(survey: Survey, row: list[int]) -> Law:
    if survey.method == "tree":
        return _tree_law(survey, row)
    if survey.method == "rappor":
        law: Law = {(): 1.0}
        q = survey.law.probability(1)
        for v in row:
            law = {(*k, s): p * (q if s != v else 1 - q) for k, p in law.items() for s in (0, 1)}
        return {(1,) * len(row) + key: p for key, p in law.items()}
    law = defaultdict(float)
    ways = list(combinations(range(survey.rounds), survey.slots))
    for slots in ways:
        for key, p in _slots_law(survey, row, list(slots)).items():
            law[key] += p / len(ways)
    return law


def _slots_law(survey: Survey, row: list[int], slots: list[int]) -> Law:
    law: Law = defaultdict(float)
    for mask, p in _masks(survey.law):
        heard, said = [0] * survey.rounds, [0] * survey.rounds
        for z, t in zip(mask, slots, strict=True):
            heard[t], said[t] = 1, row[t] ^ z
        law[(*heard, *said)] += p
    return law


def _tree_law(survey: Survey, row: list[int]) -> Law:
    law: Law = defaultdict(float)
    starts = np.cumsum([0] + [survey.rounds >> level for level in range(survey.levels)])
    for level in range(survey.levels):
        stretches = survey.rounds >> level
        for mask, p in _masks(survey.law_at(level)):
            for coins in product((0, 1), repeat=stretches):
                heard, said = [0] * survey.cells, [0] * survey.cells
                before, moves = 0, 0
                for i in range(stretches):
                    now = row[(i + 1) * 2**level - 1]
                    bit = coins[i]
                    if now != before and moves < len(mask):
                        bit, moves = int(now > before) ^ mask[moves], moves + 1
                    before = now
                    heard[starts[level] + i], said[starts[level] + i] = 1, bit
                law[(*heard, *said)] += p / survey.levels / 2**stretches
    return law


def _masks(law: MaskLaw) -> Iterator[tuple[tuple[int, ...], float]]:
    for mask in product((0, 1), repeat=law.slots):
        yield mask, law.probability(sum(mask))


def _added(first: Law, second: Law) -> Law:
    law: Law = defaultdict(float)
    for a, p in first.items():
        for b, q in second.items():
            law[tuple(x + y for x, y in zip(a, b, strict=True))] += p * q
    return law
