"""Surveys: what they take, what they refuse, and that equal surveys are the same survey."""

import string
import tomllib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.calibration import mask_law
from sudare.counting import METHODS, Survey, empty_tally, estimate, parse_survey, read_survey
from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import LocalEvent

PRINTABLE = st.text(
    st.characters(codec="utf-8").filter(str.isprintable), min_size=1, max_size=64
).filter(lambda text: bool(text.strip()))


@st.composite
def surveys(draw: st.DrawFn) -> Survey:
    method = draw(st.sampled_from(METHODS))
    rounds = draw(st.integers(1, 50) | st.just(10**6))
    more: dict[str, Any] = {}
    if method == "masks":
        more["slots"] = draw(st.integers(1, min(rounds, 8)))
        more["threshold"] = draw(st.none() | st.integers(0, more["slots"] - 1))
    if method == "tree":
        more["changes"] = draw(st.integers(1, 8))
        more |= draw(st.sampled_from([{}, {"flips": "stretches"}]))
    if draw(st.booleans()):
        zone = timezone(timedelta(minutes=draw(st.integers(-14 * 60, 14 * 60))))
        naive = draw(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)))
        more["start"] = naive.replace(tzinfo=zone)
        more["round_seconds"] = draw(st.floats(1e-3, 1e9) | st.integers(1, 10**6))
    return Survey(
        name=draw(PRINTABLE),
        question=draw(st.just("") | PRINTABLE),
        rounds=rounds,
        epsilon=draw(st.floats(1e-6, 40) | st.integers(1, 40)),
        method=method,
        **more,
    )


@given(surveys())
def test_toml_goes_round(survey):
    again = parse_survey(survey.to_toml())
    assert again == survey
    assert again.digest() == survey.digest()
    assert again.to_toml() == survey.to_toml()
    assert hash(again) == hash(survey)


@given(survey=surveys(), drop=st.sampled_from(["name", "rounds", "epsilon"]))
@settings(max_examples=30)
def test_what_is_missing_is_named(survey, drop):
    lines = [line for line in survey.to_toml().splitlines() if not line.startswith(drop + " =")]
    with pytest.raises(InvalidInput, match=f"missing required field `{drop}`"):
        parse_survey("\n".join(lines))


@given(survey=surveys(), key=st.text(string.ascii_lowercase, min_size=1, max_size=9))
@settings(max_examples=30)
def test_what_is_unknown_is_named(survey, key):
    if hasattr(survey, key):
        return
    with pytest.raises(InvalidInput, match=f"unknown field `{key}`"):
        parse_survey(survey.to_toml() + f"{key} = 1\n")


