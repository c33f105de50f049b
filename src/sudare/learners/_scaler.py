"""Scaling by public bounds.

A scaler that learns its range from the data publishes that range with every model: one person's
extreme value then moves every coefficient, outside the privacy guarantee. This one takes the range
from the user, who knows it (ages lie between 0 and 120) or agreed on it with others beforehand.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sudare.foundations import checks
from sudare.learners._base import read_rows
from sudare.learners._solvers import Array


class PublicScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Maps each column from public bounds to [−1, 1]/√columns, clipping what lies outside.

    Every transformed row has norm at most 1: give the learner `row_norm=1`.

    Args:
        low: Public lower bound of each column, or one for all.
        high: Public upper bound of each column, or one for all.
        centre: Public guess of each column's typical value, where the halfway point is a poor one;
            it maps to 0, and the farther bound to ±1/√columns.
    """

    def __init__(
        self, low: ArrayLike = 0.0, high: ArrayLike = 1.0, centre: ArrayLike | None = None
    ) -> None:
        self.low = low
        self.high = high
        self.centre = centre

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the bounds against the number of columns; no value is looked at."""
        table = read_rows(self, X)
        columns = table.shape[1]
        low = _per_column("low", self.low, columns)
        high = _per_column("high", self.high, columns)
        if not (low < high).all():
            raise checks.InvalidInput("Expected low < high in every column")
        centre = low / 2 + high / 2
        if self.centre is not None:
            centre = _per_column("centre", self.centre, columns)
            if not ((low <= centre) & (centre <= high)).all():
                raise checks.InvalidInput("Expected centre between low and high in every column")
        with np.errstate(over="ignore"):
            reach = np.maximum(high - centre, centre - low)
        if not np.isfinite(reach).all():
            raise checks.InvalidInput("Expected low and high less than 1e308 apart")
        self.centre_, self.reach_ = centre, reach
        self.low_, self.high_ = low, high
        return self

    def transform(self, X: Any) -> Array:
        """Clipped, centred and scaled columns."""
        check_is_fitted(self)
        table = read_rows(self, X, reset=False)
        clipped = np.clip(table, self.low_, self.high_)
        scaled: Array = (clipped - self.centre_) / self.reach_ / np.sqrt(self.n_features_in_)
        return scaled

    def inverse_transform(self, X: Any) -> Array:
        """Back to the columns' own units (what was clipped stays at its bound)."""
        check_is_fitted(self)
        table = checks.finite_array(dimensions=2, X=X)
        if table.shape[1] != self.n_features_in_:
            raise checks.InvalidInput(
                f"Expected X to have {self.n_features_in_} columns, not {table.shape[1]}"
            )
        original: Array = table * np.sqrt(self.n_features_in_) * self.reach_ + self.centre_
        return original


def _per_column(name: str, value: ArrayLike, columns: int) -> Array:
    array = checks.finite_array(dimensions=None, **{name: value})
    if array.ndim > 1 or array.size not in (1, columns):
        raise checks.InvalidInput(f"Expected {name} to be one number or one for each column")
    return np.broadcast_to(array, (columns,)).astype(np.float64)
