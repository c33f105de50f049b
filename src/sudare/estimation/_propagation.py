"""From noisy forms to intervals: ratios, standard deviations, correlations.

Every function takes numbers or arrays of them (many draws of the noise at once). Means and shares
are linear in the sums, so their intervals are exact; a ratio has Fieller's, exact as well where
both forms are linear; standard deviations and correlations are linearised, with the largest term of
second order added (docs/theory/descriptions.md).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sudare.estimation._forms import Form, NoisySums

WIDE = "hidden by the noise: the interval is wider than everything that is possible"
IMPOSSIBLE = "hidden by the noise: it came out as something impossible"
NEGATIVE = "hidden by the noise: the variance came out below zero"
FEW = "hidden by the noise: it cannot be told how many rows there are in this group"
NARROW = "hidden by the noise: a column's spread is not clearly above zero"
CLEARLY = 4.0
"""Standard deviations of its noise that a denominator must be above zero."""


class Trouble(NamedTuple):
    """Where a number is not told, and why."""

    where: Any
    reason: str


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, not clipped to anything; or many, one for each draw."""

    value: Any
    low: Any
    high: Any
    least: float
    """The smallest number that is possible, by what is public."""
    most: float
    troubles: tuple[Trouble, ...] = ()

    @property
    def told(self) -> Any:
        """Whether nothing makes it meaningless."""
        told = np.isfinite(self.low) & np.isfinite(self.high)
        for trouble in self.troubles:
            told = told & ~np.asarray(trouble.where)
        return told

    def and_not(self, where: Any, reason: str) -> "Estimate":
        """The same, with one more reason not to tell it."""
        troubles = (Trouble(where, reason), *self.troubles)
        return Estimate(self.value, self.low, self.high, self.least, self.most, troubles)

    def shifted(self, by: float) -> "Estimate":
        """The same number counted from elsewhere."""
        return Estimate(
            self.value + by,
            self.low + by,
            self.high + by,
            self.least + by,
            self.most + by,
            self.troubles,
        )


def interval(
    value: Any, low: Any, high: Any, least: float, most: float, *troubles: Trouble
) -> Estimate:
    """An estimate that is not told if it says nothing, or what cannot be."""
    with np.errstate(invalid="ignore"):
        usual = (
            Trouble(high - low >= most - least, WIDE),
            Trouble((high < least) | (low > most), IMPOSSIBLE),
        )
    return Estimate(value, low, high, least, most, (*troubles, *usual))


def ratio(
    sums: NoisySums,
    numerator: Form,
    denominator: Form,
    quantile: float,
    least: float,
    most: float,
    sampling: Any = 0.0,
) -> Estimate:
    """Fieller's interval: all ρ for which numerator − ρ·denominator can be noise.

    `sampling` is the variance that a sample adds to that difference. A denominator without noise is
    one, and the interval that of a linear form.
    """
    top, below = sums.value(numerator), sums.value(denominator)
    spread = sums.variance(denominator)
    found = fieller(
        top,
        below,
        sums.variance(numerator) + sampling,
        spread,
        sums.covariance(numerator, denominator),
        quantile,
    )
    few = Trouble(below <= CLEARLY * np.sqrt(spread), FEW)
    return interval(*found, least, most, few)


def fieller(
    top: Any, below: Any, top_variance: Any, below_variance: Any, covariance: Any, quantile: float
) -> tuple[Any, Any, Any]:
    """The ratio and its interval; infinite where the denominator may be zero."""
    square = quantile**2
    a = below**2 - square * below_variance
    with np.errstate(divide="ignore", invalid="ignore"):
        value = top / below
        noise = top_variance - 2 * value * covariance + value**2 * below_variance
        spare = top_variance * below_variance - covariance**2
        # The roots of a·ρ² − 2bρ + c, written so that small noise is not lost beside the numbers.
        root = quantile * np.sqrt(np.maximum(below**2 * noise - square * spare, 0.0))
        shift = square * (value * below_variance - covariance)
        low = np.where(a > 0, value + (shift - root) / a, -np.inf)
        high = np.where(a > 0, value + (shift + root) / a, np.inf)
    return value, low, high


