"""Releases as signed files, and the places they travel through."""

from sudare.exchange._envelope import (
    FORMAT,
    LARGEST_RELEASE,
    Certificate,
    ReleaseInvalid,
    SignedRelease,
    Trusted,
    open_release,
    open_signed,
    seal_release,
    sign,
    unverified,
)
from sudare.exchange._keys import (
    Keyring,
    PublicKey,
    SigningKey,
    is_secret,
    load_key,
    load_keyring,
    new_key,
    public_key,
)
from sudare.exchange._places import exists, file_name, get_all, put, subfolders

__all__ = [
    "FORMAT",
    "LARGEST_RELEASE",
    "Certificate",
    "Keyring",
    "PublicKey",
    "ReleaseInvalid",
    "SignedRelease",
    "SigningKey",
    "Trusted",
    "exists",
    "file_name",
    "get_all",
    "is_secret",
    "load_key",
    "load_keyring",
    "new_key",
    "open_release",
    "open_signed",
    "public_key",
    "put",
    "seal_release",
    "sign",
    "subfolders",
    "unverified",
]
