"""Randomised response and masks: how one user's bits are hidden before they leave the device.

A user is given g rounds (slots) that do not depend on any data. Before any data exists the device
draws one mask z ∈ {0,1}^g and keeps it; in the j-th of its rounds it sends v XOR z_j. A mask with
at most θ ones is e^ε times as likely as any other:

    P(z) = near_weight / total  if |z| ≤ θ,    far_weight / total  otherwise.

Whatever the user's g bits are, and even when they are chosen after seeing what was sent before,
each transcript corresponds to exactly one mask. Two inputs therefore change its probability by at
most near_weight / far_weight ≤ e^ε: all rounds together are ε-LDP for the user. One slot with θ = 0
is Warner's randomised response (1965), which Glance sends (Ono, Fukuchi, Akimoto and Sakuma).
Drawing a mask again is a new spend.

    g  slots    θ  threshold    V  masks with at most θ ones    c  attenuation, E(1 − 2·z_j)

A law is a pair of whole numbers, so a device can draw from it without rounding, and the ratio is
below e^ε exactly rather than up to floating point.
"""

import functools
import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from sudare.foundations import checks
from sudare.foundations.rounding import down, up

__all__ = [
    "MAX_SLOTS",
    "MaskLaw",
    "best_mask_law",
    "estimate_variance",
    "flip_probability",
    "flip_threshold",
    "mask_law",
    "truth_probability",
]

MAX_SLOTS = 30
_MAX_TOTAL = 2**62
"""Weights add up to no more than this, so that a draw fits in a signed 64-bit word."""
_ROUND_TRIP = 2.0**-43
"""How far ε is rounded down, so that `MaskLaw.epsilon`, itself rounded up, confirms it."""


@dataclass(frozen=True)
class MaskLaw:
    """The law of one user's mask, in whole numbers.

    Each of the `near_masks` masks with at most `threshold` ones has probability near_weight/total,
    each of the others far_weight/total. The law is log(near_weight/far_weight)-LDP.
    """

    slots: int
    threshold: int
    near_weight: int
    far_weight: int

    def __post_init__(self) -> None:
        _check_slots(self.slots, self.threshold)
        checks.count(far_weight=self.far_weight)
        checks.count(minimum=self.far_weight, near_weight=self.near_weight)
        if self.total > _MAX_TOTAL:
            raise checks.InvalidInput(f"Expected total={self.total} <= 2**62")

    @property
    def near_masks(self) -> int:
        """How many masks have at most `threshold` ones."""
        return _near_masks(self.slots, self.threshold)

    @property
    def total(self) -> int:
        """The weight of all 2^slots masks together."""
        near = self.near_masks
        return near * self.near_weight + ((1 << self.slots) - near) * self.far_weight

    @property
    def epsilon(self) -> float:
        """The ε this law realises, rounded up."""
        excess = self.near_weight - self.far_weight
        return up(math.log1p(excess / self.far_weight)) if excess else 0.0

    @property
    def attenuation(self) -> float:
        """c: a report is right with probability (1 + c)/2, in every slot alike."""
        return float(self.exact_attenuation)

    @property
    def exact_attenuation(self) -> Fraction:
        """c as a fraction: (near − far)·C(g−1, θ)/total, as Σ_{i≤θ} C(g,i)(1−2i/g) = C(g−1, θ)."""
        excess = self.near_weight - self.far_weight
        return Fraction(excess * math.comb(self.slots - 1, self.threshold), self.total)

    def probability(self, weight: int) -> float:
        """The probability of one particular mask with `weight` ones."""
        checks.count(minimum=0, weight=weight)
        if weight > self.slots:
            raise checks.InvalidInput(f"Expected weight={weight} <= slots={self.slots}")
        return (self.near_weight if weight <= self.threshold else self.far_weight) / self.total


def truth_probability(epsilon: float) -> float:
    """The probability p = e^ε/(1+e^ε) of an honest answer, rounded down: p/(1−p) ≤ e^ε.

    A float cannot come closer to 1 than 1.1e-16, so beyond ε = 36 the realised ratio stays behind
    e^ε; `flip_threshold` and `mask_law` go further.
    """
    checks.positive(epsilon=epsilon)
    return max(0.5, down(1 / (1 + math.exp(-epsilon))))


def flip_probability(epsilon: float) -> float:
    """The probability q = 1/(1+e^ε) of a flipped answer, rounded up: (1−q)/q ≤ e^ε."""
    checks.positive(epsilon=epsilon)
    tail = math.exp(-epsilon)
    return min(0.5, up(tail / (1 + tail)))


