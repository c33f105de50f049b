import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sudare import site
from sudare.exchange import Certificate, ReleaseInvalid, open_release, seal_release
from sudare.foundations.privacy import NearGaussianEvent
from sudare.study import parse_study
from tests.site.clinics import CLASSES, Clinic, classes, clinic, keyring


def resigned(ours: Clinic, data: bytes, certificate: dict[str, Any], **changed: Any) -> bytes:
    """The same release with some fields changed, properly signed: a dishonest insider."""
    opened = open_release(data, keyring(ours)).signed
    old = msgspec.structs.asdict(opened.certificate)
    release = msgspec.structs.replace(opened.release, **changed)
    return seal_release(release, Certificate(**old | certificate), ours.key)


def test_claims_that_do_not_follow_from_the_study_are_refused(tmp_path: Path) -> None:
    study, ours = classes(), clinic(tmp_path, "A", seed=1)
    data = Path(ours.publish(study, tmp_path / "out").address).read_bytes()
    ring = keyring(ours)
    assert site.verify(data, ring, study).signer == "A"
    release = open_release(data, ring).release
    assert isinstance(release.event, NearGaussianEvent)
    for changed, message in (
        ({"noise_std": release.noise_std / 2}, "noise"),
        ({"contract": msgspec.structs.replace(release.contract, row_norm=2.0)}, "bounds"),
        ({"event": msgspec.structs.replace(release.event, mu=release.event.mu / 2)}, "price"),
        ({"n": 10**6}, "noise"),
    ):
        forged = resigned(ours, data, {}, **changed)
        with pytest.raises(ReleaseInvalid, match=message):
            site.verify(forged, ring, study)
    with pytest.raises(ReleaseInvalid, match="another study"):
        site.verify(data, ring, classes(epsilon=3.9))


def test_a_price_may_differ_as_other_machines_round(tmp_path: Path) -> None:
    """Another version of a library gives another last bit, and makes nobody a forger."""
    study, ours = classes(), clinic(tmp_path, "A", seed=1)
    data = Path(ours.publish(study, tmp_path / "out").address).read_bytes()
    event = open_release(data, keyring(ours)).release.event
    assert isinstance(event, NearGaussianEvent)
    for factor, fits in ((1 + 2.0**-50, True), (1 - 2.0**-50, True), (1 - 1e-7, False)):
        changed = resigned(
            ours, data, {}, event=msgspec.structs.replace(event, mu=event.mu * factor)
        )
        if fits:
            assert site.verify(changed, keyring(ours), study).signer == "A"
        else:
            with pytest.raises(ReleaseInvalid, match="price"):
                site.verify(changed, keyring(ours), study)


def test_a_learner_release_must_keep_to_the_ball_of_the_study(tmp_path: Path) -> None:
    study, ours = classes("objective"), clinic(tmp_path, "A", seed=1)
    data = Path(ours.publish(study, tmp_path / "out").address).read_bytes()
    radius = open_release(data, keyring(ours)).release.radius  # type: ignore[union-attr]
    forged = resigned(ours, data, {}, radius=2 * radius)
    with pytest.raises(ReleaseInvalid, match="ball"):
        site.verify(forged, keyring(ours), study)


@pytest.mark.parametrize("model", ["objective", "output", "gibbs"])
def test_the_slack_of_a_learner_is_computed_again(tmp_path: Path, model: str) -> None:
    """With a larger one, coefficients of any size would be within their own law."""
    study, ours = classes(model), clinic(tmp_path, "A", seed=1)
    data = Path(ours.publish(study, tmp_path / "out").address).read_bytes()
    assert site.verify(data, keyring(ours), study).signer == "A"
    slack = open_release(data, keyring(ours)).release.slack  # type: ignore[union-attr]
    for other in (2 * slack, slack / 2, 1e300, 0.0):
        with pytest.raises(ReleaseInvalid, match="slack"):
            site.verify(resigned(ours, data, {}, slack=other), keyring(ours), study)


