"""Spend, fit, seal, certify, write: in this order, and only here.

The ledger is charged, durably, before any noise is drawn. The signed release is kept in the ledger
before it is written anywhere, so that a crash at any instant leaves one of three states: nothing
spent; spent, nothing released (run it again, it costs nothing more); released, and the same bytes
for whoever asks again.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from sudare import checks
from sudare.exchange import Certificate, SigningKey, file_name, put, seal_release
from sudare.ledger import Ledger, Receipt
from sudare.privacy import account
from sudare.releases import Release
from sudare.site.learner import SIGNS, make_learner, planned_event, preview
from sudare.study import Study, raw_content, read_table


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
    block = read_table(source, study)  # whatever is wrong with the data shows before the spend
    event = planned_event(study)
    request = _request(study, fingerprint, party, key)
    receipt = ledger.spend(
        dataset, event, request=request, purpose=f"release for study {study.name}"
    )
    sentence = str(account([event], study.privacy.delta))
    data = ledger.kept(request)
    repeated = data is not None
    if data is None:
        assert block.targets is not None
        release = _draw(block.rows, block.targets, study, party)
        data = ledger.keep(receipt, seal_release(release, _certify(study, release, receipt), key))
    address = put(place, file_name(party, data), data)
    return Published(address, receipt, sentence, repeated)


def _draw(rows: Any, targets: Any, study: Study, party: str) -> Release:
    learner = make_learner(study)
    if study.task == "classification":
        targets = np.where(targets > 0, SIGNS[1], SIGNS[0])
    made: Release = learner.fit(rows, targets).release(party)
    # The same numbers under the study's own labels and unit.
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
