"""Blend verified releases with own rows into a model that stays inside.

`blend` is for a desk: rows that do not fit the study, or cannot judge what others released, are an
error there. Where others can see whether a model was made, `blend_unattended` always makes one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.blending import CandidateWeight, HedgedBlend
from sudare.foundations import checks
from sudare.foundations.privacy import account
from sudare.releases import Contract, Pooled, PooledLearner, Release, without, without_rows
from sudare.site._assessment import (
    Assessment,
    HeldOut,
    assess_classes,
    assess_numbers,
    hold_out,
)
from sudare.site._model import (
    Component,
    Model,
    Party,
    Refusal,
    Story,
    is_sound,
)
from sudare.site._receiving import Checked, counted_once, shown_name
from sudare.site._sources import seen_features, slopes_by_source
from sudare.study import Block, Study, complete, read_every_row, read_table

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], None]

_NEGLIGIBLE = 1e-6
"""Components with less weight are left out of the file."""
_FEWEST_TO_ASSESS = 25


def blend(
    source: Any,
    study: Study,
    checked: Sequence[Checked],
    *,
    party: str,
    key: str | None = None,
    receipts: frozenset[str] = frozenset(),
    progress: Progress = lambda title, done, total: None,
) -> Model:
    """The blended model of a file or frame of own rows and the releases that passed.

    A release by this party itself is left out, and its part taken off a pooled one: its rows are
    here already. It is known by `key`, the fingerprint of its signing key, and by `receipts`, those
    that its own ledger gave out for these rows (`own_receipts`). A name is no proof: without either
    of them, one that is spelled in another way is taken for somebody else's.
    """
    _check_party(party)
    own = _Self(party, key, receipts)
    return _blended(read_table(source, study), study, checked, own, progress)


def blend_unattended(
    source: Any,
    study: Study,
    checked: Sequence[Checked],
    *,
    party: str,
    key: str | None = None,
    receipts: frozenset[str] = frozenset(),
) -> Model:
    """The same, whatever the rows hold: fails only for what is wrong with a table as a whole.

    What does not fit the study becomes public constants (`sudare.study.read_every_row`). Where own
    rows cannot be blended with what was received (too few, one class, numbers beyond computing),
    the model is a constant: the share of the second class, or the mean of the targets.
    """
    _check_party(party)
    block, own = read_every_row(source, study), _Self(party, key, receipts)
    try:
        model = _blended(block, study, checked, own, lambda title, done, total: None)
    except Exception:  # any error that came with some rows and not with others would tell of them
        return _constant(block, study, checked, own)
    return model if is_sound(model) else _constant(block, study, checked, own)


class _Self(NamedTuple):
    """Who blends: what it has released itself must not count twice."""

    party: str
    key: str | None
    receipts: frozenset[str]

    def made(self, checked: Checked) -> bool:
        return any(
            trusted.fingerprint == self.key
            or trusted.signed.certificate.receipt in self.receipts
            or trusted.release.party == self.party
            for trusted in checked.all
        )


def _check_party(party: str) -> None:
    if not (party.strip() and party.isprintable()):
        raise checks.InvalidInput("Expected party to be a printable name")


def _blended(
    block: Block, study: Study, checked: Sequence[Checked], own: _Self, progress: Progress
) -> Model:
    assert block.targets is not None
    contract = study.contract
    targets = _labels(block.targets, contract)
    used, refusals = _usable(checked, own, block.rows, targets)
    progress("blending", 0, 2)
    made = HedgedBlend([release for release, _ in used], contract=contract)
    made.fit(block.rows, targets)
    told = made.explain()
    progress("blending", 1, 2)
    influence = {each.party: each.influence for each in told.releases}
    refusals += [Refusal(what=each.party, reason=each.reason) for each in told.dropped]
    parties = tuple(_party(study, *each, influence) for each in used if each[0].party in influence)
    none = f"None of the {len(refusals)} releases found could be used: this is the own model."
    story = Story(
        sentence=none if refusals and not parties else told.verdict,
        weights=_by_kind(told.candidates),
        parties=parties,
        refusals=tuple(refusals),
        slopes=slopes_by_source(study, made, block.rows, block.targets),
        seen=seen_features(study, made, block.rows),
        assessment=_assess(study, block.rows, targets, made),
    )
    progress("blending", 2, 2)
    return _model(block, study, own.party, _components(made), story)


def _constant(block: Block, study: Study, checked: Sequence[Checked], own: _Self) -> Model:
    """The own rows' average, smoothed by one row in the middle; nothing of what was received."""
    assert block.targets is not None
    contract, n = study.contract, len(block.targets)
    score, why = float(block.targets.sum()) / (n + 1), "Own rows could not be blended"
    if study.task == "classification":
        if abs(block.targets.sum()) == n:
            why = "Own rows hold one class only and cannot judge what others released"
        score = 2 * math.atanh(score)  # the log-odds of a share of (1 + score)/2
    theta = np.zeros(contract.dimension)
    if contract.constant > 0:
        theta[-1] = score / contract.constant
    refusals = [
        Refusal(what=shown_name(each), reason=each.problem or "not blended") for each in checked
    ]
    alone = Component(name="own model", weight=1.0, coefficients=tuple(theta.tolist()))
    story = Story(
        sentence=f"{why}: this model predicts their average for everyone.",
        weights={"own model": 1.0},
        refusals=tuple(refusals),
    )
    return _model(block, study, own.party, (alone,), story)


