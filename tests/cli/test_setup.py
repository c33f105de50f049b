import json
import shutil
from typing import Any

import pytest

from sudare.foundations.privacy import GaussianEvent, PureEvent
from sudare.ledger import Ledger
from tests.support import ROOT
from tests.support.commands import command


def test_the_ledger_is_shown_and_exported(desk: Any) -> None:
    (account,) = json.loads(desk.run("ledger", "show", "--ledger", "0.db", "--json"))
    assert account["remaining_epsilon"] == 0
    assert account["entries"][0]["released"]
    assert account["enforced_epsilon"] == account["spent_epsilon"] == pytest.approx(4.0)
    assert account["enforced_by"] == "alone"
    assert [each["reason"] for each in account["keys"]] == ["made"]
    shown = desk.run("ledger", "show", "--ledger", "0.db")
    assert "c0: ε = 0 of 4 left" in shown
    assert "Enforced: ε = 4, by one entry, by itself." in " ".join(shown.split())
    assert "key" not in shown
    desk.run("ledger", "export", "all.json", "--ledger", "0.db")
    assert json.loads((desk.folder / "all.json").read_text()) == [account]
    assert "no ledger" in desk.run("ledger", "show", "--ledger", "none.db")


def test_what_is_enforced_is_shown_beside_what_fixed_prices_would_come_to(desk: Any) -> None:
    with Ledger(desk.folder / "several.db") as ledger:
        ledger.open("several", "ab" * 32, 3.0, 1e-5)
        for _ in range(3):
            ledger.spend("several", GaussianEvent(0.2))
    (account,) = json.loads(desk.run("ledger", "show", "--ledger", "several.db", "--json"))
    assert account["spent_epsilon"] < account["enforced_epsilon"] < 3.0
    assert account["remaining_epsilon"] == 3.0 - account["enforced_epsilon"]
    shown = " ".join(desk.run("ledger", "show", "--ledger", "several.db").split())
    assert f"Enforced: ε = {account['enforced_epsilon']:.6g}, by the Gaussian curve" in shown
    assert "prices were fixed beforehand" in shown


def test_a_lost_key_stops_everything_until_the_ledger_is_given_a_new_one(desk: Any) -> None:
    with Ledger(desk.folder / "lost.db") as ledger:
        ledger.open("rows", "ab" * 32, 1.0)
        ledger.spend("rows", PureEvent(0.5))
    (desk.folder / "lost.db.key").unlink()
    refused = desk.run("ledger", "show", "--ledger", "lost.db")
    assert "lost.db.key is not there: restore it from a backup" in refused
    told = " ".join(desk.run("ledger", "rekey", "--ledger", "lost.db").split())
    assert "given a new key" in told
    assert "did not vouch for it" in told
    assert "did not vouch for it" in desk.run("ledger", "show", "--ledger", "lost.db")
    assert "everything was in order" in desk.run("ledger", "rekey", "--ledger", "lost.db")
    assert "no ledger" in desk.run("ledger", "rekey", "--ledger", "none.db")


def test_an_older_ledger_says_since_when_it_has_a_key(desk: Any) -> None:
    shutil.copy(ROOT / "tests" / "golden" / "ledger-1.db", desk.folder / "old.db")
    shown = " ".join(desk.run("ledger", "show", "--ledger", "old.db").split())
    assert "has a key since" in shown
    assert "after entry 4: what came before is vouched for only by the chain" in shown


def test_how_a_file_is_read_is_said_at_the_desk_alone(desk: Any) -> None:
    text = (desk.folder / "0.csv").read_text().replace(",", ";")
    (desk.folder / "odd.csv").write_text(text.replace(";x\n", ";é\n"), encoding="cp1252")
    words = ("odd.csv", "--ledger", "odd.db")
    opened = command(desk.folder, "ledger", "open", "odd", *words, "--epsilon", "4")
    assert opened.code == 0
    assert "read as cp1252, separated by ';', with decimal commas" in opened.err
    release = ("release", *words, "--key", "key0.json", "--party", "A", "--out", "odd")
    silent = command(desk.folder, *release, "--unattended")
    assert (silent.code, silent.err) == (0, "")
    assert "read as cp1252" in command(desk.folder, *release).err
