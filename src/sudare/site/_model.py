"""A blended model as a small file: what it predicts with, and how it came about.

Linear components with weights on the simplex; probabilities (or predictions) of the components are
mixed. The file is JSON, holds the study it belongs to, and reads the same in any language. It was
made from the organisation's own rows without noise and stays inside: it is not a release.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sudare import __version__
from sudare.blending import FrozenModel
from sudare.foundations import checks
from sudare.releases import Label
from sudare.site._assessment import Assessment
from sudare.storage.files import read_bytes
from sudare.study import Categories, Feature, Study, label_text, read_blocks

Array = NDArray[np.float64]
Kind = Literal["blend", "own", "together", "party"]
FORMAT = "sudare-model/1"
INTERCEPT = "(intercept)"
HIDDEN = "hidden by the noise"
"""Why a release of sums does not tell a slope."""
_HUGE = 1e150
"""Products of two such numbers are still numbers."""


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """One linear model in the mixture."""

    name: str
    weight: float
    coefficients: tuple[float, ...]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Whose rows a feature's coefficient can come from at all."""

    feature: str
    varies: bool
    """Whether own rows differ in it."""
    own: int | None = None
    """Own rows that have this category, or this gap; None for a number."""
    others: float | None = None
    """The same of the rows behind releases of sums, and what it lies between but for one
    draw of the noise in 16,000; None where releases do not tell."""
    low: float | None = None
    high: float | None = None
    of: int = 0
    """Rows behind those releases; behind all of them where they do not tell."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What one feature does, in the study's own units."""

    feature: str
    unit: str
    """What one step means."""
    effect: float
    """Change of the log-odds, or of the target, for one step; the intercept is their value where
    every number is 0 and every category the first."""
    odds_ratio: float | None
    seen: Seen | None = None
    """None for the intercept, and in models of earlier versions."""

    @property
    def unseen(self) -> str:
        """Why it may be that no row has told it, in words; empty if some surely can."""
        seen = self.seen
        if seen is None or seen.varies:
            return ""
        if seen.own is None:  # others may have told it
            return "" if seen.of else "it is the same in all own rows"
        where, noun = (
            ("all own rows have it", "lack") if seen.own else ("no own row has it", "have")
        )
        if seen.others is None or seen.low is None or seen.high is None:
            return f"{where}, and releases do not tell who does" if seen.of else where
        if seen.low > 0 and seen.high < seen.of:
            return ""
        most = seen.of - seen.low if seen.own else seen.high
        return f"{where}, and of {seen.of:,} others at most {most:,.0f} {noun} it"

    @property
    def told(self) -> bool:
        """Whether there may be rows that have told it, as far as anybody knows."""
        unknown = self.seen is not None and self.seen.others is None and self.seen.of > 0
        return unknown or not self.unseen


class Party(msgspec.Struct, frozen=True, kw_only=True):
    """A release that was blended."""

    name: str
    """By which everything about it goes; its name in the keyring."""
    signer: str
    rows: int
    epsilon: float
    delta: float
    sentence: str
    """What the party's people were promised."""
    influence: float
    """Share of the blend that came through this release."""
    honest: tuple[tuple[int, float], ...] = ()
    """Of a pool: pairs (h, ε), what holds if h of its organisations are honest."""
    calls_itself: str = ""
    """Its name for itself, where that is another one."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A release that was not used, and why."""

    what: str
    reason: str


