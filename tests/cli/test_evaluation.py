import json
from typing import Any

import pytest

from tests.site.clinics import NUMBERS, write_stays
from tests.support.commands import command


@pytest.fixture(scope="module")
def judged(desk: Any) -> Any:
    """The desk, with a model that a clinic blended."""
    words = (
        "--releases",
        "releases",
        "--party",
        "Clinic 0",
        "--key",
        "key0.json",
        "--out",
        "judged.json",
    )
    desk.run("blend", "0.csv", *words)
    return desk


def test_a_model_is_judged_on_labelled_rows(judged: Any) -> None:
    told = judged.run("evaluate", "judged.json", "1.csv", "--threshold", "0.4")
    for words in ("90 rows, 95 % intervals from 1000", "AUC", "Brier score", "calibration slope"):
        assert words in told
    assert "called no" in told
    assert "Called yes above a probability of 0.4" in told
    assert "made from rows without noise: keep it inside" in told
    found = json.loads(judged.run("evaluate", "judged.json", "1.csv", "--json", "--level", "0.5"))
    assert found["note"] == "made from rows without noise: keep it inside"
    assert found["level"] == 0.5
    assert 0.5 < found["measures"]["auc"]["low"] < found["measures"]["auc"]["value"] < 1
    assert sum(n for name, n in found["confusion"].items() if name != "threshold") == 90


def test_a_model_of_numbers_is_judged(judged: Any) -> None:
    folder = judged.folder
    (folder / "stays.toml").write_text(NUMBERS.format(model="moments", more=""))
    (folder / "nobody").mkdir()
    for seed in (1, 2):
        write_stays(folder / f"stays{seed}.csv", 60, seed)
    judged.run(
        "blend", "stays1.csv", "--study", "stays.toml", "--releases", "nobody",
        "--party", "Clinic 0", "--out", "stays.json",
    )  # fmt: skip
    told = judged.run("evaluate", "stays.json", "stays2.csv")
    for words in ("RMSE", "MAE", "R²", "calibration intercept", "within 0 and 30"):
        assert words in told
    assert "AUC" not in told
    assert "called" not in told


def test_what_cannot_be_told_is_shown_as_a_dash(judged: Any) -> None:
    lines = (judged.folder / "1.csv").read_text().splitlines()
    few = [next(line for line in lines if f",{answer}," in line) for answer in ("yes", "no")]
    (judged.folder / "few.csv").write_text("\n".join([lines[0], *few]) + "\n")
    told = judged.run("evaluate", "judged.json", "few.csv")
    assert "–: infinite, or too few rows to tell" in told
    assert "Fewer than 10 rows: no intervals" in told


def test_rows_without_a_label_are_counted(judged: Any) -> None:
    lines = (judged.folder / "1.csv").read_text().splitlines()
    some = [line.replace(",yes,", ",,") if k < 20 else line for k, line in enumerate(lines)]
    (judged.folder / "some.csv").write_text("\n".join(some) + "\n")
    told = judged.run("evaluate", "judged.json", "some.csv")
    without = sum(line != old for line, old in zip(some, lines, strict=True))
    assert f"{without} rows without a label were left out" in told
    assert json.loads(judged.run("evaluate", "judged.json", "some.csv", "--json"))["rows"] == (
        90 - without
    )


def test_rows_of_one_class_are_refused(judged: Any) -> None:
    lines = (judged.folder / "1.csv").read_text().splitlines()
    one = [line for line in lines if ",yes," not in line]
    (judged.folder / "one.csv").write_text("\n".join(one) + "\n")
    done = command(judged.folder, "evaluate", "judged.json", "one.csv")
    assert done.code == 2
    assert "Expected rows of both classes in column 'ill'" in done.err
