"""Every mistake in a study is explained, with the line it stands on."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.foundations.checks import InvalidInput
from sudare.study import Study, StudyInvalid, parse_study, read_study
from tests.study.studies import PRIVACY, studies, study, text, to_toml

REGRESSION = '[target]\ncolumn = "stay"\nlow = 0\nhigh = 60\n'


def marked(whole: str) -> tuple[str, int]:
    """A text in which the wrong line ends in <<, without the mark; and that line's number."""
    lines = whole.splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if line.endswith("<<"))
    return whole.replace("<<", ""), number


def with_bound(bound: str) -> str:
    """A wrong bound of a column, which is told at its header."""
    return replaced("[columns.age]", "[columns.age]<<").replace("high = 100", f"high = {bound}")


def with_target(old: str, new: str) -> str:
    """A wrong target, which is told at its header, too."""
    assert old in REGRESSION
    return text(target=REGRESSION.replace("[target]", "[target]<<").replace(old, new))


def with_count(line: str) -> str:
    return text(target=f'[target]\ncolumn = "falls"\n{line}\n')


def with_columns(line: str) -> str:
    return re.sub(r"(?s)\[columns.*(?=\[target)", line, text())


def replaced(old: str, new: str) -> str:
    assert old in text(), old
    return text().replace(old, new, 1)


