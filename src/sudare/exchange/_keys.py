"""Keys: who signed a release, and whom one trusts.

A key is an Ed25519 key in a JWK file (RFC 7517, 8037); its fingerprint (RFC 7638) is what two
people read to each other over the phone. A keyring is a TOML file of names and public keys.
"""

import base64
import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from sudare.foundations import checks
from sudare.storage.files import read_text, toml_value

_MEMBERS = ("crv", "d", "kty", "x")


@dataclass(frozen=True)
class PublicKey:
    """A key that checks signatures."""

    jwk: OKPKey

    @cached_property
    def fingerprint(self) -> str:
        return str(self.jwk.thumbprint())

    @property
    def spoken(self) -> str:
        """The fingerprint in groups of four, for reading aloud."""
        return " ".join(self.fingerprint[i : i + 4] for i in range(0, 43, 4))

    def to_text(self) -> str:
        """The public key as a line of JSON, to hand to others."""
        return msgspec.json.encode(self.jwk.as_dict(private=False), order="sorted").decode()


@dataclass(frozen=True)
class SigningKey:
    """A secret key; never printed."""

    jwk: OKPKey

    def __repr__(self) -> str:
        return f"SigningKey({self.public.fingerprint})"

    @property
    def public(self) -> PublicKey:
        return public_key(self.jwk.as_dict(private=False))

    def save(self, path: str | Path) -> None:
        """Write the key to a new file that only its owner can read."""
        text = msgspec.json.encode(self.jwk.as_dict(private=True), order="sorted")
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise checks.InvalidInput(f"{path} exists: a key is never overwritten") from None
        except OSError as problem:
            raise checks.InvalidInput(f"Cannot write {path}: {problem.strerror}") from None
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as problem:
            # Half a key would stand in the way of the next attempt.
            Path(path).unlink(missing_ok=True)
            raise checks.InvalidInput(f"Cannot write {path}: {problem.strerror}") from None


class Keyring:
    """Whose releases are accepted: a name for each public key."""

    def __init__(self, keys: dict[str, PublicKey] | None = None) -> None:
        self._keys = dict(keys or {})
        if not all(name.strip() and name.isprintable() for name in self._keys):
            raise checks.InvalidInput("Expected a printable name for each key")
        self._holders = {key.fingerprint: (name, key) for name, key in self}
        if len(self._holders) < len(self._keys):
            raise checks.InvalidInput("Expected a different key for each name in the keyring")

    def __iter__(self) -> Iterator[tuple[str, PublicKey]]:
        return iter(self._keys.items())

    def __len__(self) -> int:
        return len(self._keys)

    def holder(self, fingerprint: str) -> tuple[str, PublicKey] | None:
        """Name and key behind a fingerprint, if it is trusted."""
        return self._holders.get(fingerprint)

    def with_key(self, name: str, key: PublicKey) -> "Keyring":
        """With one more trusted key; a name already taken is refused."""
        if name in self._keys and self._keys[name].fingerprint != key.fingerprint:
            raise checks.InvalidInput(
                f"{name!r} is trusted with another key: remove that one first, after asking why"
            )
        return Keyring({**self._keys, name: key})

    def without(self, name: str) -> "Keyring":
        """With one trusted key less."""
        if name not in self._keys:
            known = ", ".join(repr(each) for each in self._keys) or "nobody"
            raise checks.InvalidInput(f"{name!r} is not trusted here; those who are: {known}")
        return Keyring({each: key for each, key in self if each != name})

    def to_toml(self) -> str:
        """The keyring as a file."""
        lines = ["# Whose releases are accepted. Check each fingerprint with its owner."]
        for name, key in self:
            quoted = toml_value(name)
            lines += [f"\n[{quoted}]  # {key.spoken}", f"key = '{key.to_text()}'"]
        return "\n".join(lines) + "\n"


def new_key() -> SigningKey:
    """A new signing key from the operating system's randomness."""
    return SigningKey(OKPKey.generate_key("Ed25519"))


def load_key(path: str | Path) -> SigningKey:
    """A signing key from its file."""
    wrong = f"{path} is not a signing key"
    jwk = _import(read_text(path), wrong)
    if not jwk.is_private:
        raise checks.InvalidInput(f"{path} is a public key: signing needs the secret one")
    secret = jwk.private_key
    assert isinstance(secret, Ed25519PrivateKey)
    x = base64.urlsafe_b64encode(secret.public_key().public_bytes_raw()).rstrip(b"=").decode()
    if jwk.as_dict()["x"] != x:
        raise checks.InvalidInput(f"{wrong}: its public and secret parts do not belong together")
    return SigningKey(jwk)


def public_key(text: str | dict[str, Any]) -> PublicKey:
    """A public key from its line of JSON. Notes in it are dropped: only the key itself counts."""
    key = _import(text, "This is not a public key")
    return PublicKey(OKPKey.import_key(key.as_dict(private=False)))


def is_secret(text: str) -> bool:
    """Whether a key's text holds its secret part, too."""
    return _import(text, "This is not a key").is_private


def load_keyring(path: str | Path) -> Keyring:
    """The keyring in a TOML file."""
    try:
        table = tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as problem:
        if isinstance(problem, checks.SudareError):
            raise
        raise checks.InvalidInput(f"{path} is not a keyring: {problem}") from None
    keys = {}
    for name, entry in table.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
            raise checks.InvalidInput(f"{path}: expected key = '…' under [{name!r}]")
        keys[name] = public_key(entry["key"])
    return Keyring(keys)


def _import(text: str | dict[str, Any], problem: str) -> OKPKey:
    try:
        fields = msgspec.json.decode(text) if isinstance(text, str) else text
        if fields["kty"] != "OKP":
            raise ValueError
        key = OKPKey.import_key({name: fields[name] for name in _MEMBERS if name in fields})
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        raise checks.InvalidInput(problem) from None
    if key.curve_name != "Ed25519":
        raise checks.InvalidInput(f"{problem}: expected the curve Ed25519")
    return key