@dataclass(frozen=True)
class Spread:
    """The variance of a variable over the rows that are counted, and how its noise comes about."""

    value: Any
    linear: Form
    """Its error to first order."""
    second: Any
    """Variance of its error of second order."""
    mean_squared: Any
    """The square of the mean, without its noise, and the variance of that noise."""
    mean_noise: Any

    @classmethod
    def of(cls, sums: NoisySums, square: Form, first: Form, counted: Form) -> "Spread":
        """From the means of v², v and of 1 where a row is counted (v is 0 where it is not).

        The square of a noisy mean is too large by the mean's variance, which is taken off.
        """
        a, b, k = sums.value(square), sums.value(first), sums.value(counted)
        noise = sums.variance(first)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = a / k - (b / k) ** 2 + noise / k**2
            # The noisy mean is larger than the mean itself; so is the slope that it stands for.
            slope = np.sign(b) * np.sqrt(np.maximum(b**2 - noise, 0.0))
            linear = (
                square * (1 / k)
                + first * (-2 * slope / k**2)
                + counted * (-a / k**2 + 2 * slope**2 / k**3)
            )
            return cls(value, linear, 2 * noise**2 / k**4, (slope / k) ** 2, noise / k**2)

    def variance(self, sums: NoisySums) -> Any:
        """Of its noise."""
        return sums.variance(self.linear) + self.second

    def limits(self, sums: NoisySums, quantile: float, sampling: Any) -> tuple[Any, Any]:
        """Symmetric about a point below `value`, by as much as the noise's skewness calls for.

        The noise of the mean makes the variance too small and its own estimated noise too large,
        or the other way round: the term of next order in Cornish and Fisher's expansion.
        """
        noise = self.variance(sums) + sampling
        half = quantile * np.sqrt(noise)
        with np.errstate(divide="ignore", invalid="ignore"):
            skewness = self.mean_squared * self.mean_noise**2 / noise
        middle = self.value - 4 * (quantile**2 + 1) * np.nan_to_num(skewness)
        low, high = middle - half, middle + half
        return low, high


def deviation(
    sums: NoisySums,
    spread: Spread,
    counted: Form,
    quantile: float,
    most: float,
    sampling: Any = 0.0,
) -> Estimate:
    """The standard deviation; its interval is that of the variance, square roots taken."""
    below, few = sums.value(counted), sums.variance(counted)
    low, high = spread.limits(sums, quantile, sampling)
    troubles = (
        Trouble(below <= CLEARLY * np.sqrt(few), FEW),
        # Of the variance, where the width is that of the noise, and says nothing of the value.
        Trouble(high - low >= most**2, WIDE),
        Trouble(spread.value <= 0, NEGATIVE),
    )
    low, value, high = (np.sqrt(np.maximum(each, 0.0)) for each in (low, spread.value, high))
    return Estimate(value, low, high, 0.0, most, troubles)


class Paired(NamedTuple):
    """A variable with what is known of it alone."""

    mean: Form
    spread: Spread


def correlation(
    sums: NoisySums, product: Form, first: Paired, second: Paired, quantile: float
) -> Estimate:
    """By Fieller, from the covariance and the product of the standard deviations, linearised."""
    means = [sums.value(each.mean) for each in (first, second)]
    noises = [sums.variance(each.mean) for each in (first, second)]
    spreads = [each.spread for each in (first, second)]
    narrow = False
    for each in spreads:
        narrow = narrow | (each.value <= CLEARLY * np.sqrt(each.variance(sums)))
    covariance = sums.value(product) - means[0] * means[1]
    linear = product - first.mean * means[1] - second.mean * means[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.sqrt(spreads[0].value * spreads[1].value)
        size_linear = Form()
        size_second = 0.0
        for each in spreads:
            size_linear = size_linear + each.linear * (size / (2 * each.value))
            size_second = size_second + each.second * (size / (2 * each.value)) ** 2
        found = fieller(
            covariance,
            size,
            sums.variance(linear) + noises[0] * noises[1],
            sums.variance(size_linear) + size_second,
            sums.covariance(linear, size_linear),
            quantile,
        )
    return interval(*found, -1.0, 1.0, Trouble(narrow, NARROW))
