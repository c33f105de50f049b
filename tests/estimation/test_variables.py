import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from sudare.estimation._variables import ONE, NotReleased, Variable, Variables
from sudare.foundations.randomness import seeded
from sudare.study import Study, parse_study, read_table
from tests.estimation.people import classes, clipped, noisy, numbers, people


def variables(study: Study, rows: int = 200) -> Variables:
    return Variables(study, noisy(people(rows, seeded(1)), study, 1e-9, seeded(2)))


def of_rows(variable: Variable, study: Study) -> np.ndarray:
    """A variable's value in every row."""
    block = read_table(people(200, seeded(1)), study)
    assert block.targets is not None
    z = np.column_stack([block.rows, np.ones(len(block.rows)), block.targets])
    found = np.full(len(z), variable.offset)
    for place, weight in variable.weights.items():
        found += weight * z[:, place]
    return found


def test_a_variable_is_what_its_column_says_in_every_row() -> None:
    study, frame = numbers(), clipped(people(200, seeded(1)))
    made = variables(study)
    np.testing.assert_allclose(of_rows(made.number("age"), study) + 48, frame["age"])
    np.testing.assert_allclose(of_rows(made.outcome(), study), frame["days"], atol=1e-12)
    for name in ("sex", "stage", "smoker"):
        for level, variable in made.levels(name).items():
            inside = (frame[name] == level).to_numpy()
            np.testing.assert_allclose(of_rows(variable, study), inside, atol=1e-12)
    gap = made.missing("stage")
    assert gap is not None
    np.testing.assert_allclose(of_rows(gap, study), frame["stage"].isna(), atol=1e-12)
    assert made.missing("sex") is None
    ill = variables(classes()).outcome()
    np.testing.assert_allclose(of_rows(ill, classes()), frame["ill"] == "yes", atol=1e-12)


def test_means_and_products_are_those_of_the_rows() -> None:
    study = numbers()
    made = variables(study)
    stage, sex = made.levels("stage"), made.levels("sex")
    chosen = [ONE, made.number("age"), made.outcome(), stage["I"], stage["II"], sex["m"]]
    for first in chosen:
        mean = of_rows(first, study).mean()
        assert made.sums.value(made.mean(first)) == pytest.approx(mean, abs=1e-6)
        for second in chosen:
            both = (of_rows(first, study) * of_rows(second, study)).mean()
            assert made.sums.value(made.product(first, second)) == pytest.approx(both, abs=1e-5)
    assert (stage["I"] + stage["II"] * 2.0).offset == 1.0


def test_no_row_is_in_two_categories_and_no_noise_says_so() -> None:
    made = variables(classes())
    stage = made.levels("stage")
    assert made.product(stage["III"], stage["IV"]).weights == {}


def test_flags_have_less_noise_than_by_the_constant_alone() -> None:
    made = variables(classes())
    flag = made.places["stage"][1]
    assert set(made.mean(Variable(0.0, {flag: 1.0})).weights) == {(flag, flag), (flag, 10)}
    (alone,) = made.mean(Variable(0.0, {0: 1.0})).weights
    assert alone == (0, 10)


def test_without_a_constant_feature_most_means_are_not_in_the_sums() -> None:
    made = variables(classes("intercept = false"))
    with pytest.raises(NotReleased, match="intercept"):
        made.mean(made.number("age"))
    assert made.sums.value(made.mean(made.levels("stage")["IV"])) > 0


@pytest.mark.parametrize(
    ("column", "longest"),
    [
        ("low = 0\nhigh = 10", 1.0),
        ("low = 0\nhigh = 10\nscale = 2.5", 2.0),
        ("low = 0\nhigh = 10\ncentre = 2\nscale = 4", 2.0),
        ("low = 0\nhigh = 10\nmissing = 0\nindicator = true", 1.0),
        ("low = 0\nhigh = 10\nmissing = 5\nindicator = true", 0.5**0.5),
        ('categories = ["a", "b"]', 1.0),
        ('categories = ["a", "b", "c"]', 0.5**0.5),
        ('categories = ["a", "b", "c"]\nmissing = "b"\nindicator = true', (2 / 3) ** 0.5),
        ('categories = ["a", "b", "c"]\nmissing = "a"\nindicator = true', (1 / 3) ** 0.5),
    ],
)
def test_the_longest_row_is_known_without_any(column: str, longest: float) -> None:
    text = f"""
name = "x"
[columns.x]
{column}
[target]
column = "y"
classes = [0, 1]
[privacy]
epsilon = 1
delta = 1e-6
"""
    study = parse_study(text)
    values = ["a"] * 4 if "categories" in column else [1.0] * 4
    frame = pd.DataFrame({"x": values, "y": [0, 1, 0, 1]})
    made = Variables(study, noisy(frame, study, 1.0, seeded(1)))
    assert made.longest == pytest.approx(longest)
    assert made.may_shorten == (longest > 1)
    assert made.least_factor == pytest.approx(min(1.0, 1 / longest))
