"""The RO-Crate of a ledger: complete by itself, and every reference leads somewhere."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sudare.exchange import new_key
from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import PureEvent
from sudare.ledger import Ledger
from sudare.site import write_crate, write_record
from tests.site.clinics import CLASSES


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    (tmp_path / "hearts.toml").write_text(CLASSES.format(model="moments", epsilon=3.0))
    with Ledger(tmp_path / "ledger.db") as book:
        book.open("visits", "ab" * 32, 3.0, 1e-6)
        book.keep(book.spend("visits", PureEvent(0.4), purpose="for hearts"), b"released")
        book.spend("visits", PureEvent(0.7), purpose="not yet")
        data = write_record(book, new_key())
    write_crate(tmp_path / "crate", data, "Clinic “A”", tmp_path / "hearts.toml")
    return tmp_path / "crate"


def entities(crate: Path) -> dict[str, dict[str, Any]]:
    graph = json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]
    assert len({each["@id"] for each in graph}) == len(graph)
    return {each["@id"]: each for each in graph}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if set(value) == {"@id"}:
            yield value["@id"]
        else:
            for each in value.values():
                yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_the_descriptor_and_the_root_are_as_the_specification_wants(crate: Path) -> None:
    found = entities(crate)
    assert found["ro-crate-metadata.json"]["about"] == {"@id": "./"}
    assert found["ro-crate-metadata.json"]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.2"}
    root = found["./"]
    assert root["@type"] == "Dataset"
    for name in ("name", "description", "datePublished", "license"):
        assert root[name]


def test_every_reference_leads_somewhere(crate: Path) -> None:
    found = entities(crate)
    for each in references(list(found.values())):
        assert each in found or each.startswith("https://w3id.org/"), each


def test_files_are_there_as_they_are_described(crate: Path) -> None:
    found = entities(crate)
    parts = {each["@id"] for each in found["./"]["hasPart"]}
    assert parts == {path.name for path in crate.iterdir()} - {"ro-crate-metadata.json"}
    for name in parts:
        content = (crate / name).read_bytes()
        assert found[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert found[name]["contentSize"] == str(len(content))


def test_entries_and_caps_are_actions(crate: Path) -> None:
    found = entities(crate)
    done = [found[f"#entry-{n}"]["actionStatus"].rpartition("/")[2] for n in (1, 2)]
    assert done == ["CompletedActionStatus", "PotentialActionStatus"]
    assert found["#disclosure-1"]["name"].startswith("ε = 1.1 of 3 spent")
    assert found["#party"]["name"] == "Clinic “A”"


def test_a_crate_gets_a_folder_of_its_own(crate: Path) -> None:
    before = (crate / "ledger.jsonl").read_bytes()
    with pytest.raises(InvalidInput, match="folder of its own"):
        write_crate(crate, before, "Clinic B")
    assert (crate / "ledger.jsonl").read_bytes() == before
