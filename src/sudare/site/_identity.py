"""Whose rows these are: a budget belongs to people, in whatever file their rows are.

Data are known by the bytes they were opened with. Saved again (other line ends, quotes, order of
rows or columns, more columns) they are known by their rows as a study reads them
(`sudare.ledger._marks`). Rows that are nearly those of another data set are the same people's until
somebody says otherwise. All of this is for a desk: it depends on rows.
"""

from typing import Any, Literal

import msgspec
import numpy as np

from sudare.foundations import checks
from sudare.ledger import Account, Ledger, Mark, Prints
from sudare.study import Block, Study, Terms, persons_of, raw_content, read_every_row

NO_BUDGET = (
    "These data have no budget yet: open them in the ledger with a cap first (sudare ledger open). "
    "If they are about the same people as data that were opened before, they share its budget: "
    "sudare ledger open … --same-people"
)
People = Literal["unknown", "same", "others"]
_PERSONS = "people in column "
_TERMS = Terms(epsilon=1.0, delta=1e-6)


def open_data(
    source: Any,
    study: Study | None,
    ledger: Ledger,
    name: str,
    epsilon: float,
    delta: float = 0.0,
    *,
    people: People = "unknown",
) -> Account:
    """Give a data set its cap, unless its people have one already.

    Args:
        study: What its rows are remembered by; None: by the bytes only, until a release is made.
        people: "same": newer contents of the data set of this name, which draw on its budget.
            "others": they are not the people of any other data set, however alike their rows are.
    """
    fingerprint = ledger.fingerprint(raw_content(source))
    if people == "same" and name not in ledger.datasets():
        raise checks.InvalidInput(f"There is no data set {name!r} whose budget these could share")
    if name in ledger.datasets() and ledger.known(fingerprint) is None:
        alike = _alike(source, ledger, name)
        rows = (
            mark for mark, share in alike if not mark.reading.startswith(_PERSONS) and share == 1
        )
        same = next(rows, None)
        if same is not None or people == "same":
            ledger.admit(name, fingerprint, None if same is None else same.version)
    elif people != "others" and ledger.known(fingerprint) is None:
        _refuse_alike(source, ledger)
    account = ledger.open(name, fingerprint, epsilon, delta)
    known = ledger.known(fingerprint)
    if study is not None and known is not None and study.person_column is not None:
        _remember_persons(source, study, ledger, *known)
    if study is not None and known is not None:
        remember(read_every_row(source, study), study, ledger, *known)
    return account


def remember(block: Block, study: Study, ledger: Ledger, dataset: str, version: str) -> None:
    """Keep what these rows are recognised by when their file is written anew."""
    reading = _reading(study)
    kept = ((mark.version, mark.reading) for mark in ledger.all_marks())
    if (version, reading) not in kept:
        ledger.add_mark(_prints(block, reading, ledger).mark(dataset, version))


def _remember_persons(
    source: Any, study: Study, ledger: Ledger, dataset: str, version: str
) -> None:
    """Keep by which people these rows are recognised, whatever is said of them."""
    reading = f"{_PERSONS}{study.person_column}"
    prints = _prints_as(source, reading, ledger)
    if prints is not None:
        ledger.add_mark(prints.mark(dataset, version))


def recognised(block: Block, study: Study, ledger: Ledger) -> tuple[str, str]:
    """The data set that has these very rows, and the fingerprint they were opened with."""
    reading = _reading(study)
    marks = [mark for mark in ledger.all_marks() if mark.reading == reading]
    prints = _prints(block, reading, ledger) if marks else None
    same = [mark for mark in marks if prints and mark.digest == prints.digest]
    if len({mark.dataset for mark in same}) > 1:
        raise checks.PrivacyError(
            "These rows are those of more than one data set in the ledger: use the file that one "
            "of them was opened with"
        )
    if same:
        return same[0].dataset, same[0].version
    near = [mark for mark in marks if prints and prints.share(mark)]
    if near:
        raise checks.PrivacyError(_told(near[0].dataset, "Most of these rows are"))
    raise checks.PrivacyError(NO_BUDGET)


def own_receipts(source: Any, ledger: Ledger) -> frozenset[str]:
    """The receipts of releases made from these rows; of all, where the ledger does not know them:
    they may be about the same people."""
    known = ledger.known(ledger.fingerprint(raw_content(source)))
    return ledger.receipts(None if known is None else known[0])


def _refuse_alike(source: Any, ledger: Ledger) -> None:
    for mark, share in _alike(source, ledger):
        what = "people" if mark.reading.startswith(_PERSONS) else "rows"
        said = f"These {what} are" if share == 1.0 else f"Most of these {what} are"
        raise checks.PrivacyError(_told(mark.dataset, said))


def _told(dataset: str, said: str) -> str:
    return (
        f"{said} in the ledger already, as {dataset!r}: the budget belongs to the people in them, "
        "not to a file. To let these data draw on that budget: sudare ledger open "
        f"{dataset!r} … --same-people. If they are other people who only look alike: "
        "--these-are-other-people"
    )


def _alike(source: Any, ledger: Ledger, name: str | None = None) -> list[tuple[Mark, float]]:
    """Marks of the same rows (share 1), or else of nearly the same."""
    marks = [mark for mark in ledger.all_marks() if name is None or mark.dataset == name]
    prints: dict[str, Prints | None] = {}
    found = []
    for mark in marks:
        if mark.reading not in prints:
            prints[mark.reading] = _prints_as(source, mark.reading, ledger)
        mine = prints[mark.reading]
        if mine is None:
            continue
        if mine.digest == mark.digest:
            found.append((mark, 1.0))
        elif share := mine.share(mark):
            found.append((mark, min(share, 0.999)))
    return sorted(found, key=lambda each: -each[1])


def _prints_as(source: Any, reading: str, ledger: Ledger) -> Prints | None:
    """The rows as another study read them, or the people it names; None without its columns."""
    try:
        if reading.startswith(_PERSONS):
            names = persons_of(source, reading.removeprefix(_PERSONS))
            return ledger.prints(reading, (name.encode() for name in names))
        study = msgspec.json.decode(reading, type=Study)
        return _prints(read_every_row(source, study), reading, ledger)
    except checks.InvalidInput:
        return None


def _prints(block: Block, reading: str, ledger: Ledger) -> Prints:
    assert block.targets is not None
    # Adding 0 makes one zero of two.
    table = np.column_stack([block.rows, block.targets]) + 0.0
    return ledger.prints(reading, (row.tobytes() for row in table))


def _reading(study: Study) -> str:
    """Columns and bounds, without name and price: two studies can read rows alike."""
    plain = msgspec.structs.replace(study, name="", description="", privacy=_TERMS)
    return msgspec.json.encode(plain).decode()
