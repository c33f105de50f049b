"""Signals to try a survey on: shares over time, or recorded bits of real people.

A signal is either the share of ones in each round, an array of T numbers in [0, 1], or a matrix of
0/1 with one row a user and one column a round. `sudare.counting.simulate` takes both.
"""

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sudare.foundations import checks
from sudare.foundations.randomness import Generator, as_generator
from sudare.storage.files import unreadable

Shares = NDArray[np.float64]
Bits = NDArray[np.uint8]

_NAMES_OF_USERS = {"user", "id", "user_id", "name"}


def constant(rounds: int, share: float = 0.5) -> Shares:
    """The same share in all rounds."""
    checks.count(rounds=rounds)
    checks.share(share=share)
    return np.full(rounds, float(share))


def sine(rounds: int, low: float = 0.2, high: float = 0.8, periods: float = 2.0) -> Shares:
    """A wave between two shares, starting half way up."""
    _check_range(rounds, low, high)
    checks.positive(periods=periods)
    wave = np.sin(2 * np.pi * periods * np.arange(rounds) / rounds)
    return np.clip((low + high) / 2 + (high - low) / 2 * wave, low, high)


def step(rounds: int, before: float = 0.2, after: float = 0.8, at: int | None = None) -> Shares:
    """One share, then from round `at` on another; by default half way."""
    checks.count(rounds=rounds)
    checks.share(before=before, after=after)
    if at is None:
        at = rounds // 2
    checks.count(minimum=0, at=at)
    return np.where(np.arange(rounds) < at, float(before), float(after))


def random_walk(
    rounds: int,
    start: float = 0.5,
    step_std: float = 0.01,
    rng: Generator | int | None = None,
) -> Shares:
    """Normal steps from a first share, turned back at 0 and at 1."""
    checks.count(rounds=rounds)
    checks.share(start=start)
    checks.non_negative(step_std=step_std)
    steps = as_generator(rng).standard_normal(rounds) * step_std
    steps[0] = 0.0
    walk = (start + np.cumsum(steps)) % 2.0
    return np.where(walk > 1, 2 - walk, walk)


def independent(
    rounds: int, low: float = 0.2, high: float = 0.8, rng: Generator | int | None = None
) -> Shares:
    """A share of its own in each round, uniform between two."""
    _check_range(rounds, low, high)
    return as_generator(rng).uniform(low, high, rounds)


def read_bits(path: str | Path) -> Bits:
    """A matrix from a CSV file: one row a user, one column a round, 0 or 1 in each.

    A first row that is not all 0 and 1 is taken for a header. A first column is left out if the
    header calls it user, id, user_id or name, or leaves its name empty. Errors name the line and
    the column, never what stands there.
    """
    file = Path(path)
    try:
        with file.open(newline="", encoding="utf-8-sig") as text:
            return _parse(csv.reader(text), file)
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise unreadable(file, problem, "it is not a CSV file in UTF-8") from None


def _check_range(rounds: int, low: float, high: float) -> None:
    checks.count(rounds=rounds)
    checks.share(low=low, high=high)
    if low > high:
        raise checks.InvalidInput(f"Expected low={low} <= high={high}")


def _parse(lines: Iterator[list[str]], file: Path) -> Bits:
    numbered: Iterator[tuple[int, list[str]]]
    numbered = ((n, line) for n, line in enumerate(lines, 1) if line)
    first = next(numbered, None)
    if first is None:
        raise checks.InvalidInput(f"{file} is empty: expected one row a user")
    width, skip = len(first[1]), 0
    if any(cell.strip() not in {"0", "1"} for cell in first[1]):
        named = first[1][0].strip().lower()
        skip = int(not named or named in _NAMES_OF_USERS)
    else:
        numbered = chain([first], numbered)
    rows = [_row(line[skip:], n, width - skip, file) for n, line in numbered]
    if not rows or width == skip:
        raise checks.InvalidInput(f"{file} has a header and nothing else: expected one row a user")
    return np.stack(rows)


def _row(cells: list[str], line: int, width: int, file: Path) -> Bits:
    if len(cells) != width:
        raise checks.InvalidInput(
            f"{file}, line {line}: expected {width} rounds as in the first line, not {len(cells)}"
        )
    try:
        row = np.frombuffer("".join(map(str.strip, cells)).encode("ascii"), np.uint8) - ord("0")
        if row.size == width and row.max(initial=0) <= 1:
            return row
    except UnicodeEncodeError:
        pass
    wrong = next(i for i, cell in enumerate(cells, 1) if cell.strip() not in {"0", "1"})
    raise checks.InvalidInput(f"{file}, line {line}, round {wrong}: expected 0 or 1")
