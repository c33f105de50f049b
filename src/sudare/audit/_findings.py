"""What an audit says: the numbers, and one sentence that a non-specialist can act on.

A finding is a value. `violated` is the decision, `verdict` the sentence, `to_dict` the JSON
form (numbers that JSON cannot hold, such as an infinite log ratio, become strings).
"""

import math
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Finding:
    """Outcome of a black-box audit on one pair of neighbouring inputs.

    `epsilon` and `delta` are the claim. `epsilon_lower` holds with probability `confidence`
    over the audit's own randomness. `count_first` and `count_second` are the occurrences of
    `event` in the `counted_runs` runs, per input, that were kept apart for the bound; `runs`
    is the number of runs per input in all, including those from which the event was learnt.
    """

    epsilon: float
    delta: float
    epsilon_lower: float
    confidence: float
    runs: int
    event: str
    more_likely_under: str
    count_first: int
    count_second: int
    counted_runs: int

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted (wrongly so with probability `1 - confidence` at most)."""
        return self.epsilon_lower > self.epsilon

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        opening = (
            f"{_claim(self.epsilon, self.delta)} In {self.runs:,} runs on each of two neighbouring "
            "inputs, "
        )
        confidence = f"{100 * self.confidence:.10g} % confidence"
        if self.violated:
            bound = rounded_down(self.epsilon_lower, above=self.epsilon)
            return (
                f"{opening}the event '{self.event}' shows ε ≥ {bound} with {confidence}: "
                "the claim is false."
            )
        return (
            f"{opening}no evidence against the claim was found (largest lower bound on ε: "
            f"{rounded_down(self.epsilon_lower)}, with {confidence}). A black-box audit cannot "
            "prove a claim; it can only fail to refute it."
        )

    def to_dict(self) -> dict[str, float | int | str | bool]:
        """The finding as JSON-ready values, with the decision and the sentence."""
        return {"kind": "black box", **asdict(self), "violated": self.violated} | {
            "verdict": self.verdict
        }


@dataclass(frozen=True)
class ExactFinding:
    """Outcome of an exact audit on one pair of neighbouring inputs.

    `delta_at_epsilon` is the smallest delta for which the pair satisfies (epsilon, delta), known
    up to `integration_error`. `worst_log_ratio` is the largest log ratio of the two output
    distributions that was met, in either direction; for a pure claim it should not exceed epsilon.
    """

    epsilon: float
    delta: float
    delta_at_epsilon: float
    worst_log_ratio: float
    integration_error: float

    @property
    def violated(self) -> bool:
        """Whether the pair needs more delta than claimed, beyond the integration error."""
        return self.delta_at_epsilon - self.integration_error > self.delta

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        opening = (
            f"{_claim(self.epsilon, self.delta)} Computed from its output distributions on two "
            "neighbouring inputs, without sampling, "
        )
        needed = f"ε = {self.epsilon:.6g} needs δ = {self.delta_at_epsilon:.3g}"
        precision = f"known within {self.integration_error:.1g}"
        if self.delta == 0:
            precision += f"; largest log ratio met: {self.worst_log_ratio:.4g}"
        if self.violated:
            return f"{opening}{needed} ({precision}): the claim is false."
        return (
            f"{opening}{needed} ({precision}): the claim holds for these two inputs. That says "
            "nothing about other inputs."
        )

    def to_dict(self) -> dict[str, float | int | str | bool]:
        """The finding as JSON-ready values, with the decision and the sentence."""
        numbers = {
            name: value if math.isfinite(value) else str(value)
            for name, value in asdict(self).items()
        }
        return {"kind": "exact", **numbers, "violated": self.violated, "verdict": self.verdict}


def rounded_down(value: float, above: float = -math.inf) -> str:
    """Decimal text that never overstates `value`, and stays larger than `above` if it is."""
    for digits in range(3, 18):
        exponent = math.floor(math.log10(abs(value))) if value else 0
        step = 10.0 ** (exponent - digits + 1)
        text = f"{math.floor(value / step) * step:.{digits}g}"
        if above < float(text) <= value:
            return text
    return repr(value)


def _claim(epsilon: float, delta: float) -> str:
    if delta > 0:
        return f"The mechanism claims ε = {epsilon:.6g} with δ = {delta:.6g}."
    return f"The mechanism claims ε = {epsilon:.6g}."
