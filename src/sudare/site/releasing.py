"""Rehearse, spend, fit, seal, certify, write: in this order, and only here.

Whatever can go wrong beforehand does: the data are read, a stand-in without any of their numbers is
sealed, and the place is tried. The ledger is charged, durably, before any noise is drawn. The
signed release is kept in the ledger before it is written anywhere, so that a crash at any instant
leaves one of three states: nothing spent; spent, nothing released (run it again, it costs nothing
more); released, and the same bytes for whoever asks again.
"""

import hashlib
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sudare import checks
from sudare.exchange import Certificate, SigningKey, file_name, put, seal_release
from sudare.ledger import Ledger, LedgerError, Receipt
from sudare.privacy import account
from sudare.releases import LearnerRelease, MomentsRelease, Release
from sudare.site.learner import SIGNS, make_learner, planned_event, preview
from sudare.study import Study, raw_content, read_table

_LONGEST_NUMBER = -2.2250738585072014e-308
"""No float takes more letters."""


@dataclass(frozen=True)
class Published:
    """A release that has left."""

    address: str
    receipt: Receipt
    sentence: str
    repeated: bool
    """It existed already; nothing new was drawn or spent."""


def publish(
    source: Any, study: Study, ledger: Ledger, key: SigningKey, *, party: str, place: str
) -> Published:
    """Make, sign and write this party's release; asked again, write the same one again."""
    fingerprint = ledger.fingerprint(raw_content(source))
    dataset = ledger.named(fingerprint)
    if dataset is None:
        raise checks.PrivacyError(
            "These data have no budget yet: open them in the ledger with a cap first "
            "(sudare ledger open)"
        )
    block = read_table(source, study)
    if ledger.fingerprint(raw_content(source)) != fingerprint:
        raise checks.PrivacyError(
            "The data were changed while they were read: run it again. Nothing was spent"
        )
    event = planned_event(study)
    _rehearse(study, len(block.rows), party, key)
    _try_place(place)
    request = _request(study, fingerprint, party, key)
    receipt = ledger.spend(
        dataset, event, request=request, purpose=f"release for study {study.name}"
    )
    sentence = str(account([event], study.privacy.delta))
    try:
        data = ledger.kept(request)
        repeated = data is not None
        if data is None:
            assert block.targets is not None
            release = _draw(block.rows, block.targets, study, party)
            signed = seal_release(release, _certify(study, release, receipt), key)
            data = ledger.keep(receipt, signed)
    except LedgerError as problem:
        # The ledger speaks of its last step, which spent nothing; the step before it did.
        said = str(problem).removesuffix("; nothing was spent")
        raise LedgerError(
            f"{said}; the spend is on record, and running it again costs nothing more"
        ) from None
    address = put(place, file_name(party, data), data)
    return Published(address, receipt, sentence, repeated)


def _rehearse(study: Study, rows: int, party: str, key: SigningKey) -> None:
    """Seal a stand-in of the same size: a name or a size that will not do costs nothing."""
    planned, contract = preview(study, rows), study.contract
    common: dict[str, Any] = {
        "party": party,
        "contract": contract,
        "n": rows,
        "event": planned.event,
        "noise_std": planned.noise_std,
    }
    p = contract.dimension
    stand_in: Release
    if planned.radius is None:
        gram = (_LONGEST_NUMBER,) * (p * (p + 1) // 2)
        stand_in = MomentsRelease(cross=(_LONGEST_NUMBER,) * p, gram=gram, **common)
    else:
        numbers = (_LONGEST_NUMBER,) * p
        stand_in = LearnerRelease(coefficients=numbers, radius=planned.radius, slack=0.0, **common)
    receipt = Receipt("", 0, "", planned.event, "", "0" * 64)
    seal_release(stand_in, _certify(study, stand_in, receipt), key)


def _try_place(place: str) -> None:
    """See whether a file can be made in a folder, before anything is spent."""
    if "://" in place:
        return  # only the write itself tells
    folder = Path(place).absolute()
    try:
        while not folder.exists():  # it will be made
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        reason = problem.strerror
        if isinstance(problem, NotADirectoryError):
            reason = "a folder is needed, and a file is in its place"
        raise checks.SudareError(f"Cannot write to {place}: {reason}. Nothing was spent") from None


def _draw(rows: Any, targets: Any, study: Study, party: str) -> Release:
    learner = make_learner(study)
    if study.task == "classification":
        targets = np.where(targets > 0, SIGNS[1], SIGNS[0])
    made: Release = learner.fit(rows, targets).release(party)
    # The same numbers under the study's own labels and unit; all bounds agree already.
    assert msgspec.structs.replace(made.contract, classes=study.target.classes) == study.contract
    return msgspec.structs.replace(made, contract=study.contract, event=planned_event(study))


def _certify(study: Study, release: Release, receipt: Receipt) -> Certificate:
    terms = study.privacy
    planned = preview(study, release.n)
    return Certificate(
        study=study.digest(),
        epsilon=terms.epsilon,
        delta=terms.delta,
        sentence=planned.sentence,
        parameters={
            "model": terms.model,
            "task": study.task,
            "rows": release.n,
            "numbers": planned.numbers,
            "noise_std": planned.noise_std,
            "radius": planned.radius,
            "row_norm": terms.row_norm,
        },
        receipt=receipt.chain,
        moment=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _request(study: Study, fingerprint: str, party: str, key: SigningKey) -> str:
    """The name of this one release: study, data, party and signer."""
    parts = (study.digest(), fingerprint, party, key.public.fingerprint)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
