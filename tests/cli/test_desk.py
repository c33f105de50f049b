import json
import stat
from typing import Any


def test_keys_are_secret_and_fingerprints_are_shown(desk: Any) -> None:
    key = desk.folder / "key0.json"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "exists" in desk.run("keys", "new", "key0.json")
    trusted = json.loads(desk.run("trust", "list", "--json"))
    assert [each["name"] for each in trusted] == [f"Clinic {k}" for k in range(6)]
    assert "Clinic 3" in desk.run("trust", "list")
    assert "another key" in desk.run("trust", "add", "Clinic 0", "1.pub")


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


def test_the_ledger_is_shown_and_exported(desk: Any) -> None:
    (account,) = json.loads(desk.run("ledger", "show", "--ledger", "0.db", "--json"))
    assert account["remaining_epsilon"] == 0
    assert account["entries"][0]["released"]
    assert "c0: ε = 0 of 4 left" in desk.run("ledger", "show", "--ledger", "0.db")
    desk.run("ledger", "export", "all.json", "--ledger", "0.db")
    assert json.loads((desk.folder / "all.json").read_text()) == [account]
    assert "no ledger" in desk.run("ledger", "show", "--ledger", "none.db")
