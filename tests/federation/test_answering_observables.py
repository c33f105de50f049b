"""What others see of a node is the same for all neighbouring tables, or was paid for.

Neighbours have the same columns and the same number of rows, and one row of them is arbitrary. All
that leaves a node (or a job run with --unattended) is compared between two of them; the numbers in
a release and the value of a metric are what the ledger was charged for, and are left out.
"""

import csv
import io
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sudare import site
from sudare.cli import app
from sudare.exchange import Keyring, SigningKey, load_keyring, new_key, open_release, seal_release
from sudare.federation import BlendQuestion, ReleaseQuestion, answer
from sudare.federation._messages import read_answer, terms_of, to_bytes
from sudare.ledger import Ledger
from sudare.releases import LearnerRelease, Release
from sudare.site import load_model
from sudare.study import Study, raw_content, read_study
from tests.site.clinics import CLASSES, NUMBERS, write_patients, write_stays
from tests.support.soak import times

LEFT_OUT = (
    CLASSES.replace('name = "hearts"', 'name = "hearts"\nincomplete = "leave out"')
    .replace('["f", "m"]', '["f", "m", "x"]\nother = "x"')
    .replace("missing = 130\nindicator = true\n", "")
)
KINDS = {
    "classes from moments": (CLASSES.format(model="moments", epsilon=4.0), write_patients),
    "classes from learners": (CLASSES.format(model="objective", epsilon=4.0), write_patients),
    "numbers from moments": (NUMBERS.format(model="moments", more=""), write_stays),
    "numbers from learners": (NUMBERS.format(model="objective", more="radius = 2.0"), write_stays),
    "rows left out": (LEFT_OUT.format(model="moments", epsilon=4.0), write_patients),
    "classes, output": (CLASSES.format(model="output", epsilon=4.0), write_patients),
    "classes, Gibbs": (CLASSES.format(model="gibbs", epsilon=4.0), write_patients),
    "numbers, output": (NUMBERS.format(model="output", more="radius = 2.0"), write_stays),
    "numbers, Gibbs": (NUMBERS.format(model="gibbs", more="radius = 2.0"), write_stays),
}
ROWS = 12
GARBAGE = (b"", b"nonsense", b"\xff" * 300, b"a.b.c")
CANARY = "canary-4471"
CELLS = st.one_of(
    st.sampled_from(["", "NA", "yes", "no", "m", "f", CANARY, "1e308", "-1e308", "inf", "-inf"]),
    st.sampled_from(["nan", "１２", "0x1", "1,5", "\x00", " ", "\U0001f642", "-0", "5e-324", "55"]),
    st.floats().map(repr),
    st.text(max_size=5).map(lambda cell: cell.encode("utf-8", "surrogatepass")),
    st.binary(max_size=5),
)
LINES = st.one_of(
    st.lists(CELLS, min_size=1, max_size=7).map(
        lambda cells: b",".join(b'"' + _bytes(cell).replace(b'"', b'""') + b'"' for cell in cells)
    ),
    st.sampled_from([b"," * 4, b"," * 60, b"120,50,m,yes,x", b"120,50,m,no,x", b"50,29", b"0,0"]),
)


NUMERIC = ("pressure", "age", "days")
TEXTS = st.one_of(st.none(), st.sampled_from(["yes", "no", "m", "f", "", CANARY]), st.text())
TYPED = st.fixed_dictionaries(
    {name: st.one_of(st.none(), st.floats()) for name in NUMERIC}
    | dict.fromkeys(("sex", "ill", "name"), TEXTS)
)
"""A row of a Parquet file."""


def _bytes(cell: str | bytes) -> bytes:
    return cell if isinstance(cell, bytes) else cell.encode()