def _model(
    block: Block, study: Study, party: str, components: tuple[Component, ...], story: Story
) -> Model:
    return Model(
        study=study,
        party=party,
        moment=datetime.now(UTC).isoformat(timespec="seconds"),
        rows=len(block.rows),
        components=components,
        story=story,
    )


def _usable(
    checked: Sequence[Checked], own: _Self, rows: Array, targets: NDArray[Any]
) -> tuple[list[tuple[Release, str]], list[Refusal]]:
    """Releases under their signers' names: what a release calls itself cannot be checked."""
    used, refusals = [], []
    for each in counted_once(checked):
        if each.trusted is None:
            refusals.append(Refusal(what=shown_name(each), reason=each.problem or "not valid"))
        elif own.made(each):
            refusals.append(Refusal(what=shown_name(each), reason="made from these rows"))
        else:
            named = msgspec.structs.replace(each.trusted.release, party=each.trusted.signer)
            try:
                named = _of_others(named, own, rows, targets)
            except checks.InvalidInput as problem:
                refusals.append(Refusal(what=shown_name(each), reason=str(problem)))
            else:
                used.append((named, each.trusted.release.party))
    return used, refusals


def _of_others(release: Release, own: _Self, rows: Array, targets: NDArray[Any]) -> Release:
    """A pooled release less these rows, as far as they are in it; any other as it is."""
    if not isinstance(release, Pooled):
        return release
    if own.key is None:
        raise checks.InvalidInput(
            "your signing key is needed to see whether your rows are part of it: --key"
        )
    if own.key not in release.members:
        return release
    if isinstance(release, PooledLearner):
        return without_rows(release, own.key)
    return without(release, own.key, rows, targets)


_KINDS = {
    "own": "own model",
    "together": "all releases together",
    "group": "groups of releases",
    "received": "single releases, as received",
}


def _by_kind(candidates: Iterable[CandidateWeight]) -> dict[str, float]:
    """Weights of a handful of kinds: many candidates differ by a number only."""
    kinds = dict.fromkeys(_KINDS.values(), 0.0)
    for each in candidates:
        kinds[_KINDS[each.kind]] += each.weight
    return {kind: weight for kind, weight in kinds.items() if weight > 0.0005}


def _labels(targets: Array, contract: Contract) -> NDArray[Any]:
    if contract.classes is None:
        return targets
    labels = np.array(contract.classes, dtype=object)
    named: NDArray[Any] = labels[(targets > 0).astype(int)]
    return named


def _components(made: HedgedBlend) -> tuple[Component, ...]:
    kept = made.weights_ > _NEGLIGIBLE
    weights = made.weights_[kept] / made.weights_[kept].sum()
    names = [name for name, keep in zip(made.candidates_, kept, strict=True) if keep]
    return tuple(
        Component(name=name, weight=float(weight), coefficients=tuple(theta.tolist()))
        for name, weight, theta in zip(names, weights, made.components_[kept], strict=True)
    )


def _party(study: Study, release: Release, own_name: str, influence: dict[str, float]) -> Party:
    pooled = release if isinstance(release, Pooled) else None
    delta = study.privacy.delta if pooled is None else pooled.delta
    promise = account([release.event], delta)
    return Party(
        name=release.party,
        signer=release.party,
        rows=release.n,
        epsilon=promise.epsilon(),
        delta=delta,
        sentence=str(promise),
        influence=influence[release.party],
        honest=() if pooled is None else pooled.honest,
        calls_itself=own_name if own_name != release.party else "",
    )


def _assess(
    study: Study, rows: Array, targets: NDArray[Any], made: HedgedBlend
) -> Assessment | None:
    """Own model and blend on rows left out; None where there are too few rows to say."""
    contract = made.received_.contract
    signs = contract.targets(targets)
    kept = complete(study, rows)
    if kept.sum() < _FEWEST_TO_ASSESS:
        return None
    rows, signs = rows[kept], signs[kept]

    def predictor(releases: Sequence[Release]) -> Any:
        def predict(train: Array, train_signs: Array, test: Array) -> Array:
            some = HedgedBlend(releases, contract=contract)
            some.fit(train, _labels(train_signs, contract))
            if contract.task == "classification":
                second: Array = some.predict_proba(test)[:, 1]
                return second
            predicted: Array = some.predict(test)
            return predicted

        return predict

    try:
        held = hold_out(rows, signs, predictor([]), predictor(made.releases))
    except checks.InvalidInput:  # a fold with one class only
        return None
    if contract.task == "classification":
        return assess_classes(held)
    return assess_numbers(
        HeldOut(*(study.target_middle + study.target_reach * each for each in held))
    )
