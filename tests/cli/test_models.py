import csv
import json
from typing import Any

import pandas  # type: ignore[import-untyped]
import pytest

from sudare.site import load_model
from tests.support.commands import command

OWN = ("--key", "key0.json")
WRITTEN = ("m.json", "u.json", "p.csv", "r.html", "e.csv", "x.csv", "x.onnx")


def test_blend_predict_and_report(desk: Any) -> None:
    told = desk.run("blend", "0.csv", "--releases", "releases", "--party", "Clinic 0", *OWN)
    assert "made from these rows" in " ".join(told.split())
    story = json.loads(
        desk.run("blend", "0.csv", "--releases", "releases", "--party", "Clinic 0", "--json", *OWN)
    )
    assert len(story["parties"]) == 5
    desk.run("predict", "model.json", "1.csv")
    with (desk.folder / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 90
    assert all((row["prediction"] == "yes") == (float(row["probability"]) > 0.5) for row in rows)
    desk.run("report", "model.json", "--coefficients", "effects.csv")
    assert "<svg" in (desk.folder / "report.html").read_text()
    with (desk.folder / "effects.csv").open() as file:
        effects = list(csv.DictReader(file))
    assert [each["feature"] for each in effects][:3] == ["(intercept)", "age", "sex=m"]
    assert float(effects[1]["odds_ratio"]) > 1


def test_what_was_made_from_rows_is_for_its_owner_alone(desk: Any) -> None:
    """Also where a file that others could read was there before."""
    place = desk.folder / "inside"
    place.mkdir()
    (place / "p.csv").write_text("old")
    (place / "p.csv").chmod(0o644)
    common = ("--releases", "releases", "--party", "Clinic 0", *OWN)
    desk.run("blend", "0.csv", *common, "--out", "inside/m.json")
    desk.run("blend", "0.csv", *common, "--out", "inside/u.json", "--unattended")
    desk.run("predict", "inside/m.json", "1.csv", "--out", "inside/p.csv")
    desk.run("report", "inside/m.json", "--out", "inside/r.html", "--coefficients", "inside/e.csv")
    for to in ("x.csv", "x.onnx"):
        desk.run("export", "inside/m.json", "--out", f"inside/{to}")
    modes = {each.name: each.stat().st_mode & 0o777 for each in place.iterdir()}
    assert modes == dict.fromkeys(WRITTEN, 0o600)


def test_a_blend_that_is_stopped_leaves_the_model_as_it_was(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    words = ("blend", "0.csv", "--releases", "releases", "--party", "Clinic 0", *OWN)
    (desk.folder / "before.json").write_text("before")
    for name, state in (("before.json", "is as it was"), ("never.json", "was not written")):
        with monkeypatch.context() as patched:
            patched.setattr("sudare.site._blended.HedgedBlend", interrupt)
            done = command(desk.folder, *words, "--out", name)
        assert (done.code, done.out) == (130, "")
        assert done.err == f"Stopped. {name} {state}; a blend spends nothing.\n"
    assert (desk.folder / "before.json").read_text() == "before"
    assert not (desk.folder / "never.json").exists()


def test_predictions_keep_the_names_of_their_rows(desk: Any) -> None:
    words = ("--releases", "releases", "--party", "Clinic 0", *OWN, "--out", "named.json")
    desk.run("blend", "0.csv", *words)
    lines = (desk.folder / "1.csv").read_text().splitlines()
    named = [f"patient,{lines[0]}"]
    named += [f"00{k},{line}" for k, line in enumerate(lines[1:-1])] + [f"NA,{lines[-1]}"]
    (desk.folder / "named.csv").write_text("\n".join(named) + "\n")
    desk.run("predict", "named.json", "named.csv", "--id", "patient")
    with (desk.folder / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["patient", "prediction", "probability"]
    assert [row["patient"] for row in rows] == [f"00{k}" for k in range(89)] + ["NA"]
    told = load_model(desk.folder / "named.json").predict_proba(desk.folder / "named.csv")[:, 1]
    assert [float(row["probability"]) for row in rows] == told.tolist()
    pandas.read_csv(desk.folder / "named.csv").to_parquet(desk.folder / "named.parquet")
    desk.run("predict", "named.json", "named.parquet", "--id", "age", "--out", "by-age.csv")
    with (desk.folder / "by-age.csv").open() as file:
        assert [float(row["age"]) for row in csv.DictReader(file)] == [
            float(line.split(",")[1]) for line in lines[1:]
        ]
    for wrong, said in (("nobody", "missing: 'nobody'"), ("probability", "one of the answers")):
        done = command(desk.folder, "predict", "named.json", "named.csv", "--id", wrong)
        assert (done.code, said in done.err) == (2, True)


def test_learning_together_is_planned(desk: Any) -> None:
    words = ("plan", "learn", "--rows", "30", "--features", "3", "--epsilon", "4", "--parties", "5")
    found = json.loads(desk.run(*words, "--runs", "2", "--json", "--plot", "plan.svg"))
    assert len(found["points"]) == 5
    assert (desk.folder / "plan.svg").read_text().startswith("<svg")
    assert "simulated consortia" in " ".join(desk.run(*words, "--runs", "2").split())


def test_a_blend_of_nothing_says_that_everything_was_refused(desk: Any) -> None:
    (desk.folder / "strange").mkdir(exist_ok=True)
    (desk.folder / "strange" / "x.release").write_text("nonsense")
    words = (
        "blend",
        "0.csv",
        "--releases",
        "strange",
        "--party",
        "Clinic 0",
        "--out",
        "none.json",
        *OWN,
    )
    done = command(desk.folder, *words)
    assert done.code == 3
    assert "None of the 1 releases found could be used" in done.out
    assert "not a signed release" in done.out
    assert (desk.folder / "none.json").exists()
    told = command(desk.folder, *words, "--json")
    assert told.code == 3
    assert json.loads(told.out)["parties"] == []
