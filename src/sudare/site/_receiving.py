"""Read and verify releases: signature, study, and a certificate that can be computed again.

What computes a certificate again brings in all learners, and what adds up a pool all its sums. They
are imported when it comes to that: a signature and a price are checked without.
"""

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sudare.exchange import (
    Keyring,
    ReleaseInvalid,
    SignedRelease,
    Trusted,
    exists,
    get_all,
    open_release,
    subfolders,
)
from sudare.foundations import checks
from sudare.foundations.privacy import ApproximateEvent, ConcentratedEvent, Event, PureEvent
from sudare.releases import LARGEST_POOLED, LearnerRelease, Pooled, Release, is_pooled

if TYPE_CHECKING:
    from sudare.site._plan import ReleasePlan
    from sudare.study import Study

POOL_FOLDER, POOLED_NAME = "pool-", "pooled.release"
"""Where in a place the result of a pool is."""
_ROUNDING = 1e-9
_FIRST_ROUNDING = 0.01
"""By how much earlier versions may have rounded a price down."""
_SEAL_SHARE = 0.01
"""Of ε and δ, in the first edition."""


@dataclass(frozen=True)
class Checked:
    """One file and what became of it."""

    address: str
    trusted: Trusted | None
    problem: str | None
    """Why it was refused, or set aside; None for one that is used."""
    copies: tuple[Trusted, ...] = ()
    """The same numbers as others signed them: they are about the same rows."""

    @property
    def all(self) -> tuple[Trusted, ...]:
        """Every signed form of these numbers, the one that is used first."""
        return () if self.trusted is None else (self.trusted, *self.copies)


def verify(data: bytes, keyring: Keyring, study: "Study | None" = None) -> Trusted:
    """The release in these bytes, if it is all that it claims; raises only `ReleaseInvalid`.

    Without a study, only the signature and the price were checked: what the certificate says of
    how the release was made is then its signer's claim. A pooled release was signed by all of its
    organisations; it is added up again, and its certificate is computed here.
    """
    if is_pooled(data):
        return _verify_pooled(data, keyring, study)
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


def _verify_pooled(data: bytes, keyring: Keyring, study: "Study | None") -> Trusted:
    from sudare.pooling import PoolInvalid, trust_pooled

    try:
        trusted = trust_pooled(data, keyring, None if study is None else study.digest())
    except PoolInvalid as problem:
        raise ReleaseInvalid(str(problem)) from None
    except Exception:
        raise ReleaseInvalid("What it should be made of cannot be computed") from None
    release = trusted.release
    if study is not None and release.contract != study.contract:
        raise ReleaseInvalid("Its bounds are not those of the study")
    if study is not None and release.event.unit != study.privacy.unit:
        raise ReleaseInvalid("Its promise is about another unit than the study's")
    return trusted


def collect(places: Iterable[str], keyring: Keyring, study: "Study | None" = None) -> list[Checked]:
    """Every release found in these places; of one signer only the latest is used.

    The results of pools are in folders of their own within a place.
    """
    found: list[Checked] = []
    for place in [each for one in places for each in (one, *_results_of_pools(one))]:
        for address, data in get_all(place, largest=LARGEST_POOLED):
            try:
                found.append(Checked(address, verify(data, keyring, study), None))
            except ReleaseInvalid as problem:
                found.append(Checked(address, None, str(problem)))
    return _latest_only(found)


def _results_of_pools(place: str) -> list[str]:
    if place.startswith(("http://", "https://")):
        return []  # a web server lists pages, not folders
    pools = [each for each in subfolders(place) if each.rpartition("/")[2].startswith(POOL_FOLDER)]
    results = [f"{each}/{POOLED_NAME}" for each in pools]
    return [each for each in results if exists(each)]


def _latest_only(found: list[Checked]) -> list[Checked]:
    """A later release of a signer replaces the earlier, and the same numbers that were signed again
    by whomever (a lost key, a wrong name) replace those before: never both."""
    latest: dict[str, Checked] = {}
    forms: dict[bytes, list[Trusted]] = {}
    for each in found:
        if each.trusted is None:
            continue
        forms.setdefault(_numbers(each), []).append(each.trusted)
        rival = latest.get(each.trusted.fingerprint)
        if rival is None or _moment(each) > _moment(rival):
            latest[each.trusted.fingerprint] = each
    found = [_unless_replaced(each, latest) for each in found]
    newest: dict[bytes, Checked] = {}
    for each in sorted((each for each in found if each.trusted is not None), key=_moment):
        newest[_numbers(each)] = each
    used = {id(each) for each in newest.values()}
    why = "the same numbers, signed again since: the later file is used"
    told = []
    for each in found:
        if each.trusted is None:
            told.append(each)
        elif id(each) in used:
            copies = [form for form in forms[_numbers(each)] if form != each.trusted]
            told.append(dataclasses.replace(each, copies=tuple(copies)))
        else:
            told.append(Checked(each.address, None, why))
    return told


def _numbers(checked: Checked) -> bytes:
    """A digest of what was released, whatever its party calls itself."""
    nameless = msgspec.structs.replace(_release(checked), party="anybody")
    return hashlib.sha256(msgspec.json.encode(nameless)).digest()


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


