"""Releases, certificates and keys to test with."""

import base64
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.exchange import FORMAT, Certificate, Keyring, PublicKey, SigningKey, new_key
from sudare.foundations.privacy import ConcentratedEvent, PureEvent
from sudare.releases import Contract, LearnerRelease, MomentsRelease

CLASSIFY = Contract(features=2, row_norm=1.0, constant=0.25, classes=("no", "yes"))
STUDY = "ab" * 32
KEY = new_key()
STRANGER = new_key()
RING = Keyring().with_key("Clinic A", KEY.public)


def learner(**changed: Any) -> LearnerRelease:
    settings: dict[str, Any] = {
        "party": "Clinic A",
        "contract": CLASSIFY,
        "n": 50,
        "event": PureEvent(1.0),
        "noise_std": 0.1,
        "coefficients": (0.1, -1e-300, 5e-324),
        "radius": 1 / 3,
        "slack": 0.0,
    }
    return LearnerRelease(**settings | changed)


def moments(**changed: Any) -> MomentsRelease:
    settings: dict[str, Any] = {
        "party": "Clinic A",
        "contract": CLASSIFY,
        "n": 50,
        "event": ConcentratedEvent(0.01),
        "noise_std": 2.0,
        "cross": (10.1, -0.0, 1e16),
        "gram": (20.0, 1.0, 2.0, 15.7, 3.0, 1.7976931348623157e308),
    }
    return MomentsRelease(**settings | changed)


def certificate(**changed: Any) -> Certificate:
    settings: dict[str, Any] = {
        "study": STUDY,
        "epsilon": 1.0,
        "delta": 1e-6,
        "sentence": "ε = 1",
        "parameters": {"rows": 50, "noise_std": 0.1, "model": "objective", "radius": None},
        "receipt": "cd" * 32,
        "moment": "2026-01-01T00:00:00+00:00",
    }
    return Certificate(**settings | changed)


def signed(payload: Any, *, key: SigningKey = KEY, **header: Any) -> bytes:
    """A JWS made with `cryptography` alone, of a payload and a header that may be anything."""
    head = {"alg": "EdDSA", "typ": FORMAT, "kid": key.public.fingerprint} | header
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    text = encoded(json.dumps(head).encode()) + b"." + encoded(body)
    secret = Ed25519PrivateKey.from_private_bytes(decoded(key.jwk.as_dict(private=True)["d"]))
    return text + b"." + encoded(secret.sign(text))


def encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def decoded(text: Any) -> bytes:
    data = text.encode() if isinstance(text, str) else bytes(text)
    return base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4))


def raw(key: PublicKey) -> bytes:
    return decoded(json.loads(key.to_text())["x"])
