"""A signed release: the numbers, the study they belong to, what they cost, and who vouches for it.

The file is a JWS in compact form (RFC 7515, EdDSA) over JSON, so that any language can check it.
Floats are written so that they read back to the last bit. `open_release` raises nothing but
`ReleaseInvalid`, whatever the bytes are, and never trusts a claim that it can compute: ε comes from
the recorded event, not from what the certificate says of it.
"""

import base64
import hashlib
import warnings
from typing import NamedTuple, TypeGuard

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning

from sudare import __version__
from sudare.exchange._keys import Keyring, SigningKey
from sudare.foundations import checks
from sudare.foundations.privacy import account
from sudare.releases import Release

FORMAT = "sudare-release/1"
LARGEST_RELEASE = 8 << 20
"""Bytes: room for the moments of five hundred features, and an end to what will be parsed."""
_ROUNDING = 1e-9
_ALGORITHMS = ["EdDSA", "Ed25519"]
_LONGEST_TEXT = 4000
_LONGEST_REASON = 300


class _Registry(jws.JWSRegistry):
    """joserfc's own limit is 128 kB, less than the moments of a hundred features."""

    max_payload_length = 64 << 20


_REGISTRY = _Registry(algorithms=_ALGORITHMS)


class ReleaseInvalid(checks.SudareError):
    """A release that must not be used; the message says why."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the releasing party vouches for."""

    study: str
    """Digest of the study."""
    epsilon: float
    delta: float
    sentence: str
    parameters: dict[str, float | int | str | bool | None]
    """Everything public that decided the noise, so that it can be computed again."""
    receipt: str
    """The ledger's chain after the spend."""
    moment: str
    software: str = f"sudare {__version__}"

    def __post_init__(self) -> None:
        texts = [self.study, self.sentence, self.receipt, self.moment, self.software]
        texts += [text for item in self.parameters.items() for text in item if _is_text(text)]
        # People will read them on a terminal.
        if not all(text.isprintable() and len(text) <= _LONGEST_TEXT for text in texts):
            raise checks.InvalidInput("Expected printable texts in the certificate")


