"""Users one by one: the law of all counts together, against enumeration of every coin."""

import numpy as np
import pytest
from scipy.stats import binom

from sudare.calibration import mask_law
from sudare.counting import open_office
from sudare.counting._simulated_users import _block_rounds, _distinct_rounds, _flips, ranked
from sudare.counting._simulation import simulate
from sudare.counting._survey import Survey
from sudare.foundations.randomness import seeded
from tests.counting.enumerated import indexed, law_of_matrix
from tests.statistical import only_counts_fit, only_fits

BITS = np.array([[1, 0, 0], [1, 1, 0]], np.uint8)


def survey(method: str, epsilon: float, **more: object) -> Survey:
    return Survey(name="t", rounds=3, epsilon=epsilon, method=method, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("glance", {}),
        ("rappor", {}),
        ("masks", {"slots": 2}),
        ("masks", {"slots": 3, "threshold": 1}),
        ("tree", {"changes": 1}),
        ("tree", {"changes": 2}),
        ("tree", {"changes": 2, "flips": "stretches"}),
    ],
)
def test_counts_have_the_law_of_the_mechanism(method: str, more: dict[str, object]) -> None:
    runs = 4_000 if method == "tree" else 60_000
    right, *wrong = (law_of_matrix(survey(method, e, **more), BITS) for e in (2.0, 1.0, 3.2))
    told = simulate(survey(method, 2.0, **more), BITS, runs=runs, rng=1)
    counts = indexed(right, np.hstack([told.reporters, told.ones]))
    others = [[law[key] for key in right] for law in wrong]
    assert only_counts_fit(counts, list(right.values()), others)


def test_sets_of_rounds_are_equally_likely() -> None:
    many = Survey(name="t", rounds=5, epsilon=1.0, method="masks", slots=3)
    slots = np.sort(np.stack(_distinct_rounds(many, 50_000, 2, seeded(1))), axis=0)
    codes, counts = np.unique(slots[0] * 25 + slots[1] * 5 + slots[2], return_counts=True)
    assert len(codes) == 10
    off = np.full(10, 0.1) + np.array([0.01, -0.01] * 5)
    assert only_counts_fit(counts, np.full(10, 0.1), [off])


@pytest.mark.parametrize(("slots", "threshold"), [(2, 0), (5, 2), (9, 3), (17, 8), (18, 6)])
def test_flips_have_the_law_of_masks(slots: int, threshold: int) -> None:
    def weights(epsilon: float) -> np.ndarray:
        law = mask_law(epsilon, slots, threshold)
        ones = range(slots + 1)
        per_mask = np.array([law.probability(w) for w in ones])
        return per_mask * binom.pmf(ones, slots, 0.5) * 2.0**slots

    flips = np.stack(_flips(mask_law(2.0, slots, threshold), 60_000, seeded(2)))
    assert flips.shape == (slots, 60_000)
    counts = np.bincount(flips.sum(axis=0), minlength=slots + 1)
    assert only_counts_fit(counts, weights(2.0), [weights(1.8), weights(2.2)])
    # Given how many there are, every place is alike.
    some = flips[:, flips.sum(axis=0) == 2]
    assert only_counts_fit(some.sum(axis=1), np.full(slots, 1 / slots), [])


def test_reports_of_a_round_in_a_large_survey() -> None:
    many = Survey(name="t", rounds=20, epsilon=4.0, method="masks", slots=5)
    bits = (seeded(3).random((3_000, 20)) < 0.3).astype(np.uint8)
    told = simulate(many, bits, runs=2_000, rng=4)
    assert (told.reporters.sum(axis=1) == 5 * 3_000).all()
    assert only_fits(told.reporters[:, 7], lambda x: binom.cdf(x, 3_000, 0.25), off=0.03)
    held = int(bits[:, 7].sum())
    share = 0.5 + many.attenuation * (held / 3_000 - 0.5)
    assert only_fits(told.ones[:, 7], lambda x: binom.cdf(x, 3_000, 0.25 * share), off=0.03)


def test_blocks_are_those_of_the_ticket_office() -> None:
    """Of a block's first two users, four in nine share no round and one in nine both."""
    two_of_four = Survey(name="t", rounds=4, epsilon=1.0, method="masks", slots=2)
    serials = (4 * np.arange(6_000)[:, None] + np.arange(2)).ravel()
    office = open_office(two_of_four, bytes(32))
    issued = np.array([ticket.rounds for ticket in office.issue_many(serials)]).reshape(-1, 2, 2)
    drawn = np.stack(_block_rounds(two_of_four, 2, 6_000, seeded(1)), axis=1).reshape(-1, 2, 2)
    for rounds in (issued, drawn):
        shared = (rounds[:, 0, :, None] == rounds[:, 1, None, :]).sum(axis=(1, 2))
        counts = np.bincount(shared, minlength=3)
        off = [[0.39, 0.5, 0.11], [0.44, 0.4, 0.16]]
        assert only_counts_fit(counts, [4 / 9, 4 / 9, 1 / 9], off)
        assert only_counts_fit(np.bincount(rounds.ravel()), np.full(4, 0.25), [[0.2, 0.3] * 2])


def test_a_user_that_changes_too_often_only_spoils_the_count() -> None:
    restless = np.tile(np.array([1, 0, 1, 0, 1, 0, 1, 0], np.uint8), (500, 1))
    few = Survey(name="t", rounds=8, epsilon=8.0, method="tree", changes=2)
    many = Survey(name="t", rounds=8, epsilon=8.0, method="tree", changes=8)
    off = [simulate(s, restless, runs=50, rng=1).raw.mean(axis=0) for s in (few, many)]
    assert np.abs(off[1] - restless[0]).max() < 0.3
    assert np.abs(off[0] - restless[0]).max() > 0.4


def test_ranked_users_change_as_seldom_as_possible() -> None:
    held = np.array([2, 3, 3, 1])
    bits = ranked(held, 5)
    assert (bits.sum(axis=0) == held).all()
    assert np.abs(np.diff(bits.astype(int), axis=1)).sum() == np.abs(np.diff(held)).sum()