@pytest.mark.parametrize("model", ["moments", "objective"])
def test_everything_on_the_certificate_is_computed_again(tmp_path: Path, model: str) -> None:
    study, ours = classes(model), clinic(tmp_path, "A", seed=1)
    data = Path(ours.publish(study, tmp_path / "out").address).read_bytes()
    ring, certificate = keyring(ours), open_release(data, keyring(ours)).signed.certificate
    parameters = certificate.parameters
    assert set(parameters) == {
        "model", "task", "rows", "numbers", "noise_std", "radius", "row_norm", "edition"
    }  # fmt: skip
    odd: list[dict[str, Any]] = [parameters | {"audited_by": "everyone"}, {}]
    for name, value in parameters.items():
        odd.append({key: each for key, each in parameters.items() if key != name})
        for other in ("gibbs", 7, 1e300, True, None, *_near(value)):
            if type(other) is not type(value) or other != value:
                odd.append(parameters | {name: other})
    for stated in odd:
        forged = resigned(ours, data, {"parameters": stated})
        assert site.verify(forged, ring).signer == "A"
        with pytest.raises(ReleaseInvalid, match="certificate states"):
            site.verify(forged, ring, study)
    for changed, message in (
        ({"sentence": "Nothing at all is revealed."}, "words the promise"),
        ({"epsilon": 2 * certificate.epsilon}, "another price"),
        ({"delta": 2 * certificate.delta}, "another price"),
    ):
        with pytest.raises(ReleaseInvalid, match=message):
            site.verify(resigned(ours, data, changed), ring, study)
    rounded = {"noise_std": float(parameters["noise_std"] or 0) * (1 + 1e-12)}
    assert site.verify(resigned(ours, data, {"parameters": parameters | rounded}), ring, study)


def _near(value: Any) -> list[float]:
    return [value * 1.001, value + 1] if isinstance(value, int | float) else []


@pytest.mark.parametrize(
    ("model", "n"),
    [("gibbs", 10**9), ("output", 10**12), ("moments", 2**53), ("objective", 10**9 + 1)],
)
def test_one_signed_file_does_not_stop_the_others(tmp_path: Path, model: str, n: int) -> None:
    """Of so many rows no release can be made under this study, and to say so is an error."""
    study, ours, other = (
        classes(model),
        clinic(tmp_path, "A", seed=1),
        clinic(tmp_path, "B", seed=2),
    )
    place = tmp_path / "out"
    data = Path(ours.publish(study, place).address).read_bytes()
    other.publish(study, place)
    (place / "a.release").write_bytes(resigned(ours, data, {}, n=n))
    found = {
        Path(c.address).name: c for c in site.collect([str(place)], keyring(ours, other), study)
    }
    assert len(found) == 3
    problem = found.pop("a.release").problem
    assert problem is not None
    assert problem.startswith("No such release can be made: Expected")
    assert [each.problem for each in found.values()] == [None, None]


def test_more_rows_than_the_study_holds_possible_are_refused(tmp_path: Path) -> None:
    text = CLASSES.format(model="objective", epsilon=4.0) + "most_rows = 150\n"
    study, ours = parse_study(text), clinic(tmp_path, "A", seed=1, rows=150)
    data = Path(ours.publish(study, tmp_path / "out").address).read_bytes()
    assert site.verify(data, keyring(ours), study).release.n == 150
    with pytest.raises(ReleaseInvalid, match="at most 150 rows"):
        site.verify(resigned(ours, data, {}, n=151), keyring(ours), study)


@pytest.mark.parametrize(
    "problem",
    [OverflowError, ZeroDivisionError, ValueError, RuntimeError, RecursionError, AssertionError],
)
def test_whatever_fails_in_computing_again_refuses_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: type[Exception]
) -> None:
    def fails(*_: Any) -> Any:
        raise problem("numbers without end")

    study, ours = classes(), clinic(tmp_path, "A", seed=1)
    data = Path(ours.publish(study, tmp_path / "out").address).read_bytes()
    monkeypatch.setattr("sudare.site._plan.ReleasePlan.of", fails)
    with pytest.raises(ReleaseInvalid, match="cannot be computed"):
        site.verify(data, keyring(ours), study)


def test_of_one_signer_only_the_latest_counts(tmp_path: Path) -> None:
    study, ours = classes(), clinic(tmp_path, "A", seed=1)
    place = tmp_path / "out"
    data = Path(ours.publish(study, place).address).read_bytes()
    later = resigned(ours, data, {"moment": "2999-01-01T00:00:00+00:00"})
    (place / "later.release").write_bytes(later)
    found = {Path(c.address).name: c for c in site.collect([str(place)], keyring(ours), study)}
    assert found.pop("later.release").problem is None
    (old,) = found.values()
    assert old.problem is not None
    assert "replaces" in old.problem


def test_whatever_lies_in_the_folder_is_named_and_refused(tmp_path: Path) -> None:
    study, ours, other = classes(), clinic(tmp_path, "A", seed=1), clinic(tmp_path, "B", seed=2)
    place = tmp_path / "out"
    ours.publish(study, place)
    other.publish(study, place)
    (place / "junk.release").write_bytes(b"\x00" * 50)
    (place / "list.release").write_text(json.dumps([1, 2]))
    (place / "notes.txt").write_text("not looked at")
    found = {Path(c.address).name: c for c in site.collect([str(place)], keyring(ours), study)}
    assert len(found) == 4
    assert sum(c.problem is None for c in found.values()) == 1
    assert "not in the keyring" in next(
        c.problem or "" for name, c in found.items() if name.startswith("B")
    )
