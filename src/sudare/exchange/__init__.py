"""Releases as signed files, and the places they travel through."""

from sudare.exchange.envelope import (
    FORMAT,
    Certificate,
    ReleaseInvalid,
    SignedRelease,
    Trusted,
    open_release,
    seal_release,
)
from sudare.exchange.keys import (
    Keyring,
    PublicKey,
    SigningKey,
    load_key,
    load_keyring,
    new_key,
    public_key,
)
from sudare.exchange.places import file_name, get_all, put

__all__ = [
    "FORMAT",
    "Certificate",
    "Keyring",
    "PublicKey",
    "ReleaseInvalid",
    "SignedRelease",
    "SigningKey",
    "Trusted",
    "file_name",
    "get_all",
    "load_key",
    "load_keyring",
    "new_key",
    "open_release",
    "public_key",
    "put",
    "seal_release",
]
