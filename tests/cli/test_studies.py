import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sudare.cli import app
from sudare.study import Categories, Number, read_study
from tests.support.commands import command


def test_only_the_columns_asked_for_are_drafted(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id;name;age;sex;ill\n1;x;40;f;no\n")
    done = command(tmp_path, "study", "new", "rows.csv", "--columns", "age, sex", "--target", "ill")
    assert done.code == 0
    made = read_study(tmp_path / "study.toml")
    assert list(made.columns) == ["age", "sex"]
    assert made.target.column == "ill"
    words = ("study", "new", "rows.csv", "--columns", "age,wage", "--out", "x.toml")
    refused = command(tmp_path, *words)
    assert (refused.code, "no 'wage'" in refused.err) == (2, True)


def test_no_row_is_read_without_look(tmp_path: Path) -> None:
    rows = "".join(f"{k % 2},north,{k}\n" for k in range(60))
    (tmp_path / "rows.csv").write_text("flag,ward,score\n" + rows)
    words = ("study", "new", "rows.csv", "--target", "flag")
    plain = command(tmp_path, *words)
    assert "Fill in what is not known by its name: flag, ward, score" in plain.out
    assert "north" not in (tmp_path / "study.toml").read_text()
    looked = command(tmp_path, *words, "--look", "--out", "looked.toml")
    assert "Warning: with --look" in looked.err
    text = (tmp_path / "looked.toml").read_text()
    assert 'categories = ["north"]' in text
    assert "classes = [0, 1]" in text
    refused = command(tmp_path, "study", "new", "a", "b", "--look", "--out", "x.toml")
    assert refused.code == 2


def test_a_first_timer_is_asked(tmp_path: Path) -> None:
    answers = [
        "hearts",  # called
        "",  # predicted: the last
        "",  # age is in the study
        "",  # a number
        "20",
        "",  # up to 100
        "",  # typical: 55
        "n",  # not note
        "",  # ward is in
        "categories",
        "north, south",
        "",  # the target: categories
        "",  # no, yes
        "patient",
        "0.5",
    ]
    words = ["study", "new", "age", "note", "ward", "ill", "--ask", "--out", f"{tmp_path}/s.toml"]
    done = CliRunner().invoke(app, words, input="\n".join(answers) + "\n")
    assert done.exit_code == 0, done.output
    made = read_study(tmp_path / "s.toml")
    assert (made.name, made.privacy.epsilon, made.privacy.unit) == ("hearts", 0.5, "patient")
    age, ward = made.columns["age"], made.columns["ward"]
    assert isinstance(age, Number)
    assert (age.low, age.high, age.centre) == (20, 100, 55)
    assert isinstance(ward, Categories)
    assert ward.categories == ("north", "south")
    assert list(made.columns) == ["age", "ward"]
    assert made.target.classes == ("no", "yes")
    assert "general knowledge" in done.output


@pytest.mark.parametrize("words", [("a", "--target", "b"), ("none.csv", "x", "--columns", "y")])
def test_what_cannot_be_drafted_is_explained(words: Any, tmp_path: Path) -> None:
    done = command(tmp_path, "study", "new", *words)
    assert done.code == 2
    assert "Expected" in done.err


def test_a_study_is_drafted_from_names_alone_and_checked(desk: Any) -> None:
    assert "Wrote draft.toml" in desk.run(
        "study", "new", "0.csv", "--target", "ill", "--out", "draft.toml"
    )
    draft = (desk.folder / "draft.toml").read_text()
    assert "[columns.age]" in draft
    assert 'column = "ill"' in draft
    assert "exists" in desk.run("study", "new", "a", "b", "--out", "draft.toml")
    told = json.loads(desk.run("study", "check", "study.toml", "0.csv", "--json"))
    assert told["rows"] == 90
    assert told["features"] == ["age", "sex=m", "pressure", "pressure missing"]
    (desk.folder / "bad.toml").write_text(draft.replace("epsilon = 1.0", "epsilon = -1"))
    assert "privacy.epsilon" in desk.run("study", "check", "bad.toml")


def test_a_data_file_is_checked_whole_and_no_value_is_shown(desk: Any) -> None:
    good = (desk.folder / "0.csv").read_text()
    bad = good + "130,old,f,yes,x\n130,50,F,yes,x\n"
    (desk.folder / "bad.csv").write_text(bad)
    told = json.loads(desk.run("study", "check", "study.toml", "bad.csv", "--json"))
    assert [(each["row"], each["column"]) for each in told["data"]["problems"]] == [
        (91, "age"),
        (92, "sex"),
    ]
    assert "not to be shared" in told["data"]["note"]
    shown = command(desk.folder, "study", "check", "study.toml", "bad.csv")
    assert shown.code == 3
    assert "2 things to put right" in shown.out
    assert "old" not in shown.out
    assert command(desk.folder, "study", "check", "study.toml", "0.csv").code == 0
    (desk.folder / "many.csv").write_text(good + "130,old,f,yes,x\n" * 60)
    assert (
        "and 20 more: --all" in command(desk.folder, "study", "check", "study.toml", "many.csv").out
    )
    every = command(desk.folder, "study", "check", "study.toml", "many.csv", "--all").out
    assert "150" in every
    (desk.folder / "none.csv").write_text(good.splitlines()[0] + "\n")
    empty = command(desk.folder, "study", "check", "study.toml", "none.csv")
    assert (empty.code, "there are no rows" in empty.out) == (3, True)
