"""Plan a survey before it starts: expected errors, intervals, the best method.

Everything here is a function of public numbers: how many users, rounds, which ε and, if something
is known beforehand, about which share. Never pass a share computed from reports.

    error       E max_t |estimate − share|, see `predict_error`
    half_width  of the interval `estimate` will show, at the counts to be expected
    bound       an error that no round exceeds with probability 1 − β, proved

Rounds are drawn as in the papers, by each user independently; tickets do a little better.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np

from sudare.calibration import MAX_SLOTS, dense_condition, error_bound
from sudare.counting import tree
from sudare.counting._estimation import binomial_interval
from sudare.counting._prediction import count_variance, predict_error
from sudare.counting._survey import Method, Survey
from sudare.foundations import checks

_SHORTLIST = 3
_INDIFFERENT = 1.01
_COMPARED_ONLY = ("harmony", "harmony-signed")
_LARGEST_EPSILON = 40.0


@dataclass(frozen=True)
class Option:
    """One way of doing it, and what it will be worth."""

    survey: Survey
    error: float
    half_width: float
    bound: float
    reports: float
    """Expected reports in a round; for `tree` about a stretch."""

    @property
    def label(self) -> str:
        """The method in a few letters."""
        match self.survey.method:
            case "masks":
                return f"masks, {self.survey.slots} slots"
            case "tree":
                return f"tree, {self.survey.changes} change" + "s" * (self.survey.changes != 1)
            case method:
                return method


@dataclass(frozen=True)
class Plan:
    """All options, the most accurate first."""

    users: int
    rounds: int
    epsilon: float
    share: float | None
    """What was assumed; None is the worst case of each method."""
    beta: float
    options: tuple[Option, ...]
    dense_below: float
    """Shares below this, or above one minus it, are lost less by sampling than by flipping."""

    @property
    def best(self) -> Option:
        """The most accurate method to be recommended.

        Harmony is listed to compare with and never recommended: it divides by the users there
        should be, so everyone who stays silent counts as an error.
        """
        return next(o for o in self.options if o.survey.method not in _COMPARED_ONLY)

    def option(self, method: Method) -> Option:
        """The option of this method."""
        checks.one_of([o.survey.method for o in self.options], method=method)
        return next(o for o in self.options if o.survey.method == method)

    def __str__(self) -> str:
        about = "the worst share" if self.share is None else f"a share of {self.share:g}"
        lines = [
            f"{self.users:,} users, {self.rounds:,} rounds, ε = {self.epsilon:g}, {about}: "
            f"{self.best.label} is best",
            *(
                f"  {o.label:16} error {o.error:.3g}, interval ± {o.half_width:.3g}, "
                f"bound {o.bound:.3g}"
                for o in self.options
            ),
        ]
        return "\n".join(lines)


def plan(
    users: int,
    rounds: int,
    epsilon: float,
    *,
    share: float | None = None,
    changes: int | None = None,
    beta: float = 0.05,
) -> Plan:
    """The expected error of each method; `masks` with the best number of slots, `tree` given
    `changes`.

    `share` is a guess made beforehand at the share of ones, such as "nearly nobody": 0.01. Without
    it every method is compared at the share that is worst for it.
    """
    _check(users, rounds, share, beta)
    ways = [_survey(m, rounds, epsilon) for m in ("glance", "harmony", "harmony-signed", "rappor")]
    if changes is not None:
        ways.append(_survey("tree", rounds, epsilon, changes=changes))
    options = [_option(way, users, share, beta) for way in ways]
    masks = [_option(way, users, share, beta) for way in _shortlist(users, rounds, epsilon, share)]
    if masks:
        least = min(o.error for o in masks)
        # Fewer reports where it makes no difference that anyone could see.
        good_enough = [o for o in masks if o.error <= _INDIFFERENT * least]
        options.append(min(good_enough, key=lambda o: o.survey.slots))
    dense = dense_share(epsilon, users, rounds, beta)
    ranked = tuple(sorted(options, key=lambda o: o.error))
    return Plan(int(users), int(rounds), float(epsilon), share, beta, ranked, dense)


def users_needed(
    rounds: int, epsilon: float, error: float, *, share: float | None = None
) -> int | None:
    """The fewest users with whom the best method's expected error is at most `error`.

    None if a thousand million are not enough.
    """
    _check(1, rounds, share, 0.5)
    checks.positive(epsilon=epsilon)
    _check_wanted(error)

    def suffices(users: int) -> bool:
        return _best_error(users, rounds, epsilon, share) <= error

    high = 1
    while not suffices(high):
        if high >= 10**9:
            return None
        high = min(4 * high, 10**9)
    low = high // 4
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def epsilon_needed(
    users: int, rounds: int, error: float, *, share: float | None = None
) -> float | None:
    """The smallest ε, to three digits, with which the best method reaches `error`; None if none."""
    _check(users, rounds, share, 0.5)
    _check_wanted(error)

    def suffices(epsilon: float) -> bool:
        return _best_error(users, rounds, epsilon, share) <= error

    if not suffices(_LARGEST_EPSILON):
        return None
    low, high = 1e-3, _LARGEST_EPSILON
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if suffices(middle) else (middle, high)
    unit = 10.0 ** (math.floor(math.log10(high)) - 2)
    return min(_LARGEST_EPSILON, round(math.ceil(high / unit) * unit, 9))


def dense_share(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """The largest share up to ½ that meets `dense_condition`; 0 if none does.

    Below it, and above one minus it, asking only some of the users adds no more to Glance's error
    than their flipped answers do.
    """
    low, high = 0.0, 0.5
    if dense_condition(high, epsilon, users, rounds, beta):
        return high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if dense_condition(middle, epsilon, users, rounds, beta):
            low = middle
        else:
            high = middle
        if high < 1e-12:
            return 0.0
    return low


def _check(users: int, rounds: int, share: float | None, beta: float) -> None:
    checks.count(users=users, rounds=rounds)
    checks.proportion(beta=beta)
    if share is not None:
        checks.share(share=share)


def _check_wanted(error: float) -> None:
    checks.positive(error=error)
    if error >= 0.5:
        raise checks.InvalidInput(
            f"Expected error={error} < 0.5: to answer one half is never further off, without users"
        )


@lru_cache(maxsize=1024)
def _survey(
    method: Method, rounds: int, epsilon: float, slots: int = 1, changes: int | None = None
) -> Survey:
    return Survey(
        name="plan",
        rounds=rounds,
        epsilon=epsilon,
        method=method,
        slots=slots,
        changes=changes,
        flips="stretches" if method == "tree" else msgspec.UNSET,
    )


def _shortlist(users: int, rounds: int, epsilon: float, share: float | None) -> list[Survey]:
    """The numbers of slots with the smallest deviations, and the least that is nearly as good."""
    mu = 0.5 if share is None else share
    deviations = {}
    for slots in range(2, min(rounds, MAX_SLOTS) + 1):
        n, c = slots * users / rounds, _attenuation(epsilon, slots)
        deviations[slots] = math.sqrt(count_variance(c, mu, n, users)) / (n * c)
    ranking = sorted(deviations, key=lambda slots: deviations[slots])
    chosen = set(ranking[:_SHORTLIST])
    if ranking:
        enough = _INDIFFERENT * deviations[ranking[0]]
        chosen.add(min(slots for slots in ranking if deviations[slots] <= enough))
    return [_survey("masks", rounds, epsilon, slots) for slots in ranking if slots in chosen]


@lru_cache(maxsize=4096)
def _attenuation(epsilon: float, slots: int) -> float:
    """The best mask law's, without the care of `mask_law`: enough to sort by."""
    excess, near, best = math.expm1(epsilon), 0, 0.0
    for threshold in range(slots):
        near += math.comb(slots, threshold)
        right = excess * math.comb(slots - 1, threshold) / (2.0**slots + excess * near)
        best = max(best, right)
    return best


