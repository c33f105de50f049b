"""Audit cases from a user's own file."""

from pathlib import Path

import pytest

from sudare.audit import load_case
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded

GOOD = '''"""Adds Laplace noise."""
first, second, epsilon = 0.0, 1.0, {epsilon}
def mechanism(data, runs, rng):
    return data + rng.laplace(0.0, {scale}, runs)
'''


def case(tmp_path: Path, text: str, name: str = "mine.py"):
    path = tmp_path / name
    path.write_text(text)
    return load_case(path)


def test_a_file_becomes_a_case(tmp_path: Path) -> None:
    mine = case(tmp_path, GOOD.format(epsilon=1.0, scale=1.0))
    assert (mine.name, mine.title, mine.what) == ("mine", "mine.py", "Adds Laplace noise.")
    # The claim is true, so a false alarm has probability 1e-3 over seeds; this seed has none.
    assert not mine.run(runs=20_000, rng=seeded(1)).violated
    assert case(tmp_path, GOOD.format(epsilon=1.0, scale=0.6)).run(runs=20_000, rng=3).violated


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("first = second = 0\nepsilon = 1\n", "define mechanism"),
        ("mechanism = 3\nfirst = second = 0\nepsilon = 1\n", "to be a function"),
        ("def mechanism(d, n, r): ...\nfirst = second = 0\nepsilon = -1\n", "epsilon=-1 > 0"),
        ("def mechanism(d, n, r): ...\nfirst=second=0\nepsilon=1\ndelta=1\n", "delta=1 in"),
        ("def mechanism(:\n", "line 1: not valid Python"),
        ("first = 1\nsecond = secret\n", "line 2: NameError"),
        ("import no_such_module_anywhere\n", "line 1: ModuleNotFoundError"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message.replace("[", r"\[")):
        case(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No file"):
        load_case(tmp_path / "nowhere.py")


def test_an_error_while_it_runs_is_one_line_without_values(tmp_path: Path) -> None:
    text = GOOD.format(epsilon=1.0, scale=1.0) + "    raise ValueError('secret 12345')\n"
    text = text.replace("    return data + rng.laplace(0.0, 1.0, runs)\n", "")
    with pytest.raises(InvalidInput, match=r"mine\.py, line 4: ValueError") as problem:
        case(tmp_path, text).run(runs=200, rng=0)
    assert "12345" not in str(problem.value)