class Slope(msgspec.Struct, frozen=True, kw_only=True):
    """How much the target changes with one feature, by one source: a straight line, least squares.

    In the target's units, or as a share of the second class; with a 95 % interval for noise and
    sampling where there is an honest one.
    """

    feature: str
    source: str
    kind: Kind
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    """Why there is no value, or no interval."""


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """How a model came about: for the report, and for whoever asks."""

    sentence: str
    weights: dict[str, float]
    """Of each group of candidates in the blend."""
    parties: tuple[Party, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    slopes: tuple[Slope, ...] = ()
    """By source, for the strongest features. Earlier versions kept `opinions` instead, whose
    intervals were too narrow: they are not read."""
    seen: tuple[Seen, ...] = ()
    assessment: Assessment | None = None


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A mixture of linear models over the features of a study."""

    format: str = FORMAT
    software: str = f"sudare {__version__}"
    study: Study
    party: str
    moment: str
    rows: int
    components: tuple[Component, ...]
    story: Story

    def scores(self, rows: Array) -> Array:
        """θ·x of every component, one column each, for encoded rows."""
        thetas = np.array([each.coefficients for each in self.components])
        scores: Array = self.study.contract.rows(rows) @ thetas.T
        return scores

    def probabilities(self, rows: Array) -> Array:
        """Probability of the second class, for encoded rows."""
        if self.study.task != "classification":
            raise checks.InvalidInput("Expected a study of two classes for probabilities")
        mixed: Array = expit(self.scores(rows)) @ self._weights()
        return mixed

    def predictions(self, rows: Array) -> Array:
        """Predicted targets in their own units, for encoded rows."""
        if self.study.task != "regression":
            raise checks.InvalidInput("Expected a study of a number for predictions")
        mixed = np.clip(self.scores(rows), -1.0, 1.0) @ self._weights()
        own: Array = self.study.target_middle + self.study.target_reach * mixed
        return own

    def predict_proba(self, data: Any) -> Array:
        """Probabilities of both classes, for a file or frame with the study's columns."""
        second = np.concatenate([self.probabilities(rows) for rows in self._read(data)])
        return np.column_stack([1 - second, second])

    def predict(self, data: Any) -> NDArray[Any]:
        """The likelier class or the predicted number, for a file or frame."""
        if self.study.task == "regression":
            return np.concatenate([self.predictions(rows) for rows in self._read(data)])
        second = np.concatenate([self.probabilities(rows) for rows in self._read(data)]) > 0.5
        assert self.study.target.classes is not None
        labels = np.array(self.study.target.classes, dtype=object)
        likelier: NDArray[Any] = labels[second.astype(int)]
        return likelier

    def to_sklearn(self) -> FrozenModel:
        """The model as a scikit-learn estimator over frames with the study's columns."""
        return FrozenModel(self, self.study.target.classes)

    def effects(self) -> list[Effect]:
        """The components' weighted average in the study's units, the intercept first."""
        terms = [
            (component.weight, terms_of(self.study, component.coefficients))
            for component in self.components
        ]
        ratios = self.study.task == "classification"
        seen = {each.feature: each for each in self.story.seen}
        found = [
            Effect(
                feature=INTERCEPT,
                unit="numbers 0, categories the first",
                effect=sum(weight * made.intercept for weight, made in terms),
                odds_ratio=None,
            )
        ]
        for place, feature in enumerate(self.study.features):
            if not feature.column:  # a mark of incomplete rows: those that are predicted have none
                continue
            effect = sum(weight * made.coefficients[place] for weight, made in terms)
            found.append(
                Effect(
                    feature=feature.name,
                    unit=step_of(self.study, feature),
                    effect=effect,
                    odds_ratio=float(np.exp(min(effect, 700.0))) if ratios else None,
                    seen=seen.get(feature.name),
                )
            )
        return found

    def to_bytes(self) -> bytes:
        """The file's contents."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def _weights(self) -> Array:
        return np.array([each.weight for each in self.components])

    def _read(self, data: Any) -> list[Array]:
        found = [block.rows for block in read_blocks(data, self.study, with_target=False)]
        if not sum(map(len, found)):
            raise checks.InvalidInput("Expected at least one row of data")
        return [rows for rows in found if len(rows)]


class Terms(NamedTuple):
    """A component in the study's units: intercept + Σ coefficient·value, values as they stand in a
    table (1 for yes, 0 for no)."""

    intercept: float
    coefficients: tuple[float, ...]
    """One for each of the study's features."""


def terms_of(study: Study, theta: Sequence[float]) -> Terms:
    """On the log-odds scale, or of the target itself."""
    features, contract = study.features, study.contract
    reach, middle = 1.0, 0.0
    if study.task == "regression":
        reach, middle = study.target_reach, study.target_middle
    slopes = [
        float(reach * number / each.scale) for number, each in zip(theta, features, strict=False)
    ]
    level = reach * theta[-1] * contract.constant if contract.constant > 0 else 0.0
    away = sum(slope * each.centre for slope, each in zip(slopes, features, strict=True))
    return Terms(float(middle + level - away), tuple(slopes))


def step_of(study: Study, feature: Feature) -> str:
    """What one more of a feature means."""
    if feature.category is not None:
        column = study.columns[feature.column]
        assert isinstance(column, Categories)
        return f"{feature.category} instead of {column.categories[0]}"
    if feature.name != feature.column:
        return "missing instead of the stand-in"
    return f"one more unit of {feature.column}"


def load_model(path: str | Path) -> Model:
    """A model from its file."""
    data = read_bytes(path)
    try:
        model = msgspec.json.decode(data, type=Model)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise checks.InvalidInput(f"{path} is not a model: {problem}") from None
    if model.format != FORMAT:
        raise checks.InvalidInput(f"{path} was written by a later sudare: update it")
    if not is_sound(model):
        raise checks.InvalidInput(f"{path} is damaged: its numbers do not fit its study")
    return model


def is_sound(model: Model) -> bool:
    """Whether everything that will be computed from it can be."""
    study = model.study
    try:
        width = study.contract.dimension
        scales = [feature.scale for feature in study.features]
        if study.task == "regression":
            scales.append(study.target_reach)
    except (ArithmeticError, AssertionError, ValueError):
        return False
    categories = (c for c in study.columns.values() if isinstance(c, Categories))
    weights = [component.weight for component in model.components]
    return (
        all(1 / _HUGE < scale < _HUGE for scale in scales)
        and all(c.missing is None or _known(c.missing, c.categories) for c in categories)
        and all(len(component.coefficients) == width for component in model.components)
        and min(weights, default=-1.0) >= 0
        and abs(sum(weights) - 1) < 1e-6
        and all(abs(number) < _HUGE for number in _numbers(msgspec.to_builtins(model)))
    )


def _known(label: Label, labels: tuple[Label, ...]) -> bool:
    return label_text(label) in map(label_text, labels)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers(each)