@dataclass
class Consortium:
    """What two nodes share: study, keys, and what a server hands them."""

    folder: Path
    study: Study
    lines: list[bytes]
    """A table that fits, the header first."""
    key: SigningKey
    hostile: list[tuple[bytes, ...]]
    """Releases of others, in several selections."""
    made: int = 0

    def node(self, row: bytes, *, one_class: bool = False) -> "Node":
        """A node on the same table but for its last row."""
        lines = [self.lines[0], *self.lines[1:ROWS], row]
        if one_class:
            lines[1:-1] = [line.replace(b",yes,", b",no,") for line in lines[1:-1]]
        return self.node_on("data.csv", b"\n".join(lines) + b"\n")

    def parquet_node(self, row: dict[str, float | str | None]) -> "Node":
        """The same from a Parquet file, whose columns have types: a row fits those, and no more."""
        rows = list(csv.DictReader(line.decode() for line in self.lines[:ROWS]))
        columns: dict[str, pa.Array] = {}
        for name in rows[0]:
            if name in NUMERIC:
                cells = [float(each[name]) if each[name] else None for each in rows]
                columns[name] = pa.array([*cells, row[name]], pa.float64())
            else:
                columns[name] = pa.array([*(each[name] for each in rows), row[name]], pa.string())
        written = io.BytesIO()
        pq.write_table(pa.table(columns), written)
        return self.node_on("data.parquet", written.getvalue())

    def node_on(self, name: str, data: bytes) -> "Node":
        self.made += 1
        folder = self.folder / f"node{self.made}"
        folder.mkdir()
        for file in ("study.toml", "trust.toml", "key.json"):
            shutil.copyfile(self.folder / file, folder / file)
        (folder / "key.json").chmod(0o600)
        (folder / name).write_bytes(data)
        (folder / "node.toml").write_text(
            f'party = "Own"\ndata = "{name}"\n[policy]\nanswer_seconds = 0\nmetric_epsilon = 0.5\n'
        )
        with Ledger(folder / "ledger.db") as ledger:
            fingerprint = ledger.fingerprint(raw_content(folder / name))
            ledger.open("2026", fingerprint, 20.0, 1e-5)
        return Node(folder, self)


@dataclass
class Node:
    """One node, and what others see of it."""

    folder: Path
    consortium: Consortium

    def answers(self, releases: tuple[bytes, ...]) -> dict[str, Any]:
        terms = terms_of(self.consortium.study)
        first = self.ask(ReleaseQuestion(terms=terms))
        second = self.ask(BlendQuestion(terms=terms, releases=releases))
        released, done = read_answer(first), read_answer(second)
        assert load_model(self.folder / "model.json").rows == ROWS
        return {
            "released": self.public(released),
            "done": (len(second), self.public(done)),
            "kept": self.files("releases"),
            "charged": self.charged(),
        }

    def ask(self, question: Any) -> bytes:
        return answer(to_bytes(question), self.folder / "node.toml")

    def public(self, made: Any) -> dict[str, Any]:
        """The answer without what was paid for, and without moments and receipts."""
        told: dict[str, Any] = msgspec.to_builtins(made)
        if made.release is not None:
            ring = Keyring().with_key("Own", self.consortium.key.public)
            signed = open_release(made.release, ring, self.consortium.study.digest()).signed
            release = msgspec.to_builtins(signed.release)
            for name in ("coefficients", "cross", "gram"):
                release[name] = len(release.get(name, ()))
            certificate = msgspec.to_builtins(signed.certificate)
            del certificate["receipt"], certificate["moment"]
            told["release"] = (release, certificate)
        if made.metric is not None:
            del told["metric"]["value"]
        return told

    def commands(self, releases: tuple[bytes, ...]) -> dict[str, Any]:
        """The same by unattended jobs that use a shared folder."""
        shared = self.folder / "shared"
        shared.mkdir()
        for number, data in enumerate(releases):
            (shared / f"{number}.release").write_bytes(data)
        told = {}
        own, others = ("--party", "Own", "--unattended"), ("--releases", "shared")
        for words in (
            ("release", "data.csv", "--out", "shared", *own),
            ("release", "data.csv", "--out", "shared", "--json", *own),
            ("blend", "data.csv", *others, *own),
            ("blend", "data.csv", *others, "--json", *own),
        ):
            told[" ".join(words)] = self.run(*words)
        return told | {"shared": self.files("shared"), "charged": self.charged()}

    def run(self, *words: str) -> tuple[int, str, str]:
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
        finally:
            os.chdir(here)
        assert done.exception is None, done.exception
        return done.exit_code, _unhashed(done.stdout), _unhashed(done.stderr)

    def files(self, folder: str) -> list[str]:
        return sorted(_unhashed(path.name) for path in (self.folder / folder).iterdir())

    def charged(self) -> list[Any]:
        with Ledger(self.folder / "ledger.db") as ledger:
            entries = ledger.account("2026").entries
        return [(entry.number, entry.event, entry.purpose, entry.released) for entry in entries]


def _unhashed(text: str) -> str:
    """Names of releases hold a part of their hash."""
    return re.sub(r"-[0-9a-f]{12}\.release", "-*.release", text)


