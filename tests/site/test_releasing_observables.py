"""What unattended jobs show is the same for all neighbouring tables, however the file is written.

Files are separated by ";" in cp1252, with decimal commas; a person can have several rows. All rows
of one of them are arbitrary bytes. Files with commas: tests/federation/test_answering_observables.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from sudare.exchange import Keyring, new_key
from sudare.ledger import Ledger
from sudare.study import raw_content
from tests.support.commands import command

STUDY = """
name = "a"
{incomplete}
[columns.age]
low = 20
high = 90
[columns.ward]
categories = ["nörd", "süd", "x"]
other = "x"
[target]
column = "ill"
{target}
{person}
[privacy]
epsilon = 2.0
delta = 1e-6
unit = "patient"
"""
LEFT_OUT, PERSON = 'incomplete = "leave out"', '[person]\ncolumn = "id"'
NUMBERS, CLASSES = "low = -2\nhigh = 8", 'classes = ["0", "1"]'
KEY = new_key()
MINE = [
    b"50,5;x;1;77",
    b"nan;\xff;\x00;77",
    b"\xc3\xb6\xe3\x81",
    b"55,5,no,77",
    b"9" * 1_200_000,
    b'"50";"0""1";"";"77"',
    b";;-3,5;77\n50;other;4000000000;77\n;;;77",
]


def seen(folder: Path, study: str, mine: bytes) -> list[Any]:
    folder.mkdir()
    (folder / "study.toml").write_text(study)
    (folder / "trust.toml").write_text(Keyring({"Own": KEY.public}).to_toml())
    KEY.save(folder / "key.json")
    wards = ["nörd", "süd", "y"]
    lines = [f"{30 + 4 * k},5;{wards[k % 3]};{k % 2};{k // 2}" for k in range(12)]
    data = folder / "data.csv"
    data.write_bytes(b"age;ward;ill;id\n" + "\n".join(lines).encode("cp1252") + b"\n" + mine)
    with Ledger(folder / "ledger.db") as ledger:
        ledger.open("people", ledger.fingerprint(raw_content(data)), 4.0, 1e-5)
    told: list[Any] = []
    for words in (
        ("release", "data.csv", "--out", "shared", "--json"),
        ("blend", "data.csv", "--releases", "shared"),
    ):
        done = command(folder, *words, "--party", "Own", "--unattended")
        told.append((done.code, hidden(done.out), hidden(done.err)))
    with Ledger(folder / "ledger.db") as ledger:
        told.append([(e.event, e.purpose, e.released) for e in ledger.account("people").entries])
        marks = ledger.all_marks()
    told.append([(len(m.sketch), len(m.count), len(m.digest), m.reading) for m in marks])
    files = [path for path in folder.rglob("*") if path.is_file()]
    told.append(sorted((hidden(path.name), path.stat().st_mode) for path in files))
    return told


def hidden(text: str) -> str:
    """Without hashes and moments."""
    return re.sub(r"[0-9a-f]{12,}|\d{4}-\d\d-\d\dT[\d:]+\+00:00", "*", text)


@pytest.mark.parametrize(
    ("incomplete", "target", "person"),
    [(LEFT_OUT, CLASSES, PERSON), ("", NUMBERS, PERSON), (LEFT_OUT, NUMBERS, "")],
)
def test_unattended_jobs_look_the_same_whatever_one_person_has(
    tmp_path: Path, incomplete: str, target: str, person: str
) -> None:
    study = STUDY.format(incomplete=incomplete, target=target, person=person)
    mine = MINE if person else MINE[:-1]
    first, *others = (seen(tmp_path / str(k), study, each) for k, each in enumerate(mine))
    assert (first[0][0], first[1][0]) == (0, 0)
    for other in others:
        assert other == first
