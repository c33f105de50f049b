"""One-number summaries of an output, learnt to tell two output distributions apart.

Every distinguishing event of the black-box audit is a tail of one of these summaries: "the
statistic is at least t" or "below t". A summary may be as plain as one coordinate or as informed as
an estimated likelihood ratio; none of them can invalidate the audit, because bounds are computed on
fresh runs. A poor summary only finds less.

Outputs that are not finite are legal: a mechanism may return nan or infinity and may leak by it.
They get indicator statistics of their own; coordinate statistics leave them out (they return nan,
which falls in no tail), and joint statistics read them as zero.

Reference: Neyman and Pearson (1933) for the likelihood ratio as the best statistic; Fisher (1936)
for the linear discriminant.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PATTERNS = 4096  # most distinct outputs for which a table of likelihood ratios is kept
_COLUMNS = 32  # most coordinates looked at one by one
_ATOMS = 16  # most exact values per coordinate offered as events of their own
_CLIP = 100.0  # robust standard units; a Gaussian fit learns nothing from farther out


@dataclass(frozen=True)
class Statistic:
    """A summary of each output row, and the words for its two tails."""

    evaluate: Callable[[Floats], Floats]
    describe: Callable[[float, bool], str]


def learn(first: Floats, second: Floats) -> list[Statistic]:
    """Statistics that may separate two samples of outputs, each of shape (runs, k); simplest first.

    The order matters: among events that do equally well, the audit reports the earliest.
    """
    chosen = _promising(first, second)
    found = [*_atoms(first, second, chosen), *_not_finite(first, second, chosen)]
    found += [_coordinate(j) for j in chosen]
    found += [_absolute(j) for j in chosen]
    clean_first, clean_second = _finite(first), _finite(second)
    if first.shape[1] > 1:
        found.append(Statistic(_norm, _tails("the Euclidean norm of the output")))
    found += _discriminants(clean_first, clean_second, chosen)
    table = _patterns(clean_first, clean_second)
    if table is not None:
        found.append(table)
    elif first.shape[1] <= 2:
        found.append(_histogram(clean_first, clean_second))
    return found


def number(value: float) -> str:
    """A threshold as text; adding zero turns minus zero into zero."""
    return f"{value + 0.0:.4g}".replace("-", "\N{MINUS SIGN}")


def _promising(first: Floats, second: Floats) -> list[int]:
    """The columns looked at one by one: all of them if few, else those that differ the most."""
    columns = first.shape[1]
    if columns <= _COLUMNS:
        return list(range(columns))
    levels = np.linspace(0.05, 0.95, 7)
    with np.errstate(over="ignore", invalid="ignore"):
        gap = np.abs(
            np.quantile(_finite(first), levels, axis=0)
            - np.quantile(_finite(second), levels, axis=0)
        ).sum(axis=0)
        spread = _finite(first).std(axis=0) + _finite(second).std(axis=0)
        score = np.where(spread > 0, gap / np.where(spread > 0, spread, 1.0), np.inf * (gap > 0))
    score = np.nan_to_num(score, nan=0.0)
    return sorted(int(j) for j in np.argsort(-score, kind="stable")[:_COLUMNS])


def _tails(name: str) -> Callable[[float, bool], str]:
    return lambda threshold, upper: f"{name} {'at least' if upper else 'below'} {number(threshold)}"


def _indicator(test: Callable[[Floats], NDArray[np.bool_]], yes: str, no: str) -> Statistic:
    return Statistic(lambda x: test(x).astype(np.float64), lambda _, upper: yes if upper else no)


def _atoms(first: Floats, second: Floats, chosen: list[int]) -> Iterator[Statistic]:
    """Exact values that a coordinate takes again and again: continuous noise never repeats one."""
    for j in chosen:
        pooled = np.concatenate([first[:, j], second[:, j]])
        values, counts = np.unique(pooled[np.isfinite(pooled)], return_counts=True)
        often = counts >= max(3.0, 1e-3 * pooled.size)
        for value in values[often][np.argsort(-counts[often], kind="stable")][:_ATOMS]:
            yield _indicator(
                lambda x, j=j, value=value: x[:, j] == value,  # type: ignore[misc]
                f"output {j + 1} equals {number(value)}",
                f"output {j + 1} differs from {number(value)}",
            )


def _not_finite(first: Floats, second: Floats, chosen: list[int]) -> Iterator[Statistic]:
    kinds: list[tuple[str, Callable[[Floats], NDArray[np.bool_]]]] = [
        ("not a number", np.isnan),
        ("plus infinity", np.isposinf),
        ("minus infinity", np.isneginf),
    ]
    for j in chosen:
        for words, test in kinds:
            if test(first[:, j]).any() or test(second[:, j]).any():
                yield _indicator(
                    lambda x, j=j, test=test: test(x[:, j]),  # type: ignore[misc]
                    f"output {j + 1} is {words}",
                    f"output {j + 1} is anything but {words}",
                )


def _coordinate(j: int) -> Statistic:
    def evaluate(x: Floats) -> Floats:
        column = x[:, j]
        return np.where(np.isfinite(column), column, np.nan)

    return Statistic(evaluate, _tails(f"output {j + 1}"))


def _absolute(j: int) -> Statistic:
    plain = _coordinate(j).evaluate
    return Statistic(lambda x: np.abs(plain(x)), _tails(f"the absolute value of output {j + 1}"))


def _norm(x: Floats) -> Floats:
    clean = _finite(x)
    largest = np.abs(clean).max(axis=1)
    unit = np.where(largest > 0, largest, 1.0)  # squares of huge outputs would overflow
    scaled = clean / unit[:, None]
    return np.asarray(largest * np.sqrt(np.einsum("ij,ij->i", scaled, scaled)), dtype=np.float64)


def _discriminants(first: Floats, second: Floats, chosen: list[int]) -> list[Statistic]:
    """Fisher's linear discriminant, and the log ratio of two fitted Gaussian laws."""
    pooled = np.concatenate([first[:, chosen], second[:, chosen]])
    with np.errstate(over="ignore", invalid="ignore"):
        low, centre, high = np.quantile(pooled, [0.25, 0.5, 0.75], axis=0)
        spread = np.where(high > low, high - low, pooled.std(axis=0))
    spread = np.where(np.isfinite(spread) & (spread > 0), spread, 1.0)

    def standard(x: Floats) -> Floats:
        with np.errstate(over="ignore"):
            z = np.clip((_finite(x[:, chosen]) - centre) / spread, -_CLIP, _CLIP)
        return np.asarray(z, dtype=np.float64)

    z1, z2 = standard(first), standard(second)
    columns = z1.shape[1]
    mean1, mean2 = z1.mean(axis=0), z2.mean(axis=0)
    cov1 = np.cov(z1, rowvar=False).reshape(columns, columns)
    cov2 = np.cov(z2, rowvar=False).reshape(columns, columns)
    white1, logdet1 = _whitening(cov1)
    white2, logdet2 = _whitening(cov2)

    def log_ratio(x: Floats) -> Floats:
        z = standard(x)
        far1 = ((z - mean1) @ white1) ** 2
        far2 = ((z - mean2) @ white2) ** 2
        ratio = 0.5 * (far2.sum(axis=1) - far1.sum(axis=1) + logdet2 - logdet1)
        return np.asarray(ratio, dtype=np.float64)

    found = [Statistic(log_ratio, _tails("the Gaussian log-likelihood ratio of the output"))]
    if columns > 1:
        white, _ = _whitening(cov1 + cov2)
        weights = white @ (white.T @ (mean1 - mean2))
        linear = Statistic(
            lambda x: np.asarray(standard(x) @ weights, dtype=np.float64),
            _tails("the best linear combination of the outputs"),
        )
        found.insert(0, linear)
    return found


