"""Folders, names and models made by someone who means harm."""

import base64
import json
import os
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sudare.exchange import Keyring
from sudare.foundations.checks import InvalidInput
from sudare.site import load_model, render
from tests.site.clinics import CLASSES, classes, clinic, write_patients
from tests.site.test_report import model
from tests.support.commands import Done, command

ESCAPE = "\x1b]0;owned\x07\x9b2J\u202e"
MARKUP = "[/red][bold]:smile:"


def shown(done: Done) -> str:
    """What was said, in which nothing can command a terminal."""
    text = done.out + done.err
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    return text


def forged(kid: str) -> bytes:
    head = json.dumps({"alg": "EdDSA", "typ": "sudare-release/1", "kid": kid}).encode()
    return base64.urlsafe_b64encode(head).rstrip(b"=") + b".e30.AAAA"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An honest release by a party with an odd name, among all kinds of rubbish."""
    honest = clinic(tmp_path, "A", seed=1)
    honest.publish(classes(), tmp_path / "out", party=MARKUP)
    (tmp_path / "trust.toml").write_text(Keyring({MARKUP: honest.key.public}).to_toml())
    (tmp_path / "study.toml").write_text(CLASSES.format(model="moments", epsilon=4.0))
    write_patients(tmp_path / "own.csv", 60, seed=2)
    out = tmp_path / "out"
    (honest_file,) = out.glob("*.release")
    (out / "markup.release").write_bytes(forged(MARKUP))
    (out / "escape.release").write_bytes(forged(ESCAPE))
    (out / f"{MARKUP.replace('/', '')}{ESCAPE}\nall is well.release").write_bytes(b"junk")
    Path(os.fsdecode(os.fsencode(out) + b"/not-utf8-\xff.release")).write_bytes(b"junk")
    shutil.copy(honest_file, out / "replayed.release")
    data = bytearray(honest_file.read_bytes())
    data[len(data) // 2] ^= 1
    (out / "edited.release").write_bytes(data)
    os.mkfifo(out / "pipe.release")
    (out / "loop.release").symlink_to("loop.release")
    (out / "zero.release").symlink_to("/dev/zero")
    (out / "here.release").symlink_to(".")
    with (out / "huge.release").open("wb") as file:
        file.truncate(100 << 20)
    return tmp_path


def test_of_a_folder_full_of_rubbish_only_the_honest_release_is_used(folder: Path) -> None:
    for k in range(1000):
        (folder / "out" / f"junk-{k}.release").write_bytes(os.urandom(8))
    done = command(folder, "verify", "out", "--study", "study.toml", "--json")
    found = json.loads(shown(done))
    assert done.code == 3
    assert sum(each["valid"] for each in found) == 1
    assert len(found) == 1000 + 8
    problems = str([each["problem"] for each in found])
    assert "here twice" in problems
    assert "larger than" in problems
    said = shown(command(folder, "verify", "out"))
    assert MARKUP in said  # as it is spelled


def test_a_blend_uses_only_the_honest_release_and_its_names_do_no_harm(folder: Path) -> None:
    done = command(
        folder, "blend", "own.csv", "--releases", "out", "--party", "B", "--released-nothing"
    )
    assert done.code == 0, done
    assert shown(done).count("Not used:") == 7
    assert "\nall is well" not in done.out
    (party,) = json.loads((folder / "model.json").read_text())["story"]["parties"]
    assert party["signer"] == MARKUP
    assert command(folder, "report", "model.json").code == 0
    assert command(folder, "blend", "own.csv", "--releases", "out", "--party", ESCAPE).code == 2


@pytest.mark.parametrize("name", [MARKUP, ESCAPE, "[/]", "[link=http://x]"])
def test_names_in_errors_do_no_harm(folder: Path, name: str) -> None:
    for words in (
        ("verify", name),
        ("explain", f"out/{name}.release"),
        ("predict", name, name),
        ("study", "check", name),
        ("ledger", "show", "--ledger", name),
        ("release", name, "--party", name, "--key", name),
    ):
        done = command(folder, *words)
        assert done.code == 2
        assert shown(done).count("\n") == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("pressure,age\n120,50\n", "missing: 'sex'"),
        ("pressure,age,sex\n", "row"),
        ("pressure,age,sex\n120,old,f\n", "'age'"),
    ],
)
def test_rows_that_cannot_be_predicted_are_explained(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "model.json").write_bytes(model().to_bytes())
    (tmp_path / "rows.csv").write_text(text)
    done = command(tmp_path, "predict", "model.json", "rows.csv")
    assert done.code == 2
    assert reason in done.err
    assert not (tmp_path / "predictions.csv").exists()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(name for name, _ in attrs)}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, each in items for found in leaves(each, (*path, key))]
    return [path]


def test_a_model_with_anything_in_it_is_reported_or_refused(tmp_path: Path) -> None:
    plain = json.loads(model().to_bytes())
    tags = Tags()
    (tmp_path / "model.json").write_text(json.dumps(plain))
    assert command(tmp_path, "report", "model.json").code == 0
    tags.feed((tmp_path / "report.html").read_text())
    rows = tmp_path / "rows.csv"
    rows.write_text("pressure,age,sex\n120,50,f\n,60,m\n")
    path_of_model, refusals = tmp_path / "model.json", 0
    for path in leaves(plain):
        for odd in ('"><script x=y>alert(1)</script>' + ESCAPE, 0, 1e149, -1e308, 10**400, 5e-324):
            changed = json.loads(json.dumps(plain))
            inner = changed
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = odd
            path_of_model.write_text(json.dumps(changed))
            try:
                made = load_model(path_of_model)
                seen = Tags()
                seen.feed(render(made))
                assert seen.found <= tags.found, path
                made.predict(rows)
            except InvalidInput:
                refusals += 1
    assert 0 < refusals < len(leaves(plain)) * 6
