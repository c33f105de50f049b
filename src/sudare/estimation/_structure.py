"""Which entries of Σxxᵀ are public before anybody has looked at data.

    constant² and the squares of a column of two categories   n times a known number
    two categories of one column at once                       0

They need no noise, and what noise they carry is taken away. Shortened rows are no longer what the
study says, but for the constant and for what is 0 anyway. Where all rows of a person are averaged,
a person can be in two categories by halves, and only the constant is known.
"""

import numpy as np
from numpy.typing import NDArray

from sudare.foundations import checks
from sudare.study import Categories, Study

Array = NDArray[np.float64]


def check_complete(study: Study) -> None:
    """Refuse sums in which marked rows stand for those that were left out."""
    if study.leaves_out:
        raise checks.InvalidInput(
            "Expected a study that says what stands in for missing values: with incomplete = "
            '"leave out" the sums are about complete rows and gaps together'
        )


def known_moments(study: Study) -> Array:
    """(p, p): entries of the mean of xxᵀ for rows at most 1 long; NaN where data decide."""
    contract = study.contract
    found = known_zeros(study)
    if contract.constant > 0:
        found[-1, -1] = (contract.constant / contract.full_norm) ** 2
    if not study.may_shorten and study.person_column is None:
        for place, feature in enumerate(study.features):
            column = study.columns[feature.column]
            two = isinstance(column, Categories) and len(column.categories) == 2
            if two and feature.category is not None:
                found[place, place] = (0.5 / feature.scale / contract.full_norm) ** 2
    return found


def known_zeros(study: Study) -> Array:
    """The same for sums in which every row has a weight: only zeros are known."""
    p, features = study.contract.dimension, study.features
    found = np.full((p, p), np.nan)
    if study.person_column is not None:
        return found
    for j, first in enumerate(features):
        for k, second in enumerate(features):
            same = j != k and first.column == second.column
            if same and first.category is not None and second.category is not None:
                found[j, k] = 0.0
    return found


def noise_variances(known: Array, noise_std: float) -> Array:
    """Of each entry of a symmetric sum: twice as much on its diagonal, none where it is known."""
    variances = noise_std**2 * (1.0 + np.eye(len(known)))
    return np.where(np.isnan(known), variances, 0.0)
