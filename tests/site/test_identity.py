import gzip
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest

from sudare import site
from sudare.exchange import Keyring, new_key
from sudare.foundations.checks import InvalidInput, PrivacyError
from sudare.foundations.randomness import seeded
from sudare.ledger import Ledger
from sudare.study import Study, parse_study
from tests.site.clinics import classes, keyring, write_patients
from tests.site.clinics import clinic as make_clinic
from tests.support.commands import command

STUDY = classes(epsilon=1.0)


def opened(folder: Path, study: Study | None = STUDY) -> Path:
    data = write_patients(folder / "data.csv", 120, 1)
    with Ledger(folder / "a.db") as ledger:
        site.open_data(data, study, ledger, "people", 3.0, 1e-5)
    return data


def newline(data: Path, to: Path) -> Path:
    to.write_bytes(data.read_bytes() + b"\n")
    return to


def crlf(data: Path, to: Path) -> Path:
    to.write_bytes(data.read_bytes().replace(b"\n", b"\r\n"))
    return to


def reordered(data: Path, to: Path) -> Path:
    frame = pd.read_csv(data, dtype=str, keep_default_na=False)
    frame.sample(frac=1, random_state=3)[frame.columns[::-1]].to_csv(to, index=False)
    return to


def quoted(data: Path, to: Path) -> Path:
    frame = pd.read_csv(data, dtype=str, keep_default_na=False)
    frame.to_csv(to, index=False, quoting=1)
    return to


def with_more_columns(data: Path, to: Path) -> Path:
    frame = pd.read_csv(data, dtype=str, keep_default_na=False)
    frame.assign(number=range(len(frame)), ward="A").to_csv(to, index=False)
    return to


def spelled_otherwise(data: Path, to: Path) -> Path:
    frame = pd.read_csv(data)
    frame.assign(age=[f"{age:.4f}" for age in frame.age]).to_csv(to, index=False, na_rep="NA")
    return to


def packed(data: Path, to: Path) -> Path:
    to = to.with_suffix(".csv.gz")
    to.write_bytes(gzip.compress(crlf(data, to).read_bytes()))
    return to


def as_parquet(data: Path, to: Path) -> Path:
    to = to.with_suffix(".parquet")
    pd.read_csv(data).to_parquet(to)
    return to


RESAVED = [
    newline, crlf, reordered, quoted, with_more_columns, spelled_otherwise, packed, as_parquet
]  # fmt: skip


@pytest.mark.parametrize("resave", RESAVED)
def test_the_same_rows_in_another_file_get_no_budget_of_their_own(resave, tmp_path: Path) -> None:
    data = opened(tmp_path)
    again, key = resave(data, tmp_path / "again.csv"), new_key()
    with Ledger(tmp_path / "a.db") as ledger:
        with pytest.raises(
            PrivacyError, match=r"These rows are in the ledger already, as 'people'"
        ):
            site.open_data(again, STUDY, ledger, "fresh", 3.0, 1e-5)
        first = site.publish(data, STUDY, ledger, key, party="A", place=str(tmp_path / "out"))
        second = site.publish(again, STUDY, ledger, key, party="A", place=str(tmp_path / "out"))
        assert second.repeated
        assert second.receipt.number == first.receipt.number
        assert second.address == first.address
        assert len(ledger.account("people").entries) == 1
        # Opened under its own name it draws on the same budget, also where only bytes count.
        site.open_data(again, STUDY, ledger, "people", 3.0, 1e-5)
        third = site.publish_unattended(
            again, STUDY, ledger, key, party="A", place=str(tmp_path / "out")
        )
        assert third.repeated
        assert ledger.datasets() == ["people"]


def test_a_file_opened_without_a_study_is_remembered_by_its_first_release(tmp_path: Path) -> None:
    data = opened(tmp_path, study=None)
    again = newline(data, tmp_path / "again.csv")
    with Ledger(tmp_path / "a.db") as ledger:
        assert ledger.all_marks() == []
        site.publish(data, STUDY, ledger, new_key(), party="A", place=str(tmp_path / "out"))
        with pytest.raises(PrivacyError, match="already, as 'people'"):
            site.open_data(again, STUDY, ledger, "fresh", 3.0, 1e-5)


def test_rows_are_compared_as_every_study_before_has_read_them(tmp_path: Path) -> None:
    data = opened(tmp_path)
    again = reordered(data, tmp_path / "again.csv")
    with Ledger(tmp_path / "a.db") as ledger, pytest.raises(PrivacyError, match="as 'people'"):
        site.open_data(again, None, ledger, "fresh", 3.0, 1e-5)
    other = tmp_path / "other.csv"
    other.write_text("days,age\n1,2\n")
    with Ledger(tmp_path / "a.db") as ledger:  # has none of the columns
        site.open_data(other, None, ledger, "others", 3.0, 1e-5)


