"""`sudare pool`: the commands as people and scripts meet them."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.site.clinics import CLASSES, COUNTS, counts
from tests.site.desks import Desk, desks
from tests.support.commands import Done, command


@pytest.fixture
def made(tmp_path: Path) -> list[Desk]:
    found = desks(tmp_path)
    for desk in found:
        (desk.folder / "study.toml").write_text(CLASSES.format(model="moments", epsilon=1.0))
    return found


def pool(desk: Desk, *words: str) -> Done:
    return command(desk.folder, "pool", *words, "--place", desk.pool.place)


def test_a_plan_is_written_from_the_keyring_and_shows_what_holds_when(made: list[Desk]) -> None:
    folder = made[0].folder
    done = command(folder, "pool", "new", "--out", "p.toml", "--colluders", "1", "--alone", "2")
    assert done.code == 0
    assert "the plan promises 1" in done.out
    assert "only you" in done.out
    again = command(folder, "pool", "new", "--out", "p.toml")
    assert again.code == 2
    assert "p.toml exists" in again.err
    shown = json.loads(command(folder, "pool", "--plan", "p.toml", "--preview", "--json").out)
    assert len(shown["parties"]) == len(shown["curve"]) == 3
    assert shown["curve"][1]["honest"] == 2
    assert shown["curve"][1]["epsilon"] == pytest.approx(1.0, rel=1e-4)
    assert shown["curve"][2]["epsilon"] <= 2.0
    assert shown["noise_gain"] == pytest.approx(2**0.5, rel=0.05)
    fewer = command(folder, "pool", "new", "--out", "q.toml", "--without", "Clinic B")
    assert fewer.code == 2
    assert "at least 3 organisations" in fewer.err


def test_a_keyring_without_the_own_key_asks_for_a_name(made: list[Desk]) -> None:
    folder = made[0].folder
    text = (folder / "trust.toml").read_text()
    start = text.index('["Clinic A"]')
    (folder / "trust.toml").write_text(text[:start] + text[text.index('["Clinic B"]') :])
    done = command(folder, "pool", "new", "--out", "p.toml")
    assert done.code == 2
    assert "--party NAME" in done.err
    done = command(folder, "pool", "new", "--out", "p.toml", "--party", "Clinic A")
    assert done.code == 0
    # And taking part needs no name: the plan has it.
    assert pool(made[0], "people.csv").code == 4


def test_running_it_again_and_again(made: list[Desk]) -> None:
    a, b, c = made
    first = pool(a, "people.csv")
    assert first.code == 4
    assert "1 of 3 joined: waiting for Clinic B, Clinic C" in first.out
    assert pool(b, "run", "people.csv").code == 4
    last = pool(c, "people.csv")
    assert last.code == 4
    assert "The ledger was charged ε = 1 if 2 of you are honest" in last.out
    status = pool(b, "--status")
    assert status.code == 4
    assert "waiting for Clinic A, Clinic B" in status.out
    assert json.loads(pool(b, "--status", "--json").out)["waiting"] == ["Clinic A", "Clinic B"]
    pool(a, "people.csv")
    done = pool(b, "people.csv")
    assert done.code == 0
    assert "Done: one release of 3 organisations, 123 rows." in done.out
    told = json.loads(pool(a, "people.csv", "--json").out)
    assert told["state"] == "done"
    assert told["charged"] is False
    verified = command(a.folder, "verify", told["address"], "--study", "study.toml")
    assert verified.code == 0
    explained = command(a.folder, "explain", told["address"])
    assert "signed by each of them" in explained.out
    assert "epsilon if 1 honest" in explained.out
    blended = command(
        a.folder, "blend", "people.csv", "--releases", told["address"], "--party", "Clinic A"
    )
    assert blended.code == 0
    assert command(a.folder, "report", "model.json").code == 0
    report = (a.folder / "report.html").read_text()
    assert "pool of 3 organisations" in report
    assert "honest organisations" in report
    for each in json.loads(pool(a, "--preview", "--json").out)["curve"]:
        assert f"<td>{each['epsilon']:.3g}</td>" in report


def test_a_pool_of_counts(tmp_path: Path) -> None:
    made = desks(tmp_path, study=counts(), kind="poisson", rows=60)
    for desk in made:
        (desk.folder / "study.toml").write_text(COUNTS)
    a = made[0]
    (a.folder / "pool.toml").unlink()
    new = command(a.folder, "pool", "new", "--kind", "poisson", "--colluders", "0")
    assert new.code == 0
    assert "two steps towards a model the rest" in " ".join(new.out.split())
    assert "runs 'sudare pool DATA' at least 4 times, or once with --watch" in new.out
    for desk in made[1:]:
        (desk.folder / "pool.toml").write_text((a.folder / "pool.toml").read_text())
    codes: list[int] = []
    for _ in range(5):
        codes = [pool(desk, "people.csv").code for desk in made]
    assert codes == [0, 0, 0]
    told = json.loads(pool(a, "people.csv", "--json").out)
    verified = command(a.folder, "verify", told["address"], "--study", "study.toml")
    assert verified.code == 0
    explained = command(a.folder, "explain", told["address"]).out
    assert "most_count" in explained
    # Everything that its three sessions sum is in the file.
    assert "released 29 numbers" in " ".join(explained.split())
    blended = command(
        a.folder, "blend", "people.csv", "--releases", told["address"], "--party", "Clinic A"
    )
    assert blended.code == 0
    described = command(a.folder, "describe", "--releases", told["address"])
    assert described.code == 0
    assert "falls" in described.out


def test_a_study_without_counts_has_no_pool_of_counts(made: list[Desk]) -> None:
    done = command(made[0].folder, "pool", "new", "--kind", "poisson", "--out", "p.toml")
    assert done.code == 2
    assert "the target is no count" in done.err
    assert not (made[0].folder / "p.toml").exists()


def test_refusals_have_a_code_of_their_own(made: list[Desk]) -> None:
    a, b, c = made
    for desk in (a, b, c):
        pool(desk, "people.csv")
    a.secret.unlink()
    refused = pool(a, "people.csv")
    assert refused.code == 3
    assert refused.err.startswith("Refused: ")
    assert "begin a new attempt" in refused.err
    assert pool(a).code == 2
    assert "Expected a data file" in pool(a).err
    assert pool(a, "nowhere.csv").code == 2
    assert command(a.folder, "pool", "--plan", "no.toml", "--preview").code == 2
    (a.folder / "pool.toml").write_text("study = 3")
    wrong = pool(a, "people.csv")
    assert wrong.code == 2
    assert "is not the plan of a pool" in wrong.err


def test_an_unattended_run_says_nothing_of_rows(made: list[Desk]) -> None:
    assert pool(made[0], "people.csv", "--unattended").code == 4


def test_watching_until_it_is_done(made: list[Desk]) -> None:
    a, b, c = made
    words = ["pool", "people.csv", "--place", a.pool.place, "--watch", "--every", "0.2"]
    with subprocess.Popen(
        [sys.executable, "-m", "sudare", *words],
        cwd=a.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        for _ in range(600):
            codes = [pool(desk, "people.csv").code for desk in (b, c)]
            if codes == [0, 0]:
                break
        out, err = watching.communicate(timeout=300)
    assert codes == [0, 0]
    assert watching.returncode == 0, err
    assert "Done: one release" in out
    # It looks many times, and says what it waits for once.
    waited = [line for line in err.splitlines() if "waiting for" in line]
    assert waited
    assert len(waited) == len(set(waited))


def test_stopping_it_says_where_it_stands(
    made: list[Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    pool(made[1], "people.csv")
    monkeypatch.setattr("sudare.site.take_part", stopped)
    monkeypatch.setattr("sudare.site.take_part_unattended", stopped)
    done = pool(made[0], "people.csv")
    assert (done.code, done.out) == (130, "")
    assert done.err.startswith("Stopped. Nothing was charged.")
    assert "1 of 3 joined" in done.err
    assert done.err.count("\n") == 1
    job = pool(made[0], "people.csv", "--unattended")
    assert (job.code, job.out) == (130, "")
    assert job.err == "Stopped. Run it again to go on: nothing is charged twice.\n"


def test_ctrl_c_while_it_watches(made: list[Desk]) -> None:
    """The signal itself, in a process of its own."""
    words = ["pool", "people.csv", "--place", made[0].pool.place, "--watch", "--every", "600"]
    running = subprocess.Popen(
        [Path(sys.executable).with_name("sudare"), *words],
        cwd=made[0].folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stderr is not None
    assert "1 of 3 joined" in running.stderr.readline()  # now it sleeps
    running.send_signal(signal.SIGINT)
    out, err = running.communicate()
    assert (running.returncode, out) == (130, "")
    assert "Stopped. Nothing was charged." in err
    assert "Traceback" not in err


def test_a_result_is_found_in_the_shared_folder(made: list[Desk]) -> None:
    for _ in range(2):
        for desk in made:
            pool(desk, "people.csv")
    a = made[0]
    found = json.loads(command(a.folder, "verify", a.pool.place, "--json").out)
    assert [each["rows"] for each in found] == [123]
    # Also by somebody whose keyring does not have its own key.
    text = (a.folder / "trust.toml").read_text()
    start = text.index('["Clinic A"]')
    (a.folder / "trust.toml").write_text(text[:start] + text[text.index('["Clinic B"]') :])
    assert command(a.folder, "verify", a.pool.place).code == 0
    words = ("blend", "people.csv", "--party", "Clinic A", "--releases", a.pool.place, "--json")
    story = json.loads(command(a.folder, *words).out)
    assert [party["rows"] for party in story["parties"]] == [83]


def test_help_teaches(made: list[Desk]) -> None:
    assert "sudare pool new" in command(made[0].folder, "pool", "--help").out
    assert "--watch" in command(made[0].folder, "pool", "run", "--help").out
