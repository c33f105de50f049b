"""Mask laws in whole numbers: every input against every transcript, and e^ε to 80 digits."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sudare.foundations.checks import InvalidInput
from sudare.foundations.masks import (
    MAX_SLOTS,
    MaskLaw,
    _largest_fraction,
    best_mask_law,
    estimate_variance,
    flip_probability,
    flip_threshold,
    mask_law,
    truth_probability,
)
from tests.support.digits import mp, mpf

repeatable = settings(derandomize=True, deadline=None, max_examples=200)
EPSILONS = st.floats(math.log(1e-4), math.log(50)).map(math.exp)
ALL_SMALL = [(slots, threshold) for slots in range(1, 7) for threshold in range(slots)]


def exact(fraction: Fraction) -> Any:
    return mpf(fraction.numerator) / fraction.denominator


# Randomised response


@repeatable
@given(EPSILONS, st.sampled_from([8, 32, 64, 128]))
@example(1e-4, 64)
@example(44.36, 64)
@example(44.37, 64)
@example(50.0, 64)
@example(1e-300, 64)
@example(1e300, 64)
@example(3.0, 1)
def test_threshold_is_the_smallest_that_keeps_the_ratio(epsilon: float, bits: int) -> None:
    flips = flip_threshold(epsilon, bits)
    assert 1 <= flips <= 2 ** (bits - 1)
    assert (2**bits - flips) / mpf(flips) <= mp.exp(epsilon)
    if flips > 1:
        assert (2**bits - flips + 1) / mpf(flips - 1) > mp.exp(epsilon)


@repeatable
@given(EPSILONS)
@example(1e-4)
@example(50.0)
@example(1e-18)
@example(800.0)
def test_probabilities_are_on_the_safe_side(epsilon: float) -> None:
    truth, flip = mpf(truth_probability(epsilon)), mpf(flip_probability(epsilon))
    assert truth <= 1 / (1 + mp.exp(-epsilon)) <= truth * (1 + mpf(10) ** -9)
    assert flip >= 1 / (1 + mp.exp(epsilon))
    assert truth >= 0.5
    assert flip <= 0.5
    if epsilon <= 50:
        assert flip <= (1 + mpf(10) ** -9) / (1 + mp.exp(epsilon))


def test_realised_loss_stays_within_a_billionth_of_a_small_epsilon() -> None:
    truth = mpf(truth_probability(1e-4))
    assert mp.log(truth / (1 - truth)) >= mpf(1e-4) * (1 - mpf(10) ** -9)


# The weights


@repeatable
@given(EPSILONS, st.integers(1, MAX_SLOTS), st.data())
def test_ratio_never_exceeds_epsilon_and_comes_close(
    epsilon: float, slots: int, data: st.DataObject
) -> None:
    check_weights(epsilon, slots, data.draw(st.integers(0, slots - 1)))


@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 21.0, 42.97, 43.0, 50.0, 1e300])
@pytest.mark.parametrize(("slots", "threshold"), [(1, 0), (2, 0), (30, 0), (30, 14), (30, 29)])
def test_ratio_at_the_corners(epsilon: float, slots: int, threshold: int) -> None:
    check_weights(epsilon, slots, threshold)


def check_weights(epsilon: float, slots: int, threshold: int) -> None:
    law = mask_law(epsilon, slots, threshold)
    realised = mp.log(mpf(law.near_weight) / law.far_weight)
    assert realised <= law.epsilon <= epsilon
    assert law.total <= 2**62
    if epsilon < 50 and law.near_masks * mp.exp(epsilon) + 2**slots - law.near_masks <= 2**62:
        assert realised >= mpf(epsilon) * (1 - mpf(10) ** -9)
    else:
        # As much as fits: one more unit of near weight would not.
        assert law.far_weight == 1
        assert law.total + law.near_masks > 2**62


@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 3.0, 8.0, 50.0])
@pytest.mark.parametrize(("slots", "threshold"), ALL_SMALL)
def test_every_input_against_every_transcript(epsilon: float, slots: int, threshold: int) -> None:
    law = mask_law(epsilon, slots, threshold)
    words = range(2**slots)
    # weight[v][y]: the weight of the only mask that turns the bits v into the transcript y.
    weight = [[weight_of(law, v ^ y) for y in words] for v in words]
    assert all(sum(row) == law.total for row in weight)
    worst = max(Fraction(max(column), min(column)) for column in zip(*weight, strict=True))
    assert exact(worst) <= mp.exp(epsilon)
    if epsilon < 43:
        assert mp.log(exact(worst)) >= epsilon - mpf(10) ** -9


@pytest.mark.parametrize("threshold", [0, 1, 2])
def test_bits_chosen_after_seeing_earlier_reports(threshold: int) -> None:
    """Every way of choosing three bits from the transcript so far, against every other."""
    law = mask_law(1.0, 3, threshold)
    transcripts = list(itertools.product((0, 1), repeat=3))
    weights = []
    for first, second, third in itertools.product(
        (0, 1), itertools.product((0, 1), repeat=2), itertools.product((0, 1), repeat=4)
    ):
        sent = [(first, second[y[0]], third[2 * y[0] + y[1]]) for y in transcripts]
        masks = [
            [a ^ b for a, b in zip(v, y, strict=True)]
            for v, y in zip(sent, transcripts, strict=True)
        ]
        weights.append([weight_of(law, int("".join(map(str, z)), 2)) for z in masks])
    assert len(weights) == 128
    assert all(sum(row) == law.total for row in weights)
    worst = max(Fraction(max(column), min(column)) for column in zip(*weights, strict=True))
    assert exact(worst) <= mp.e


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 50.0])
@pytest.mark.parametrize(("slots", "threshold"), ALL_SMALL)
def test_attenuation_by_enumeration(epsilon: float, slots: int, threshold: int) -> None:
    law = mask_law(epsilon, slots, threshold)
    for slot in range(slots):
        lean = sum(weight_of(law, z) * (1 - 2 * (z >> slot & 1)) for z in range(2**slots))
        assert Fraction(lean, law.total) == law.exact_attenuation
    assert law.attenuation == float(law.exact_attenuation)
    total = sum(math.comb(slots, ones) * law.probability(ones) for ones in range(slots + 1))
    assert total == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 12.0])
@pytest.mark.parametrize(("slots", "threshold"), [(1, 0), (2, 0), (5, 2), (12, 3), (30, 7)])
def test_attenuation_is_the_formula_at_epsilon(epsilon: float, slots: int, threshold: int) -> None:
    grown, comb = mp.expm1(epsilon), math.comb
    near = sum(comb(slots, i) for i in range(threshold + 1))
    lean = sum(comb(slots, i) * (1 - mpf(2 * i) / slots) for i in range(threshold + 1))
    c = grown * lean / (2**slots + grown * near)
    assert mask_law(epsilon, slots, threshold).attenuation == pytest.approx(float(c), rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 8.0, 30.0])
def test_one_slot_is_randomised_response(epsilon: float) -> None:
    law = mask_law(epsilon, 1)
    assert law.probability(0) == pytest.approx(truth_probability(epsilon), rel=1e-12)
    assert law.probability(1) == pytest.approx(flip_probability(epsilon), rel=1e-9)
    assert law.attenuation == pytest.approx(math.tanh(epsilon / 2), rel=1e-9)


def weight_of(law: MaskLaw, mask: int) -> int:
    return law.near_weight if mask.bit_count() <= law.threshold else law.far_weight


@repeatable
@given(st.fractions(1, 1000, max_denominator=10**6), st.integers(1, 60))
@example(Fraction(7), 5)
@example(Fraction(15, 7), 7)
def test_largest_fraction_below(value: Fraction, limit: int) -> None:
    near, far = _largest_fraction(value, limit)
    best = max(Fraction(math.floor(value * q), q) for q in range(1, limit + 1))
    assert Fraction(near, far) == best
    assert far <= limit


# Accuracy


def test_variance_by_enumeration() -> None:
    """Five users of whom two hold a one, three of them heard: exact, against the formula."""
    law = MaskLaw(slots=2, threshold=0, near_weight=5, far_weight=1)
    c, bits = law.exact_attenuation, (1, 1, 0, 0, 0)
    keep = (1 + c) / 2
    first = second = Fraction(0)
    groups = list(itertools.combinations(bits, 3))
    for group in groups:
        for flips in itertools.product((0, 1), repeat=3):
            chance = Fraction(1, len(groups))
            for flip in flips:
                chance *= 1 - keep if flip else keep
            heard = Fraction(sum(v ^ flip for v, flip in zip(group, flips, strict=True)), 3)
            estimate = Fraction(1, 2) + (heard - Fraction(1, 2)) / c
            first += chance * estimate
            second += chance * estimate * estimate
    assert first == Fraction(2, 5)
    variance = estimate_variance(law, 0.4, 3)
    assert second - first * first < variance
    # With replacement each report is a Bernoulli draw of its own.
    pi = Fraction(1, 2) + c * (Fraction(2, 5) - Fraction(1, 2))
    assert variance == pytest.approx(float(pi * (1 - pi) / (3 * c * c)), rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 1e-9, 0.3, 0.5, 1 - 2**-53, 1.0])
@pytest.mark.parametrize("epsilon", [1e-3, 2.0, 40.0, 50.0])
def test_variance_loses_no_digits(epsilon: float, share: float) -> None:
    law = mask_law(epsilon, 3, 1)
    c, lean = exact(law.exact_attenuation), 2 * mpf(share) - 1
    value = (1 - (c * lean) ** 2) / (4 * c * c * mpf(12.5))
    assert value <= estimate_variance(law, share, 12.5) <= value * (1 + mpf(10) ** -9)


def relative_std(law: MaskLaw, share: float, epsilon: float) -> float:
    """Standard deviation beside that of one slot, with the reports each of them brings."""
    one = estimate_variance(mask_law(epsilon, 1), share, 100)
    return math.sqrt(estimate_variance(law, share, 100 * law.slots) / one)


def test_two_slots_beside_randomised_response() -> None:
    half = [relative_std(mask_law(e, 2), 0.5, e) for e in range(3, 9)]
    dense = [relative_std(mask_law(e, 2), 0.9995, e) for e in range(3, 9)]
    assert (min(half), max(half)) == pytest.approx((0.708, 0.774), abs=1e-3)
    assert (min(dense), max(dense)) == pytest.approx((0.837, 1.022), abs=1e-3)


def test_many_slots_pay_at_large_epsilon_and_only_near_one_half() -> None:
    best = best_mask_law(8, rounds=50)
    assert best.slots > 10
    assert relative_std(best, 0.5, 8) == pytest.approx(0.370, abs=1e-3)
    assert relative_std(best, 0.9995, 8) > 2


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0, 7.0, 50.0])
@pytest.mark.parametrize("share", [0.5, 0.02, 1.0])
def test_best_law_is_the_best_of_all(epsilon: float, share: float) -> None:
    best = best_mask_law(epsilon, rounds=9, share=share)
    laws = [mask_law(epsilon, g, threshold) for g in range(1, 10) for threshold in range(g)]
    variances = [estimate_variance(law, share, law.slots) for law in laws]
    assert estimate_variance(best, share, best.slots) == min(variances)
    assert variances.index(min(variances)) == laws.index(best)
    assert max(variances) > 2 * min(variances)


def test_best_law_respects_the_rounds_and_the_limit() -> None:
    assert best_mask_law(8, rounds=3).slots <= 3
    assert best_mask_law(8, rounds=1) == mask_law(8, 1)
    assert best_mask_law(8, rounds=50, max_slots=4).slots <= 4
    assert best_mask_law(8, rounds=50, max_slots=500).slots <= MAX_SLOTS
    assert best_mask_law(8, rounds=50, share=0.9995).slots < 5


def test_a_law_without_information_has_infinite_variance() -> None:
    law = MaskLaw(slots=3, threshold=1, near_weight=1, far_weight=1)
    assert law.epsilon == 0
    assert law.attenuation == 0
    assert estimate_variance(law, 0.5, 10) == math.inf


# Refusals


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: truth_probability(0), "epsilon"),
        (lambda: flip_probability(math.nan), "epsilon"),
        (lambda: flip_threshold(-1), "epsilon"),
        (lambda: flip_threshold(1, 0), "bits"),
        (lambda: mask_law(math.inf, 1), "epsilon"),
        (lambda: mask_law(1, 0), "slots"),
        (lambda: mask_law(1, MAX_SLOTS + 1), "slots"),
        (lambda: mask_law(1, 2, 2), "threshold"),
        (lambda: mask_law(1, 2, -1), "threshold"),
        (lambda: MaskLaw(1, 0, 1, 0), "far_weight"),
        (lambda: MaskLaw(1, 0, 1, 2), "near_weight"),
        (lambda: MaskLaw(1, 0, 2**62, 1), "total"),
        (lambda: mask_law(1, 2).probability(3), "weight"),
        (lambda: mask_law(1, 2).probability(-1), "weight"),
        (lambda: best_mask_law(1, 0), "rounds"),
        (lambda: best_mask_law(1, 5, share=1.5), "share"),
        (lambda: best_mask_law(1, 5, max_slots=0), "max_slots"),
        (lambda: estimate_variance(mask_law(1, 1), 0.5, 0), "reports"),
        (lambda: estimate_variance(mask_law(1, 1), -0.1, 1), "share"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(InvalidInput, match=f"Expected {name}="):
        call()


def test_numpy_whole_numbers_become_plain_ones() -> None:
    whole: Any = np.int64
    law = mask_law(np.float64(1.0), whole(30), whole(3))
    assert law == mask_law(1.0, 30, 3)
    assert type(law.slots) is type(law.near_weight) is int
