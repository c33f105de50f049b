import base64
import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.exchange import Keyring, load_key, load_keyring, new_key, public_key
from sudare.foundations.checks import InvalidInput
from tests.exchange.releases import KEY, STRANGER, decoded, encoded, raw
from tests.support.disks import full_after

PUBLIC: dict[str, Any] = json.loads(KEY.public.to_text())
NAMES = st.text(min_size=1, max_size=20).filter(lambda name: name.strip() and name.isprintable())


def test_a_fingerprint_is_the_thumbprint_of_the_standard() -> None:
    """RFC 7638: SHA-256 of the required members, sorted, without spaces."""
    x = encoded(raw(KEY.public)).decode()
    text = '{"crv":"Ed25519","kty":"OKP","x":"' + x + '"}'
    expected = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
    assert KEY.public.fingerprint == expected.decode()
    assert KEY.public.spoken.replace(" ", "") == KEY.public.fingerprint
    assert [len(group) for group in KEY.public.spoken.split(" ")] == [4] * 10 + [3]
    # The example of RFC 8037, appendix A.3.
    example = '{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}'
    assert public_key(example).fingerprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_one_key_has_one_fingerprint() -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    x = PUBLIC["x"]
    others = [x[:-1] + letter for letter in alphabet if decoded(x[:-1] + letter) == decoded(x)]
    assert len(others) == 4
    notes = {"kid": "it's mine", "use": "enc", "key_ops": ["encrypt"], "alg": "none", "更": [1]}
    for spelt in others:
        text = json.dumps(PUBLIC | notes | {"x": spelt})
        if spelt != x:  # four spellings, of which one is right
            with pytest.raises(InvalidInput, match="not a public key"):
                public_key(text)
            continue
        assert public_key(text).fingerprint == KEY.public.fingerprint
        assert public_key(text).to_text() == KEY.public.to_text()
    assert STRANGER.public.fingerprint != KEY.public.fingerprint


def test_a_key_file_is_its_owners_and_is_never_overwritten(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        KEY.save(tmp_path / "key")
    finally:
        os.umask(mask)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "key").read_bytes()
    with pytest.raises(InvalidInput, match="never overwritten"):
        STRANGER.save(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == before
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="never overwritten"):
        STRANGER.save(tmp_path / "link")
    loaded = load_key(tmp_path / "key")
    assert loaded.public.fingerprint == KEY.public.fingerprint
    secret = Ed25519PrivateKey.from_private_bytes(decoded(json.loads(before)["d"]))
    Ed25519PublicKey.from_public_bytes(raw(KEY.public)).verify(secret.sign(b"x"), b"x")


def test_a_full_disk_leaves_no_half_key(tmp_path: Path) -> None:
    with full_after(10), pytest.raises(InvalidInput, match="Cannot write"):
        KEY.save(tmp_path / "key")
    assert list(tmp_path.iterdir()) == []
    KEY.save(tmp_path / "key")
    assert load_key(tmp_path / "key").public == load_key(tmp_path / "key").public
    with pytest.raises(InvalidInput, match="Cannot write"):
        KEY.save(tmp_path / "nowhere" / "key")


def test_a_secret_key_is_never_printed() -> None:
    secret = KEY.jwk.as_dict(private=True)["d"]
    assert isinstance(secret, str)
    for text in (repr(KEY), str(KEY), f"{KEY}", KEY.public.to_text(), repr(KEY.public)):
        assert secret not in text
    assert "d" not in PUBLIC


def test_new_keys_differ() -> None:
    assert len({new_key().public.fingerprint for _ in range(20)}) == 20


SECRET: dict[str, Any] = dict(KEY.jwk.as_dict(private=True))
WRONG_KEYS = {
    "empty": "",
    "no JSON": "{",
    "a number": "5",
    "nothing": "null",
    "a list": "[]",
    "a text": '"x"',
    "PEM in a text": '"-----BEGIN PUBLIC KEY-----\\nAA\\n-----END PUBLIC KEY-----"',
    "no members": "{}",
    "deep": "[" * 100_000,
    "broken text": "\ud800",
    "another kind": json.dumps(PUBLIC | {"kty": "EC"}),
    "a curve for secrets": json.dumps(PUBLIC | {"crv": "X25519"}),
    "a curve of another kind": json.dumps(PUBLIC | {"crv": "P-256"}),
    "a short key": json.dumps(PUBLIC | {"x": "AAAA"}),
    "an empty key": json.dumps(PUBLIC | {"x": ""}),
    "a number for a key": json.dumps(PUBLIC | {"x": 5}),
    "letters of no alphabet": json.dumps(PUBLIC | {"x": "ü" * 43}),
    "a key for encryption": json.dumps({"kty": "oct", "k": "AAAA"}),
}


@pytest.mark.parametrize("text", WRONG_KEYS.values(), ids=WRONG_KEYS.keys())
def test_what_is_no_key_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a public key"):
        public_key(text)
    (tmp_path / "key").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InvalidInput, match=r"key|text"):
        load_key(tmp_path / "key")


