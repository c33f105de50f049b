"""`sudare keys` and `sudare trust`."""

import json
import stat
from pathlib import Path

import pytest

from sudare.exchange import load_key, load_keyring
from tests.support.commands import command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A desk with its own key, and the public keys of two others."""
    for name, file in (("key", "key.pub"), ("b", "Clinic B.pub"), ("c", "Clinic C.pub")):
        done = command(tmp_path, "keys", "new", f"{name}.json", "--public", file)
        assert done.code == 0
    return tmp_path


def test_a_key_is_for_its_owner_and_never_overwritten(folder: Path) -> None:
    assert stat.S_IMODE((folder / "key.json").stat().st_mode) == 0o600
    done = command(folder, "keys", "new", "key.json")
    assert (done.code, done.out) == (2, "")
    assert "exists" in done.err


@pytest.mark.parametrize("file", ["key.json", "key.pub"])
def test_a_key_is_shown_without_its_secret(folder: Path, file: str) -> None:
    key = load_key(folder / "key.json")
    secret = json.loads((folder / "key.json").read_text())["d"]
    done = command(folder, "keys", "show", file, "--public", "again.pub")
    assert key.public.spoken in " ".join(done.out.split())
    told = command(folder, "keys", "show", file, "--json")
    assert json.loads(told.out)["fingerprint"] == key.public.fingerprint
    line = command(folder, "keys", "show", file).out.splitlines()[-1]
    assert line == key.public.to_text()
    assert (folder / "again.pub").read_text() == line + "\n"
    assert secret not in done.out + told.out + line


def test_several_keys_are_trusted_in_one_go_by_the_names_of_their_files(folder: Path) -> None:
    done = command(folder, "trust", "add", "Clinic B.pub", "Clinic C.pub")
    assert done.code == 0
    assert [name for name, _ in load_keyring(folder / "trust.toml")] == ["Clinic B", "Clinic C"]
    assert load_key(folder / "c.json").public.spoken in " ".join(done.out.split())
    listed = json.loads(command(folder, "trust", "list", "--json").out)
    assert [each["name"] for each in listed] == ["Clinic B", "Clinic C"]


def test_all_are_trusted_or_none(folder: Path) -> None:
    for wrong in ("none.pub", "b.json"):
        done = command(folder, "trust", "add", "Clinic B.pub", wrong)
        assert done.code == 2
        assert not (folder / "trust.toml").exists()


def test_a_secret_key_is_refused(folder: Path) -> None:
    text = (folder / "b.json").read_text()
    for words in (("Clinic B", "b.json"), ("b.json",), ("Clinic B", text)):
        done = command(folder, "trust", "add", *words)
        assert (done.code, done.out) == (2, "")
        assert "is a secret key" in done.err
        assert "a new key" in done.err
        assert json.loads(text)["d"] not in done.err
    assert not (folder / "trust.toml").exists()


def test_a_name_keeps_its_key_until_it_is_removed(folder: Path) -> None:
    command(folder, "trust", "add", "Clinic B", "Clinic B.pub")
    assert "another key" in command(folder, "trust", "add", "Clinic B", "Clinic C.pub").err
    done = command(folder, "trust", "remove", "Clinic B")
    assert (done.code, done.out) == (
        0,
        "trust.toml no longer trusts 'Clinic B'; it holds 0 keys.\n",
    )
    assert command(folder, "trust", "add", "Clinic B", "Clinic C.pub").code == 0
    assert len(load_keyring(folder / "trust.toml")) == 1
    unknown = command(folder, "trust", "remove", "Clinic Z")
    assert unknown.code == 2
    assert "'Clinic Z' is not trusted here; those who are: 'Clinic B'" in unknown.err