@given(text=st.text(max_size=80))
@settings(max_examples=100)
def test_any_text_is_refused_by_name(text):
    with pytest.raises(InvalidInput):
        parse_survey(text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rounds = 3.0", "Expected `int`, got `float`"),
        ('rounds = "3"', "Expected `int`, got `str`"),
        ("rounds = true", "Expected `int`, got `bool`"),
        ("rounds = 0", "rounds=0 >= 1"),
        ("rounds = -5", "rounds=-5 >= 1"),
        ("rounds = 1000001", "at most 1000000 rounds"),
        ("rounds = 1" + "0" * 5000, "TOML"),
        ('epsilon = "1"', "Expected `float`, got `str`"),
        ("epsilon = 0", "epsilon=0"),
        ("epsilon = -1.0", "epsilon=-1.0 > 0"),
        ("epsilon = nan", "epsilon=nan"),
        ("epsilon = inf", "epsilon=inf"),
        ("epsilon = 40.1", "<= 40"),
        ("epsilon = 1e-300", "larger epsilon"),
        ("name = 3", "Expected `str`, got `int`"),
        ('name = ""', "printable name"),
        ('name = "  "', "printable name"),
        ('name = "a\\nb"', "printable name"),
        (f'name = "{"x" * 65}"', "at most 64"),
        (f'name = "{" " * 64}x"', "at most 64"),
        ('question = "a\\nb"', "printable question"),
        ('method = "gaze"', "Invalid enum value 'gaze'"),
        ("slots = 2", 'slots only with method "masks"'),
        ("threshold = 0", 'threshold only with method "masks"'),
        ("changes = 2", 'changes with method "tree"'),
        ('method = "tree"', 'changes with method "tree"'),
        ('method = "tree"\nchanges = 0', "changes=0 >= 1"),
        ('method = "tree"\nchanges = 31', "at most 30 changes"),
        ('flips = "stretches"', 'flips only with method "tree"'),
        ('method = "tree"\nchanges = 2\nflips = "changes"', "Invalid enum value 'changes'"),
        ('method = "masks"\nslots = 0', "slots=0 >= 1"),
        ('method = "masks"\nslots = 4', "at most 3 slots"),
        ('method = "masks"\nslots = 2\nthreshold = 2', "threshold < slots=2"),
        ('method = "masks"\nslots = 2\nthreshold = -1', "threshold=-1 >= 0"),
        ("round_seconds = 60", "start and round_seconds together"),
        ("start = 2026-12-01T00:00:00Z", "start and round_seconds together"),
        ("start = 2026-12-01T00:00:00\nround_seconds = 60", "time zone"),
        ("start = 2026-12-01\nround_seconds = 60", "Expected `datetime | null`, got `date`"),
        ("start = 2026-12-01T00:00:00Z\nround_seconds = 0", "round_seconds"),
        ("start = 0001-01-01T00:00:00+09:00\nround_seconds = 60", "years 1 and 9999"),
        ("survey = 1", "unknown field `survey`"),
        ("x = " + "[" * 5000, "TOML"),
        ("= 3", "TOML"),
    ],
)
def test_refusals(line, message):
    keys = [each.split(" = ")[0] for each in line.splitlines()]
    base = {"name": '"s"', "rounds": "3", "epsilon": "1.0"}
    text = "".join(f"{key} = {value}\n" for key, value in base.items() if key not in keys) + line
    with pytest.raises(InvalidInput) as refusal:
        parse_survey(text)
    assert message in str(refusal.value)
    assert refusal.value.__cause__ is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": 3},
        {"name": None},
        {"question": None},
        {"rounds": 3.0},
        {"rounds": "3"},
        {"rounds": True},
        {"rounds": None},
        {"rounds": 10**5000},
        {"epsilon": "1"},
        {"epsilon": None},
        {"epsilon": True},
        {"epsilon": 10**5000},
        {"epsilon": 1j},
        {"method": "x"},
        {"method": None},
        {"method": ["glance"]},
        {"method": "masks", "slots": 1.0},
        {"method": "masks", "slots": 10**5000},
        {"method": "masks", "slots": 2, "threshold": 10**5000},
        {"method": "masks", "slots": 2, "threshold": 0.0},
        {"method": "tree", "changes": 10**5000},
        {"method": "tree", "changes": "1"},
        {"start": "2026", "round_seconds": 1.0},
        {"start": 5, "round_seconds": 1.0},
        {"start": datetime(2026, 1, 1), "round_seconds": 1.0},
        {"start": datetime(2026, 1, 1, tzinfo=UTC), "round_seconds": "1"},
    ],
    ids=lambda wrong: "-".join(wrong),
)
def test_refusals_in_python(wrong):
    with pytest.raises(InvalidInput):
        Survey(**{"name": "s", "rounds": 3, "epsilon": 1.0, **wrong})


BASE: dict[str, Any] = {"name": "s", "rounds": 12, "epsilon": 1.0, "method": "masks", "slots": 3}
START = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "same",
    [
        {"epsilon": 1},
        {"epsilon": np.float64(1)},
        {"epsilon": np.float32(1)},
        {"rounds": np.int64(12)},
        {"slots": np.uint8(3)},
        {"threshold": None},
        {"question": ""},
    ],
    ids=str,
)
def test_equal_values_are_the_same_survey(same):
    """Made in Python or read from a file: a digest that differed would make tickets worthless."""
    survey = Survey(**{**BASE, **same})
    assert survey == Survey(**BASE)
    assert survey.digest() == Survey(**BASE).digest()
    assert parse_survey(survey.to_toml()).digest() == survey.digest()


def test_one_instant_in_two_time_zones_is_the_same_survey():
    tokyo = START.astimezone(timezone(timedelta(hours=9)))
    first = Survey(**BASE, start=START, round_seconds=3600)
    second = Survey(**BASE, start=tokyo, round_seconds=3600.0)
    assert first == second
    assert first.digest() == second.digest() == parse_survey(second.to_toml()).digest()