def flip_threshold(epsilon: float, bits: int = 64) -> int:
    """How many of the 2^bits random words flip the answer: ⌈2^bits/(1+e^ε)⌉.

    Flipping when a uniform word is below the threshold gives the ratio (2^bits − m)/m ≤ e^ε
    exactly. It cannot exceed 2^bits − 1, so with 64 bits any ε above 44.36 is realised as 44.36.
    """
    checks.positive(epsilon=epsilon)
    checks.count(bits=bits)
    below = _exp_below(min(float(epsilon), float(bits)), 50 + bits // 3)
    return math.ceil((1 << bits) / (1 + below))


def mask_law(epsilon: float, slots: int, threshold: int = 0) -> MaskLaw:
    """The law of masks over `slots` rounds that is ε-LDP and closest to exactly ε.

    near/far is the largest fraction not above e^ε among those whose denominator keeps the total
    within 2^62: ε is realised to a relative 1e-9. Where e^ε itself does not fit, because
    V·e^ε + 2^g − V > 2^62 (for one slot: ε > 42.97), the law realises as much as fits, which is
    less than ε and still safe.
    """
    checks.positive(epsilon=epsilon)
    _check_slots(slots, threshold)
    near_masks = _near_masks(slots, threshold)
    far_masks = (1 << slots) - near_masks
    ratio = _exp_below(min(max(0.0, down(float(epsilon), _ROUND_TRIP)), 50.0), 80)
    limit = math.floor(_MAX_TOTAL / (near_masks * ratio + far_masks))
    if limit:
        near, far = _largest_fraction(ratio, limit)
    else:
        near, far = (_MAX_TOTAL - far_masks) // near_masks, 1
    return MaskLaw(int(slots), int(threshold), near, far)


def best_mask_law(
    epsilon: float, rounds: int, share: float = 0.5, max_slots: int = MAX_SLOTS
) -> MaskLaw:
    """The ε-LDP mask law whose estimates have the least variance at a guessed share of ones.

    A law with g slots brings g·users/rounds reports per round, so its variance at the share μ is
    proportional to (1 − c²(2μ−1)²)/(c²g), whatever the number of users; slots are distinct rounds,
    so g ≤ rounds. ½ is the share at which every law does worst: the default minimises the worst
    case. Many slots hurt when nearly all bits agree, so pass a share near 0 or 1 if that is known
    beforehand, and never one computed from the reports.
    """
    checks.positive(epsilon=epsilon)
    checks.count(rounds=rounds, max_slots=max_slots)
    checks.share(share=share)
    laws = (
        mask_law(epsilon, slots, threshold)
        for slots in range(1, min(rounds, max_slots, MAX_SLOTS) + 1)
        for threshold in range(slots)
    )
    return min(laws, key=lambda law: _variance(law, share, law.slots))


def estimate_variance(law: MaskLaw, share: float, reports: float) -> float:
    """Variance of ½ + (ȳ − ½)/c in a round with this many reports, rounded up.

    (1 − c²(2μ−1)²)/(4c²·reports) is exact for reporters drawn with replacement from users of whom a
    share μ hold a one; drawing each user at most once can only lower it. `reports` may be an
    expected number, g·users/rounds. Infinite for a law that realises ε = 0.
    """
    checks.share(share=share)
    checks.positive(reports=reports)
    return up(_variance(law, share, reports))


def _variance(law: MaskLaw, share: float, reports: float) -> float:
    # In fractions: with c and the share both close to 1, floats would lose the difference.
    c = law.exact_attenuation
    if c == 0:
        return math.inf
    lean = c * (2 * Fraction(float(share)) - 1)
    return float((1 - lean * lean) / (4 * c * c * Fraction(float(reports))))


def _check_slots(slots: int, threshold: int) -> None:
    checks.count(slots=slots)
    checks.count(minimum=0, threshold=threshold)
    if slots > MAX_SLOTS:
        raise checks.InvalidInput(f"Expected slots={slots} <= {MAX_SLOTS}")
    if threshold >= slots:
        raise checks.InvalidInput(f"Expected threshold={threshold} < slots={slots}")


def _near_masks(slots: int, threshold: int) -> int:
    return sum(math.comb(slots, ones) for ones in range(threshold + 1))


@functools.lru_cache(maxsize=64)
def _exp_below(epsilon: float, digits: int) -> Fraction:
    """A fraction in [1, e^ε], within a relative 10^(5 − digits) of e^ε."""
    value = Fraction(Context(prec=digits).exp(Decimal(epsilon)))
    return max(Fraction(1), value * (1 - Fraction(1, 10 ** (digits - 5))))


def _largest_fraction(value: Fraction, limit: int) -> tuple[int, int]:
    """The largest near/far ≤ value with far ≤ limit, by a walk down the Stern–Brocot tree."""
    x, y = value.numerator, value.denominator
    low, high = (x // y, 1), (1, 0)  # low ≤ value < high, with no simpler fraction in between
    while (gap_low := x * low[1] - y * low[0]) > 0:
        gap_high = y * high[0] - x * high[1]
        # The most steps of low towards high that stay at or below value.
        steps = gap_low // gap_high
        if high[1]:
            steps = min(steps, (limit - low[1]) // high[1])
        low = (low[0] + steps * high[0], low[1] + steps * high[1])
        gap_low -= steps * gap_high
        # The most steps of high towards low that stay above value.
        back = min((gap_high - 1) // gap_low if gap_low else 0, (limit - high[1]) // low[1])
        if not steps and not back:
            break
        high = (high[0] + back * low[0], high[1] + back * low[1])
    return low
