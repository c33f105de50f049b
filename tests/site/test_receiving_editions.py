"""Releases and ledgers of the first edition of the calibrations still verify, and still stand.

The files in tests/golden/edition-1 were made by the version whose certificates name no edition,
with `sudare release`, for one party and one study each. They are never made again.
"""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sudare import site
from sudare.exchange import (
    Keyring,
    ReleaseInvalid,
    SignedRelease,
    load_key,
    load_keyring,
    open_release,
    seal_release,
)
from sudare.foundations.privacy import (
    ConcentratedEvent,
    Event,
    GaussianEvent,
    Guarantee,
    NearGaussianEvent,
    PureEvent,
)
from sudare.ledger import Ledger
from sudare.releases import LearnerRelease
from sudare.site._releasing import _request
from sudare.study import raw_content, read_study

GOLDEN = Path(__file__).parents[1] / "golden" / "edition-1"
STUDIES = sorted(path.stem for path in GOLDEN.glob("*.toml") if path.stem != "trust")


@pytest.fixture(scope="module")
def keyring() -> Keyring:
    return load_keyring(GOLDEN / "trust.toml")


def golden(name: str, keyring: Keyring) -> SignedRelease:
    return open_release((GOLDEN / f"{name}.release").read_bytes(), keyring).signed


def sealed(signed: SignedRelease) -> bytes:
    return seal_release(signed.release, signed.certificate, load_key(GOLDEN / "key.json"))


@pytest.mark.parametrize("name", STUDIES)
def test_still_verify(name: str, keyring: Keyring) -> None:
    study = read_study(GOLDEN / f"{name}.toml")
    data = (GOLDEN / f"{name}.release").read_bytes()
    trusted = site.verify(data, keyring, study)
    assert "edition" not in trusted.signed.certificate.parameters
    # And what is asked for today is less noise for the same promise.
    today = site.ReleasePlan.of(study, trusted.release.n)
    assert today.noise_std <= trusted.release.noise_std * (1 + 1e-9)
    assert today.parameters["edition"] == 2


def test_every_kind_is_there() -> None:
    assert len(STUDIES) == 10


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("factor", [0.9, 2.5])
def test_other_noise_is_refused(name: str, factor: float, keyring: Keyring) -> None:
    signed = golden(name, keyring)
    release = msgspec.structs.replace(signed.release, noise_std=signed.release.noise_std * factor)
    if factor < 1:  # below what is asked for today, however much that has fallen
        today = site.ReleasePlan.of(read_study(GOLDEN / f"{name}.toml"), release.n)
        release = msgspec.structs.replace(release, noise_std=today.noise_std * factor)
    parameters = signed.certificate.parameters | {"noise_std": release.noise_std}
    certificate = msgspec.structs.replace(signed.certificate, parameters=parameters)
    forged = msgspec.structs.replace(signed, release=release, certificate=certificate)
    with pytest.raises(ReleaseInvalid, match="noise"):
        site.verify(sealed(forged), keyring, read_study(GOLDEN / f"{name}.toml"))


@pytest.mark.parametrize("name", STUDIES)
def test_another_price_is_refused(name: str, keyring: Keyring) -> None:
    """Without an edition, a certificate is not free to say what the release cost."""
    signed, study = golden(name, keyring), read_study(GOLDEN / f"{name}.toml")
    stated, delta = signed.release.event, study.privacy.delta
    about: dict[str, Any] = {"neighbours": stated.neighbours, "unit": stated.unit}
    other: list[Event] = [
        msgspec.structs.replace(stated, assumptions=("the moon is made of cheese",)),
        msgspec.structs.replace(stated, unit="visit"),
        PureEvent(1e-6, **about),
        GaussianEvent(1e-6, **about),
        NearGaussianEvent(1e-6, 0.0, 0.0, **about),
    ]
    for field in ("epsilon", "rho", "delta"):
        if number := getattr(stated, field, 0.0):
            other += [msgspec.structs.replace(stated, **{field: number * by}) for by in (0.9, 1.1)]
    if not isinstance(stated, PureEvent):
        other.append(PureEvent(study.privacy.epsilon, **about))
    for event in other:
        sentence = str(Guarantee((event,), delta))
        certificate = msgspec.structs.replace(signed.certificate, sentence=sentence)
        release = msgspec.structs.replace(signed.release, event=event)
        forged = msgspec.structs.replace(signed, release=release, certificate=certificate)
        with pytest.raises(ReleaseInvalid, match=r"price|its event costs|no edition|another unit"):
            site.verify(sealed(forged), keyring, study)


