import msgspec
import pytest

from sudare.estimation import (
    CategorySummary,
    Description,
    LevelSummary,
    NumberSummary,
    Quantity,
    describe,
)
from sudare.estimation._description import quantities
from sudare.estimation._propagation import WIDE
from sudare.foundations.randomness import seeded
from tests.estimation.people import classes, noisy, numbers, people, truth


def made(noise_std: float = 1e-7, task: str = "classes", **settings) -> Description:
    study = classes() if task == "classes" else numbers()
    sums = noisy(people(700, seeded(1)), study, noise_std, seeded(2))
    return describe(sums, study, **settings)


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_a_description_holds_every_number_of_the_rows(task: str) -> None:
    study = classes() if task == "classes" else numbers()
    plain, found = truth(people(700, seeded(1)), study), made(task=task)
    told: dict[tuple[str, ...], Quantity] = {("outcome",): found.outcome.mean}
    if found.outcome.deviation is not None:
        told["outcome deviation",] = found.outcome.deviation
    levels: tuple[LevelSummary, ...]
    for column in found.columns:
        if isinstance(column, NumberSummary):
            told["mean", column.column] = column.mean
            told["deviation", column.column] = column.deviation
            levels = () if column.missing is None else (column.missing,)
        else:
            levels = column.levels
        for level in levels:
            if level.level is None:
                told["missing", column.column] = level.share
            else:
                told["share", column.column, level.level] = level.share
            told["group", column.column, level.level or ""] = level.outcome
    for pair in found.correlations:
        told["correlation", pair.first, pair.second] = pair.correlation
    for table in found.two_way:
        for cell in table.cells:
            told["cell", table.first, cell.first, table.second, cell.second] = cell.share
    assert set(told) == set(plain)
    assert len(list(quantities(found))) == len(told)
    for key, quantity in told.items():
        assert quantity.value == pytest.approx(plain[key], rel=1e-6, abs=1e-6), key
        assert quantity.reason == ""
    assert (found.n, found.outcome.positive) == (700, "yes" if task == "classes" else None)


def test_what_is_hidden_has_a_reason_and_no_number() -> None:
    found = made(5000.0)
    for quantity in quantities(found):
        assert not quantity.told
        assert quantity.value is quantity.low is quantity.high is None
        assert quantity.reason.startswith("hidden by the noise")
    assert found.outcome.mean.reason == WIDE
    assert found.n == 700


def test_display_clips_to_the_possible_and_the_numbers_stay() -> None:
    quantity = Quantity(told=True, value=-0.01, low=-0.05, high=0.03, least=0.0, most=1.0)
    assert quantity.possible == (0.0, 0.0, 0.03)
    assert quantity.clipped
    inside = Quantity(told=True, value=0.2, low=0.1, high=0.3, least=0.0, most=1.0)
    assert not inside.clipped
    assert not Quantity(told=False, least=0.0, most=1.0).clipped
    beyond = made(10.0)
    assert any(each.clipped for each in quantities(beyond))
    assert any("A star" in note for note in beyond.notes)
    assert not any("A star" in note for note in made().notes)


def test_pairs_are_made_on_demand() -> None:
    alone = made(pairs=False)
    assert (alone.correlations, alone.two_way) == ((), ())
    assert len(made().correlations) == 3
    assert [len(table.cells) for table in made().two_way] == [8, 4, 8]


def test_intervals_say_what_they_count() -> None:
    plain, sampled = made(task="numbers"), made(task="numbers", sampling=True)
    assert {each.covers for each in quantities(plain)} == {"noise"}
    assert sampled.outcome.mean.covers == "noise and sampling"
    stage = sampled.columns[3]
    assert isinstance(stage, CategorySummary)
    assert stage.levels[0].share.covers == "noise and sampling"
    assert stage.levels[0].outcome.covers == "noise and a bound on sampling"
    assert sampled.correlations[0].correlation.covers == "noise"
    assert "about these very rows" in plain.notes[0]
    assert "a sample" in sampled.notes[0]
    for first, second in zip(quantities(plain), quantities(sampled), strict=True):
        assert first.value == second.value
        assert second.possible[2] >= first.possible[2]


def test_a_study_without_an_intercept_says_so() -> None:
    study = classes("intercept = false")
    found = describe(noisy(people(300, seeded(3)), study, 0.1, seeded(4)), study)
    age, stage = found.columns[0], found.columns[3]
    assert isinstance(age, NumberSummary)
    assert isinstance(stage, CategorySummary)
    assert "intercept = false" in age.mean.reason
    assert "intercept = false" in found.outcome.mean.reason
    assert stage.levels[0].share.told
    assert (age.mean.least, age.mean.most) == (20.0, 90.0)


def test_notes_say_what_became_of_gaps_and_long_rows() -> None:
    notes = " ".join(made().notes)
    assert "Missing values of smoker" in notes
    assert "over known values" in notes
    assert "row_norm" not in notes
    study = classes("row_norm = 0.8")
    found = describe(noisy(people(300, seeded(3)), study, 0.1, seeded(4)), study)
    assert found.shortened_at_most is not None
    assert "row_norm = 0.8" in " ".join(found.notes)


def test_a_description_can_be_written_and_read() -> None:
    found = made(3.0)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Description) == found
