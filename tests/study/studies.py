"""Studies to test with."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from sudare.study import Categories, Number, Study, Target, Terms, parse_study

COLUMNS = """\
[columns.age]
low = 0
high = 100
centre = 40

[columns.pressure]
low = 80.0
high = 200.0
missing = 120.0
indicator = true

[columns.sex]
categories = ["female", "male"]

[columns.ward]
categories = ["north", "south", "west"]
missing = "west"
indicator = true
"""
TARGET = """\
[target]
column = "ill"
classes = ["no", "yes"]
"""
PRIVACY = """\
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "patient"
"""


def text(columns: str = COLUMNS, target: str = TARGET, privacy: str = PRIVACY) -> str:
    return f'name = "hearts"\n\n{columns}\n{target}\n{privacy}'


def study(columns: str = COLUMNS, target: str = TARGET, privacy: str = PRIVACY) -> Study:
    return parse_study(text(columns, target, privacy))


NUMBERS = st.floats(-1e6, 1e6)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=9)


@st.composite
def numbers(draw: st.DrawFn) -> Number:
    low, high = sorted(draw(st.lists(NUMBERS, min_size=2, max_size=2, unique=True)))
    within = st.none() | st.floats(low, high)
    missing = draw(within)
    return Number(
        low=low,
        high=high,
        centre=draw(within),
        missing=missing,
        indicator=missing is not None and draw(st.booleans()),
    )


@st.composite
def categories(draw: st.DrawFn) -> Categories:
    labels: Any = st.integers(-99, 99) | WORDS.filter(lambda word: not word.isdigit())
    found = tuple(
        draw(st.lists(labels, min_size=2, max_size=5, unique_by=lambda v: str(v).lower()))
    )
    missing = draw(st.none() | st.sampled_from(found))
    return Categories(
        categories=found,
        missing=missing,
        indicator=missing is not None and draw(st.booleans()),
    )


@st.composite
def studies(draw: st.DrawFn) -> Study:
    """Any study of classes over numbers and categories."""
    columns: Any = st.dictionaries(
        WORDS.filter(lambda name: "=" not in name), numbers() | categories(), min_size=1, max_size=5
    )
    return Study(
        name=draw(WORDS),
        columns=draw(columns),
        target=Target(column=" target", classes=("no", "yes")),
        privacy=Terms(
            epsilon=draw(st.floats(1e-3, 1e3)),
            delta=1e-6,
            row_norm=draw(st.floats(0.01, 1.0)),
            intercept=draw(st.booleans()),
            most_rows=draw(st.just(msgspec.UNSET) | st.integers(1, 10**9)),
        ),
    )


def to_toml(found: Study) -> str:
    """A study as somebody may have written it."""
    lines = [f"name = {_value(found.name)}", f"description = {_value(found.description)}"]
    sections: dict[str, Any] = {
        f"columns.{_value(name)}": column for name, column in found.columns.items()
    }
    for header, section in (sections | {"target": found.target, "privacy": found.privacy}).items():
        lines.append(f"[{header}]")
        for field in section.__struct_fields__:
            if (value := getattr(section, field)) not in (None, msgspec.UNSET):
                lines.append(f"{field} = {_value(value)}")
    return "\n".join(lines)


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
        case str():
            letters = (c if c.isascii() and c.isalnum() else f"\\U{ord(c):08x}" for c in value)
            return '"' + "".join(letters) + '"'
        case _:
            return repr(value)
