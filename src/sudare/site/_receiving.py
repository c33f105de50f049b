"""Read and verify releases: signature, study, and a certificate that can be computed again."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sudare.exchange import (
    Keyring,
    ReleaseInvalid,
    SignedRelease,
    Trusted,
    get_all,
    open_release,
)
from sudare.foundations import checks
from sudare.foundations.privacy import NearGaussianEvent, account
from sudare.releases import LearnerRelease, Release
from sudare.site._plan import ReleasePlan
from sudare.study import Study

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Checked:
    """One file and what became of it."""

    address: str
    trusted: Trusted | None
    problem: str | None
    """Why it was refused, or set aside; None for one that is used."""


def verify(data: bytes, keyring: Keyring, study: Study | None = None) -> Trusted:
    """The release in these bytes, if it is all that it claims; raises only `ReleaseInvalid`.

    Without a study, only the signature and the price were checked: what the certificate says of
    how the release was made is then its signer's claim.
    """
    trusted = open_release(data, keyring, None if study is None else study.digest())
    if study is not None:
        try:
            _check_against(trusted.signed, study)
        except ReleaseInvalid:
            raise
        except checks.InvalidInput as problem:
            raise ReleaseInvalid(f"No such release can be made: {problem}") from None
        except Exception:
            # Its number of rows is whatever a signer wrote: no arithmetic may stop the other files.
            raise ReleaseInvalid("What it should be made of cannot be computed") from None
    return trusted


def collect(places: Iterable[str], keyring: Keyring, study: Study | None = None) -> list[Checked]:
    """Every release found in these places; of one signer only the latest is used."""
    found: list[Checked] = []
    for place in places:
        for address, data in get_all(place):
            try:
                found.append(Checked(address, verify(data, keyring, study), None))
            except ReleaseInvalid as problem:
                found.append(Checked(address, None, str(problem)))
    return _latest_only(found)


def _latest_only(found: list[Checked]) -> list[Checked]:
    """A later release of a signer replaces the earlier: never both."""
    latest: dict[str, Checked] = {}
    for each in found:
        if each.trusted is None:
            continue
        rival = latest.get(each.trusted.fingerprint)
        if rival is None or _moment(each) > _moment(rival):
            latest[each.trusted.fingerprint] = each
    return [_unless_replaced(each, latest) for each in found]


def _unless_replaced(each: Checked, latest: dict[str, Checked]) -> Checked:
    if each.trusted is None:
        return each
    used = latest[each.trusted.fingerprint]
    if used is each:
        return each
    if used.trusted == each.trusted:
        return Checked(each.address, None, "the same release is here twice: one of them is used")
    return Checked(each.address, None, "a later release by the same signer replaces it")


def _moment(checked: Checked) -> tuple[str, str]:
    assert checked.trusted is not None
    return checked.trusted.signed.certificate.moment, checked.address


def _check_against(signed: SignedRelease, study: Study) -> None:
    """Everything that the study's terms decide, computed again from public numbers."""
    release, expected = signed.release, ReleasePlan.of(study, signed.release.n)
    if "edition" not in signed.certificate.parameters:
        expected = _as_before(release, expected)
    if release.contract != study.contract:
        raise ReleaseInvalid("Its bounds are not those of the study")
    if release.event != expected.event:
        raise ReleaseInvalid("Its price is not the one the study sets")
    if not _same(release.noise_std, expected.noise_std):
        raise ReleaseInvalid("Its noise is not what the study's terms call for")
    if isinstance(release, LearnerRelease) == (expected.radius is None):
        raise ReleaseInvalid("It is not the kind of release the study asks for")
    if isinstance(release, LearnerRelease):
        if not _same(release.radius, expected.radius):
            raise ReleaseInvalid("Its ball is not the one the study's terms call for")
        if not _same(release.slack, expected.slack):
            raise ReleaseInvalid("Its slack is not what the study's terms call for")
    _check_certificate(signed, study, expected)


def _as_before(release: Release, expected: ReleasePlan) -> ReleasePlan:
    """What a release of the first edition may state: the same promise, with somewhat more noise.

    Its calibrations are gone. Noise between what is asked for today and twice that is taken at its
    word: more of it only makes a release count for less.
    """
    terms, event = expected.study.privacy, release.event
    if isinstance(event, NearGaussianEvent):
        raise ReleaseInvalid("Its certificate states no edition of the calibrations")
    same_unit = (event.neighbours, event.unit) == (expected.event.neighbours, expected.event.unit)
    if not same_unit or account([event], terms.delta).epsilon() > terms.epsilon * (1 + _ROUNDING):
        raise ReleaseInvalid("Its price is not the one the study sets")
    stated: dict[str, Any] = {"event": event, "edition": None}
    pairs: list[tuple[str, float, float | None]] = [
        ("noise_std", release.noise_std, expected.noise_std)
    ]
    if isinstance(release, LearnerRelease):
        pairs.append(("radius", release.radius, expected.radius))
        pairs.append(("slack", release.slack, expected.slack))
    for name, number, today in pairs:
        # Slack is of the seal alone, which is another law for some releases today.
        low, high = (0.0, 10.0) if name == "slack" else (1 - _ROUNDING, 2.0)
        if today is not None and low * today <= number <= high * today:
            stated[name] = number
    return dataclasses.replace(expected, **stated)


def _check_certificate(signed: SignedRelease, study: Study, expected: ReleasePlan) -> None:
    """What people will read: nothing on it may be the signer's own words."""
    certificate, terms = signed.certificate, study.privacy
    if (certificate.epsilon, certificate.delta) != (terms.epsilon, terms.delta):
        raise ReleaseInvalid("Its certificate states another price than the study")
    if certificate.sentence != expected.sentence:
        raise ReleaseInvalid("Its certificate words the promise in another way than its price does")
    parameters, stated = expected.parameters, certificate.parameters
    if stated.keys() != parameters.keys():
        raise ReleaseInvalid("Its certificate states other parameters than the study decides")
    for name, value in parameters.items():
        if not _same(stated[name], value):
            raise ReleaseInvalid(f"Its certificate states a {name!r} that does not follow")


def _same(stated: object, expected: object) -> bool:
    """Equal; numbers but for rounding."""
    numbers = (int, float)
    if type(stated) in numbers and isinstance(expected, numbers):
        return abs(stated - expected) <= _ROUNDING * abs(expected)  # type: ignore[operator]
    return stated == expected and type(stated) is type(expected)
