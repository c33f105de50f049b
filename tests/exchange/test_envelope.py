"""Whatever the bytes are: a release that is all it claims, or `ReleaseInvalid`."""

import json
import math
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.exchange import (
    FORMAT,
    Keyring,
    ReleaseInvalid,
    load_keyring,
    open_release,
    seal_release,
)
from sudare.exchange._envelope import LARGEST_RELEASE
from sudare.foundations.checks import InvalidInput, PrivacyError
from sudare.foundations.privacy import (
    ApproximateEvent,
    ConcentratedEvent,
    GaussianEvent,
    PureEvent,
    account,
)
from sudare.releases import Contract, LearnerRelease, MomentsRelease
from tests.events import EVENTS
from tests.exchange.releases import (
    KEY,
    RING,
    STRANGER,
    STUDY,
    certificate,
    decoded,
    encoded,
    learner,
    moments,
    raw,
    signed,
)
from tests.support import ROOT
from tests.support.soak import times

TRIED = times(5_000, 100_000)
"""Hostile inputs to try."""
SEALED = seal_release(learner(), certificate(), KEY)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def payload() -> Any:
    return json.loads(decoded(SEALED.split(b".")[1]))


def changed(path: str, value: Any) -> Any:
    contents = payload()
    *parents, last = path.split(".")
    inner = contents
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    return contents


@pytest.mark.parametrize("release", [learner(), moments()], ids=["learner", "moments"])
def test_what_was_sealed_is_what_is_opened(release: LearnerRelease | MomentsRelease) -> None:
    data = seal_release(release, certificate(), KEY)
    trusted = open_release(data, RING, STUDY)
    assert trusted.release == release
    assert trusted.signed.certificate == certificate()
    assert (trusted.signer, trusted.fingerprint) == ("Clinic A", KEY.public.fingerprint)
    assert len(data) < 4096
    # Equality is blind to the sign of zero.
    assert str(trusted.release) == str(release)


@settings(max_examples=100)
@given(st.tuples(FINITE, FINITE, FINITE), st.floats(1e-300, 1e300), st.text(max_size=30))
def test_numbers_read_back_to_the_last_bit(
    numbers: tuple[float, float, float], radius: float, party: str
) -> None:
    if not (party.strip() and party.isprintable()):
        party = "Ärzte “am” See"
    release = learner(coefficients=numbers, radius=radius, noise_std=radius, party=party)
    found = open_release(seal_release(release, certificate(), KEY), RING).release
    assert isinstance(found, LearnerRelease)
    assert [x.hex() for x in found.coefficients] == [x.hex() for x in numbers]
    assert (found.radius, found.noise_std, found.party) == (radius, radius, party)


def test_any_language_can_check_the_signature() -> None:
    """With nothing but Ed25519, base64 and JSON."""
    head, body, signature = SEALED.split(b".")
    key = Ed25519PublicKey.from_public_bytes(raw(KEY.public))
    key.verify(decoded(signature), head + b"." + body)
    with pytest.raises(InvalidSignature):
        key.verify(decoded(signature), head + b"." + body[:-1] + b"A")
    assert json.loads(decoded(head)) == {
        "alg": "EdDSA",
        "typ": FORMAT,
        "kid": KEY.public.fingerprint,
    }
    contents = json.loads(decoded(body))
    assert contents["release"]["coefficients"] == [0.1, -1e-300, 5e-324]
    assert contents["certificate"]["study"] == STUDY


def test_what_any_language_has_signed_is_opened() -> None:
    assert open_release(signed(payload()), RING, STUDY).release == learner()
    assert open_release(signed(payload(), alg="Ed25519"), RING).release == learner()