def changed(data: Path, to: Path, rows: int) -> Path:
    lines = data.read_text().splitlines()
    for i in range(1, rows + 1):
        lines[i] = f"111,{20 + i},f,no,y"
    to.write_text("\n".join(lines) + "\n")
    return to


def test_nearly_the_same_rows_need_a_word(tmp_path: Path) -> None:
    data = opened(tmp_path)
    near, key = changed(data, tmp_path / "near.csv", 5), new_key()
    out: Any = {"party": "A", "place": str(tmp_path / "out")}
    with Ledger(tmp_path / "a.db") as ledger:
        with pytest.raises(PrivacyError, match="Most of these rows are in the ledger already"):
            site.open_data(near, STUDY, ledger, "fresh", 3.0, 1e-5)
        with pytest.raises(PrivacyError, match="Most of these rows are in the ledger already"):
            site.publish(near, STUDY, ledger, key, **out)
        with pytest.raises(PrivacyError, match="other contents"):
            site.open_data(near, STUDY, ledger, "people", 3.0, 1e-5)
        first = site.publish(data, STUDY, ledger, key, **out)
        site.open_data(near, STUDY, ledger, "people", 3.0, 1e-5, people="same")
        second = site.publish(near, STUDY, ledger, key, **out)
        assert not second.repeated  # other rows: a draw of its own, from the same budget
        assert [e.number for e in ledger.account("people").entries] == [1, 2]
        assert first.address != second.address
        nearer = changed(data, tmp_path / "nearer.csv", 7)
        site.open_data(nearer, STUDY, ledger, "fresh", 3.0, 1e-5, people="others")
        assert ledger.datasets() == ["fresh", "people"]


def test_other_people_are_opened_without_a_word(tmp_path: Path) -> None:
    opened(tmp_path)
    other = write_patients(tmp_path / "other.csv", 120, 2)
    with Ledger(tmp_path / "a.db") as ledger:
        site.open_data(other, STUDY, ledger, "others", 3.0, 1e-5)
        with pytest.raises(InvalidInput, match="no data set 'nobody'"):
            site.open_data(other, STUDY, ledger, "nobody", 3.0, 1e-5, people="same")


def test_unattended_only_the_bytes_count(tmp_path: Path) -> None:
    data = opened(tmp_path)
    out: Any = {"party": "A", "place": str(tmp_path / "out")}
    key = new_key()
    same, near = newline(data, tmp_path / "n.csv"), changed(data, tmp_path / "near.csv", 1)
    said = set()
    with Ledger(tmp_path / "a.db") as ledger:
        for file in (same, near):
            with pytest.raises(PrivacyError) as problem:
                site.publish_unattended(file, STUDY, ledger, key, **out)
            said.add(str(problem.value))
    assert len(said) == 1


def test_rows_of_two_data_sets_are_not_guessed(tmp_path: Path) -> None:
    data = opened(tmp_path)
    with Ledger(tmp_path / "a.db") as ledger:
        copy = newline(data, tmp_path / "copy.csv")
        site.open_data(copy, STUDY, ledger, "twins", 3.0, 1e-5, people="others")
        third = crlf(data, tmp_path / "third.csv")
        with pytest.raises(PrivacyError, match="more than one data set"):
            site.publish(third, STUDY, ledger, new_key(), party="A", place=str(tmp_path / "out"))


def test_own_releases_are_known_by_the_ledger_whatever_they_are_called(tmp_path: Path) -> None:
    made = [make_clinic(tmp_path, name, seed=k) for k, name in enumerate("ABC")]
    for each in made:
        each.publish(classes(), tmp_path / "out")
    checked = site.collect([str(tmp_path / "out")], keyring(*made), classes())
    with Ledger(made[0].ledger) as ledger:
        receipts = site.own_receipts(made[0].data, ledger)
        renamed = newline(made[0].data, tmp_path / "renamed.csv")
        assert site.own_receipts(renamed, ledger) == receipts  # all of its own, to be safe
    assert len(receipts) == 1
    for known in ({"receipts": receipts}, {"key": made[0].key.public.fingerprint}):
        for make in (site.blend, site.blend_unattended):
            model = make(made[0].data, classes(), checked, party="Misspelt", **known)
            assert {party.name for party in model.story.parties} == {"B", "C"}
            assert [each.reason for each in model.story.refusals] == ["made from these rows"]


def test_a_ledger_of_several_data_sets_leaves_out_those_of_these_rows(tmp_path: Path) -> None:
    data = opened(tmp_path)
    other = write_patients(tmp_path / "other.csv", 60, 2)
    with Ledger(tmp_path / "a.db") as ledger:
        site.open_data(other, STUDY, ledger, "others", 3.0, 1e-5)
        for file in (data, other):
            site.publish(file, STUDY, ledger, new_key(), party="A", place=str(tmp_path / "out"))
        one, two = site.own_receipts(data, ledger), site.own_receipts(other, ledger)
    assert len(one) == len(two) == 1
    assert not one & two


