"""Read and verify releases: signature, study, and a certificate that can be computed again."""

from collections.abc import Iterable
from dataclasses import dataclass

from sudare.exchange import Keyring, ReleaseInvalid, Trusted, get_all, open_release
from sudare.releases import LearnerRelease, Release
from sudare.site.learner import planned_event, preview
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
    """The release in these bytes, if it is all that it claims; raises only `ReleaseInvalid`."""
    trusted = open_release(data, keyring, None if study is None else study.digest())
    if study is not None:
        _check_against(trusted.release, study)
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


def _check_against(release: Release, study: Study) -> None:
    """What the study's terms say of price and noise, computed again from public numbers."""
    if release.contract != study.contract:
        raise ReleaseInvalid("Its bounds are not those of the study")
    if release.event != planned_event(study):
        raise ReleaseInvalid("Its price is not the one the study sets")
    expected = preview(study, release.n)
    if abs(release.noise_std - expected.noise_std) > _ROUNDING * expected.noise_std:
        raise ReleaseInvalid("Its noise is not what the study's terms call for")
    wants_moments = study.privacy.model == "moments"
    if isinstance(release, LearnerRelease) == wants_moments:
        raise ReleaseInvalid("It is not the kind of release the study asks for")
    if isinstance(release, LearnerRelease):
        assert expected.radius is not None
        if abs(release.radius - expected.radius) > _ROUNDING * expected.radius:
            raise ReleaseInvalid("Its ball is not the one the study's terms call for")
