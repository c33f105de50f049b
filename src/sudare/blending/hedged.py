"""The default blend: gains where releases help, and practically never hurts.

Candidates are the own model, fits to own rows under what the releases suggest (`candidates`), and
received coefficients as they are. Each is weighed by its chance before own labels are seen, times
its evidence: how well it foretold them. Classification mixes probabilities, regression predictions.

Nothing here is random. See docs/theory/hedging.md for why this gains, and what it costs where it
should not have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp
from sklearn.utils.validation import check_is_fitted

from sudare import checks
from sudare.blending.base import Array, Blend, Mixing
from sudare.blending.candidates import Candidates, learner_candidates, moments_candidates
from sudare.blending.explain import CandidateWeight, Explanation, ReleaseInfluence, gain_of
from sudare.blending.matching import Records, fit
from sudare.blending.own import noise_variance, own_model
from sudare.blending.received import Received, receive
from sudare.learners.base import read
from sudare.releases import Contract, Release

OWN = 0.1
"""Chance, before own labels are seen, that the releases say nothing about own rows."""
LEAST_OWN = 0.1
"""Weight that the own model keeps whatever the evidence: own rows may have been lucky."""
ALONE = 0.45
"""Beyond this weight the own model classifies alone. Few rows of many columns leave it close to
even odds everywhere, and then a few hundredths of a sure and wrong candidate would decide."""
AS_RECEIVED = 0.1
"""Share of received coefficients as they are, against what they suggest together."""
FEWEST = 5
"""Own rows below which nothing can be judged."""


@dataclass(frozen=True)
class _Judged:
    """Candidates of one kind, after own rows have judged them."""

    names: tuple[str, ...]
    theta: Array
    left_out: Array
    """Scores of own rows, each by a fit without that row."""
    log_weights: Array
    contributions: Array
    """(K, M): share of each received release."""
    doubts: Array
    """(M,): zero where these candidates know nothing of a release."""


class HedgedBlend(Blend):
    """Own rows and what others released, blended so that it pays or at least does not cost.

    A classifier or a regressor according to the contract. Takes learner and moments releases in any
    mix; impossible ones are dropped by name. Without usable releases it is the own model: penalised
    logistic or linear regression.

    After `fit`: `weights_` and `components_` (coefficients of all candidates, the own model's
    first), `candidates_` (their names), `received_`, `parties_`; `explain()` says the rest.

    Args:
        releases: What other parties released; may be empty if there is a contract.
        contract: What the releases are expected to agree on; by default that of the first.
    """

    candidates_: tuple[str, ...]

    def __init__(
        self, releases: Sequence[Release] = (), *, contract: Contract | None = None
    ) -> None:
        self.releases = releases
        self.contract = contract

    def fit(self, X: Any, y: Any) -> Self:
        """Blend the releases with own rows and targets."""
        received = receive(self.releases, self.contract)
        contract = received.contract
        table, target = read(self, X, y, order="C")
        own = _records(contract, table, target)
        self.received_ = received
        if contract.classes is not None:
            self.classes_ = np.array(contract.classes)
        judged = list(_judge(own, received))
        weights = _weights(
            np.concatenate([kind.log_weights for kind in judged]), contract.task == "classification"
        )
        theta = np.concatenate([kind.theta for kind in judged])
        self.candidates_ = tuple(name for kind in judged for name in kind.names)
        self._keep(
            received.parties,
            theta * ((contract.target_bound or 1.0) / contract.full_norm),
            weights,
        )
        self._explanation = _explain(self, own, judged)
        return self

    def explain(self) -> Explanation:
        """Weights, influences, the expected gain and what was dropped; printable."""
        check_is_fitted(self)
        return self._explanation

    def _mixing(self) -> Mixing:
        return "predictions"


def _records(contract: Contract, table: Array, target: NDArray[Any]) -> Records:
    """Own rows and targets in units of the contract: ‖x‖ ≤ 1, |y| ≤ 1."""
    rows = contract.rows(table) / contract.full_norm
    targets = contract.targets(target) / (contract.target_bound or 1.0)
    if len(rows) < FEWEST:
        raise checks.InvalidInput(
            f"Expected at least {FEWEST} rows of your own: fewer cannot judge what others released"
        )
    if contract.target_bound is not None:
        return Records(rows, targets, noise_variance(rows, targets))
    if (targets == targets[0]).all():
        raise checks.InvalidInput(
            "Expected both classes in y, found one class: rows of a single class cannot judge what "
            "others released"
        )
    return Records(rows, targets)


def _judge(own: Records, received: Received) -> list[_Judged]:
    """The own model, then what can be made of each kind of release."""
    alone, many = own_model(own), len(received.parties)
    learners, moments = len(received.learners), len(received.moments)
    chance = (1 - OWN) / max((learners > 0) + (moments > 0), 1)
    places = np.eye(many)
    judged, spent, beside = [], 0.0, []
    if learners:
        judged.append(_as_received(own, received, chance * AS_RECEIVED, places[:learners]))
        found = learner_candidates(received, own, alone)
        suggested = chance * (1 - AS_RECEIVED)
        judged.append(_fitted(own, found, suggested, "learners", places[:learners]))
        spent += chance * AS_RECEIVED + suggested * float(found.chances.sum())
        beside.append(alone.evidence_beside(found.penalty))
    if moments:
        found = moments_candidates(received, own, alone)
        judged.append(_fitted(own, found, chance, "moments", places[learners:]))
        spent += chance * float(found.chances.sum())
        beside.append(alone.evidence_beside(found.penalty))
    first = _Judged(
        ("own model",),
        alone.theta[None],
        alone.left_out[None],
        np.array([np.log(1 - spent) + max(beside, default=0.0)]),
        np.zeros((1, many)),
        np.zeros(many),
    )
    return [first, *judged]


def _weights(log_weights: Array, classifies: bool) -> Array:
    """Of the own model first, then of all others; they add up to one."""
    weights = (1 - LEAST_OWN) * np.exp(log_weights - logsumexp(log_weights))
    weights[0] += LEAST_OWN
    if classifies and weights[0] > ALONE:
        weights[0], weights[1:] = 1.0, 0.0
    return weights


def _fitted(own: Records, found: Candidates, chance: float, kind: str, places: Array) -> _Judged:
    fits = fit(own, found.beliefs)
    return _Judged(
        tuple(f"{kind} of {name}" for name in found.names),
        fits.theta,
        fits.left_out,
        np.log(np.maximum(chance * found.chances, 1e-300)) + fits.evidence,
        found.contributions @ places,
        found.doubts @ places,
    )


def _as_received(own: Records, received: Received, chance: float, places: Array) -> _Judged:
    held, contract = received.learners, received.contract
    theta = held.coefficients * (contract.full_norm / (contract.target_bound or 1.0))
    scores = theta @ own.rows.T
    return _Judged(
        tuple(f"learner of {party} as received" for party in held.parties),
        theta,
        scores,
        np.log(chance / len(held)) - own.losses(scores).sum(axis=1),
        places,
        np.zeros(places.shape[1]),
    )


def _explain(blend: HedgedBlend, own: Records, judged: list[_Judged]) -> Explanation:
    weights = blend.weights_
    scores = np.concatenate([kind.left_out for kind in judged])
    if own.noise_variance is None:
        loss = "log loss"
        own_losses = own.losses(scores[0])
        blend_losses = -np.log(np.maximum(weights @ expit(own.targets * scores), 1e-300))
    else:
        loss, bound = "squared error", blend.received_.contract.target_bound or 1.0
        own_losses = (bound * (own.targets - scores[0])) ** 2
        blend_losses = (bound * (own.targets - weights @ scores)) ** 2
    if len(weights) == 1:
        blend_losses = own_losses
    order = np.argsort(-weights[1:], kind="stable") + 1
    named = [CandidateWeight(blend.candidates_[k], float(weights[k])) for k in [0, *order]]
    influence = weights @ np.concatenate([kind.contributions for kind in judged])
    doubts = sum(kind.doubts for kind in judged)
    parties = blend.parties_
    releases = [
        ReleaseInfluence(parties[j], float(influence[j]), float(np.asarray(doubts)[j]))
        for j in np.argsort(-influence, kind="stable")
    ]
    return Explanation(
        tuple(named),
        tuple(releases),
        gain_of(loss, own_losses, blend_losses),
        blend.received_.dropped,
    )
