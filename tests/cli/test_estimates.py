import csv
import json
from pathlib import Path
from typing import Any

import pytest

from sudare.exchange import Keyring
from sudare.ledger import Ledger
from sudare.study import raw_content
from tests.cli.conftest import Desk
from tests.site.clinics import NUMBERS, clinic, numbers, write_stays
from tests.site.desks import desks, finish
from tests.support.commands import command


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Three clinics that pooled numbers, and four that released them separately."""
    folder = tmp_path_factory.mktemp("stays")
    made = desks(folder, study=numbers(), rows=900, cap=20.0)
    finish(made)
    ring: Keyring = made[0].pool.keyring
    for k in range(4):
        one = clinic(folder, f"Alone {k}", seed=k, rows=10)
        one.data = write_stays(folder / f"alone {k}.csv", 900, seed=50 + k)
        one.ledger = folder / f"alone {k}.ledger"
        with Ledger(one.ledger) as ledger:
            ledger.open("stays", ledger.fingerprint(raw_content(one.data)), 4.0, 1e-6)
        one.publish(numbers(), folder / "apart")
        ring = ring.with_key(one.name, one.key.public)
    (folder / "study.toml").write_text(NUMBERS.format(model="moments", more=""))
    (folder / "trust.toml").write_text(ring.to_toml())
    return Desk(folder)


def test_a_model_is_printed_written_and_told_to_scripts(stays: Desk) -> None:
    told = stays.run("estimate", "shared", "--html", "m.html", "--csv", "m.csv", "--table1")
    words = " ".join(told.split())
    assert "A linear regression of days on 2703 rows of 3 organisations" in words
    assert "no further ε" in words
    for text in ("age", "one more", "intercept", "std. error", "Wrote m.csv.", "Wrote m.html."):
        assert text in told
    page = (stays.folder / "m.html").read_text()
    assert "<h1>stays: a linear model</h1>" in page
    assert "Who the rows are about" in page
    found = json.loads(stays.run("estimate", "shared", "--json"))
    age = found["model"]["coefficients"][0]
    assert found["model"]["n"] == 2703
    # Real noise: standard errors are some .01 around .2.
    assert age["estimate"] == pytest.approx(0.2, abs=10 * age["std_error"])
    with (stays.folder / "m.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["term"] for row in rows] == ["age", "intercept"]
    assert float(rows[0]["low"]) == age["low"]
    assert rows[0]["ratio"] == ""


def test_separate_releases_are_sites_unless_they_are_added_up(stays: Desk) -> None:
    told = stays.run("estimate", "apart")
    assert " t " in told
    assert "random effects" in " ".join(told.split())
    together = json.loads(stays.run("estimate", "apart", "--method", "together", "--json"))
    assert together["model"]["sites"] is None
    assert together["model"]["bounded"]
    # With a pool beside them, residuals are those of the pool.
    both = json.loads(stays.run("estimate", "shared", "apart", "--json"))["model"]
    assert both["n"] == 2703 + 3600
    assert not both["bounded"]
    sites = json.loads(stays.run("estimate", "shared", "apart", "--method", "sites", "--json"))
    assert len(sites["model"]["sites"][0]) == 5


def test_level_changes_intervals(stays: Desk) -> None:
    usual = json.loads(stays.run("estimate", "shared", "--json"))["model"]["coefficients"][0]
    wide = json.loads(stays.run("estimate", "shared", "--json", "--level", "0.99"))["model"]
    assert wide["level"] == 0.99
    assert wide["coefficients"][0]["high"] > usual["high"]
    assert "level" in stays.run("estimate", "shared", "--level", "1.5")


def test_moments_of_classes_are_refused_with_what_to_do(desk: Any) -> None:
    told = desk.run("estimate", "releases")
    assert told.startswith("Error: Expected a pool of kind 'logistic'")
    assert "sudare pool new --kind logistic" in told
    assert "sudare describe" in told
    assert "Clinic 3: it holds moments alone" in told


def test_nothing_to_estimate_is_said_with_the_reasons(stays: Desk) -> None:
    (stays.folder / "odd").mkdir(exist_ok=True)
    Path(stays.folder / "odd" / "x.release").write_text("nonsense")
    done = command(stays.folder, "estimate", "odd")
    assert done.code == 2
    assert "not a signed release" in done.err
    done = command(stays.folder, "estimate", "nowhere")
    assert done.code == 2
    assert "nowhere" in done.err
