"""Black-box audits: run a mechanism on two neighbouring inputs and bound its epsilon from below.

The mechanism is only run, never read. Half of the runs teach the audit one event that tells the two
inputs apart; the other half count that single event, and exact binomial limits turn the counts into
a lower bound on epsilon.

Guarantee: whatever the mechanism, the bound exceeds the true epsilon (for the given delta, on this
pair of inputs) with probability at most `1 - confidence`. An audit that finds nothing proves
nothing: it tried one pair of inputs and a finite set of events.

Reference: Ding, Wang, Wang, Zhang and Kifer (2018), detecting violations of differential privacy;
Bichsel, Steffen, Bogunovic and Vechev (2021) for learnt events; Clopper and Pearson (1934).
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sudare.audit import _bounds as bounds
from sudare.audit._events import Tally
from sudare.audit._findings import Finding
from sudare.audit._statistics import Floats
from sudare.foundations import checks, randomness

Mechanism: TypeAlias = Callable[[Any, int, Generator], NDArray[Any]]
"""(data, runs, rng) to `runs` independent outputs: an array of shape (runs,) or (runs, k)."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with (runs done, runs in all), both inputs counted."""

_BLOCK_NUMBERS = 1_000_000  # per call of the mechanism: 8 MB of output, room for its temporaries
_FIT_NUMBERS = 1_000_000  # per input, kept to learn statistics from: 8 MB, sorted and copied
_COMPETITION = 100  # many events compete in training: a stricter level keeps out the lucky ones
_FIRST_BLOCK = 10  # runs asked for before the width of an output is known


def audit(
    mechanism: Mechanism,
    first: Any,
    second: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    runs: int = 100_000,
    confidence: float = 0.999,
    rng: Generator | int | None = None,
    progress: Progress | None = None,
) -> Finding:
    """Look for evidence that `mechanism` is not (epsilon, delta)-private on two inputs.

    `first` and `second` are handed to the mechanism as they are and must be neighbours in the
    sense of the claim. `runs` is per input. Use `repeat` for a mechanism that draws once
    per call. Memory stays bounded whatever `runs` is, provided the mechanism's own does.
    """
    checks.positive(epsilon=epsilon)
    checks.delta_like(delta=delta)
    checks.count(minimum=100, runs=runs)
    checks.proportion(confidence=confidence)
    source = _Source(mechanism, (first, second), randomness.as_generator(rng), runs, progress)
    error = 1.0 - confidence

    test = runs // 2
    sample_first, sample_second = source.sample((runs - test) // 4)
    tally = Tally(sample_first, sample_second)
    for block_first, block_second in source.blocks(runs - test - len(sample_first)):
        tally.add(block_first, 0)
        tally.add(block_second, 1)
    event = tally.best(delta=delta, error=error / _COMPETITION)

    counts = np.zeros(2, dtype=np.int64)
    for block_first, block_second in source.blocks(test):
        counts += (event.count(block_first), event.count(block_second))
    bound = bounds.epsilon_lower(
        counts[event.likely], counts[1 - event.likely], test, delta=delta, error=error
    )
    return Finding(
        epsilon=float(epsilon),
        delta=float(delta),
        epsilon_lower=max(0.0, float(bound)),
        confidence=float(confidence),
        runs=int(runs),
        event=event.words,
        more_likely_under=("first", "second")[event.likely],
        count_first=int(counts[0]),
        count_second=int(counts[1]),
        counted_runs=test,
    )


def repeat(one_run: Callable[[Any, Generator], Any]) -> Mechanism:
    """A `Mechanism` from a function of (data, rng) that makes a single draw per call."""

    def mechanism(data: Any, runs: int, rng: Generator) -> NDArray[Any]:
        return _as_array([one_run(data, rng) for _ in range(runs)])

    return mechanism


class _Source:
    """Fresh outputs of the mechanism on both inputs, in blocks of bounded size."""

    def __init__(
        self,
        mechanism: Mechanism,
        inputs: tuple[Any, Any],
        rng: Generator,
        runs: int,
        progress: Progress | None,
    ) -> None:
        self._mechanism = mechanism
        self._inputs = inputs
        self._rng = rng
        self._progress = progress
        self._done, self._total = 0, 2 * runs
        self._width: int | None = None

    def sample(self, runs: int) -> tuple[Floats, Floats]:
        """At most `runs` runs on each input, fewer if outputs are too wide to hold so many."""
        pairs = list(self.blocks(min(runs, _FIRST_BLOCK)))
        room = _FIT_NUMBERS // pairs[0][0].shape[1]
        pairs += self.blocks(min(runs, room) - _FIRST_BLOCK)
        return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])

    def blocks(self, runs: int) -> Iterator[tuple[Floats, Floats]]:
        """Pairs of blocks that add up to `runs` runs on each input."""
        while runs > 0:
            widest = _FIRST_BLOCK if self._width is None else _BLOCK_NUMBERS // self._width
            size = min(runs, max(1, widest))
            yield self._draw(0, size), self._draw(1, size)
            runs -= size

    def _draw(self, which: int, size: int) -> Floats:
        outputs = _as_rows(self._mechanism(self._inputs[which], size, self._rng), size)
        if self._width is None:
            self._width = outputs.shape[1]
        elif outputs.shape[1] != self._width:
            raise checks.InvalidInput(
                f"Expected mechanism to return rows of one width; it returned {self._width} "
                f"and then {outputs.shape[1]} numbers per run"
            )
        self._done += size
        if self._progress is not None:
            self._progress(self._done, self._total)
        return outputs


def _as_array(outputs: Any) -> NDArray[Any]:
    try:
        return np.asarray(outputs)
    except ValueError:
        raise checks.InvalidInput("Expected mechanism to return rows of one width") from None


def _as_rows(outputs: Any, size: int) -> Floats:
    array = _as_array(outputs)
    if array.dtype.kind not in "biuf":
        raise checks.InvalidInput(
            f"Expected mechanism to return numbers, not values of type {array.dtype}"
        )
    if array.ndim not in (1, 2) or array.shape[0] != size or 0 in array.shape:
        raise checks.InvalidInput(
            f"Expected mechanism to return shape ({size},) or ({size}, k) when asked for {size} "
            f"runs; it returned shape {array.shape}"
        )
    return np.ascontiguousarray(array.reshape(size, -1), dtype=np.float64)
