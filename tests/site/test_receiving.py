import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sudare import site
from sudare.exchange import Certificate, ReleaseInvalid, open_release, seal_release
from sudare.privacy import ConcentratedEvent
from tests.site.clinics import Clinic, classes, clinic, keyring


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
    assert isinstance(release.event, ConcentratedEvent)
    for changed, message in (
        ({"noise_std": release.noise_std / 2}, "noise"),
        ({"contract": msgspec.structs.replace(release.contract, row_norm=2.0)}, "bounds"),
        ({"event": msgspec.structs.replace(release.event, rho=release.event.rho / 2)}, "price"),
        ({"n": 10**6}, "noise"),
    ):
        forged = resigned(ours, data, {}, **changed)
        with pytest.raises(ReleaseInvalid, match=message):
            site.verify(forged, ring, study)
    with pytest.raises(ReleaseInvalid, match="another study"):
        site.verify(data, ring, classes(epsilon=3.9))


def test_a_learner_release_must_keep_to_the_ball_of_the_study(tmp_path: Path) -> None:
    study, ours = classes("objective"), clinic(tmp_path, "A", seed=1)
    data = Path(ours.publish(study, tmp_path / "out").address).read_bytes()
    radius = open_release(data, keyring(ours)).release.radius  # type: ignore[union-attr]
    forged = resigned(ours, data, {}, radius=2 * radius)
    with pytest.raises(ReleaseInvalid, match="ball"):
        site.verify(forged, keyring(ours), study)


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
