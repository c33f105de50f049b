import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from sudare.audit import audit
from sudare.foundations import exact
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.study import Block, check_data, parse_study, persons_of, read_every_row, read_table

TEXT = """
name = "a"
[columns.age]
low = 18
high = 90
[columns.ward]
categories = ["north", "south", "west"]
missing = "north"
[target]
column = "ill"
{target}
[person]
column = "id"
[privacy]
epsilon = 1.5
delta = 1e-6
unit = "patient"
"""
STUDY = parse_study(TEXT.format(target='classes = ["no", "yes"]'))
NUMBERS = parse_study(TEXT.format(target="low = 0\nhigh = 8"))
ROWS = [
    ("7", "20", "north", "yes"),
    ("a", "30", "south", "no"),
    ("7", "60", "west", "no"),
    ("7.0", "90", "west", "yes"),
    ("b", "95", "west", "no"),
]


def table(rows: Sequence[tuple[str, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["id", "age", "ward", "ill"], orient="row")


def as_set(block: Block) -> list[tuple[float, ...]]:
    assert block.targets is not None
    return sorted(map(tuple, np.column_stack([block.rows, block.targets]).tolist()))


def test_a_person_is_one_row_the_average_of_all() -> None:
    block = read_table(table(ROWS), STUDY)
    root, third = np.sqrt(3), 1 / 3
    expected = [
        ((np.mean([20, 60, 90]) - 54) / 36 / root, 0.0, 2 * third / root, 1.0),
        ((30 - 54) / 36 / root, 1 / root, 0.0, -1.0),
        (1 / root, 0.0, 1 / root, -1.0),
    ]
    np.testing.assert_allclose(as_set(block), sorted(expected))
    days = read_table(
        table([(*row[:3], day) for row, day in zip(ROWS, "12345", strict=True)]), NUMBERS
    )
    assert days.targets == pytest.approx([((1 + 3 + 4) / 3 - 4) / 4, -0.5, 0.25])


def test_half_of_the_rows_are_enough_for_the_second_class() -> None:
    rows = [("a", "20", "north", "yes"), ("a", "20", "north", "no")]
    assert read_table(table(rows), STUDY).targets == pytest.approx([1.0])


def test_the_order_of_rows_changes_no_bit() -> None:
    rng = seeded(3)
    rows = [(str(i % 5), f"{rng.uniform(18, 90):.3f}", "west", "no") for i in range(40)]
    first = as_set(read_table(table(rows), STUDY))
    for _ in range(5):
        assert as_set(read_table(table([rows[i] for i in rng.permutation(40)]), STUDY)) == first


def test_without_targets_each_row_is_predicted_for_itself() -> None:
    assert len(read_table(table(ROWS), STUDY, with_target=False).rows) == 5


ODD = [
    ("40", "north", "no"),
    ("nonsense", "nowhere", "perhaps"),
    ("1e300", "", "yes"),
    ("", "west", ""),
    ("-inf", "south", "yes"),
]


@pytest.mark.parametrize("study", [STUDY, NUMBERS], ids=["classes", "numbers"])
def test_neighbours_differ_in_all_rows_of_a_person_and_in_one_encoded_row(
    study: Any, tmp_path: Path
) -> None:
    others = [("a", "30", "south", "no"), ("b", "50", "west", "yes"), ("b", "51", "north", "no")]
    seen = set()
    for count, choice in itertools.product((1, 2, 7), itertools.combinations(ODD, 2)):
        mine = [("me", *choice[k % 2]) for k in range(count)]
        for place in (0, 2, 3):  # anywhere among the others' rows
            rows = [*others[:place], *mine, *others[place:]]
            path = tmp_path / "rows.csv"
            path.write_text("id,age,ward,ill\n" + "".join(",".join(row) + "\n" for row in rows))
            block = read_every_row(path, study)
            assert len(block.rows) == 3  # the number of persons is public, that of rows is not
            assert np.linalg.norm(block.rows, axis=1).max() <= 1
            assert block.targets is not None
            assert np.abs(block.targets).max() <= 1
            seen.add(frozenset(as_set(block)))
    common = frozenset.intersection(*seen)
    assert len(common) == 2  # the others' rows are the same bits in all of them
    assert len(seen) > 5


def test_a_row_of_nobody_is_a_person_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,age,ward,ill\n,20,west,no\nNA,30,west,no\na,40,west,no\nbroken\n")
    assert len(read_every_row(path, STUDY).rows) == 4
    path.write_text("id,age,ward,ill\n,20,west,no\nb,30,west,no\n")
    with pytest.raises(InvalidInput, match="'id' does not say of every row whose it is"):
        read_table(path, STUDY)
    (problem,) = check_data(path, STUDY).problems
    assert (problem.row, problem.column) == (1, "id")
    with pytest.raises(InvalidInput, match="missing: 'id'"):
        read_table(pl.DataFrame({"age": [1], "ward": ["west"], "ill": ["no"]}), STUDY)


def test_persons_are_named_once() -> None:
    assert persons_of(table(ROWS), "id") == ["7", "a", "b"]


def test_the_promise_to_a_person_is_not_refuted_and_that_to_a_row_is() -> None:
    # A person with four rows: with one class in all, or the other. δ = 0, and half of ε = 1.6.
    epsilon, some = 0.8, [("a", "30", "south", "no"), ("b", "40", "west", "yes")]
    first = table([*some, *[("me", "50", "west", "yes")] * 4])
    second = table([*some, *[("me", "50", "west", "no")] * 4])

    def second_class(reading: Any) -> Any:
        def draw(people: pl.DataFrame, runs: int, rng: object) -> np.ndarray:
            targets = read_table(people, reading).targets
            assert targets is not None
            return np.array(exact.laplace(1 / epsilon).add_noise([int((targets > 0).sum())] * runs))

        return draw

    rows = parse_study(
        TEXT.format(target='classes = ["no", "yes"]').replace('[person]\ncolumn = "id"\n', "")
    )
    claim: dict[str, Any] = {"epsilon": epsilon, "confidence": 1 - 1e-9, "runs": 20_000}
    assert not audit(second_class(STUDY), first, second, **claim).violated
    assert audit(second_class(rows), first, second, **claim).violated


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (('column = "id"', 'column = "age"'), "person.column"),
        (('column = "id"', 'column = "ill"'), "person.column"),
        (('column = "id"', 'colum = "id"'), "person"),
        (('unit = "patient"', ""), "privacy.unit"),
        (('classes = ["no", "yes"]', "most = 9"), "target.most"),
    ],
)
def test_what_a_study_cannot_mean_is_explained(change: tuple[str, str], where: str) -> None:
    with pytest.raises(InvalidInput, match=where):
        parse_study(TEXT.format(target='classes = ["no", "yes"]').replace(*change))


def test_a_study_without_persons_keeps_its_digest() -> None:
    plain = TEXT.format(target="low = 0\nhigh = 8").replace('[person]\ncolumn = "id"\n', "")
    assert parse_study(plain).digest() != NUMBERS.digest()
    # As it was before studies could name persons.
    assert parse_study(plain).digest().startswith("c05204bb6273a05c")
