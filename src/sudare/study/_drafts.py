"""First drafts of a study: from what columns are called, and from what everybody knows of such.

Bounds and typical values come from a small public dictionary of names, never from rows: what is in
a study is published. `look_at` reads rows for the kinds of columns and the spelling of categories,
and whoever uses it publishes these.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from sudare.foundations import checks
from sudare.releases import Label
from sudare.storage.files import toml_value
from sudare.study._contract import label_text
from sudare.study._sources import GAPS, every_batch
from sudare.study._tables import _numbers_among

MOST_CATEGORIES, FEWEST_ROWS = 20, 20
"""Of what rows are looked at for: more labels are hardly categories, and rarer ones would tell."""


class Guess(msgspec.Struct, frozen=True, kw_only=True):
    """What a column may be like: a number between bounds, or categories."""

    low: float | None = None
    high: float | None = None
    centre: float | None = None
    scale: float | None = None
    categories: tuple[Label, ...] = ()
    unit: str = ""
    """What the bounds are in; another unit needs others."""


def _number(low: float, high: float, centre: float, scale: float, unit: str) -> Guess:
    return Guess(low=low, high=high, centre=centre, scale=scale, unit=unit)


_YES_NO = Guess(categories=("no", "yes"))
_SEX = Guess(categories=("female", "male"))
_KNOWN: tuple[tuple[str, Guess], ...] = (
    # Words of a name; the first line that fits wins. Bounds are what is plausible for adults.
    (r"age months|months of age", _number(0, 1320, 600, 300, "months")),
    (r"age|alter|âge|edad|età|idade|leeftijd|年齢|年龄", _number(18, 100, 55, 20, "years")),
    (r"sex|gender|geschlecht|sexe|sexo|sesso|性別|性别", _SEX),
    (r"bmi|body mass( index)?", _number(12, 60, 26, 6, "kg/m²")),
    (r"height|größe|groesse|taille|身長", _number(130, 210, 170, 12, "cm")),
    (r"weight|gewicht|poids|peso|体重", _number(35, 200, 75, 20, "kg")),
    (r"diastolic.*|dbp|bp dia", _number(40, 130, 80, 15, "mmHg")),
    (r"systolic.*|sbp|bp sys|(blood )?pressure|bp|血圧", _number(80, 220, 130, 25, "mmHg")),
    (r"pulse|heart rate|hr|puls", _number(35, 180, 75, 20, "beats a minute")),
    (r"(resp(iratory)? rate)", _number(6, 50, 16, 6, "breaths a minute")),
    (r"temp(erature)?|body temp(erature)?|体温", _number(33, 42, 37, 1, "°C")),
    (r"spo2|oxygen saturation|o2 sat", _number(60, 100, 96, 5, "percent")),
    (r"hba1c|a1c", _number(4, 15, 6, 1.5, "percent")),
    (r"(fasting )?glucose|blood sugar|血糖", _number(2, 30, 6, 3, "mmol/L")),
    (r"ldl.*", _number(0.5, 8, 3, 1, "mmol/L")),
    (r"hdl.*", _number(0.3, 4, 1.4, 0.5, "mmol/L")),
    (r"(total )?chol(esterol)?|tc", _number(2, 12, 5, 1.2, "mmol/L")),
    (r"triglycerides?|tg", _number(0.3, 12, 1.6, 1, "mmol/L")),
    (r"creatinine|kreatinin", _number(20, 1000, 85, 60, "µmol/L")),
    (r"egfr|gfr", _number(5, 140, 80, 25, "mL/min/1.73 m²")),
    (r"crp", _number(0, 300, 10, 40, "mg/L")),
    (r"h(a)?emoglobin|hb|hgb", _number(50, 200, 135, 20, "g/L")),
    (r"sodium", _number(110, 170, 139, 5, "mmol/L")),
    (r"potassium", _number(2, 8, 4.2, 0.6, "mmol/L")),
    (r"(length of )?stay|los|days?|liegedauer|在院日数", _number(0, 60, 6, 10, "days")),
    (r"pack years?", _number(0, 120, 10, 20, "pack-years")),
    (r"education( years)?|years of education", _number(0, 25, 12, 4, "years")),
    (r"income", _number(0, 200_000, 35_000, 30_000, "a year, in your currency")),
    (
        r"smok(er|ing|es|ed)|(ex|current) smoker|diabet(es|ic)|hypertension|stroke|died|dead|death|"
        r"readmi(tted|ssion)|ill|sick|disease|event|positive|pregnant|treated|treatment|surgery|"
        r"outcome|raucher|krank|gestorben|fumeur|死亡|喫煙",
        _YES_NO,
    ),
)


def guess(name: str) -> Guess | None:
    """What is publicly known of a column with such a name; None for a name that says nothing."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = " ".join(re.split(r"[\W_]+", spaced)).strip().casefold()
    for pattern, found in _KNOWN:
        if re.fullmatch(
            rf"(?:(?:is|has|had|patient|pat|subject|baseline) )?(?:{pattern})(?: (?:at|in|of) .*)?",
            words,
        ):
            return found
    return None


