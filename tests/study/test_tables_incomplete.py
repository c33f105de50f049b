from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.study import (
    Study,
    check_data,
    complete,
    parse_study,
    read_every_row,
    read_labelled,
    read_table,
)

TEXT = """
name = "a"
incomplete = "leave out"
[columns.age]
low = 18
high = 90
[columns.ward]
categories = ["north", "south", "elsewhere"]
other = "elsewhere"
[columns.pressure]
low = 80
high = 200
missing = 120
[target]
column = "y"
{target}
[privacy]
epsilon = 1.5
delta = 1e-6
"""
CLASSES = parse_study(TEXT.format(target='classes = ["no", "yes"]'))
NUMBERS = parse_study(TEXT.format(target="low = -20\nhigh = 30"))
PLAIN = parse_study(
    TEXT.format(target="low = -20\nhigh = 30").replace('incomplete = "leave out"\n', "")
)


def write(folder: Path, lines: list[str]) -> Path:
    path = folder / "rows.csv"
    path.write_text("\n".join(["age,ward,pressure,y", *lines]) + "\n")
    return path


def test_incomplete_rows_become_one_public_row(tmp_path: Path) -> None:
    path = write(
        tmp_path, ["54,north,140,5", ",south,90,30", "20,,90,5", "20,south,,5", "20,south,90,"]
    )
    for read in (read_table, read_every_row):
        rows, targets = read(path, NUMBERS)
        public = [0, 0, 0, 0, 1 / np.sqrt(5)]
        assert [row.tolist() == public for row in rows] == [False, True, True, False, True]
        assert targets is not None
        assert targets.tolist() == [0.0, 0.0, 0.0, 0.0, 0.0]
        assert complete(NUMBERS, rows).tolist() == [True, False, False, True, False]
        assert rows[0, 4] == rows[3, 4] == 0
    assert NUMBERS.features[-1].name == "anything missing"
    assert len(NUMBERS.features) == NUMBERS.contract.features == 5
    with pytest.raises(
        InvalidInput, match="complete rows, and can say something of such rows only"
    ):
        read_table(path, NUMBERS, with_target=False)
    with pytest.raises(InvalidInput, match="add missing"):
        read_table(path, PLAIN)


def test_the_class_of_an_incomplete_row_is_a_coin_of_its_own(tmp_path: Path) -> None:
    rows = [f"{20 + k / 10:.1f},,120,yes" for k in range(400)]
    path = write(tmp_path, rows)
    targets = read_table(path, CLASSES).targets
    assert targets is not None
    # 200 expected; fair coins are farther off than 60 with a probability of 2e-9.
    assert 140 < (targets > 0).sum() < 260
    again = read_every_row(write(tmp_path, rows[::-1]), CLASSES).targets
    assert again is not None
    np.testing.assert_array_equal(again[::-1], targets)


def test_a_model_is_judged_by_complete_rows(tmp_path: Path) -> None:
    lines = ["54,north,140,5", ",south,90,30", "20,south,,5", "20,south,90,"]
    (found,) = read_labelled(write(tmp_path, lines), NUMBERS)
    assert (len(found.rows), len(found.targets), found.left_out) == (2, 2, 2)
    assert complete(NUMBERS, found.rows).all()


@pytest.mark.parametrize("study", [CLASSES, NUMBERS], ids=["classes", "numbers"])
def test_neighbours_differ_in_one_encoded_row(study: Study, tmp_path: Path) -> None:
    common = ["40,north,120,1", "50,south,,yes", ",,,"]
    odd = [
        "70,west,130,2",
        "70,west,,no",
        ",north,100,3",
        "70,south,120,",
        "x,y,z,w",
        "broken",
        "inf,south,1,yes",
    ]
    tables = []
    for row in odd:
        block = read_every_row(write(tmp_path, [*common, row]), study)
        assert block.targets is not None
        tables.append(np.column_stack([block.rows, block.targets]))
        assert np.linalg.norm(block.rows, axis=1).max() <= 1
    for one in tables:
        np.testing.assert_array_equal(one[:3], tables[0][:3])
        assert one.shape == tables[0].shape


def people(folder: Path, classes: bool) -> tuple[Path, Path]:
    """A file with gaps, and one of its complete rows."""
    rng = seeded(7)
    lines, whole = [], []
    for _ in range(400):
        age, south, pressure = rng.uniform(20, 88), rng.random() < 0.4, rng.uniform(90, 190)
        score = (age - 50) / 20 + south + (pressure - 130) / 60
        value = f"{5 * score + rng.normal():.3f}"
        y = ("yes" if rng.random() < 1 / (1 + np.exp(-score)) else "no") if classes else value
        cells = [f"{age:.2f}", "south" if south else "north", f"{pressure:.1f}", y]
        if rng.random() < 0.3:
            cells[rng.integers(2)] = ""
        else:
            whole.append(",".join(cells))
        lines.append(",".join(cells))
    (folder / "whole").mkdir(exist_ok=True)
    return write(folder, lines), write(folder / "whole", whole)


@pytest.mark.parametrize("classes", [False, True])
def test_what_is_learnt_is_what_complete_rows_say(classes: bool, tmp_path: Path) -> None:
    # Without penalty the coefficients are those of the complete cases: the mark takes the others.
    study = CLASSES if classes else NUMBERS
    everybody, whole = people(tmp_path, classes)
    settings: dict[str, Any] = {"C": np.inf, "tol": 1e-10, "max_iter": 10_000} if classes else {}
    fits = []
    for path in (everybody, whole):
        rows, targets = read_table(path, study)
        assert targets is not None
        if path == whole:
            assert complete(study, rows).all()
            rows = rows[:, :-1]
        used = rows[:, np.ptp(rows, axis=0) > 0]
        model = LogisticRegression(**settings) if classes else LinearRegression()
        model.fit(used, targets)
        fits.append([*np.ravel(model.coef_)[:3], *np.ravel(model.intercept_)])
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-4 if classes else 1e-9)


def test_unlisted_categories_count_as_the_other(tmp_path: Path) -> None:
    path = write(tmp_path, ["54,Paris,140,5", "54,elsewhere,140,5", "54,NORTH,140,5"])
    for read in (read_table, read_every_row):
        rows = read(path, NUMBERS).rows
        assert (rows == rows[0]).all()
        assert rows[0, 2] == 1 / np.sqrt(5)
    found = check_data(path, NUMBERS)
    assert found.fits
    assert [each.others for each in found.columns] == [0, 2, 0, 0]
    with pytest.raises(InvalidInput, match="other must be a category"):
        parse_study(TEXT.format(target="low = 0\nhigh = 3").replace('other = "else', 'other = "x'))


def test_gaps_are_counted_and_are_no_problem_where_they_are_left_out(tmp_path: Path) -> None:
    found = check_data(write(tmp_path, ["54,north,140,5", ",south,90,30", "20,,90,"]), NUMBERS)
    assert found.fits
    assert [each.missing for each in found.columns] == [1, 1, 0, 1]


def test_a_study_that_cannot_mean_it_is_explained() -> None:
    text = TEXT.format(target="low = 0\nhigh = 3")
    with pytest.raises(InvalidInput, match="incomplete: it is not known"):
        parse_study(text.replace('"leave out"', '"drop"'))
    with pytest.raises(InvalidInput, match="no count is as good as none"):
        parse_study(TEXT.format(target="most = 9"))
    with pytest.raises(InvalidInput, match="a feature is called 'anything missing'"):
        parse_study(text.replace("[columns.pressure]", "[columns.anything]\nindicator = true"))
