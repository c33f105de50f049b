import csv
import json
from typing import Any

import pytest

from tests.site.clinics import CLASSES
from tests.support.commands import command


def test_a_table_is_printed_written_and_told_to_scripts(desk: Any) -> None:
    words = ("describe", "--releases", "releases")
    told = desk.run(*words, "--pairs", "--out", "table1.html", "--csv", "table1.csv")
    assert "540 rows of 6 organisations" in told
    assert "no further ε" in " ".join(told.split())
    for text in ("age", "mean", "SD", "missing", "ill = yes", "age, pressure", "Wrote table1.csv"):
        assert text in told
    assert "<h1>hearts: table 1</h1>" in (desk.folder / "table1.html").read_text()
    found = json.loads(desk.run(*words, "--json"))
    assert found["description"]["n"] == 540
    assert found["description"]["correlations"]
    assert [source["organisations"] for source in found["sources"]] == [1] * 6
    with (desk.folder / "table1.csv").open() as file:
        rows = list(csv.DictReader(file))
    age = found["description"]["columns"][0]["mean"]
    (line,) = (row for row in rows if (row["column"], row["statistic"]) == ("age", "mean"))
    assert float(line["value"]) == age["value"]
    # Six real noises: about 55 with a standard deviation of 4 for any draw, and 9 of those.
    assert age["value"] == pytest.approx(55, abs=36)
    assert line["told"] == str(age["told"])


def test_pairs_are_printed_on_demand(desk: Any) -> None:
    assert "age, pressure" not in desk.run("describe", "--releases", "releases")


def test_level_and_sampling_widen_intervals(desk: Any) -> None:
    words = ("describe", "--releases", "releases", "--json")
    usual = json.loads(desk.run(*words))["description"]["outcome"]["mean"]
    wide = json.loads(desk.run(*words, "--level", "0.99", "--sampling"))["description"]
    assert wide["level"] == 0.99
    assert wide["outcome"]["mean"]["covers"] == "noise and sampling"
    assert wide["outcome"]["mean"]["high"] > usual["high"]
    assert "level" in desk.run("describe", "--releases", "releases", "--level", "1.5")


def test_nothing_to_describe_is_said_with_the_reasons(desk: Any) -> None:
    (desk.folder / "odd").mkdir(exist_ok=True)
    (desk.folder / "odd" / "x.release").write_text("nonsense")
    done = command(desk.folder, "describe", "--releases", "odd")
    assert done.code == 2
    assert "none can be used" in done.err
    assert "not a signed release" in done.err
    (desk.folder / "other.toml").write_text(CLASSES.format(model="moments", epsilon=3.0))
    done = command(desk.folder, "describe", "--releases", "releases", "--study", "other.toml")
    assert done.code == 2
    assert "another study" in done.err
