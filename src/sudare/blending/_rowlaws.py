"""Laws of rows: their first and second moments, for matching Σyx/n by coefficients.

Two of them, since either may be far off. `row_law` trusts that own rows are like the others' and
that rows look much alike in all directions, and needs few of them. `released_law` takes the rows
that were summed up with Σyx, and nothing else: what is odd about them is odd in both.
"""

from typing import NamedTuple

import numpy as np

from sudare.blending._matching import RowLaw
from sudare.blending._received import Moments
from sudare.blending._records import Array, Records
from sudare.releases import Contract


class Rows(NamedTuple):
    """A law of rows, and variances of its errors."""

    law: RowLaw
    second_error: float
    """Of an entry of E[xxᵀ]."""
    mean_error: float
    """Of an entry of E[x]."""


def row_law(held: Moments, contract: Contract, rows: Array) -> Rows:
    """Moments of rows from own rows and releases, shrunk: where rows look everywhere alike."""
    d, p = contract.features, contract.dimension
    n0, n = len(rows), held.n.astype(np.float64)
    table = rows[:, :d]
    own_second = table.T @ table / n0
    squares = (table * table).sum(axis=1)
    one_row = max(float((squares**2).mean() - (own_second**2).sum()) / d**2, 1e-9)
    per_release = one_row / n + (held.noise_std / n) ** 2 * (1 + 1 / d)
    share = (1 / per_release) / (1 / per_release).sum()
    released = np.einsum("m,mij->ij", share / n, held.gram)
    own_error, released_error = one_row / n0, 1 / float((1 / per_release).sum())
    # What the two differ by beyond their errors is the organisation's own way to see rows; the
    # releases were made from theirs.
    spare = own_error + _beyond(released[:d, :d] - own_second, own_error + released_error)
    of_released = spare / (spare + released_error)
    second = of_released * released[:d, :d] + (1 - of_released) * own_second
    error = of_released**2 * released_error + (1 - of_released) ** 2 * own_error
    level = max(float(np.trace(second)) / d, 0.1 * float(np.trace(own_second)) / d, 1e-9)
    # Ledoit and Wolf (2004): towards a multiple of the identity, as far as the error asks for it.
    distance = float(((second - level * np.eye(d)) ** 2).sum())
    shrink = min(1.0, d * d * error / max(distance, 1e-300))
    second = (1 - shrink) * second + shrink * level * np.eye(d)
    mean, mean_error = np.zeros(p), 0.0
    if contract.constant > 0:
        constant = float(rows[0, -1])
        noise = level * float((share**2 / n).sum())
        noise += float(((share * held.noise_std / n) ** 2).sum()) / constant**2
        released_mean, own_mean = released[:d, -1] / constant, table.mean(axis=0)
        spare = level / n0 + _beyond(released_mean - own_mean, level / n0 + noise)
        between = (spare * released_mean + noise * own_mean) / (spare + noise)
        mean_error = spare * noise / (spare + noise)
        # James and Stein (1961): towards zero, in the same way.
        kept = max(0.0, 1 - d * mean_error / max(float(between @ between), 1e-300))
        mean[:d], mean[-1], mean_error = kept * between, constant, kept * mean_error
    values, vectors = np.linalg.eigh(second - np.outer(mean[:d], mean[:d]))
    spread = np.zeros((p, p))
    spread[:d, :d] = (vectors * np.maximum(values, 0.01 * level)) @ vectors.T
    # The rows' own sampling errors are those of Σyx too and largely cancel: noise counts.
    noise_share = 1 - one_row * float((share**2 / n).sum()) / released_error
    error -= of_released**2 * released_error * (1 - noise_share)
    return Rows(RowLaw(mean, spread), (1 - shrink) * error, mean_error)


def released_law(held: Moments, own: Records) -> Rows:
    """Moments of rows from the releases' sum alone: its rows are those behind Σyx, whatever own
    rows look like. Axes below its noise have the size of that."""
    n, p = float(held.n.sum()), held.cross.shape[1]
    d = p - (own.constant > 0)
    noise_std = float(np.sqrt((held.noise_std**2).sum())) / n
    values, vectors = np.linalg.eigh(held.gram.sum(axis=0) / n)
    floor = min(noise_std * np.sqrt(p), 1 / p)
    second = (vectors * np.maximum(values, floor)) @ vectors.T
    mean, mean_error, room = np.zeros(p), 0.0, 1 - own.constant**2
    if own.constant > 0:
        mean[:d], mean[-1] = second[:d, -1] / own.constant, own.constant
        mean[:d] *= min(1.0, np.sqrt(room / max(float(mean[:d] @ mean[:d]), 1e-300)))
        mean_error = (noise_std / own.constant) ** 2
    values, vectors = np.linalg.eigh(second[:d, :d] - np.outer(mean[:d], mean[:d]))
    values = np.maximum(values, 0.0)
    # No row is longer than one.
    values *= min(1.0, max(room - float(mean[:d] @ mean[:d]), 0.0) / max(values.sum(), 1e-300))
    spread = np.zeros((p, p))
    spread[:d, :d] = (vectors * values) @ vectors.T
    return Rows(RowLaw(mean, spread), noise_std**2, mean_error)


def _beyond(differences: Array, error: float) -> float:
    """Mean square of differences beyond two standard deviations of what this error explains."""
    explained = error * (1 + 2 * np.sqrt(2 / differences.size))
    return float(max((differences**2).mean() - explained, 0.0))