def _whitening(covariance: Floats) -> tuple[Floats, float]:
    """W with W Wᵀ the inverse covariance, and the log determinant of the covariance.

    A constant or collinear column is informative, not an error: the floor, 1e-6 of the spread,
    keeps the inverse finite and still lets two thin supports look far apart.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 1e-12)
    return vectors / np.sqrt(values), float(np.log(values).sum())


def _patterns(first: Floats, second: Floats) -> Statistic | None:
    """Log-likelihood ratio by exact output, where the outputs seen are few; otherwise nothing."""
    key1, key2 = _key(first), _key(second)
    keys, where = np.unique(np.concatenate([key1, key2]), return_inverse=True)
    if len(keys) > min(_PATTERNS, len(key1) // 4):
        return None
    score = _scores(where[: len(key1)], where[len(key1) :], len(keys))

    def evaluate(x: Floats) -> Floats:
        key = _key(_finite(x))
        place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where(keys[place] == key, score[place], 0.0)

    return Statistic(evaluate, _by_score("outcomes"))


def _histogram(first: Floats, second: Floats) -> Statistic:
    """Log-likelihood ratio by cell of a grid of pooled quantiles, in one or two dimensions."""
    columns = first.shape[1]
    cells = np.clip(len(first) ** (1 / (1 + columns)), 4, 256 if columns == 1 else 32)
    levels = np.linspace(0, 1, int(cells) + 1)[1:-1]
    pooled = np.concatenate([first, second])
    edges = [np.unique(np.quantile(pooled[:, j], levels)) for j in range(columns)]

    def cell(x: Floats) -> NDArray[np.intp]:
        index = np.zeros(len(x), dtype=np.intp)
        for j in range(columns):
            index = index * (len(edges[j]) + 1) + np.searchsorted(edges[j], x[:, j], side="right")
        return index

    total = int(np.prod([len(edge) + 1 for edge in edges]))
    score = _scores(cell(first), cell(second), total)
    return Statistic(lambda x: score[cell(_finite(x))], _by_score("histogram cells"))


def _scores(first: NDArray[np.intp], second: NDArray[np.intp], total: int) -> Floats:
    ratio = (np.bincount(first, minlength=total) + 0.5) / (
        np.bincount(second, minlength=total) + 0.5
    )
    return np.asarray(np.log(ratio), dtype=np.float64)


def _by_score(noun: str) -> Callable[[float, bool], str]:
    return lambda threshold, upper: (
        f"the output among the {noun} whose learnt log ratio is "
        f"{'at least' if upper else 'below'} {number(threshold)}"
    )


def _key(x: Floats) -> Floats:
    """One number per row, equal for equal rows; summed column by column to be repeatable."""
    key = np.zeros(len(x))
    for j in range(x.shape[1]):
        key += np.sqrt(j + 2.0) * x[:, j]
    return key


def _finite(x: Floats) -> Floats:
    if np.isfinite(x).all():
        return x
    return np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