def test_moments_of_many_features_fit() -> None:
    """joserfc by itself ends at 128 kB, which is less than a hundred features."""
    rng = random.Random(1)
    contract = Contract(features=500, row_norm=1.0, constant=0.25, classes=("no", "yes"))
    large = moments(
        contract=contract,
        cross=tuple(rng.gauss(0, 10) for _ in range(501)),
        # As many digits as a number can have.
        gram=(-1.2345678901234567e-100,) * (501 * 502 // 2),
    )
    data = seal_release(large, certificate(), KEY)
    assert len(data) > LARGEST_RELEASE // 2
    assert open_release(data, RING).release == large


def test_what_nobody_could_open_is_not_sealed() -> None:
    p = 900
    contract = Contract(features=p, row_norm=1.0, classes=("no", "yes"))
    huge = moments(contract=contract, cross=(0.1,) * p, gram=(1 / 3,) * (p * (p + 1) // 2))
    with pytest.raises(InvalidInput, match="more than 8 MB"):
        seal_release(huge, certificate(), KEY)


def test_a_simulation_is_neither_sealed_nor_opened() -> None:
    with pytest.raises(PrivacyError, match="drawn with a seed"):
        seal_release(learner(simulated=True), certificate(), KEY)
    with pytest.raises(ReleaseInvalid, match="drawn with a seed"):
        open_release(signed(changed("release.simulated", True)), RING)


def test_a_stranger_is_refused() -> None:
    with pytest.raises(ReleaseInvalid, match="not in the keyring"):
        open_release(seal_release(learner(), certificate(), STRANGER), RING)
    with pytest.raises(ReleaseInvalid, match="not in the keyring"):
        open_release(SEALED, Keyring())
    both = RING.with_key("Clinic B", STRANGER.public)
    # Signed by B in A's name: the signer is who signed.
    assert open_release(signed(payload(), key=STRANGER), both).signer == "Clinic B"
    with pytest.raises(ReleaseInvalid, match="was changed"):
        open_release(signed(payload(), key=STRANGER, kid=KEY.public.fingerprint), both)


def test_another_study_is_refused() -> None:
    assert open_release(SEALED, RING, STUDY)
    for study in ("", "ab", "cd" * 32):
        with pytest.raises(ReleaseInvalid, match="another study"):
            open_release(SEALED, RING, study)


def test_a_copy_is_the_same_release() -> None:
    """Replayed under any name or in any spelling of its signature, it is told by its contents."""
    head, body, signature = SEALED.split(b".")
    last = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".index(signature[-1:])
    again = open_release(SEALED, RING)
    for spare in range(16):
        letter = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[
            (last & 0b110000) + spare
        ]
        copy = head + b"." + body + b"." + signature[:-1] + bytes([letter])
        try:
            found = open_release(copy, RING)
        except ReleaseInvalid:
            continue
        assert found == again
        assert found.signed.request() == again.signed.request()


@pytest.mark.parametrize(
    ("epsilon", "delta", "event", "fits"),
    [
        (1.0, 0.0, PureEvent(1.0), True),
        (2.0, 0.0, PureEvent(1.0), True),
        (0.999, 0.0, PureEvent(1.0), False),
        (1.0, 1e-6, GaussianEvent(0.1), True),
        (1.0, 0.0, GaussianEvent(0.1), False),
        (1.0, 1e-6, ApproximateEvent(1.0, 1e-6), True),
        (1.0, 1e-6, ApproximateEvent(1.0, 2e-6), False),
        (5e-324, 1e-6, PureEvent(1.0), False),
    ],
)
def test_the_price_is_computed_again(epsilon: float, delta: float, event: Any, fits: bool) -> None:
    release, claim = learner(event=event), certificate(epsilon=epsilon, delta=delta)
    contents = payload()
    contents["release"]["event"] = msgspec.to_builtins(event)
    contents["certificate"] |= {"epsilon": epsilon, "delta": delta}
    if fits:
        assert account([event], delta).epsilon() <= epsilon * (1 + 1e-9)
        seal_release(release, claim, KEY)
        open_release(signed(contents), RING)
    else:
        with pytest.raises(ReleaseInvalid, match=r"claims|does not add up"):
            seal_release(release, claim, KEY)
        with pytest.raises(ReleaseInvalid, match=r"claims|does not add up"):
            open_release(signed(contents), RING)


@settings(max_examples=100)
@given(EVENTS, st.floats(-1, 2), st.floats(-1, 1e300))
def test_any_price_is_accepted_or_refused(event: Any, delta: float, epsilon: float) -> None:
    contents = payload()
    contents["release"]["event"] = msgspec.to_builtins(event)
    contents["certificate"] |= {"epsilon": epsilon, "delta": delta}
    accepted_or_refused(signed(contents))


@pytest.mark.parametrize("event", [ConcentratedEvent(5e-324), ConcentratedEvent(1e308)])
@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-6])
def test_prices_beyond_arithmetic_are_accepted_or_refused(event: Any, delta: float) -> None:
    contents = payload()
    contents["release"]["event"] = msgspec.to_builtins(event)
    contents["certificate"]["delta"] = delta
    accepted_or_refused(signed(contents))


DEEP = b"[" * 100_000 + b"]" * 100_000
CONTENTS: dict[str, Any] = {
    "nothing": b"",
    "null": None,
    "a list": [],
    "another format": changed("format", "sudare-release/2"),
    "no release": {"format": FORMAT},
    "an unknown kind": changed("release.kind", "learner/2"),
    "a long unknown kind": changed("release.kind", "x" * 1_000_000),
    "too few numbers": changed("release.coefficients", [1.0]),
    "no numbers": changed("release.coefficients", ["1.0", None, []]),
    "an infinite number": json.dumps(payload()).replace("5e-324", "1e999").encode(),
    "not a number": json.dumps(payload()).replace("5e-324", "NaN").encode(),
    "a negative number of rows": changed("release.n", -1),
    "more rows than there are": changed("release.n", 10**300),
    "more features than numbers": changed("release.contract.features", 10**9),
    "one class": changed("release.contract.classes", ["no", "no"]),
    "no party": changed("release.party", " "),
    "a party that writes on the terminal": changed("release.party", "\x1b[2J"),
    "a sentence that does": changed("certificate.sentence", "\x1b[2J"),
    "a parameter that does": changed("certificate.parameters", {"a": "\x1b[2J"}),
    "a parameter's name that does": changed("certificate.parameters", {"\x1b[2J": 1}),
    "an endless sentence": changed("certificate.sentence", "x" * 1_000_000),
    "nested parameters": changed("certificate.parameters", {"a": {"b": 1}}),
    "more than a certificate": changed("certificate.more", 1),
    "no claim": changed("certificate.epsilon", None),
    "a negative claim": changed("certificate.epsilon", -1.0),
    "a delta of one": changed("certificate.delta", 1.0),
    "broken text": b"\xff\xfe",
    "half a surrogate": changed("release.party", "\ud800"),
    "deep": DEEP,
    "deep inside": b'{"format":' + DEEP + b"}",
    "deep in what is skipped": b'{"release":{"kind":"learner/1","more":' + DEEP + b"}}",
}


@pytest.mark.parametrize("contents", CONTENTS.values(), ids=CONTENTS.keys())
def test_signed_nonsense_is_refused(contents: Any) -> None:
    with pytest.raises(ReleaseInvalid) as problem:
        open_release(signed(contents), RING)
    assert len(str(problem.value)) < 500
    assert problem.value.__suppress_context__ or problem.value.__context__ is None


HEADERS: dict[str, Any] = {
    "no algorithm": {"alg": "none"},
    "a shared secret": {"alg": "HS256"},
    "another curve": {"alg": "ES256"},
    "no text": {"alg": 5},
    "a list": {"alg": ["EdDSA"]},
    "its own key": {"jwk": json.loads(STRANGER.public.to_text())},
    "critical": {"crit": ["b64"], "b64": False},
    "not encoded": {"b64": False},
    "another type": {"typ": "JWT"},
    "another version": {"typ": "sudare-release/2"},
    "no name": {"kid": None},
    "a long name": {"kid": "x" * 100_000},
    "deep": {"more": json.loads(b"[" * 500 + b"]" * 500)},
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_signed_nonsense_in_the_header_is_refused(header: Any) -> None:
    with pytest.raises(ReleaseInvalid) as problem:
        open_release(signed(payload(), **header), RING)
    assert len(str(problem.value)) < 500


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"..",
        b"....",
        b"\x00" * 1000,
        b"{}",
        json.dumps(payload()).encode(),
        SEALED + b"\n",
        SEALED + b".",
        SEALED + b"=",
        SEALED.replace(b".", b" "),
        SEALED.replace(b".", b"\xff"),
        SEALED * 2,
        b"\xef\xbb\xbf" + SEALED,
        encoded(b'"kid"') + SEALED[SEALED.index(b".") :],
        encoded(DEEP) + SEALED[SEALED.index(b".") :],
        b"A" * LARGEST_RELEASE,
        b"A" * (LARGEST_RELEASE + 1),
        b"." * LARGEST_RELEASE,
    ],
    ids=lambda data: f"{data[:12]!r} ({len(data)})",
)
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(ReleaseInvalid) as problem:
        open_release(data, RING)
    assert len(str(problem.value)) < 500