def test_what_cannot_sign_is_refused(tmp_path: Path) -> None:
    (tmp_path / "public").write_text(KEY.public.to_text())
    with pytest.raises(InvalidInput, match="signing needs the secret one"):
        load_key(tmp_path / "public")
    (tmp_path / "mixed").write_text(
        json.dumps(SECRET | {"x": encoded(raw(STRANGER.public)).decode()})
    )
    with pytest.raises(InvalidInput, match="do not belong together"):
        load_key(tmp_path / "mixed")
    with pytest.raises(InvalidInput, match="No such file"):
        load_key(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="Is a directory"):
        load_key(tmp_path)


def test_mutated_keys_raise_nothing_else(tmp_path: Path) -> None:
    rng = random.Random(1)
    file = tmp_path / "key"
    said: list[str] = []
    for _ in range(1000):
        text = bytearray(json.dumps(SECRET).encode())
        for _ in range(rng.choice((1, 2, 5))):
            text[rng.randrange(len(text))] = rng.randrange(256)
        file.write_bytes(text)
        try:
            key = load_key(file)
        except InvalidInput as problem:
            said.append(str(problem))
        else:
            assert key.public.fingerprint == KEY.public.fingerprint
    assert len(said) > 500
    assert not any(SECRET["d"] in text for text in said)


@settings(max_examples=50)
@given(st.lists(NAMES, min_size=1, max_size=3, unique=True))
def test_a_keyring_reads_back_whatever_its_names_are(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    ring = Keyring()
    for name in names:
        ring = ring.with_key(name, new_key().public)
    file = tmp_path_factory.mktemp("ring") / "trusted.toml"
    file.write_text(ring.to_toml(), encoding="utf-8")
    assert [(n, k.to_text()) for n, k in load_keyring(file)] == [(n, k.to_text()) for n, k in ring]


@pytest.mark.parametrize(
    "name",
    [
        'a"]\n[b',
        "'''",
        "\\",
        '"',
        "# no comment",
        "a.b",
        "[[a]]",
        "東京 🏥",
        "key",
        "=",
    ],
)
def test_hostile_names_are_only_names(name: str, tmp_path: Path) -> None:
    if not name.isprintable():
        with pytest.raises(InvalidInput, match="printable"):
            Keyring().with_key(name, KEY.public)
        return
    (tmp_path / "ring").write_text(Keyring().with_key(name, KEY.public).to_toml())
    ring = load_keyring(tmp_path / "ring")
    assert [n for n, _ in ring] == [name]
    assert ring.holder(KEY.public.fingerprint) == (name, KEY.public) or len(ring) == 1


def test_names_and_keys_are_one_to_one() -> None:
    ring = Keyring().with_key("a", KEY.public)
    assert len(ring.with_key("a", KEY.public)) == 1
    with pytest.raises(InvalidInput, match="trusted with another key"):
        ring.with_key("a", STRANGER.public)
    with pytest.raises(InvalidInput, match="different key for each name"):
        ring.with_key("b", KEY.public)
    with pytest.raises(InvalidInput, match="different key for each name"):
        ring.with_key("b", public_key(json.dumps(PUBLIC | {"kid": "another"})))
    for name in ("", " ", "\n", "\x1b[2J", "\x7f", "\u202e"):
        with pytest.raises(InvalidInput, match="printable"):
            ring.with_key(name, STRANGER.public)
        with pytest.raises(InvalidInput, match="printable"):
            Keyring({name: STRANGER.public})
    assert ring.holder(STRANGER.public.fingerprint) is None


WRONG_RINGS = {
    "no TOML": ("a =", "not a keyring"),
    "deep": ("a=" + "[" * 100_000, "not a keyring"),
    "a long number": ("a = 1" + "0" * 5000, "not a keyring"),
    "no table": ("a = 5", "expected key"),
    "no key": ("[a]\nkee = 'x'", "expected key"),
    "a number for a key": ("[a]\nkey = 5", "expected key"),
    "no such key": ("[a]\nkey = '{}'", "not a public key"),
    "an escape for a name": ('["\\u001b[2J"]\nkey = \'' + KEY.public.to_text() + "'", "printable"),
    "the same key twice": (
        f"[a]\nkey = '{KEY.public.to_text()}'\n[b]\nkey = '{KEY.public.to_text()}'",
        "different key",
    ),
}


@pytest.mark.parametrize(("text", "reason"), WRONG_RINGS.values(), ids=WRONG_RINGS.keys())
def test_what_is_no_keyring_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "ring").write_text(text)
    with pytest.raises(InvalidInput, match=reason):
        load_keyring(tmp_path / "ring")


def test_a_keyring_that_cannot_be_read_is_explained(tmp_path: Path) -> None:
    (tmp_path / "ring").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="not UTF-8 text"):
        load_keyring(tmp_path / "ring")
    with pytest.raises(InvalidInput, match="No such file"):
        load_keyring(tmp_path / "nowhere")