def test_every_field_changes_the_digest():
    changed: list[dict[str, Any]] = [
        {},
        {"name": "S"},
        {"rounds": 13},
        {"epsilon": np.nextafter(1.0, 2)},
        {"slots": 4},
        {"threshold": 0},
        {"threshold": 1},
        {"question": "?"},
        {"start": START, "round_seconds": 1.0},
        {"start": START, "round_seconds": 2.0},
        {"start": START + timedelta(microseconds=1), "round_seconds": 1.0},
        {"method": "tree", "slots": 1, "changes": 1},
        {"method": "tree", "slots": 1, "changes": 2},
        *({"method": method, "slots": 1} for method in METHODS if method != "tree"),
    ]
    assert len({Survey(**{**BASE, **each}).digest() for each in changed}) == len(changed)


def test_golden_digest():
    """Tickets and tallies in use hold this: it must not change between versions."""
    survey = Survey(**BASE, question="At home?", start=START, round_seconds=3600)
    assert survey.digest().hex() == GOLDEN
    assert survey.to_toml() == GOLDEN_TOML


def test_files(tmp_path):
    survey = Survey(**BASE)
    path = tmp_path / "survey.toml"
    path.write_text("\ufeff" + survey.to_toml(), encoding="utf-8")
    assert read_survey(path) == read_survey(str(path)) == survey
    path.write_bytes(b"\xff\xfe\x00")
    for wrong in (path, tmp_path, tmp_path / "none.toml", "a\0b"):
        with pytest.raises(InvalidInput, match="Cannot read"):
            read_survey(wrong)


@given(surveys())
@settings(max_examples=30)
def test_text_is_plain_toml(survey):
    table = tomllib.loads(survey.to_toml())
    assert table["name"] == survey.name
    assert table["epsilon"] == survey.epsilon


def test_laws():
    """The law each method promises, and the best threshold where none is given."""
    assert Survey(name="s", rounds=7, epsilon=2.0).law == mask_law(2.0, 1)
    assert Survey(name="s", rounds=7, epsilon=2.0, method="rappor").law == mask_law(2 / 7, 1)
    for slots in range(1, 8):
        laws = [mask_law(2.0, slots, threshold) for threshold in range(slots)]
        best = max(law.exact_attenuation for law in laws)
        free = Survey(name="s", rounds=7, epsilon=2.0, method="masks", slots=slots)
        assert free.law.exact_attenuation == best
        tree = Survey(name="s", rounds=7, epsilon=2.0, method="tree", changes=slots)
        assert tree.law == free.law
        for threshold, law in enumerate(laws):
            fixed = Survey(
                name="s", rounds=7, epsilon=2.0, method="masks", slots=slots, threshold=threshold
            )
            assert fixed.law == law
    # More changes than rounds cannot be.
    assert Survey(name="s", rounds=2, epsilon=2.0, method="tree", changes=9).law.slots == 2


def test_the_event_is_the_whole_horizons():
    for method in METHODS:
        more: dict[str, Any] = {"changes": 1} if method == "tree" else {}
        survey = Survey(name="s", rounds=7, epsilon=2.5, method=method, **more)
        assert survey.event == LocalEvent(2.5)


@pytest.mark.parametrize(
    ("rounds", "levels", "cells"), [(1, 1, 1), (2, 2, 3), (5, 3, 8), (8, 4, 15)]
)
def test_cells_of_a_tree(rounds, levels, cells):
    survey = Survey(name="s", rounds=rounds, epsilon=1.0, method="tree", changes=1)
    assert (survey.levels, survey.cells) == (levels, cells)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("rounds", "epsilon"), [(1, 1.0), (1, 40.0), (3, 1e-9), (10**6, 1.0)])
def test_extremes_count_all_the_same(method, rounds, epsilon):
    """T = 1, ε of 1e-9 and 40, a million rounds; nobody has reported yet."""
    more: dict[str, Any] = {"changes": 1} if method == "tree" else {}
    if method == "tree":
        rounds = min(rounds, 10**4)  # a table of rounds and levels takes its time
    survey = Survey(name="s", rounds=rounds, epsilon=epsilon, method=method, **more)
    assert 0 < survey.attenuation <= 1
    found = estimate(empty_tally(survey), survey, users=2)
    assert np.isnan(found.raw).all()
    assert (found.low == 0).all()
    assert (found.high == 1).all()
    assert np.isposinf(found.std).all()


GOLDEN = "c715d031ac804775eb1790746d2ee85bd916befd9fd6efd9bedd23332f53c035"
GOLDEN_TOML = """\
name = "s"
question = "At home?"
rounds = 12
start = 2026-12-01T00:00:00Z
round_seconds = 3600.0
# For one user's reports over all rounds together.
epsilon = 1.0
method = "masks"
slots = 3
"""