WRONG = {
    # name: (the study, what is said)
    "no name": (replaced('name = "hearts"', "# no name <<"), "a study needs a name"),
    "an empty name": (replaced('"hearts"', '" "<<'), "a study needs a name"),
    "an unprintable name": (replaced('"hearts"', '"\\u001b[2J"<<'), "a study needs a name"),
    "a number for a name": (replaced('"hearts"', "5<<"), "a study needs a name"),
    "a number for a description": ("description = 5<<\n" + text(), "must be a text"),
    "an unknown section": (text() + "[secrets]<<\nx = 1\n", "unknown"),
    "an unknown key": ("colour = 1<<\n" + text(), "unknown"),
    "an unknown key in a column": (replaced("high = 100", "high = 100\nhihg = 5<<"), "hihg"),
    "an unknown key in the target": (replaced('column = "ill"', 'column = "ill"\nx = 1<<'), "`x`"),
    "an unknown key in the terms": (text() + "epsilom = 1<<\n", "epsilom"),
    "a missing low": (replaced("[columns.age]\nlow = 0", "[columns.age]<<"), "low"),
    "a missing high": (
        replaced("[columns.pressure]\nlow = 80.0\nhigh = 200.0", "[columns.pressure]<<\nlow = 80"),
        "high",
    ),
    "a text for a number": (replaced("high = 100", 'high = "old"<<'), "Expected `float`"),
    "low above high": (replaced("low = 0\n", "low = 500<<\n"), "low must be below high"),
    "low equal to high": (replaced("low = 0\n", "low = 100<<\n"), "low must be below high"),
    "an infinite bound": (with_bound("inf"), "finite"),
    "an endless bound": (with_bound("1e101"), "finite"),
    "not a number": (with_bound("nan"), "finite"),
    "a centre outside": (replaced("centre = 40", "centre = 140<<"), "within the bounds"),
    "a missing value outside": (replaced("missing = 120.0", "missing = 0<<"), "within the bounds"),
    "no scale": (replaced("centre = 40", "centre = 40\nscale = 0<<"), "scale must be above 0"),
    "an indicator of nothing": (
        replaced("centre = 40", "centre = 40\nindicator = true<<"),
        "needs a value to put in the gap",
    ),
    "one category": (replaced('["female", "male"]', '["female"]<<'), "two or more"),
    "no category": (replaced('["female", "male"]', "[]<<"), "two or more"),
    "a category twice": (replaced('["female", "male"]', '[1, "1.0"]<<'), "named twice"),
    "categories of anything": (replaced('["female", "male"]', "[[1], [2]]<<"), "Expected"),
    "an endless category": (replaced('["female", "male"]', '["a", inf]<<'), "printable"),
    "an empty category": (replaced('["female", "male"]', '["a", ""]<<'), "printable"),
    "a category that clears the screen": (
        replaced('["female", "male"]', '["a", "\\u001b[2J"]<<'),
        "printable",
    ),
    "a missing category": (replaced('missing = "west"', 'missing = "east"<<'), "be a category"),
    "columns of nothing": (with_columns("columns = 5<<\n"), "no columns"),
    "a column that is a number": (with_columns("columns.age = 5<<\n"), "Expected `object`"),
    "two features of one name": (
        replaced(
            "[columns.sex]", '[columns."ward=west"]\nlow = 0\nhigh = 1\n\n[columns.sex]'
        ).replace("[columns.ward]", "[columns.ward]<<"),
        "same name",
    ),
    "the target among the columns": (replaced('column = "ill"', 'column = "age"<<'), "among the"),
    "no classes": (
        replaced('[target]\ncolumn = "ill"\nclasses = ["no", "yes"]', '[target]<<\ncolumn = "ill"'),
        "two",
    ),
    "classes and bounds": (
        replaced("[target]", "[target]<<").replace('"yes"]', '"yes"]\nlow = 0\nhigh = 1'),
        "two classes",
    ),
    "one class": (replaced('["no", "yes"]', '["no"]<<'), "length"),
    "three classes": (replaced('["no", "yes"]', '["a", "b", "c"]<<'), "length"),
    "a class twice": (replaced('["no", "yes"]', '["no", "no"]<<'), "the same"),
    "a class and its number": (replaced('["no", "yes"]', "[1, true]<<"), "the same"),
    "no class": (replaced('["no", "yes"]', "[nan, 1]<<"), "printable"),
    "half a target": (with_target("high = 60\n", ""), "low must be below high"),
    "an endless target": (with_target("60", "inf"), "finite"),
    "a target upside down": (with_target("60", "-1"), "low must be below high"),
    "counts that are not whole": (with_count("most = 2.5<<"), "Expected `int`"),
    "counts up to nothing": (with_count("most = 0<<"), "between 1 and 1000000"),
    "counts up to everything": (with_count("most = 1000001<<"), "between 1 and 1000000"),
    "counts and a bound": (with_count("most = 5<<\nlow = 1"), "no other bounds"),
    "counts and classes": (
        replaced('"yes"]', '"yes"]\nmost = 5<<'),
        "no other bounds and no classes",
    ),
    "no epsilon": (replaced("[privacy]\nepsilon = 1.0", "[privacy]<<"), "epsilon"),
    "a negative epsilon": (replaced("epsilon = 1.0", "epsilon = -1<<"), "epsilon must be above 0"),
    "an endless epsilon": (replaced("epsilon = 1.0", "epsilon = inf<<"), "epsilon must be above 0"),
    "a delta of one": (replaced("delta = 1e-6", "delta = 1<<"), "delta must lie in"),
    "a delta that is no number": (replaced("delta = 1e-6", "delta = nan<<"), "delta must lie in"),
    "moments without delta": (replaced("delta = 1e-6", "delta = 0<<"), "needs a delta above 0"),
    "a long row": (text() + "row_norm = 2<<\n", "row_norm must lie in"),
    "no rows at all": (text() + "most_rows = 0<<\n", "most_rows must lie between"),
    "more rows than plausible": (text() + "most_rows = 1000000001<<\n", "most_rows must lie"),
    "half a row": (text() + "most_rows = 0.5<<\n", "Expected `int"),
    "rows that are true": (text() + "most_rows = true<<\n", "Expected `int"),
    "a unit of two lines": (replaced('"patient"', '"a\\nb"<<'), "unit must be a word"),
    "more moments than fit": (
        text(columns="".join(f"[columns.c{i}]\nlow = 0\nhigh = 1\n" for i in range(501)))
        + 'model = "moments"<<\n',
        "too many for moments",
    ),
    "an unknown model": (text() + 'model = "deep"<<\n', "Invalid enum value"),
    "no radius": (
        text(target=REGRESSION, privacy=PRIVACY.replace("y]", "y]<<") + 'model = "output"\n'),
        "needs a radius",
    ),
    "an endless radius": (text() + "radius = inf<<\n", "radius must be above 0"),
    "a negative radius": (text() + "radius = -1<<\n", "radius must be above 0"),
}


@pytest.mark.parametrize(("whole", "said"), WRONG.values(), ids=WRONG.keys())
def test_a_mistake_is_explained_where_it_stands(whole: str, said: str) -> None:
    wrong, line = marked(whole)
    with pytest.raises(StudyInvalid) as found:
        parse_study(wrong)
    (problem,) = found.value.problems
    assert said in problem.what
    assert problem.line == line
    assert problem.fix
    assert str(found.value) == f"In the study, {problem}"


