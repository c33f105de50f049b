from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.foundations.checks import InvalidInput
from sudare.study import Categories, Guess, Number, draft_study, guess, look_at, parse_study
from sudare.study._drafts import _KNOWN

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10)


@given(st.lists(NAMES, min_size=2, max_size=5, unique=True))
def test_a_draft_is_a_study(names: list[str]) -> None:
    found = parse_study(draft_study(names))
    assert [*found.columns, found.target.column] == names


def test_a_draft_says_what_to_fill_in_and_knows_its_target() -> None:
    draft = draft_study(["ill", "age", "blood pressure"], target="ill")
    assert list(parse_study(draft).columns) == ["age", "blood pressure"]
    assert "never from the data" in draft
    wrong: list[tuple[list[str], str | None]] = [([], None), (["a"], "b"), (["a", "a"], None)]
    for names, target in wrong:
        with pytest.raises(InvalidInput):
            draft_study(names, target)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("age", "years"),
        ("Age_at_admission", "years"),
        ("patientAge", "years"),
        ("AGE_MONTHS", "months"),
        ("Alter", "years"),
        ("年齢", "years"),
        ("SBP", "mmHg"),
        ("blood-pressure", "mmHg"),
        ("baseline.bmi", "kg/m²"),
    ],
)
def test_names_that_everybody_knows_have_bounds(name: str, unit: str) -> None:
    found = guess(name)
    assert found is not None
    assert found.unit == unit
    column = parse_study(draft_study([name, "y"])).columns[name]
    assert isinstance(column, Number)
    assert (column.low, column.high, column.centre, column.scale) == (
        found.low, found.high, found.centre, found.scale
    )  # fmt: skip
    assert "guessed from the name" in draft_study([name, "y"])


@pytest.mark.parametrize("name", ["x", "agent", "page", "stage", "wage2", "", "key", "note"])
def test_other_names_say_nothing(name: str) -> None:
    assert guess(name) is None


def test_every_entry_of_the_dictionary_is_a_sound_column() -> None:
    for pattern, found in _KNOWN:
        study = parse_study(draft_study(["x", "y"], "y", {"x": found}))
        column = study.columns["x"]
        if isinstance(column, Categories):
            continue
        assert column.low < column.middle < column.high, pattern
        assert column.reach < column.high - column.low, pattern


def test_targets_are_classes_or_numbers_by_their_names() -> None:
    assert parse_study(draft_study(["age", "sex"])).target.classes == ("female", "male")
    days = parse_study(draft_study(["age", "length_of_stay"])).target
    assert (days.low, days.high, days.classes) == (0, 60, None)
    assert parse_study(draft_study(["age", "z"])).target.classes == ("no", "yes")


def test_looking_tells_kinds_and_frequent_labels_and_no_bounds(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    lines = [f"{20.5 + i},{i % 2},{'north' if i % 2 else 'south'},{i % 7},{i}s" for i in range(60)]
    lines += ["99,1,Jane-1234567,3,x", ",,,,"]
    path.write_text("age,flag,ward,score,note\n" + "\n".join(lines) + "\n")
    found = look_at(path, ["age", "flag", "ward", "score", "note"])
    assert found["age"] == guess("age")
    assert found["flag"].categories == (0, 1)
    assert found["ward"].categories == ("north", "south")
    assert found["score"] == Guess()
    draft = draft_study(found, "flag", found)
    for value in ("Jane", "20.5", "79.5", "99"):
        assert value not in draft
    study = parse_study(draft)
    assert study.target.classes == (0, 1)
    assert isinstance(study.columns["ward"], Categories)
    assert study.columns["note"].categories == ("no", "yes")  # type: ignore[union-attr]
