from pathlib import Path

import numpy as np
import pytest

from sudare import site
from sudare.exchange import new_key
from sudare.ledger import Ledger
from sudare.site._model import Component
from sudare.study import raw_content
from tests.site.clinics import (
    Clinic,
    classes,
    clinic,
    keyring,
    numbers,
    write_patients,
    write_stays,
)


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Clinic]]:
    """Twelve clinics of 150 patients that have published, and a small one that has not."""
    folder = tmp_path_factory.mktemp("clinics")
    others = [clinic(folder, f"C{k}", seed=k) for k in range(12)]
    for each in others:
        each.publish(classes(), folder / "out")
    return folder, [clinic(folder, "Own", seed=100, rows=40), *others]


def blended(folder: Path, clinics: list[Clinic], **changed) -> site.Model:
    checked = site.collect([str(folder / "out")], keyring(*clinics[1:]), classes())
    own = clinics[0]
    return site.blend(own.data, classes(), checked, **{"party": own.name} | changed)


def test_a_small_clinic_gains_from_the_others(consortium, tmp_path: Path) -> None:
    folder, clinics = consortium
    model = blended(folder, clinics)
    assert len(model.story.parties) == 12
    assert {party.name for party in model.story.parties} == {c.name for c in clinics[1:]}
    assert sum(model.story.weights.values()) == pytest.approx(1.0, abs=0.02)
    assert sum(each.weight for each in model.components) == pytest.approx(1.0)
    new = write_patients(tmp_path / "new.csv", 3000, 999)
    truth = np.array([line.split(",")[3] for line in new.read_text().splitlines()[1:]])
    alone = site.blend(clinics[0].data, classes(), [], party="Own")
    right = (model.predict(new) == truth).mean()
    # The seed is fixed; over seeds 100 to 119 the gain was between 0 and 9 points.
    assert right >= (alone.predict(new) == truth).mean()
    assert right > 0.75
    assert model.story.assessment is not None
    assert model.story.assessment.rows == 40
    assert site.render(model)


def test_own_and_refused_releases_are_left_out_by_name(consortium) -> None:
    folder, clinics = consortium
    checked = site.collect([str(folder / "out")], keyring(*clinics[1:6]), classes())
    model = site.blend(clinics[1].data, classes(), checked, party="C0")
    reasons = [each.reason for each in model.story.refusals]
    assert "made from these rows" in reasons
    assert sum("not in the keyring" in reason for reason in reasons) == 7
    assert len(model.story.parties) == 4


def test_without_releases_it_is_the_own_model_and_says_so(consortium) -> None:
    _, clinics = consortium
    model = site.blend(clinics[0].data, classes(), [], party="Own")
    assert model.story.weights == {"own model": pytest.approx(1.0)}
    assert "own model" in model.story.sentence
    assert model.story.assessment is not None
    assert model.story.assessment.gain.value == 0


def test_numbers_are_blended_too(tmp_path: Path) -> None:
    study, out, ring, progressed = numbers(), tmp_path / "out", {}, []
    for k in range(6):
        data = write_stays(tmp_path / f"{k}.csv", 80, k)
        ring[f"P{k}"] = new_key()
        with Ledger(tmp_path / f"{k}.db") as ledger:
            ledger.open("stays", ledger.fingerprint(raw_content(data)), 2.0, 1e-6)
            site.publish(data, study, ledger, ring[f"P{k}"], party=f"P{k}", place=str(out))
    parties = [Clinic(name, tmp_path, tmp_path, key) for name, key in ring.items()]
    checked = site.collect([str(out)], keyring(*parties), study)
    own = write_stays(tmp_path / "own.csv", 30, 50)
    model = site.blend(
        own, study, checked, party="Own", progress=lambda *step: progressed.append(step)
    )
    assert progressed[-1][1] == progressed[-1][2]
    new = write_stays(tmp_path / "new.csv", 500, 60)
    truth = np.array([float(line.split(",")[1]) for line in new.read_text().splitlines()[1:]])
    assert np.sqrt(((model.predict(new) - np.clip(truth, 0, 30)) ** 2).mean()) < 4.5


def test_few_rows_are_blended_but_not_assessed(consortium, tmp_path: Path) -> None:
    folder, clinics = consortium
    data = write_patients(tmp_path / "few.csv", 20, 5)
    checked = site.collect([str(folder / "out")], keyring(*clinics[1:]), classes())
    model = site.blend(data, classes(), checked, party="few")
    assert model.story.assessment is None
    assert "held-out" not in site.render(model)


@pytest.mark.parametrize("label", ["no", "yes"])
def test_rows_of_one_class_predict_their_share_unattended(
    consortium, tmp_path: Path, label: str
) -> None:
    folder, clinics = consortium
    data = tmp_path / "one.csv"
    data.write_text("pressure,age,sex,ill\n" + f"120,50,m,{label}\n" * 30)
    checked = site.collect([str(folder / "out")], keyring(*clinics[1:]), classes())
    model = site.blend_unattended(data, classes(), checked, party="Own")
    assert "one class" in model.story.sentence
    second = model.predict_proba(data)[:, 1]
    assert ((second > 0.9) if label == "yes" else (second < 0.1)).all()
    (tmp_path / "model.json").write_bytes(model.to_bytes())
    assert site.render(site.load_model(tmp_path / "model.json"))


@pytest.mark.parametrize(
    ("study", "rows", "mean"),
    [
        (classes(), ["120,50,m,yes"] * 3 + ["120,50,m,no"], 3.5 / 5),
        (numbers(), ["50,30"] * 3, 15 + 15 * 3 / 4),
    ],
    ids=["classes", "numbers"],
)
def test_too_few_rows_predict_their_average_unattended(
    study, rows: list[str], mean: float, tmp_path: Path
) -> None:
    names = "pressure,age,sex,ill" if study.task == "classification" else "age,days"
    (tmp_path / "few.csv").write_text("\n".join([names, *rows]) + "\n")
    model = site.blend_unattended(tmp_path / "few.csv", study, [], party="Own")
    assert "could not be blended" in model.story.sentence
    classified = study.task == "classification"
    data = tmp_path / "few.csv"
    told = model.predict_proba(data)[:, 1] if classified else model.predict(data)
    np.testing.assert_allclose(told, mean)


def test_numbers_beyond_computing_are_not_written(
    consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, clinics = consortium

    def broken(made: object) -> tuple[Component, ...]:
        numbers = (float("nan"),) * classes().contract.dimension
        return (Component(name="own model", weight=1.0, coefficients=numbers),)

    monkeypatch.setattr("sudare.site._blended._components", broken)
    model = site.blend_unattended(clinics[0].data, classes(), [], party="Own")
    assert "could not be blended" in model.story.sentence


def test_unattended_the_model_is_the_same_where_nothing_is_amiss(consortium) -> None:
    folder, clinics = consortium
    checked = site.collect([str(folder / "out")], keyring(*clinics[1:]), classes())
    one = site.blend(clinics[0].data, classes(), checked, party="Own")
    other = site.blend_unattended(clinics[0].data, classes(), checked, party="Own")
    assert (one.components, one.story) == (other.components, other.story)