def _best_error(users: int, rounds: int, epsilon: float, share: float | None) -> float:
    ways = [_survey(m, rounds, epsilon) for m in ("glance", "rappor")]
    ways += _shortlist(users, rounds, epsilon, share)[:2]
    return min(predict_error(way, users, share) for way in ways)


def _option(survey: Survey, users: int, share: float | None, beta: float) -> Option:
    reports = users * survey.slots / survey.rounds
    if survey.method == "rappor":
        reports = float(users)
    elif survey.method == "tree":
        reports = users / survey.levels
    return Option(
        survey=survey,
        error=predict_error(survey, users, share),
        half_width=_half_width(survey, users, reports, 0.5 if share is None else share, beta),
        bound=largest_error_bound(survey, users, share, beta),
        reports=reports,
    )


def _half_width(survey: Survey, users: int, reports: float, share: float, beta: float) -> float:
    if survey.method == "tree":
        # Counts that say zero: the upper end is the half-width.
        heard = np.full(survey.cells, max(1, int(reports)))
        ends = tree.estimates(heard, heard // 2, survey, users, beta)
        return float(ends[3].mean())
    n = np.array([round(reports)])
    y = np.rint(n * (0.5 + survey.attenuation * (share - 0.5))).astype(np.int64)
    low, high = binomial_interval(n, y, survey.attenuation, beta / survey.rounds)
    return float((high - low)[0] / 2)


def largest_error_bound(survey: Survey, users: int, share: float | None, beta: float) -> float:
    """An error that no round exceeds with probability 1 − β."""
    rounds, c = survey.rounds, survey.attenuation
    log = math.log(2 * rounds / beta)
    match survey.method:
        case "glance" | "masks":
            return error_bound(survey.law, users, rounds, beta, share)
        case "rappor":  # Hoeffding over everybody's flips
            return math.sqrt(log / (2 * users)) / c
        case "tree":  # Bernstein, at the round with the largest variance
            scale = survey.levels / (users * c)
            load = float(tree.loads(survey).max())
            return float(tree.bernstein(scale * load / c, scale + 1 / users, log))
        case _:  # Bernstein over users, who add something in one round of T
            says_one = (1 + c) / 2 if share is None else 0.5 + c * (share - 0.5)
            each = says_one if survey.method == "harmony" else 0.25
            most = 1.0 if survey.method == "harmony" else 0.5 + c / (2 * rounds)
            return rounds / (users * c) * float(tree.bernstein(users / rounds * each, most, log))