def test_size_is_judged_before_contents_and_contents_up_to_it() -> None:
    with pytest.raises(ReleaseInvalid, match="larger than 8 MB"):
        open_release(b"A" * (LARGEST_RELEASE + 1), RING)
    with pytest.raises(ReleaseInvalid, match="not a signed release"):
        open_release(b"A" * LARGEST_RELEASE, RING)


def test_a_header_in_letters_of_no_alphabet_is_refused() -> None:
    """A lenient decoder would skip them, and read the same header from many texts."""
    with pytest.raises(ReleaseInvalid, match="not a signed release"):
        open_release(SEALED[:8] + b"!!!!" + SEALED[8:], RING)


@pytest.mark.parametrize("field", ["study", "sentence", "receipt", "moment", "software"])
def test_texts_of_a_certificate_are_short(field: str) -> None:
    assert getattr(certificate(**{field: "x" * 4000}), field) == "x" * 4000
    with pytest.raises(InvalidInput, match="printable texts"):
        certificate(**{field: "x" * 4001})


def test_every_truncation_and_every_flipped_letter_is_refused() -> None:
    for size in range(len(SEALED)):
        with pytest.raises(ReleaseInvalid):
            open_release(SEALED[:size], RING)
    # The last letter carries four spare bits, which say nothing.
    for place in range(len(SEALED) - 1):
        letter = b"B" if SEALED[place : place + 1] != b"B" else b"C"
        with pytest.raises(ReleaseInvalid):
            open_release(SEALED[:place] + letter + SEALED[place + 1 :], RING)


