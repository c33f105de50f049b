import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.study import Study, label_text, parse_study
from tests.study.studies import PRIVACY, studies, study, text

REGRESSION = '[target]\ncolumn = "stay"\nlow = 0\nhigh = 60\n'


def test_features_say_where_they_come_from() -> None:
    root = math.sqrt(7)
    found: list[Any] = [
        (f.name, f.column, f.category, f.centre, f.scale / root) for f in study().features
    ]
    assert found == [
        ("age", "age", None, 40.0, pytest.approx(60.0)),
        ("pressure", "pressure", None, 140.0, pytest.approx(60.0)),
        ("pressure missing", "pressure", None, 0.0, pytest.approx(1.0)),
        ("sex=male", "sex", "male", 0.5, pytest.approx(0.5)),
        ("ward=south", "ward", "south", 0.0, pytest.approx(1.0)),
        ("ward=west", "ward", "west", 0.0, pytest.approx(1.0)),
        ("ward missing", "ward", None, 0.0, pytest.approx(1.0)),
    ]


def test_the_contract_is_what_learners_need() -> None:
    contract = study(privacy=PRIVACY + "row_norm = 0.5\n").contract
    assert (contract.features, contract.row_norm, contract.constant) == (7, 0.5, 0.125)
    assert (contract.task, contract.classes) == ("classification", ("no", "yes"))
    plain = study(target=REGRESSION, privacy=PRIVACY + "intercept = false\n").contract
    assert (plain.constant, plain.task, plain.target_bound) == (0.0, "regression", 1.0)


def test_targets_of_a_regression_lie_around_their_middle() -> None:
    found = study(target=REGRESSION)
    assert (found.task, found.target_middle, found.target_reach) == ("regression", 30.0, 30.0)


@pytest.mark.parametrize("low", [1.0, 1.0 + 2**-52, 1e16, 5e-324, -1.0, 0.0])
def test_neighbouring_bounds_still_have_a_reach(low: float) -> None:
    high = math.nextafter(low, math.inf)
    found = study(target=f'[target]\ncolumn = "y"\nlow = {low!r}\nhigh = {high!r}\n')
    for y in (low, high):
        assert abs((y - found.target_middle) / found.target_reach) <= 1


def test_the_digest_is_of_what_is_agreed_on() -> None:
    """Kept for ever: a release carries it, and is refused under any other."""
    assert study().digest() == DIGEST
    assert parse_study("# a remark\n" + text().replace("= 100", "=   1e2")).digest() == DIGEST
    others = [
        text().replace("high = 100", "high = 101"),
        text().replace("centre = 40", "centre = 41"),
        text().replace('"hearts"', '"heart"'),
        text().replace('["no", "yes"]', '["yes", "no"]'),
        text().replace("epsilon = 1.0", "epsilon = 1.5"),
        text().replace('"north", "south"', '"south", "north"'),
        text(privacy=PRIVACY + "row_norm = 0.5"),
        text(privacy=PRIVACY + "most_rows = 1000000000"),
    ]
    digests = {parse_study(other).digest() for other in others}
    assert len(digests) == len(others)
    assert DIGEST not in digests


DIGEST = "71849ece297a8bda294a483b94f2258672ea6f2866e48675a676cb68fda32280"


def test_a_study_says_how_many_rows_are_plausible_or_a_thousand_million_are() -> None:
    assert study().privacy.plausible_rows == 10**9
    assert study(privacy=PRIVACY + "most_rows = 5000").privacy.plausible_rows == 5000


def test_the_order_of_columns_is_agreed_on_too() -> None:
    """Coefficients have no names: in another order they would be blended with the wrong ones."""
    one, two = ("[columns.a]\nlow = 0\nhigh = 1\n", "[columns.b]\nlow = 0\nhigh = 1\n")
    assert study(columns=one + two).digest() != study(columns=two + one).digest()


@given(studies())
def test_a_study_reads_back_from_json(found: Study) -> None:
    again = msgspec.json.decode(msgspec.json.encode(found), type=Study)
    assert again == found
    assert again.digest() == found.digest()
    assert again.features == found.features


@pytest.mark.parametrize(
    "same",
    [
        (1, 1.0, "1", "1.0", "1.00"),
        (-3, -3.0, "-3", "-3.0"),
        (0, 0.0, -0.0, "0.0", "-0.0"),
        (True, "true", "True", "TRUE"),
        (False, "false", "False"),
        (0.5, "0.5"),
        (1e22, "10000000000000000000000", "10000000000000000000000.0"),
        ("yes",),
        ("Yes",),
        ("01",),
        ("1e0",),
        ("1.",),
        ("٣",),
        ("٣.0",),
    ],
)
def test_a_label_has_one_spelling(same: tuple[Any, ...]) -> None:
    (spelling,) = {label_text(label) for label in same}
    assert label_text(spelling) == spelling
    assert SPELLINGS.setdefault(spelling, same) is same, "two labels became one"


SPELLINGS: dict[str, tuple[Any, ...]] = {}


@given(st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False))
def test_spelling_twice_changes_nothing(label: Any) -> None:
    assert label_text(label_text(label)) == label_text(label)