def look_at(source: Any, names: Iterable[str]) -> dict[str, Guess]:
    """Which columns of a file are numbers, and how their categories are spelled.

    Categories that few rows have are left out. No bound is read from rows.
    """
    wanted = list(names)
    batches, _ = every_batch(source, dict.fromkeys(wanted, ()))
    found = {}
    for name in wanted:
        counts: Counter[str] = Counter()
        numbers = True
        for batch in batches:
            column = batch.column(name)
            texts = ["" if cell is None else label_text(cell) for cell in column.to_pylist()]
            cells = [text.strip() for text in texts]
            counts.update(cell for cell in cells if cell not in GAPS)
            gaps = np.array([cell in GAPS for cell in cells], dtype=bool)
            numbers &= not (np.isnan(_numbers_among(column)) & ~gaps).any()
        known = guess(name)
        if numbers and len(counts) > 2:
            found[name] = known if known is not None and not known.categories else Guess()
            continue
        often = sorted(label for label, rows in counts.items() if rows >= FEWEST_ROWS)
        labels: tuple[Label, ...] = tuple(_plain(label) for label in often)
        kept = labels if len(labels) <= MOST_CATEGORIES else ()
        found[name] = Guess(categories=kept or ("no", "yes"))
    return found


def draft_study(
    columns: Iterable[str],
    target: str | None = None,
    guesses: Mapping[str, Guess] | None = None,
    *,
    name: str = "my-study",
    epsilon: float = 1.0,
    unit: str = "row",
) -> str:
    """A commented study to fill in, from column names alone unless `guesses` say more."""
    names = list(columns)
    if not names:
        raise checks.InvalidInput("Expected at least one column name")
    if len(set(names)) < len(names):
        raise checks.InvalidInput("Expected every column name once: rename one of them")
    predicted = names[-1] if target is None else target
    if predicted not in names:
        raise checks.InvalidInput(f"Expected the target among the columns: {', '.join(names)}")
    said = guesses or {}
    about = {each: said.get(each) or guess(each) for each in names}
    sections = [
        _HEAD.format(name=toml_value(name)),
        *(
            f"[columns.{_key(each)}]\n{_column(about[each], each in said)}"
            for each in names
            if each != predicted
        ),
        f"[target]\ncolumn = {toml_value(predicted)}\n{_target(about[predicted])}",
        _TERMS.format(epsilon=toml_value(float(epsilon)), unit=toml_value(unit)),
    ]
    return "\n".join(sections)


def _column(about: Guess | None, certain: bool) -> str:
    if about is None or (not about.categories and about.low is None):
        return _UNKNOWN
    origin = "" if certain else "   # guessed from the name: check it"
    if about.categories:
        return f"categories = {_list(about.categories)}{origin}\n{_CATEGORIES}"
    lines = [f"low = {about.low}{origin}", f"high = {about.high}"]
    if about.unit:
        lines[1] += f"   # in {about.unit}: another unit needs other bounds"
    for key in ("centre", "scale"):
        if (value := getattr(about, key)) is not None:
            lines.append(f"{key} = {value}   # {_MEANT[key]}")
    return "\n".join(lines) + f"\n{_GAPS_TOLD}"


def _target(about: Guess | None) -> str:
    if about is not None and about.low is not None:
        return f"low = {about.low}\nhigh = {about.high}\n{_OTHER_TARGETS}"
    pair = about.categories if about is not None and len(about.categories) == 2 else ("no", "yes")
    return f"classes = {_list(pair)}   # {_SECOND}\n{_OTHER_TARGETS}"


def _list(labels: Iterable[Label]) -> str:
    return f"[{', '.join(_value(label) for label in labels)}]"


def _value(label: Label) -> str:
    return str(label).lower() if isinstance(label, bool) else toml_value(label)


def _plain(label: str) -> Label:
    """A label as it is best written: whole numbers without quotes."""
    return int(label) if re.fullmatch(r"0|-?[1-9][0-9]{0,14}", label) else label


def _key(name: str) -> str:
    """A TOML key, bare where it may be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


_MEANT = {
    "centre": "a typical value; a good public guess leaves more signal above the noise",
    "scale": "how far values usually lie from it",
}
_SECOND = "the second is the one whose probability is predicted"
_HEAD = """\
# The public contract of a study. Everyone who takes part uses the same file.
# Fill in every bound from general knowledge, never from the data: what is in
# this file is published.
name = {name}
description = ""
# incomplete = "leave out"   # learn from rows without gaps only
"""
_UNKNOWN = """\
low = 0.0        # FILL IN: values below count as this
high = 1.0       # FILL IN: values above count as this
# centre = 0.5       # a typical value
# scale = 0.2        # how far values usually lie from it
# missing = 0.5      # stands in for a missing value
# indicator = true   # and a feature says that it was missing
# A column of categories has this line instead of low and high:
# categories = ["no", "yes"]
"""
_GAPS_TOLD = """\
# missing = …        # stands in for a missing value
# indicator = true   # and a feature says that it was missing
"""
_CATEGORIES = """\
# missing = …        # the category that stands in for a missing value
# other = …          # the category that all others count as
"""
_OTHER_TARGETS = """\
# A target is two classes, or a number with low and high, or a number of events:
# most = 12        # more count as this; the fewer, the less noise

# Where a person can have several rows:
# [person]
# column = "patient_id"
"""
_TERMS = """\
[privacy]
epsilon = {epsilon}        # what one release costs each unit
delta = 1e-6
unit = {unit}         # whose privacy is meant: one row is one unit
# model = "objective"  # coefficients instead of moments; works with delta = 0
# most_rows = 1000000  # no party has more: a release that claims more is refused
"""