@pytest.mark.soak(tries=f"{TRIED:,} files")
def test_random_and_mutated_bytes_raise_nothing_else() -> None:
    rng = random.Random(1)
    makers: list[Callable[[random.Random], bytes]] = [
        lambda rng: rng.randbytes(rng.randrange(300)),
        lambda rng: mutated(rng, SEALED),
        lambda rng: mutated(rng, SEALED),
        lambda rng: encoded(mutated(rng, decoded(SEALED.split(b".")[0]))) + b"." + SEALED[150:],
    ]
    for _ in range(TRIED * 3 // 4):
        data = rng.choice(makers)(rng)
        assert not accepted_or_refused(data) or data[:-1] == SEALED[:-1]
    body = json.dumps(payload()).encode()
    taken = sum(accepted_or_refused(signed(mutated(rng, body))) for _ in range(TRIED // 4))
    # A changed digit of a coefficient is no error once the signer has signed it.
    assert 0 < taken < TRIED // 8


def test_memory_stays_bounded() -> None:
    hostile = [
        signed(b'{"release":{"kind":"learner/1","coefficients":[' + b"1," * 2_800_000),
        signed(b"[" * (6 << 20)),
        signed(b'{"certificate":{"parameters":{' + b'"a":1,' * 800_000),
        b"." * LARGEST_RELEASE,
        b"A" * LARGEST_RELEASE,
        b"A" * (50 << 20),
    ]
    tracemalloc.start()
    for data in hostile:
        with pytest.raises(ReleaseInvalid):
            open_release(data, RING)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 << 20


def test_golden_releases_are_read_for_ever() -> None:
    golden = ROOT / "tests" / "golden"
    ring = load_keyring(golden / "keyring-1.toml")
    assert [(name, key.fingerprint) for name, key in ring] == [("Clinic “Ä”", GOLDEN_PRINT)]
    for name, expected in {"learner": learner(), "moments": moments()}.items():
        data = (golden / f"{name}-1.release").read_bytes()
        trusted = open_release(data, ring, STUDY)
        assert str(trusted.release) == str(expected)
        assert trusted.signer == "Clinic “Ä”"
        assert trusted.signed.certificate == certificate(software="sudare 0.1.0")


GOLDEN_PRINT = "moikQrESK0OQ_WxY0vJcvDWTaJiCXJoDGhKv5uZjJ4w"


def accepted_or_refused(data: bytes) -> bool:
    try:
        found = open_release(data, RING)
    except ReleaseInvalid:
        return False
    assert found.release.contract.dimension >= 1
    assert math.isfinite(found.release.noise_std)
    return True


def mutated(rng: random.Random, data: bytes) -> bytes:
    """A few changes of the kind that files meet, or that people try."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(6):
            case 0:
                changed[place : place + 1] = rng.randbytes(1)
            case 1:
                del changed[place : place + rng.choice((1, 4, 40))]
            case 2:
                changed[place:place] = rng.randbytes(rng.choice((1, 4)))
            case 3:
                changed[place:place] = changed[place : place + rng.choice((1, 20, 200))]
            case 4:
                changed[place : place + 1] = rng.choice(b'0123456789.,:-eE+"{}[]').to_bytes(1)
            case _:
                start = rng.randrange(len(changed) + 1)
                changed[place : place + 8] = changed[start : start + 8]
    return bytes(changed)
