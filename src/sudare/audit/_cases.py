"""One audit that can be run and printed: what the catalogue is made of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from numpy.random import Generator

from sudare.audit._blackbox import Progress
from sudare.audit._findings import ExactFinding, Finding
from sudare.foundations import checks, randomness

Check: TypeAlias = Callable[[int, Generator, Progress | None, float], Finding | ExactFinding]
"""(runs, rng, progress, confidence) to what was found."""


@dataclass(frozen=True)
class Case:
    """One audit that can be run and printed.

    `expected` is what should come out, `partner` names the correction of a mistake or the mistake
    corrected, if there is one, and `suggested_runs` is per input, zero for an exact audit.
    """

    name: str
    title: str
    what: str
    claim: str
    expected: Literal["caught", "passes"]
    method: Literal["black box", "exact"]
    partner: str
    suggested_runs: int
    check: Check

    def run(
        self,
        runs: int | None = None,
        rng: Generator | int | None = None,
        progress: Progress | None = None,
        confidence: float = 0.999,
    ) -> Finding | ExactFinding:
        """Audit, with `suggested_runs` per input by default; an exact audit needs no runs."""
        if runs is not None:
            checks.count(minimum=100, runs=runs)
        checks.proportion(confidence=confidence)
        return self.check(
            runs or self.suggested_runs, randomness.as_generator(rng), progress, confidence
        )

    def as_expected(self, finding: Finding | ExactFinding) -> bool:
        """Whether the audit came out the way this case should."""
        return finding.violated == (self.expected == "caught")
