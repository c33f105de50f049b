"""What a hedged blend did with the releases, for people."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import t as student

from sudare.blending._received import Dropped
from sudare.blending._records import Array

WIDER = 1.5
"""Own rows chose the weights too: the variance of what they say of the gain, against that of rows
that did not."""
TIMID = 1.5
"""Gains are larger than the blend expects, which keeps a part for the own model whatever comes."""
_NEARLY_ALL = 0.9
_SHOWN = 8
"""Lines of a table before the rest is summed up."""
_DOUBTFUL = 0.9


Kind = Literal["own", "together", "group", "received"]
"""What a candidate is: the own model; own rows under what all releases, or a group of them, suggest
together; or a learner as it was received."""


@dataclass(frozen=True)
class CandidateWeight:
    """One model in the blend."""

    name: str
    kind: Kind
    weight: float


@dataclass(frozen=True)
class ReleaseInfluence:
    """One release in the blend."""

    party: str
    influence: float
    """Share of the blend's weight that came through this release; with the own model's weight, all
    influences add up to one."""
    doubt: float
    """Chance that it agrees with no group of the others beyond what its noise explains."""


class Expected(NamedTuple):
    """What the blend expects of itself, if its predictions are right."""

    gains: Array
    """(n,): by how much its loss is lower than the own model's, of each own row left out."""
    variance: float
    """Of that difference about its expectation, as the target falls."""


@dataclass(frozen=True)
class Gain:
    """How much lower the blend's loss is than the own model's, a row, on new rows like the own.

    Two things say so: own rows left out, and what the blend itself expects, which is how far its
    predictions are from the own model's. The first is honest and errs much with few rows, the
    second is steady and believes in the blend; `estimate` is between them. The interval allows for
    both errors; how often it holds is measured (benchmarks/blending_real.py).
    """

    loss: str
    """"log loss" or "squared error"."""
    own: float
    """The own model's loss a row."""
    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Explanation:
    """Weights, influences, the expected gain, and what was left out. For the owner of the rows."""

    candidates: tuple[CandidateWeight, ...]
    """The own model first, then the others by falling weight."""
    releases: tuple[ReleaseInfluence, ...]
    """By falling influence."""
    gain: Gain
    dropped: tuple[Dropped, ...]
    note: str | None = None
    """Why the releases were not weighed at all and this is the own model; None if they were."""

    @property
    def own_weight(self) -> float:
        """Weight of the own model."""
        return self.candidates[0].weight

    @property
    def helped(self) -> bool:
        """Whether the releases lower the loss, surely or most likely."""
        likely = self.own_weight < 0.5 and self.gain.estimate > 0
        return bool(self.releases) and (likely or self.gain.low > 0)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.note is not None:
            return f"{self.note}: this is the own model."
        if not self.releases:
            if self.dropped:
                return "No release could be used: this is the own model."
            return "No releases were given: this is the own model."
        if self.gain.high < 0:
            return "The releases did not help: on own rows left out, the own model is better."
        if self.helped:
            if self.gain.low > 0:
                return "The releases helped."
            return "The releases most likely help, though own rows are too few to be sure."
        kept = f"the own model keeps {self.own_weight:.0%} of the weight"
        if self.own_weight >= _NEARLY_ALL:
            return f"The releases change next to nothing: {kept}."
        return f"Too few own rows to tell whether the releases help: {kept}."

    def __str__(self) -> str:
        gain = self.gain
        lines = [
            self.verdict,
            f"Gain over the own model in {gain.loss} a row: {gain.estimate:+.3g} "
            f"(95 % interval {gain.low:+.3g} to {gain.high:+.3g}; the own model's is "
            f"{gain.own:.3g})",
            "",
            "Weight   Model",
            *_table([(c.weight, c.name) for c in self.candidates]),
        ]
        if self.releases:
            lines += ["", "Influence   Release"]
            lines += _table([(r.influence, r.party) for r in self.releases], width=9)
        doubtful = [r.party for r in self.releases if r.doubt > _DOUBTFUL]
        if doubtful:
            lines += ["", "Unlike all others, beyond what noise explains: " + ", ".join(doubtful)]
        if self.dropped:
            lines += ["", "Dropped:", *(f"  {one}" for one in self.dropped)]
        return "\n".join(lines)


def gain_of(loss: str, own_losses: Array, blend_losses: Array, expected: Expected) -> Gain:
    """From the losses of own rows left out, and from what the blend expects."""
    differences = own_losses - blend_losses
    n, foretold = len(differences), float(expected.gains.mean())
    # Few rows that happen to agree say little: the blend knows by how much they may differ.
    variance = max(float(differences.var(ddof=1)), expected.variance + float(expected.gains.var()))
    error = np.hypot(float(student.ppf(0.975, n - 1)) * np.sqrt(WIDER * variance / n), foretold)
    mean = (float(differences.mean()) + TIMID * foretold) / 2
    return Gain(loss, float(own_losses.mean()), mean, mean - float(error), mean + float(error))


def _table(entries: list[tuple[float, str]], width: int = 6) -> list[str]:
    shown = entries[:_SHOWN]
    lines = [f"{share:{width}.1%}   {name}" for share, name in shown]
    if len(entries) > _SHOWN:
        rest = sum(share for share, _ in entries[_SHOWN:])
        lines.append(f"{rest:{width}.1%}   {len(entries) - _SHOWN} more")
    return lines
