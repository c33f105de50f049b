"""User-level ε-LDP by brute force: every input, every transcript, every coin, in exact fractions.

Reporters are real ones; only their coins are chosen (`tests.counting.devices`). The probability of
a transcript is a product of integer weights, so nothing here is rounded but e^ε itself, which has
50 digits. As an answer is given before the next bit is known, the paths of all bits are also the
paths of every adaptive choice of bits.
"""

from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest

from sudare.calibration import MaskLaw, mask_law
from sudare.counting import MemoryStore, Reporter, Survey, Ticket, open_office
from sudare.foundations.randomness import secure, seeded
from tests.counting.devices import Path, enrolled, every_path, state_of, ticket, weight, whole
from tests.statistical import only_counts_fit

EPSILONS = (1e-3, 0.7, 2.0, 8.0)


class Table(NamedTuple):
    """The probability of every transcript (outer key) under every sequence of bits (inner key)."""

    rows: dict[tuple[int, ...], dict[tuple[int, ...], int]]
    whole: int
    """What the integer weights of all transcripts add up to."""


def weighed(paths: list[Path], law: MaskLaw, *, independent: bool = False) -> Table:
    of = cache(lambda flips: weight(law, flips, independent=independent))
    rows: dict[tuple[int, ...], dict[tuple[int, ...], int]] = defaultdict(dict)
    for path in paths:
        assert path.bits not in rows[path.said]  # the coins follow from the bits and what was said
        rows[path.said][path.bits] = of(path.flips)
    return Table(rows, whole(law, len(paths[0].said), independent=independent))


def worst_ratio(table: Table) -> Fraction:
    return max(Fraction(max(row.values()), min(row.values())) for row in table.rows.values())


def is_private(table: Table, epsilon: float) -> bool:
    """Whether no transcript tells two inputs apart by more than e^ε, all inputs being possible."""
    rows = list(table.rows.values())
    assert all(row.keys() == rows[0].keys() for row in rows)
    assert all(sum(row[bits] for row in rows) == table.whole for bits in rows[0])
    return _log(worst_ratio(table)) <= epsilon


def is_tight(table: Table, epsilon: float) -> bool:
    return _log(worst_ratio(table)) > epsilon * (1 - 1e-9)


def _log(ratio: Fraction) -> Any:
    with mpmath.workdps(50):
        return mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)