@pytest.mark.parametrize("name", [name for name in STUDIES if "moments" not in name])
@pytest.mark.parametrize("factor", [0.0, 0.5, 2.5, 9.9])
def test_other_slack_is_refused(name: str, factor: float, keyring: Keyring) -> None:
    signed = golden(name, keyring)
    assert isinstance(signed.release, LearnerRelease)
    release = msgspec.structs.replace(signed.release, slack=signed.release.slack * factor)
    forged = msgspec.structs.replace(signed, release=release)
    with pytest.raises(ReleaseInvalid, match="slack"):
        site.verify(sealed(forged), keyring, read_study(GOLDEN / f"{name}.toml"))


@pytest.mark.parametrize("name", ["classes-moments", "classes-gibbs", "numbers-objective"])
def test_an_old_release_cannot_pass_for_a_new_one(name: str, keyring: Keyring) -> None:
    """A certificate that names the edition is held to it."""
    signed = golden(name, keyring)
    parameters = signed.certificate.parameters | {"edition": 2}
    certificate = msgspec.structs.replace(signed.certificate, parameters=parameters)
    forged = msgspec.structs.replace(signed, certificate=certificate)
    with pytest.raises(ReleaseInvalid):
        site.verify(sealed(forged), keyring, read_study(GOLDEN / f"{name}.toml"))


def test_what_was_released_stands(tmp_path: Path, keyring: Keyring) -> None:
    """Asked again after the update, a party hands out what it released; nothing is spent."""
    for file in ("data.csv", "ledger.db"):
        shutil.copy(GOLDEN / file, tmp_path / file)
    study = read_study(GOLDEN / "classes-objective.toml")
    key = load_key(GOLDEN / "key.json")
    with Ledger(tmp_path / "ledger.db") as ledger:
        (before,) = ledger.account("a").entries
        done = site.publish(
            tmp_path / "data.csv",
            study,
            ledger,
            key,
            party="Clinic A",
            place=str(tmp_path / "releases"),
        )
        assert ledger.account("a").entries == (before,)
    assert done.repeated
    assert done.receipt.event == before.event
    old = (GOLDEN / "classes-objective.release").read_bytes()
    assert Path(done.address).read_bytes() == old


@pytest.mark.parametrize("name", [name for name in STUDIES if name.startswith("classes")])
def test_a_spend_that_nothing_came_of_pays_for_todays_release(
    name: str, tmp_path: Path, keyring: Keyring
) -> None:
    """The earlier version stopped between charging and keeping; then came the update."""
    shutil.copy(GOLDEN / "data.csv", tmp_path / "data.csv")
    study, key = read_study(GOLDEN / f"{name}.toml"), load_key(GOLDEN / "key.json")
    charged = golden(name, keyring).release.event
    with Ledger(tmp_path / "ledger.db") as ledger:
        fingerprint = ledger.fingerprint(raw_content(tmp_path / "data.csv"))
        ledger.open("a", fingerprint, 10.0, 1e-5)
        request = _request(study, fingerprint, "Clinic A", key.public.fingerprint, edition=1)
        first = ledger.spend("a", charged, request=request)
        place = str(tmp_path / "releases")
        made = [
            site.publish(tmp_path / "data.csv", study, ledger, key, party="Clinic A", place=place)
            for _ in range(2)
        ]
        entries = ledger.account("a").entries
    assert not made[0].repeated
    assert made[1].repeated
    assert made[0].address == made[1].address
    site.verify(Path(made[0].address).read_bytes(), keyring, study)
    if isinstance(charged, ConcentratedEvent):
        # Today's noise is less than this price asks for: it costs once more, and that is said.
        assert len(entries) == 2
        assert "entry 1 was for it, of an earlier version; nothing came of it" in entries[1].purpose
    else:
        assert len(entries) == 1
        assert made[0].receipt.chain == first.chain
        today = site.ReleasePlan.of(study, 60).event
        assert Guarantee((today,), study.privacy.delta).epsilon() <= study.privacy.epsilon