def test_the_example_is_right() -> None:
    assert list(study().columns) == ["age", "pressure", "sex", "ward"]


@pytest.mark.parametrize(
    ("whole", "line"),
    [
        ("name =", 1),
        (text().replace("low = 0", "low = ", 1), 4),
        (text() + '[more]\nlow = "', 31),
        (text() + "[columns.age]\nlow = 1\n", 30),
        (text().replace("high = 100", "high = 1OO"), 5),
        ("x = " + "[" * 100_000, 1),
        ("x = 1" + "0" * 5000, 1),
        ("\x00", 1),
    ],
)
def test_what_is_not_toml_is_explained(whole: str, line: int) -> None:
    with pytest.raises(StudyInvalid) as found:
        parse_study(whole)
    (problem,) = found.value.problems
    assert problem.line == line
    assert problem.where == "TOML"


def test_all_problems_are_told_at_once_and_in_order() -> None:
    wrong = text().replace("low = 0", "low = 500").replace("epsilon = 1.0", "epsilon = 0")
    wrong = wrong.replace('["female", "male"]', '["female"]').replace('name = "hearts"', "")
    with pytest.raises(StudyInvalid) as found:
        parse_study(wrong)
    assert [p.where for p in found.value.problems] == [
        "name",
        "columns.age.low",
        "columns.sex.categories",
        "privacy.epsilon",
    ]
    with pytest.raises(StudyInvalid) as found:
        parse_study("")
    assert [p.where for p in found.value.problems] == ["name", "columns", "target", "privacy"]


@pytest.mark.parametrize(
    "columns",
    [
        "[columns]\nage = {low = 0, high = -1}<<\n",
        "[columns]\nage.low = 0<<\nage.high = -1\n",
        '[ "columns" . \'age\' ]  # spaced\n"low" = 0<<\nhigh = -1\n',
        '["col\\u0075mns"."age"]\nlow = 0<<\nhigh = -1\n',
        "[columns.other]\nlow = -5\nhigh = 1\n[columns.age]\nhigh = -1\nlow = 0<<\n",
    ],
)
def test_lines_are_found_however_toml_is_written(columns: str) -> None:
    wrong, line = marked(text(columns=columns))
    with pytest.raises(StudyInvalid) as found:
        parse_study(wrong)
    assert [(p.line, p.what) for p in found.value.problems] == [(line, "low must be below high")]


@given(studies())
def test_a_study_reads_back_from_toml(found: Study) -> None:
    assert parse_study(to_toml(found)) == found


@settings(max_examples=200)
@given(st.integers(0, 2000), st.text(max_size=3), st.integers(0, 3))
def test_a_mutated_study_is_read_or_explained(place: int, put: str, cut: int) -> None:
    place %= len(text())
    try:
        found = parse_study(text()[:place] + put + text()[place + cut :])
    except StudyInvalid as problem:
        found = None
        lines = [each.line for each in problem.problems]
    if found is None:
        assert lines == sorted(lines)
        assert 1 <= lines[0] <= lines[-1] <= len(text().splitlines()) + len(put)
    else:
        assert found.contract.dimension >= 2


def test_a_study_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_bytes(b"\xef\xbb\xbf" + text().replace("\n", "\r\n").encode())
    assert read_study(file) == study()
    file.write_bytes(text().replace("hearts", "ä").encode("latin-1"))
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_study(file)
    for path, reason in ((tmp_path / "nowhere", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(InvalidInput, match=reason):
            read_study(path)


def test_counts_are_numbers_from_zero_to_the_most() -> None:
    counts = study(target='[target]\ncolumn = "falls"\nmost = 12\n')
    assert counts.target.counts
    assert (counts.target.low, counts.target.high) == (0.0, 12.0)
    assert (counts.task, counts.target_middle, counts.target_reach) == ("regression", 6.0, 6.0)
    again = msgspec.json.decode(msgspec.json.encode(counts), type=Study)
    assert (again, again.digest()) == (counts, counts.digest())
    numbers = study(target='[target]\ncolumn = "falls"\nlow = 0\nhigh = 12\n')
    assert numbers.digest() != counts.digest()
    assert b"most" not in msgspec.json.encode(numbers.target)