@pytest.fixture(scope="module", params=list(KINDS))
def consortium(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make(tmp_path_factory.mktemp("consortium"), request.param)


def make(folder: Path, kind: str) -> Consortium:
    text, write = KINDS[kind]
    (folder / "study.toml").write_text(text)
    study = read_study(folder / "study.toml")
    lines = write(folder / "own.csv", ROWS, 1).read_bytes().splitlines()
    key, other, liar = new_key(), new_key(), new_key()
    key.save(folder / "key.json")
    ring = Keyring().with_key("Other", other.public).with_key("Liar", liar.public)
    (folder / "trust.toml").write_text(ring.to_toml())
    honest = published(write(folder / "other.csv", 60, 2), study, other, folder)
    lies = [extreme(honest, folder, study, liar, size) for size in (0.0, 1.0, 1e30, 1e290)]
    hostile = [(), (honest, *GARBAGE), *((lie, honest) for lie in lies), tuple(lies[1:2])]
    return Consortium(folder, study, lines, key, hostile)


def published(data: Path, study: Study, key: SigningKey, folder: Path) -> bytes:
    with Ledger(folder / "other.db") as ledger:
        ledger.open("other", ledger.fingerprint(raw_content(data)), 9.0, 1e-5)
        made = site.publish(data, study, ledger, key, party="Other", place=str(folder / "out"))
    return Path(made.address).read_bytes()


def extreme(honest: bytes, folder: Path, study: Study, key: SigningKey, size: float) -> bytes:
    """A release that verifies, by someone who signs any numbers."""
    ring = load_keyring(folder / "trust.toml")
    signed = open_release(honest, ring, study.digest()).signed
    p = study.contract.dimension
    lie: Release
    if isinstance(signed.release, LearnerRelease):
        numbers = (size, *[-size] * (p - 1))
        lie = msgspec.structs.replace(signed.release, party="Liar", coefficients=numbers)
    else:
        gram = signed.release.gram if size == 1.0 else (size,) * (p * (p + 1) // 2)
        lie = msgspec.structs.replace(
            signed.release, party="Liar", cross=(-20 * size,) * p, gram=gram
        )
    data = seal_release(lie, signed.certificate, key)
    site.verify(data, ring, study)
    return data


PAIRS = times(6, 60)
few = settings(
    phases=[Phase.explicit, Phase.generate],
    max_examples=PAIRS,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
choice = st.integers(0, 6)


@pytest.mark.soak(tries=f"{PAIRS} pairs of tables")
@few
@given(LINES, LINES, choice, st.booleans())
@example(b"120,50,m,yes,x", b"120,50,m,no,x", 0, True)
@example(b"120,50,m,yes,x", b"120,50,m,no,x", 1, True)
@example(b"120,50,m,yes,x", b"120,50,m," + CANARY.encode() + b",x", 1, False)
@example(b"50,29", b"nan,", 2, False)
def test_answers_to_a_server_are_the_same_for_all_neighbours(
    consortium: Consortium, one: bytes, other: bytes, chosen: int, one_class: bool
) -> None:
    releases = consortium.hostile[chosen]
    nodes = [consortium.node(row, one_class=one_class) for row in (one, other)]
    first, second = (node.answers(releases) for node in nodes)
    assert first == second
    assert first["released"]["status"] == "released"
    assert first["done"][1]["status"] == "done"
    for node in nodes:
        assert CANARY not in (node.folder / "federation.log").read_text()


@pytest.mark.soak(tries=f"{PAIRS} pairs of tables")
@few
@given(TYPED, TYPED, choice)
def test_answers_from_a_parquet_file_too(
    consortium: Consortium, one: dict[str, Any], other: dict[str, Any], chosen: int
) -> None:
    releases = consortium.hostile[chosen]
    first, second = (consortium.parquet_node(row).answers(releases) for row in (one, other))
    assert first == second
    assert (first["released"]["status"], first["done"][1]["status"]) == ("released", "done")


@pytest.mark.soak(tries=f"{PAIRS} pairs of tables")
@few
@given(LINES, LINES, choice, st.booleans())
@example(b"120,50,m,yes,x", b"120,50,m,no,x", 1, True)
@example(b"120,50,m,yes,x", b"120,50,m," + CANARY.encode() + b",x", 1, False)
def test_unattended_jobs_look_the_same_for_all_neighbours(
    consortium: Consortium, one: bytes, other: bytes, chosen: int, one_class: bool
) -> None:
    releases = consortium.hostile[chosen]
    first, second = (
        consortium.node(row, one_class=one_class).commands(releases) for row in (one, other)
    )
    assert first == second
    told = [value for name, value in first.items() if name.startswith("blend")]
    assert [code for code, *_ in told] == [0, 0]
    assert told[0][1] == "Wrote model.json.\n"