def survey_of(method: str, rounds: int, epsilon: float, **more: Any) -> Survey:
    return Survey(name="brute force", rounds=rounds, epsilon=epsilon, method=method, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["glance", "harmony", "harmony-signed"])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_one_slot(method, rounds):
    for own in range(rounds):
        survey = survey_of(method, rounds, 1.0)
        paths = every_path(survey, ticket(survey, [own]), range(rounds))
        assert len(paths) == 4
        for epsilon in EPSILONS:
            law = survey_of(method, rounds, epsilon).law
            table = weighed(paths, law)
            assert is_private(table, epsilon)
            assert is_tight(table, epsilon)
            assert not is_private(weighed(paths, mask_law(1.1 * epsilon, 1)), epsilon)


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
def test_rappor(rounds):
    survey = survey_of("rappor", rounds, 1.0)
    paths = every_path(survey, ticket(survey), range(rounds))
    assert len(paths) == 4**rounds
    for epsilon in EPSILONS:
        table = weighed(paths, survey_of("rappor", rounds, epsilon).law, independent=True)
        assert is_private(table, epsilon)
        assert is_tight(table, epsilon)
        stronger = mask_law(1.1 * epsilon / rounds, 1)
        assert not is_private(weighed(paths, stronger, independent=True), epsilon)


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 5])
def test_masks_of_every_size_and_threshold(slots):
    rounds = 5
    some = list(combinations(range(rounds), slots))
    for own in (some[0], some[-1], some[len(some) // 2]):
        survey = survey_of("masks", rounds, 1.0, slots=slots)
        paths = every_path(survey, ticket(survey, own), range(rounds))
        assert len(paths) == 4**slots
        for epsilon, threshold in product(EPSILONS, [None, *range(slots)]):
            more = {} if threshold is None else {"threshold": threshold}
            law = survey_of("masks", rounds, epsilon, slots=slots, **more).law
            table = weighed(paths, law)
            assert is_private(table, epsilon)
            assert is_tight(table, epsilon)
            stronger = mask_law(1.1 * epsilon, slots, law.threshold)
            assert not is_private(weighed(paths, stronger), epsilon)


@pytest.mark.parametrize("slots", [2, 3])
def test_a_reporter_that_draws_again_for_each_slot_is_caught(slots):
    survey = survey_of("masks", 5, 1.0, slots=slots, threshold=0)
    paths = every_path(survey, ticket(survey, range(slots)), range(5))
    assert is_private(weighed(paths, survey.law), 1.0)
    # A new mask for each slot: flips as likely as before, but independent.
    wrong = (1 - survey.law.exact_attenuation) / 2
    each = MaskLaw(1, 0, wrong.denominator - wrong.numerator, wrong.numerator)
    assert not is_private(weighed(paths, each, independent=True), 1.0)


@pytest.mark.parametrize("changes", range(1, 9))
def test_tree_of_eight_rounds(changes):
    """All 256 inputs, most of which change more often than the k that are counted."""
    for level in range(4):
        survey = survey_of("tree", 8, 1.0, changes=changes)
        paths = every_path(survey, ticket(survey, level=level), range(8), forget=True)
        stretches = 8 >> level
        assert len(paths) == 4**stretches
        law = survey_of("tree", 8, 2.0, changes=changes).law
        table = weighed(paths, law)
        assert is_private(table, 2.0)
        # With so many stretches all flips can be used for either direction, as with a mask.
        if stretches >= 2 * changes:
            assert is_tight(table, 2.0)
            assert not is_private(weighed(paths, mask_law(2.2, changes, law.threshold)), 2.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("changes", range(1, 9))
def test_tree_with_no_more_flips_than_stretches(changes, epsilon):
    """At every level, with all 256 inputs. Where there are fewer stretches than changes, the flips
    are fewer and tell more: all of ε, and never more than that."""
    for level in range(4):
        more = {"changes": changes, "flips": "stretches"}
        survey = survey_of("tree", 8, epsilon, **more)
        own, law = ticket(survey, level=level), survey.law_at(level)
        stretches = 8 >> level
        assert law.slots == min(changes, stretches)
        paths = every_path(survey, own, range(8), forget=True)
        assert len(paths) == 4**stretches
        # No movement is lost: a flip is left for each, as long as the promise is kept.
        for path in paths:
            moved = sum(np.diff((0, *path.bits)) != 0)
            assert len(path.flips) == min(moved, changes)
        table = weighed(paths, law)
        assert is_private(table, epsilon)
        if law.slots < changes:
            assert law.attenuation > survey.law.attenuation
        if stretches > 1:
            assert is_tight(table, epsilon)
            stronger = mask_law(1.1 * epsilon, law.slots, law.threshold)
            assert not is_private(weighed(paths, stronger), epsilon)
        else:
            # A single movement is up or none, so it is a flip against a fair coin.
            half = (law.near_weight + law.far_weight) / (2 * law.far_weight)
            assert float(worst_ratio(table)) == pytest.approx(half, rel=1e-12)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5])
def test_tree_of_few_rounds_with_rounds_missed(rounds):
    """Whichever rounds a device misses, as long as the bits have no say in it."""
    for changes, level in product(range(1, rounds + 2), range(rounds.bit_length())):
        survey = survey_of("tree", rounds, 2.0, changes=changes)
        fewer = survey_of("tree", rounds, 2.0, changes=changes, flips="stretches")
        own = ticket(survey, level=level)
        asked = [
            each for size in range(1, rounds + 1) for each in combinations(range(rounds), size)
        ]
        for some in asked if rounds < 5 else asked[::4]:
            if any(own.slot_of(survey, t) is not None for t in some):
                paths = every_path(survey, own, some)
                assert is_private(weighed(paths, survey.law), 2.0)
                same = every_path(fewer, ticket(fewer, level=level), some)
                assert is_private(weighed(same, fewer.law_at(level)), 2.0)
                # What lets eight rounds be gone through loses nothing.
                assert paths == every_path(survey, own, some, forget=True)


@pytest.mark.parametrize(
    ("survey", "own"),
    [
        (survey_of("masks", 3, 1.3, slots=3), {"rounds": (0, 1, 2)}),
        (survey_of("masks", 3, 1.3, slots=3, threshold=0), {"rounds": (0, 1, 2)}),
        (survey_of("rappor", 3, 1.3), {}),
        (survey_of("tree", 3, 1.3, changes=1), {"level": 0}),
        (survey_of("tree", 3, 1.3, changes=2), {"level": 0}),
    ],
    ids=["masks", "masks-0", "rappor", "tree-1", "tree-2"],
)
def test_bits_chosen_after_seeing_what_was_sent(survey, own):
    """Every strategy: a function from the transcript so far to the next bit. 128 for 3 rounds."""
    rounds = survey.rounds
    paths = every_path(survey, ticket(survey, **own), range(rounds))
    table = weighed(paths, survey.law, independent=survey.method == "rappor")
    pasts = [past for t in range(rounds) for past in product((0, 1), repeat=t)]
    laws = []
    for choice in product((0, 1), repeat=len(pasts)):
        strategy = dict(zip(pasts, choice, strict=True))
        law = [
            table.rows[said][tuple(strategy[said[:t]] for t in range(rounds))]
            for said in product((0, 1), repeat=rounds)
        ]
        assert sum(law) == table.whole
        laws.append(law)
    worst = max(Fraction(max(column), min(column)) for column in zip(*laws, strict=True))
    assert worst == worst_ratio(table)
    assert is_private(table, survey.epsilon)


@pytest.mark.parametrize("source", [lambda: seeded(3), secure], ids=["seeded", "secure"])
def test_coins_are_drawn_from_the_law(source):
    """Masks by their weights, rappor's flips apart, and the tree's coins fair."""
    rng = source()
    devices = 6000

    def drawn(survey: Survey, own: Ticket, key: str, cells: int) -> np.ndarray:
        counts = np.zeros(cells, int)
        for _ in range(devices):
            store = MemoryStore()
            Reporter.enrol(survey, own, store, rng)
            counts[int("".join(map(str, state_of(store)[key])), 2)] += 1
        return counts

    def law_of(law: MaskLaw, independent: bool, places: int) -> list[float]:
        masks = product((0, 1), repeat=places)
        total = whole(law, places, independent=independent)
        return [weight(law, mask, independent=independent) / total for mask in masks]

    masks = survey_of("masks", 3, 1.5, slots=3)
    counts = drawn(masks, ticket(masks, (0, 1, 2)), "flips", 8)
    wrong = [law_of(mask_law(f * 1.5, 3, masks.law.threshold), False, 3) for f in (0.6, 1.5)]
    assert only_counts_fit(counts, law_of(masks.law, False, 3), wrong)

    rappor = survey_of("rappor", 3, 4.5)
    counts = drawn(rappor, ticket(rappor), "flips", 8)
    wrong = [law_of(mask_law(f * 1.5, 1), True, 3) for f in (0.7, 1.4)]
    assert only_counts_fit(counts, law_of(rappor.law, True, 3), wrong)

    tree = survey_of("tree", 3, 1.0, changes=2)
    counts = drawn(tree, ticket(tree), "coins", 8)
    assert only_counts_fit(counts, [1 / 8] * 8, [[0.16] * 4 + [0.09] * 4])


def test_what_is_sent_depends_on_nothing_else():
    """Two devices with the same coins send the same, whatever was asked in rounds not theirs."""
    survey = survey_of("masks", 5, 1.0, slots=2)
    answers = set()
    for others in product((0, 1), repeat=3):
        reporter, _ = enrolled(survey, ticket(survey, (1, 3)), seed=5)
        bits = dict(zip((0, 2, 4), others, strict=True)) | {1: 1, 3: 0}
        answers.add(tuple(reporter.report(t, bits[t]) for t in range(5)))
    assert len(answers) == 1


def test_real_tickets_lead_to_the_same_paths():
    survey = survey_of("masks", 4, 1.0, slots=2)
    for own in open_office(survey, bytes(32)).issue_many(range(8)):
        assert is_private(weighed(every_path(survey, own, range(4)), survey.law), 1.0)