class SignedRelease(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A release and its certificate, as they are signed."""

    format: str
    release: Release
    certificate: Certificate

    def request(self) -> str:
        """Identifies the contents, whoever signs them."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


class Trusted(msgspec.Struct, frozen=True, kw_only=True):
    """A release whose signature was checked."""

    signer: str
    """The name in the keyring, which the party's own name cannot override."""
    fingerprint: str
    signed: SignedRelease

    @property
    def release(self) -> Release:
        return self.signed.release


def seal_release(release: Release, certificate: Certificate, key: SigningKey) -> bytes:
    """Sign a release. What was drawn with a seed is refused."""
    if release.simulated:
        raise checks.PrivacyError(
            "This release was drawn with a seed, and whoever knows the seed can take the noise "
            "off: only secure randomness is signed"
        )
    signed = SignedRelease(format=FORMAT, release=release, certificate=certificate)
    _check_claim(signed)
    text = sign(msgspec.json.encode(signed, order="sorted"), FORMAT, key)
    if len(text) > LARGEST_RELEASE:
        raise checks.InvalidInput(
            f"A release of more than {LARGEST_RELEASE >> 20} MB: nobody would read it. "
            "Use fewer features, or coefficients instead of moments"
        )
    return text


def open_release(data: bytes, trusted: Keyring, study: str | None = None) -> Trusted:
    """The release in these bytes, if someone trusted signed it (for this study, if one is given).

    Raises only `ReleaseInvalid`.
    """
    opened = open_signed(data, FORMAT, trusted)
    signed = _parse(opened.payload)
    _check_claim(signed)
    if signed.release.simulated:
        raise ReleaseInvalid("It was drawn with a seed: a simulation, not a release")
    if study is not None and signed.certificate.study != study:
        raise ReleaseInvalid("It belongs to another study, or to another version of this one")
    return Trusted(signer=opened.name, fingerprint=opened.fingerprint, signed=signed)


def unverified(data: bytes) -> tuple[SignedRelease, str]:
    """What a release says, and whose key it names: for bytes that are vouched for otherwise, as
    those that one's own ledger kept are."""
    signer = _claimed_signer(data, FORMAT, "release")
    try:
        return _parse(_base64(data.split(b".")[1])), signer
    except (ValueError, IndexError):
        raise ReleaseInvalid("This is not a signed release") from None


class Opened(NamedTuple):
    """What somebody trusted signed."""

    name: str
    """In the keyring."""
    fingerprint: str
    payload: bytes


def sign(payload: bytes, kind: str, key: SigningKey) -> bytes:
    """Any bytes as a JWS in compact form; `kind` keeps what is signed for one use from others."""
    header = {"alg": "EdDSA", "typ": kind, "kid": key.public.fingerprint}
    with warnings.catch_warnings():
        # RFC 9864 prefers the name Ed25519 for the same signature; few readers know it yet.
        warnings.simplefilter("ignore", SecurityWarning)
        return jws.serialize_compact(header, payload, key.jwk, registry=_REGISTRY).encode()


def open_signed(data: bytes, kind: str, trusted: Keyring, largest: int = LARGEST_RELEASE) -> Opened:
    """What was signed, if someone trusted did, for this use; raises only `ReleaseInvalid`."""
    what = kind.partition("/")[0].removeprefix("sudare-").replace("-", " ")
    if len(data) > largest:
        raise ReleaseInvalid(f"The file is larger than {largest >> 20} MB: no {what} is")
    fingerprint = _claimed_signer(data, kind, what)
    holder = trusted.holder(fingerprint)
    if holder is None:
        raise ReleaseInvalid(
            f"Signed by a key that is not in the keyring ({fingerprint[:43]!r}): trust it first"
        )
    name, key = holder
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            payload = jws.deserialize_compact(data, key.jwk, registry=_REGISTRY).payload
    except (JoseError, ValueError, TypeError, RecursionError):
        raise ReleaseInvalid(f"The signature is not {name!r}'s: the file was changed") from None
    return Opened(name, fingerprint, payload)


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that the header of a signed file may say."""

    alg: str
    typ: str
    kid: str


def _claimed_signer(data: bytes, kind: str, what: str) -> str:
    """Whose key to try: read before the signature is checked, so only to look it up."""
    try:
        head = msgspec.json.decode(_base64(data.split(b".", 1)[0]), type=_Header)
    except (ValueError, TypeError, RecursionError):
        raise ReleaseInvalid(f"This is not a signed {what}") from None
    if head.typ != kind:
        raise ReleaseInvalid(f"This is not a signed {what}, or of a version not known here")
    return head.kid


def _base64(part: bytes) -> bytes:
    return base64.b64decode(part + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)


def _parse(payload: bytes) -> SignedRelease:
    try:
        signed = msgspec.json.decode(payload, type=SignedRelease)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        reason = str(problem)[:_LONGEST_REASON]
        raise ReleaseInvalid(f"The signed contents cannot be read: {reason}") from None
    if signed.format != FORMAT:
        raise ReleaseInvalid("The signed contents are of a version not known here")
    return signed


def _check_claim(signed: SignedRelease) -> None:
    """The price on the certificate must be that of the recorded event."""
    claim, event = signed.certificate, signed.release.event
    try:
        true = account([event], claim.delta).epsilon()
    except checks.InvalidInput as problem:
        raise ReleaseInvalid(f"Its price does not add up: {problem}") from None
    except (ArithmeticError, ValueError, RuntimeError):
        # Numbers so far out that the arithmetic of privacy ends.
        raise ReleaseInvalid("Its price cannot be computed") from None
    if not true <= claim.epsilon * (1 + _ROUNDING):
        raise ReleaseInvalid(
            f"It claims ε = {claim.epsilon:g} at δ = {claim.delta:g}, but its event costs "
            f"{true:.6g}"
        )


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)
