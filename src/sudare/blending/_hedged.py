"""The default blend: gains where releases help, and practically never hurts.

Candidates are the own model, fits to own rows under what the releases suggest (`candidates`), and
received coefficients as they are. Each is weighed by its chance before own labels are seen, times
its evidence: how well it foretold them. Classification mixes probabilities, regression predictions.

`fit` is total: whatever finite numbers rows and releases hold, it ends in a model. An error that
came with some rows and not with others would say something of them to whoever sent the releases and
sees that the blend failed.

Nothing here is random. See docs/theory/hedging.md for why this gains, and what it costs where it
should not have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.utils.validation import check_is_fitted

from sudare.blending._base import Array, Blend
from sudare.blending._candidates import Candidates, learner_candidates, moments_candidates
from sudare.blending._explain import (
    CandidateWeight,
    Expected,
    Explanation,
    Gain,
    Kind,
    ReleaseInfluence,
    gain_of,
)
from sudare.blending._own import OwnModel, noise_variance, one_class, own_model
from sudare.blending._received import Received, coefficient_unit, receive
from sudare.blending._records import Laws, Records, fit
from sudare.foundations import checks
from sudare.learners import read_rows
from sudare.releases import Contract, Release

OWN = 0.1
"""Chance, before own labels are seen, that the releases say nothing about own rows."""
LEAST_OWN = 0.1
"""Weight that the own model keeps whatever the evidence: own rows may have been lucky."""
ALONE = 0.6
"""Beyond this weight the own model classifies alone. Few rows of many columns leave it close to
even odds everywhere, and then a tenth of a sure and wrong candidate would decide."""
AS_RECEIVED = 0.1
"""Share of received coefficients as they are, against what they suggest together."""
FEWEST = 5
"""Own rows below which nothing can be judged."""
_MOMENTS = ("moments", "moments, rows as released,")
"""What laws from moments are called, under either law of rows."""
_ONE_CLASS = "Own rows hold one class only and cannot judge what others released"
_NOT_COMPUTED = "What the releases suggest could not be computed"


@dataclass(frozen=True)
class _Judged:
    """Candidates of one kind, after own rows have judged them."""

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
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
    logistic or linear regression. So it is where own rows hold one class only and cannot judge what
    others released: then the own model is their base rate, smoothed. `explain().note` says so.

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
        table, target = read_rows(self, X, y, order="C")
        own = _records(contract, table, target)
        self.received_ = received
        if contract.classes is not None:
            self.classes_ = np.array(contract.classes)
        with np.errstate(all="ignore"):  # a warning would be an output too
            judged, note = _judge(own, received)
            log_weights = np.concatenate([kind.log_weights for kind in judged])
            weights = _weights(log_weights, contract.task == "classification")
            theta = np.concatenate([kind.theta for kind in judged])
            self.candidates_ = tuple(name for kind in judged for name in kind.names)
            self._keep(received.parties, theta / coefficient_unit(contract), weights)
            self._explanation = _explain(self, own, judged, note)
        return self

    def explain(self) -> Explanation:
        """Weights, influences, the expected gain and what was dropped; printable."""
        check_is_fitted(self)
        return self._explanation


def _records(contract: Contract, table: Array, target: NDArray[Any]) -> Records:
    """Own rows and targets in units of the contract: ‖x‖ ≤ 1, |y| ≤ 1."""
    rows = contract.rows(table) / contract.full_norm
    targets = contract.targets(target) / (contract.target_bound or 1.0)
    if len(rows) < FEWEST:
        raise checks.InvalidInput(
            f"Expected at least {FEWEST} rows of your own: fewer cannot judge what others released"
        )
    constant = contract.constant / contract.full_norm
    if contract.target_bound is None:
        return Records(rows, targets, constant=constant)
    noise = noise_variance(rows, targets, has_constant=constant > 0)
    return Records(rows, targets, noise, constant)


def _judge(own: Records, received: Received) -> tuple[list[_Judged], str | None]:
    """The own model and what can be made of the releases; why nothing could be, if so."""
    if own.noise_variance is None and (own.targets == own.targets[0]).all():
        return [_own_alone(one_class(own), received)], _ONE_CLASS
    alone = own_model(own)
    try:
        return _candidates(own, alone, received), None
    except Exception:
        # Whatever it was, it may depend on own rows, so nobody may see that it happened. All that
        # can be put right was checked before.
        return [_own_alone(alone, received)], _NOT_COMPUTED


def _candidates(own: Records, alone: OwnModel, received: Received) -> list[_Judged]:
    """The own model, then what each kind of release suggests."""
    many = len(received.parties)
    learners, moments = len(received.learners), len(received.moments)
    chance = (1 - OWN) / max((learners > 0) + (moments > 0), 1)
    places = np.eye(many)
    judged, spent, beside = [], 0.0, []
    if learners:
        judged.append(_as_received(own, received, chance * AS_RECEIVED, places[:learners]))
        found = learner_candidates(received, own)
        suggested = chance * (1 - AS_RECEIVED)
        fitted, own_evidence = _fitted(own, found, suggested, "learners", places[:learners])
        judged.append(fitted)
        spent += chance * AS_RECEIVED + suggested * float(found.chances.sum())
        beside.append(own_evidence)
    if moments:
        for found, kind in zip(moments_candidates(received, own), _MOMENTS, strict=True):
            fitted, own_evidence = _fitted(own, found, chance / 2, kind, places[learners:])
            judged.append(fitted)
            spent += chance / 2 * float(found.chances.sum())
            beside.append(own_evidence)
    # A kind whose laws came to nothing has no evidence to compare with.
    known = [each for each in (alone.evidence, *beside) if np.isfinite(each)]
    if not spent < 1 or not known:
        raise ArithmeticError("no chance is left to compare with")
    log_weight = float(np.log(1 - spent)) + max(known)
    first = _own_alone(alone, received, log_weight)
    return [first, *map(_usable, judged)]


def _own_alone(alone: OwnModel, received: Received, log_weight: float = 0.0) -> _Judged:
    many = len(received.parties)
    return _Judged(
        ("own model",),
        ("own",),
        alone.theta[None],
        alone.left_out[None],
        np.array([log_weight]),
        np.zeros((1, many)),
        np.zeros(many),
    )


def _usable(kind: _Judged) -> _Judged:
    """Those candidates whose every number is one; others cannot have a weight."""
    numbers = (kind.theta, kind.left_out, kind.log_weights[:, None], kind.contributions)
    sound = np.all([np.isfinite(each).all(axis=1) for each in numbers], axis=0)
    return _Judged(
        tuple(name for name, holds in zip(kind.names, sound, strict=True) if holds),
        tuple(each for each, holds in zip(kind.kinds, sound, strict=True) if holds),
        kind.theta[sound],
        kind.left_out[sound],
        kind.log_weights[sound],
        kind.contributions[sound],
        np.nan_to_num(kind.doubts, nan=1.0),
    )


def _weights(log_weights: Array, classifies: bool) -> Array:
    """Of the own model first, then of all others; they add up to one."""
    weights = (1 - LEAST_OWN) * softmax(log_weights)
    weights[0] += LEAST_OWN
    if classifies and weights[0] > ALONE:
        weights[0], weights[1:] = 1.0, 0.0
    return weights


def _fitted(
    own: Records, found: Candidates, chance: float, kind: str, places: Array
) -> tuple[_Judged, float]:
    """Own rows under every law, and the evidence of the law about zero that they share."""
    nothing = Laws(np.zeros((1, len(found.prior))), found.prior[None])
    both = Laws(
        np.concatenate([found.laws.mean, nothing.mean]),
        np.concatenate([found.laws.precision, nothing.precision]),
    )
    fits = fit(own, both)
    judged = _Judged(
        tuple(f"{kind} of {name}" for name in found.names),
        found.kinds,
        fits.theta[:-1],
        fits.left_out[:-1],
        np.log(np.maximum(chance * found.chances, 1e-300)) + fits.evidence[:-1],
        found.contributions @ places,
        found.doubts @ places,
    )
    return judged, float(fits.evidence[-1])


def _as_received(own: Records, received: Received, chance: float, places: Array) -> _Judged:
    held, contract = received.learners, received.contract
    theta = held.coefficients * coefficient_unit(contract)
    scores = theta @ own.rows.T
    single: Kind = "received"
    return _Judged(
        tuple(f"learner of {party} as received" for party in held.parties),
        (single,) * len(held),
        theta,
        scores,
        np.log(chance / len(held)) - own.losses(scores).sum(axis=1),
        places,
        np.zeros(places.shape[1]),
    )


def _explain(
    blend: HedgedBlend, own: Records, judged: list[_Judged], note: str | None
) -> Explanation:
    weights = blend.weights_
    scores = np.concatenate([kind.left_out for kind in judged])
    if own.noise_variance is None:
        gain = _gain_of_classes(own, scores, weights)
    else:
        gain = _gain_of_numbers(own, scores, weights, blend.received_.contract.target_bound or 1.0)
    order = np.argsort(-weights[1:], kind="stable") + 1
    kinds = tuple(each for kind in judged for each in kind.kinds)
    named = [
        CandidateWeight(blend.candidates_[k], kinds[k], float(weights[k])) for k in [0, *order]
    ]
    influence = weights @ np.concatenate([kind.contributions for kind in judged])
    doubts = np.max([kind.doubts for kind in judged], axis=0)
    parties = blend.parties_
    releases = [
        ReleaseInfluence(parties[j], float(influence[j]), float(doubts[j]))
        for j in np.argsort(-influence, kind="stable")
    ]
    return Explanation(
        tuple(named),
        tuple(releases),
        gain,
        blend.received_.dropped,
        note,
    )


def _gain_of_classes(own: Records, scores: Array, weights: Array) -> Gain:
    """In log loss a row."""
    likely = np.clip(expit(scores), 1e-300, 1 - 2**-53)
    alone, mixed = likely[0], np.clip(weights @ likely, 1e-300, 1 - 2**-53)
    if len(weights) == 1:
        mixed = alone
    if_second, if_first = np.log(mixed / alone), np.log((1 - mixed) / (1 - alone))
    second = own.targets > 0
    own_losses = -np.log(np.where(second, alone, 1 - alone))
    expected = Expected(
        mixed * if_second + (1 - mixed) * if_first,
        float((mixed * (1 - mixed) * (if_second - if_first) ** 2).mean()),
    )
    blend_losses = own_losses - np.where(second, if_second, if_first)
    return gain_of("log loss", own_losses, blend_losses, expected)


def _gain_of_numbers(own: Records, scores: Array, weights: Array, bound: float) -> Gain:
    """In squared error a row, in the targets' units."""
    alone, mixed = scores[0], scores[0] if len(weights) == 1 else weights @ scores
    apart = bound**2 * (mixed - alone) ** 2
    noise = bound**2 * (own.noise_variance or 0.0)
    expected = Expected(apart, 4 * noise * float(apart.mean()))
    own_losses, blend_losses = ((bound * (own.targets - each)) ** 2 for each in (alone, mixed))
    return gain_of("squared error", own_losses, blend_losses, expected)
