"""Words and numbers of the table of coefficients; whole pages are in test_estimating."""

from collections.abc import Iterator

import pytest

from sudare import site
from sudare.estimation import Coefficient, Model, Term
from sudare.site._estimate_page import drawn_step, what_is_compared
from tests.site.clinics import classes

Numbers = tuple[float, float, float]


def hidden_model() -> Model:
    told = Coefficient(
        term=Term(name="age", column="age"), told=True, estimate=0.02, std_error=0.01,
        low=0.0004, high=0.0396, z=2.0, p=0.0455,
    )  # fmt: skip
    hidden = Coefficient(term=Term(name="sex=m", column="sex", level="m", reference="f"),
                         told=False, reason="hidden by the noise")  # fmt: skip
    return Model(
        study="x", family="logistic", n=100, level=0.95, coefficients=(told, hidden), noise_std=1.0
    )


def test_what_is_hidden_has_words_and_no_numbers() -> None:
    first, second = site.estimate_lines(hidden_model())
    assert first.ratio == "1.0202 (1.0004 to 1.0404)"
    assert (first.term, first.compared, first.p) == ("age", "one more", "0.045")
    assert second.estimate == "hidden by the noise"
    assert (second.ratio, second.std_error, second.p) == ("", "", "")
    row = dict(zip(site.CSV_HEADER_ESTIMATES, list(site.estimate_rows(hidden_model()))[1],
                   strict=True))  # fmt: skip
    assert row["estimate"] is None
    assert row["reason"] == "hidden by the noise"


def shown_cases() -> Iterator[tuple[Numbers, str]]:
    yield (0.123456, 0.11, 0.137), "0.1235 (0.1100 to 0.1370)"
    yield (54.321, 14.0, 94.6), "54 (14 to 95)"
    yield (0.5, 0.5, 0.5), "0.500000 (0.500000 to 0.500000)"
    yield (2e7, 1e-3, 5e12), "2e+07 (0 to 5e+12)"


@pytest.mark.parametrize(("numbers_shown", "text"), list(shown_cases()))
def test_numbers_are_shown_to_the_digits_that_they_have(numbers_shown: Numbers, text: str) -> None:
    assert site.shown_interval(numbers_shown) == text


def test_every_kind_of_term_says_what_it_compares() -> None:
    assert what_is_compared(Term(name="intercept")) == "all others 0"
    assert what_is_compared(Term(name="age", column="age")) == "one more"
    sex = Term(name="sex=m", column="sex", level="m", reference="f")
    assert what_is_compared(sex) == "m, not f"
    gap = Term(name="pressure missing", column="pressure", missing=True)
    assert what_is_compared(gap) == "missing, not known"
    study = classes()  # ages from 20 to 90, pressures from 80 to 200
    assert drawn_step(Term(name="age", column="age"), study) == 20
    assert drawn_step(Term(name="pressure", column="pressure"), study) == 30
    assert drawn_step(sex, study) == drawn_step(gap, study) == 1
