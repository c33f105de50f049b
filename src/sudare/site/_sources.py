"""What each source of a blend says by itself, and whose rows it can come from.

All of it is computed from own rows and stays inside.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sudare.blending import HedgedBlend
from sudare.estimation import NoisySums
from sudare.releases import Release
from sudare.site._model import HIDDEN, Kind, Seen, Slope
from sudare.site._slopes import Slopes, line_through, own_slopes, slopes_of_sums
from sudare.study import Feature, Study

Array = NDArray[np.float64]
_FEATURES_SHOWN = 5
_SURELY = 4.0
"""Standard deviations of the noise: it is farther off once in 16,000 times."""
_HUGE = 1e100
"""Beyond it a number says nothing, and the file could not be read again."""
UNSETTLED = "own rows do not settle it"
SHRUNK = "shrunk on purpose, by an amount that depends on the rows: no interval would be honest"
RECEIVED = "coefficients as released, shrunk with the noise inside: no interval would be honest"


class _Told(NamedTuple):
    """One source, for all features."""

    source: str
    kind: Kind
    slopes: Slopes
    reason: str
    """Why a number, or its interval, is not there."""


def slopes_by_source(
    study: Study, made: HedgedBlend, rows: Array, targets: Array
) -> tuple[Slope, ...]:
    """Slopes of the strongest features; `rows` and `targets` as the study encodes them."""
    contract = study.contract
    theta = made.weights_ @ made.components_
    features = study.features
    real = [place for place, each in enumerate(features) if each.column]
    strongest = sorted(real, key=lambda place: -abs(theta[place]))[:_FEATURES_SHOWN]
    with np.errstate(all="ignore"):  # a warning would be an output too
        told = list(_told(study, made, rows, targets))
    reach = 0.5 if study.task == "classification" else study.target_reach
    found = []
    for place in strongest:
        unit = reach / (contract.full_norm * features[place].scale)
        found += [_slope(features[place], each, place, unit) for each in told]
    return tuple(found)


def _slope(feature: Feature, told: _Told, place: int, unit: float) -> Slope:
    value, half = (float(each[place]) * unit for each in told.slopes)
    known = abs(value) < _HUGE
    drawn = known and half < _HUGE
    return Slope(
        feature=feature.name,
        source=told.source,
        kind=told.kind,
        value=value if known else None,
        low=value - half if drawn else None,
        high=value + half if drawn else None,
        reason="" if drawn else told.reason if known or told.reason == HIDDEN else UNSETTLED,
    )


def _told(study: Study, made: HedgedBlend, rows: Array, targets: Array) -> Iterator[_Told]:
    received, contract = made.received_, study.contract
    own = contract.rows(rows) / contract.full_norm
    if contract.classes is not None:
        mixed = 2 * made.predict_proba(rows)[:, 1] - 1
    else:
        mixed = made.predict(rows)
    yield _Told("blend", "blend", _without_interval(line_through(own, mixed)), SHRUNK)
    slopes, scatter = own_slopes(own, targets)
    yield _Told("own rows", "own", slopes, UNSETTLED)
    kept = _of_sums(made)
    if len(kept) > 1:
        whole = slopes_of_sums(NoisySums.of(kept), study, scatter)
        yield _Told("all releases together", "together", whole, HIDDEN)
    for release in kept:
        alone = slopes_of_sums(NoisySums.of([release]), study, scatter)
        yield _Told(release.party, "party", alone, HIDDEN)
    for party, theta in zip(received.learners.parties, received.learners.coefficients, strict=True):
        scores = contract.full_norm * own @ theta
        outputs = 2 * expit(scores) - 1 if contract.classes is not None else np.clip(scores, -1, 1)
        yield _Told(party, "party", _without_interval(line_through(own, outputs)), RECEIVED)


def _without_interval(values: Array) -> Slopes:
    return Slopes(values, np.full_like(values, np.nan))


def _of_sums(made: HedgedBlend) -> list[Release]:
    """Releases of sums that were not dropped, in the order of the blend."""
    named = {release.party: release for release in made.releases}
    return [named[party] for party in made.received_.moments.parties]


def seen_features(study: Study, made: HedgedBlend, rows: Array) -> tuple[Seen, ...]:
    """Of each feature, whether own rows differ in it, and who has a category at all."""
    received, kept = made.received_, _of_sums(made)
    sums = NoisySums.of(kept) if kept else None
    everybody = int(received.moments.n.sum() + received.learners.n.sum())
    return tuple(
        _seen(study, feature, rows[:, place], sums, place, everybody)
        for place, feature in enumerate(study.features)
        if feature.column
    )


def _seen(
    study: Study,
    feature: Feature,
    values: Array,
    sums: NoisySums | None,
    place: int,
    everybody: int,
) -> Seen:
    varies = bool(values.min() < values.max())
    if feature.category is None and feature.name == feature.column:
        return Seen(feature=feature.name, varies=varies, of=everybody)
    own = int((values * feature.scale + feature.centre > 0.5).sum())
    counted = None if sums is None else _counted(study, feature, sums, place)
    if counted is None or sums is None:
        return Seen(feature=feature.name, varies=varies, own=own, of=everybody)
    count, deviation = counted
    of = sums.n
    low, high = (min(max(count + side * deviation, 0.0), float(of)) for side in (-_SURELY, _SURELY))
    return Seen(
        feature=feature.name, varies=varies, own=own, others=count, low=low, high=high, of=of
    )


def _counted(
    study: Study, feature: Feature, sums: NoisySums, place: int
) -> tuple[float, float] | None:
    """How many rows have it, with the noise's standard deviation; from one entry or from two.

    A feature that is 0 or 1/scale is in the sums twice: beside the constant, and squared.
    """
    contract = study.contract
    looks, n, gram, noise = [], sums.n, sums.gram, sums.noise_std
    if study.may_shorten:
        return None
    unit = feature.scale * contract.full_norm**2
    if contract.constant > 0:
        beside = unit / contract.constant
        looks.append((gram[place, -1] * beside + n * feature.centre, noise * beside))
    if feature.centre == 0:
        looks.append(
            (gram[place, place] * unit * feature.scale, 2**0.5 * noise * unit * feature.scale)
        )
    if not looks:
        return None
    counts, deviations = np.array(looks).T
    shares = deviations**-2 / (deviations**-2).sum()
    return float(shares @ counts), float(np.sqrt(1 / (deviations**-2).sum()))