def shown_name(checked: Checked) -> str:
    """The name of a file, which others chose, as a text that can be written and shown."""
    name = Path(checked.address).name
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in name)


def counted_once(checked: Sequence[Checked]) -> list[Checked]:
    """Nobody's rows count twice: what is in a pool is set aside elsewhere, and of pools that share
    a member the one with most rows is used."""
    pools = [each for each in checked if each.trusted is not None and _members(each)]
    pools.sort(key=lambda each: (-_release(each).n, _release(each).party, each.address))
    covered: set[str] = set()
    used = set()
    for each in pools:
        if covered.isdisjoint(_members(each)):
            covered |= _members(each)
            used.add(each.address)
    found = []
    for each in checked:
        shared = each.trusted is not None and (
            any(form.fingerprint in covered for form in each.all)
            or (_members(each) and each.address not in used)
        )
        why = "its rows are in a pooled release that is used"
        found.append(Checked(each.address, None, why) if shared else each)
    return found


def _release(checked: Checked) -> Release:
    assert checked.trusted is not None
    return checked.trusted.release


def _members(checked: Checked) -> frozenset[str]:
    """Whose rows are in a pooled release; nobody's for any other."""
    release = _release(checked)
    return frozenset(release.members if isinstance(release, Pooled) else ())


def _check_against(signed: SignedRelease, study: "Study") -> None:
    """Everything that the study's terms decide, computed again from public numbers."""
    from sudare.site._plan import ReleasePlan

    release, expected = signed.release, ReleasePlan.of(study, signed.release.n)
    if "edition" not in signed.certificate.parameters:
        expected = _as_before(release, expected)
    if release.contract != study.contract:
        raise ReleaseInvalid("Its bounds are not those of the study")
    if not _is_nearly(release.event, expected.event, _ROUNDING):
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


def _as_before(release: Release, expected: "ReleasePlan") -> "ReleasePlan":
    """What a release of the first edition may state: the same promise, with somewhat more noise.

    Its price is computed again. Its other calibrations are gone: noise between what is asked for
    today and twice that is taken at its word, as more of it only makes a release count for less,
    and so is slack near that of the seal that it had.
    """
    event = _first_event(expected)
    if not _is_nearly(release.event, event, _FIRST_ROUNDING):
        if release.event == expected.event:
            raise ReleaseInvalid("Its certificate states no edition of the calibrations")
        raise ReleaseInvalid("Its price is not the one the study sets")
    stated: dict[str, Any] = {"event": release.event, "edition": None}
    # Where noise is added last, the ball grows with it.
    ranges = [("noise_std", expected.noise_std, 1 - _ROUNDING)]
    if isinstance(release, LearnerRelease) and expected.radius is not None:
        ranges.append(("radius", expected.radius, 1 - _ROUNDING))
        ranges.append(("slack", _first_slack(expected, event), 0.7))
    for name, usual, least in ranges:
        number = getattr(release, name)
        stated[name] = number if least * usual <= number <= 2 * usual else usual
    return dataclasses.replace(expected, **stated)


def _first_event(plan: "ReleasePlan") -> Event:
    """The price that the first edition set for such a release."""
    from sudare.foundations.gaussian import concentrated_rho

    terms = plan.study.privacy
    about: dict[str, Any] = {"neighbours": plan.event.neighbours, "unit": plan.event.unit}
    if terms.delta == 0:
        return PureEvent(terms.epsilon, **about)
    if terms.model in ("moments", "output"):
        return ConcentratedEvent(concentrated_rho(terms.epsilon, terms.delta), **about)
    return ApproximateEvent(terms.epsilon, terms.delta, **about)


def _is_nearly(stated: Event, event: Event, rounding: float) -> bool:
    """The same kind with the same numbers, but for what another machine's arithmetic rounds."""
    if type(stated) is not type(event):
        return False
    numbers, others = msgspec.structs.asdict(event), msgspec.structs.asdict(stated)
    return all(
        (1 - rounding) * value <= others[name] <= (1 + _ROUNDING) * value
        if isinstance(value, float)
        else others[name] == value
        for name, value in numbers.items()
    )


def _first_slack(plan: "ReleasePlan", event: Event) -> float:
    """What the seal of the first edition could add: Gaussian wherever δ > 0."""
    from sudare.foundations.seal import plan_seal
    from sudare.site._plan import make_learner

    assert plan.slack is not None
    terms = plan.study.privacy
    seal = make_learner(plan.study).recipe(plan.n, len(plan.study.features)).seal
    if isinstance(event, PureEvent) or not isinstance(seal.event, PureEvent):
        return plan.slack
    before = plan_seal(
        dimension=seal.dimension,
        epsilon=terms.epsilon * _SEAL_SHARE,
        delta=terms.delta * _SEAL_SHARE,
        displacement=seal.displacement,
    )
    return before.noise_std * (math.sqrt(seal.dimension) + 9)


def _check_certificate(signed: SignedRelease, study: "Study", expected: "ReleasePlan") -> None:
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
