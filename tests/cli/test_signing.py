"""`sudare resign` and `sudare approve`, at a desk."""

import json
from pathlib import Path

from tests.site.clinics import CLASSES, write_patients
from tests.support.commands import command


def test_a_lost_key_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "heart.toml").write_text(CLASSES.format(model="moments", epsilon=3.0))
    command(tmp_path, "init", "A", "--party", "Clinic A", "--study", "heart.toml")
    folder = tmp_path / "A"
    write_patients(folder / "rows.csv", 90, seed=3)
    command(folder, "ledger", "open", "patients", "--epsilon", "3")
    assert command(folder, "release").code == 0
    (folder / "key.json").unlink()
    command(folder, "keys", "new", "key.json", "--public", "new.pub")
    done = command(folder, "resign")
    assert done.code == 0, done.err
    assert "nothing was spent" in done.out
    command(folder, "trust", "add", "Clinic A, new", "new.pub")
    found = json.loads(command(folder, "verify", "--json").out)
    assert sorted(each["valid"] for each in found) == [False, True]
    again = json.loads(command(folder, "release", "--json").out)
    assert again["repeated"] is True
    (account,) = json.loads(command(folder, "ledger", "show", "--json").out)
    assert len(account["entries"]) == 1


def test_a_release_that_needs_a_second_person(tmp_path: Path) -> None:
    (tmp_path / "heart.toml").write_text(CLASSES.format(model="moments", epsilon=3.0))
    command(tmp_path, "init", "A", "--party", "Clinic A", "--study", "heart.toml")
    folder = tmp_path / "A"
    write_patients(folder / "rows.csv", 90, seed=3)
    command(folder, "ledger", "open", "patients", "--epsilon", "3")
    command(folder, "keys", "new", "boss.json", "--public", "Dr Mori.pub")
    assert "nobody's approval" in command(folder, "ledger", "policy").out
    words = ("ledger", "policy", "--approvals", "1", "--approver", "Dr Mori.pub")
    assert "needs 1 of: Dr Mori" in command(folder, *words).out
    for job in ((), ("--unattended",)):
        waiting = command(folder, "release", *job)
        assert (waiting.code, waiting.out) == (4, "")
        assert "Nothing was spent" in waiting.err
    (request,) = (folder / "approvals").glob("*.request")
    name = f"approvals/{request.name}"
    unsaid = command(folder, "approve", name, "--key", "boss.json")
    assert (unsaid.code, "nobody said yes" in unsaid.err) == (2, True)
    done = command(folder, "approve", name, "--key", "boss.json", "--yes")
    assert done.code == 0
    assert "Clinic A" in done.out
    assert command(folder, "release").code == 0
