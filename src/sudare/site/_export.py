"""A model as a tidy table in the study's units, from which R or a spreadsheet predicts the same.

One line for each term of each component; a `reference` names the category that others are compared
to, and adds nothing. With v the value of a term, 1 or 0 for a level or a gap,

    score         = Σ coefficient·v over the lines of one component, v = 1 for the intercept
    probability   = Σ weight·1/(1 + e^−score) over the components, of the class in `level`
    number        = Σ weight·score, each score clipped to `low` and `high` of its intercept's line

before which a number is clipped to its own `low` and `high`, a missing value replaced by `missing`,
and a label that no line names by `other`; where these are empty, there is no prediction. Where rows
can be longer than the study's `row_norm`, there is a line that says so (docs/how-to/judge.md).
"""

from collections.abc import Iterator

import msgspec

from sudare.site._model import INTERCEPT, Component, Model, terms_of
from sudare.study import Categories, Feature, Number, Study, label_text

TERMS_HEADER = (
    "component",
    "weight",
    "term",
    "kind",
    "column",
    "level",
    "coefficient",
    "low",
    "high",
    "missing",
    "other",
    "centre",
    "scale",
)
"""What the cells of `term_rows` are."""
ROW_NORM = "(row norm)"


def term_rows(model: Model) -> Iterator[tuple[object, ...]]:
    """All terms of all components; cells that say nothing are empty."""
    study = model.study
    for component in model.components:
        yield from _component(study, component)
    if study.may_shorten:
        norm = study.privacy.row_norm
        yield ("", "", ROW_NORM, "row_norm", "", "", norm, "", "", "", "", "", "")


def _component(study: Study, component: Component) -> Iterator[tuple[object, ...]]:
    named = (component.name, component.weight)
    intercept, slopes = terms_of(study, component.coefficients)
    target = study.target
    level, low, high = "", *_bounds(study)
    if target.classes is not None:
        level = label_text(target.classes[1])
    yield (*named, INTERCEPT, "intercept", target.column, level, intercept, low, high, *[""] * 4)
    told: set[str] = set()
    for feature, slope in zip(study.features, slopes, strict=True):
        if not feature.column:  # a mark of incomplete rows, which have no prediction
            continue
        column = study.columns[feature.column]
        if isinstance(column, Categories) and feature.column not in told:
            # Its first category, which the others are compared to: so that every label is named.
            first = label_text(column.categories[0])
            name = f"{feature.column}={column.categories[0]}"
            other = _other(column)
            yield (*named, name, "reference", feature.column, first, 0.0, "", "", "", other, "", "")
        told.add(feature.column)
        kind, value, *limits = _limits(study, feature)
        placed = (feature.centre, feature.scale)
        yield (*named, feature.name, kind, feature.column, value, slope, *limits, *placed)


def _bounds(study: Study) -> tuple[object, object]:
    """What a component's prediction is clipped to."""
    if study.task == "classification":
        return "", ""
    return study.target_middle - study.target_reach, study.target_middle + study.target_reach


def _limits(study: Study, feature: Feature) -> tuple[object, ...]:
    """kind, level, low, high, missing, other"""
    column = study.columns[feature.column]
    if feature.category is None and feature.name != feature.column:
        return "missing", "", "", "", "", ""
    if isinstance(column, Number):
        missing: object = "" if column.missing is None else column.missing
        return "number", "", column.low, column.high, missing, ""
    assert isinstance(column, Categories)
    assert feature.category is not None
    missing = "" if column.missing is None else label_text(column.missing)
    return "level", label_text(feature.category), "", "", missing, _other(column)


def _other(column: Categories) -> str:
    """The category that every other label counts as."""
    return "" if column.other is msgspec.UNSET else label_text(column.other)
