"""What a hedged blend did with the releases, for people."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sudare.blending._matching import Array
from sudare.blending._received import Dropped

NORMAL_95 = 1.96
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


@dataclass(frozen=True)
class Gain:
    """How much lower the blend's loss is than the own model's, a row, on own rows left out.

    The interval is for rows like these: mean ± 1.96 standard errors of the paired differences. Own
    rows also chose the weights, so both lean a little to the blend's side.
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
        """Whether the releases lowered the loss on own rows left out."""
        return bool(self.releases) and self.own_weight < 0.5 and self.gain.estimate > 0

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.note is not None:
            return f"{self.note}: this is the own model."
        if not self.releases:
            if self.dropped:
                return "No release could be used: this is the own model."
            return "No releases were given: this is the own model."
        if self.helped:
            sure = "" if self.gain.low > 0 else ", though own rows are too few to be sure"
            return f"The releases helped{sure}."
        if self.own_weight >= 0.5:
            return (
                "The releases did not help: own rows speak against them or cannot tell, so the own "
                f"model keeps {self.own_weight:.0%} of the weight."
            )
        return "The releases did not help: on own rows left out, the own model is as good."

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


def gain_of(loss: str, own_losses: Array, blend_losses: Array) -> Gain:
    """From the paired losses of own rows left out."""
    differences = own_losses - blend_losses
    error = NORMAL_95 * float(differences.std(ddof=1)) / float(np.sqrt(len(differences)))
    mean = float(differences.mean())
    return Gain(loss, float(own_losses.mean()), mean, mean - error, mean + error)


def _table(entries: list[tuple[float, str]], width: int = 6) -> list[str]:
    shown = entries[:_SHOWN]
    lines = [f"{share:{width}.1%}   {name}" for share, name in shown]
    if len(entries) > _SHOWN:
        rest = sum(share for share, _ in entries[_SHOWN:])
        lines.append(f"{rest:{width}.1%}   {len(entries) - _SHOWN} more")
    return lines