def test_commands_refuse_a_fresh_budget_and_say_what_to_do(tmp_path: Path) -> None:
    from tests.site.clinics import CLASSES

    (tmp_path / "study.toml").write_text(CLASSES.format(model="moments", epsilon=1.0))
    data = write_patients(tmp_path / "data.csv", 80, 1)
    opening = ("ledger", "open", "people", "data.csv", "--epsilon", "2")
    assert command(tmp_path, *opening).code == 0
    newline(data, tmp_path / "again.csv")
    fresh = command(tmp_path, "ledger", "open", "fresh", "again.csv", "--epsilon", "2")
    assert fresh.code == 2
    assert "--same-people" in fresh.err
    assert "--these-are-other-people" in fresh.err
    near = changed(data, tmp_path / "near.csv", 2)
    words = ("ledger", "open", "people", near.name, "--epsilon", "2")
    assert command(tmp_path, *words).code == 2
    assert command(tmp_path, *words, "--same-people", "--these-are-other-people").code == 2
    assert command(tmp_path, *words, "--same-people").code == 0
    unknown = command(tmp_path, "ledger", "open", "x", "data.csv", "--epsilon", "2", "--study", "-")
    assert "only this very file" in unknown.err


def test_blend_asks_for_what_tells_own_releases_from_others(tmp_path: Path) -> None:
    from tests.site.clinics import CLASSES

    (tmp_path / "study.toml").write_text(CLASSES.format(model="moments", epsilon=4.0))
    made = [make_clinic(tmp_path, name, seed=k, rows=60) for k, name in enumerate("ABC")]
    for each in made:
        each.publish(classes(), tmp_path / "out")
    (tmp_path / "trust.toml").write_text(keyring(*made).to_toml())
    words = ("blend", "A.csv", "--releases", "out", "--party", "Aa", "--json")
    refused = command(tmp_path, *words)
    assert refused.code == 2
    assert "--released-nothing" in refused.err
    told = command(tmp_path, *words, "--ledger", "A.db").out
    assert "made from these rows" in told
    assert "made from these rows" not in command(tmp_path, *words, "--released-nothing").out


PERSONS = """
name = "visits"
[columns.age]
low = 20
high = 90
[target]
column = "ill"
classes = ["no", "yes"]
[person]
column = "id"
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "patient"
"""


def visits(path: Path, ids: range, seed: int) -> Path:
    rng = seeded(seed)
    lines = [f"P{i // 2},{rng.uniform(20, 90):.2f},{'yes' if i % 3 else 'no'}" for i in ids]
    path.write_text("id,age,ill\n" + "\n".join(lines) + "\n")
    return path


def test_the_same_people_are_recognised_whatever_is_said_of_them(tmp_path: Path) -> None:
    study = parse_study(PERSONS)
    first = visits(tmp_path / "first.csv", range(200), 1)
    later = visits(tmp_path / "later.csv", range(10, 210), 2)  # other values, most people the same
    strangers = visits(tmp_path / "strangers.csv", range(1000, 1200), 3)
    with Ledger(tmp_path / "a.db") as ledger:
        site.open_data(first, study, ledger, "people", 3.0, 1e-5)
        with pytest.raises(PrivacyError, match="Most of these people are in the ledger already"):
            site.open_data(later, study, ledger, "fresh", 3.0, 1e-5)
        site.open_data(strangers, study, ledger, "others", 3.0, 1e-5)
        same = reordered(first, tmp_path / "same.csv")
        out: dict[str, Any] = {"party": "A", "place": str(tmp_path / "out")}
        one = site.publish(first, study, ledger, new_key(), **out)
        assert site.publish(same, study, ledger, new_key(), **out).receipt.dataset == "people"
    assert "patient" in one.sentence


def test_the_certificate_says_what_was_agreed_on_about_rows(tmp_path: Path) -> None:
    text = PERSONS.replace('name = "visits"', 'name = "visits"\nincomplete = "leave out"')
    study, key = parse_study(text), new_key()
    data = visits(tmp_path / "data.csv", range(100), 4)
    data.write_text(data.read_text() + "P7,,yes\n")
    with Ledger(tmp_path / "a.db") as ledger:
        site.open_data(data, study, ledger, "people", 3.0, 1e-5)
        site.publish(data, study, ledger, key, party="A", place=str(tmp_path / "out"))
    ring = Keyring().with_key("A", key.public)
    (checked,) = site.collect([str(tmp_path / "out")], ring, study)
    assert checked.trusted is not None
    certificate = checked.trusted.signed.certificate
    assert checked.trusted.release.n == 50  # people, not rows
    assert "left out" in str(certificate.parameters["incomplete_rows"])
    assert "each patient, for all of their rows together" in str(certificate.parameters["person"])
    (refused,) = site.collect([str(tmp_path / "out")], ring, parse_study(PERSONS))
    assert refused.problem is not None
