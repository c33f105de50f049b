"""Rehearse, spend, fit, seal, certify, write: in this order, and only here.

Whatever can go wrong beforehand does: the data are read, a stand-in without any of their numbers is
sealed, and the place is tried. The ledger is charged, durably, before any noise is drawn. The
signed release is kept in the ledger before it is written anywhere, so that a crash at any instant
leaves one of three states: nothing spent; spent, nothing released (run it again, it costs nothing
more); released, and the same bytes for whoever asks again.

`publish` is for a desk: data that do not fit the study are an error there, and nothing is spent.
That error tells something of a row. Where others can see whether a release was made (a federation,
a folder that a nightly job fills), `publish_unattended` takes every row as it is instead.
"""

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sudare.exchange import (
    Certificate,
    SigningKey,
    file_name,
    put,
    seal_release,
    unverified,
)
from sudare.foundations import checks
from sudare.foundations.privacy import ApproximateEvent, Event, Guarantee, PureEvent, account
from sudare.ledger import APPROVED, Ledger, Receipt
from sudare.releases import LearnerRelease, MomentsRelease, Release
from sudare.site._approving import approvals
from sudare.site._identity import NO_BUDGET, recognised, remember
from sudare.site._plan import EDITION, SIGNS, ReleasePlan, make_learner
from sudare.study import Block, Study, raw_content, read_every_row, read_table

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


def _nothing(planned: ReleasePlan) -> None:
    """What is done before a spend, unless something else is asked for."""


def publish(
    source: Any,
    study: Study,
    ledger: Ledger,
    key: SigningKey,
    *,
    party: str,
    place: str,
    before: Callable[[ReleasePlan], None] = _nothing,
    approved: Path | None = None,
) -> Published:
    """Make, sign and write this party's release; asked again, write the same one again.

    `before` is called once all is ready and before anything is spent, with what is going to be
    spent on; if it raises, nothing was. It is not called for a release that has been paid for.
    `approved` is the folder of approvals, for a ledger whose policy asks for them.
    """
    return _publish(read_table, source, study, ledger, key, party, place, before, approved)


def publish_unattended(
    source: Any,
    study: Study,
    ledger: Ledger,
    key: SigningKey,
    *,
    party: str,
    place: str,
    approved: Path | None = None,
) -> Published:
    """The same, whatever the rows hold: what does not fit the study becomes public constants.

    Whether it succeeds, and with which error, is the same for all tables of the same columns and
    number of rows that were opened in the ledger (`sudare.study.read_every_row`). From data that
    fit, it makes the release that `publish` makes.
    """
    return _publish(read_every_row, source, study, ledger, key, party, place, _nothing, approved)


def _publish(
    read: Callable[[Any, Study], Block],
    source: Any,
    study: Study,
    ledger: Ledger,
    key: SigningKey,
    party: str,
    place: str,
    before: Callable[[ReleasePlan], None],
    approved: Path | None,
) -> Published:
    dataset, fingerprint, block = read_charged(read, source, study, ledger)
    planned = ReleasePlan.of(study, len(block.rows))
    _rehearse(planned, party, key)
    try_place(place)
    # What an earlier version released stands: a second draw would be a second spend.
    requests = _requests(study, fingerprint, party, key.public.fingerprint)
    kept = next((each for each in requests if ledger.kept(each) is not None), None)
    receipt, purpose = ledger.receipt(kept or requests[0]), f"release for study {study.name}"
    if kept is None and receipt is not None and not _pays_for(receipt.event, planned):
        purpose += (
            f" (entry {receipt.number} was for it, of an earlier version; nothing came of it)"
        )
        receipt = None
    if receipt is None and (
        again := _signed_again(ledger, dataset, study, fingerprint, party, key)
    ):
        paid, data = again
        address = put(place, file_name(party, data), data)
        return Published(address, paid, str(account([paid.event], study.privacy.delta)), True)
    if receipt is None:
        before(planned)
        policy, signed = ledger.policies()[-1], []
        if policy.approvals:
            signed = approvals(policy, planned, dataset, party, key, requests[-1], approved)
        receipt = ledger.spend(
            dataset,
            planned.event,
            request=requests[-1],
            purpose=purpose,
            approvals=len(signed),
        )
        for number, each in enumerate(signed, 1):
            ledger.keep(receipt, each, f"{APPROVED}{number}")
    sentence = str(account([receipt.event], study.privacy.delta))

    def make() -> bytes:
        return seal_release(_draw(block, planned, party), _certify(planned, receipt), key)

    data, repeated = ledger.keep_once(receipt, make)
    address = put(place, file_name(party, data), data)
    return Published(address, receipt, sentence, repeated)


def _pays_for(charged: Event, planned: ReleasePlan) -> bool:
    """Whether what was charged for an earlier version's release covers the one planned today.

    The spend was on record when that version stopped, and no release was: what is not kept has not
    left. So today's may take its place if its own price is within what was charged. It is not for
    the zCDP prices of moments and output: today's noise is less than they ask for.
    """
    if isinstance(charged, PureEvent | ApproximateEvent):
        delta = charged.delta if isinstance(charged, ApproximateEvent) else 0.0
        return Guarantee((planned.event,), delta).epsilon() <= charged.epsilon
    return charged == planned.event


def read_charged(
    read: Callable[[Any, Study], Block], source: Any, study: Study, ledger: Ledger
) -> tuple[str, str, Block]:
    """Rows that have a budget: their name in the ledger, the fingerprint that they were opened
    with, and the rows.

    At a desk the same rows in another file are recognised; where others can see whether it works,
    only the bytes count.
    """
    fingerprint = ledger.fingerprint(raw_content(source))
    known = ledger.known(fingerprint)
    if known is None and read is read_every_row:
        raise checks.PrivacyError(NO_BUDGET)
    if known is None:
        known = recognised(read_every_row(source, study), study, ledger)
    block = read(source, study)
    if ledger.fingerprint(raw_content(source)) != fingerprint:
        raise checks.PrivacyError(
            "The data were changed while they were read: run it again. Nothing was spent"
        )
    remember(block, study, ledger, *known)
    return *known, block


def _rehearse(planned: ReleasePlan, party: str, key: SigningKey) -> None:
    """Seal a stand-in of the same size: a name or a size that will not do costs nothing."""
    contract = planned.study.contract
    common: dict[str, Any] = {
        "party": party,
        "contract": contract,
        "n": planned.n,
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
    seal_release(stand_in, _certify(planned, receipt), key)


def try_place(place: str) -> None:
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


def _draw(block: Block, planned: ReleasePlan, party: str) -> Release:
    study, targets = planned.study, block.targets
    learner = make_learner(study)
    assert targets is not None
    if study.task == "classification":
        targets = np.where(targets > 0, SIGNS[1], SIGNS[0])
    made: Release = learner.fit(block.rows, targets).release(party)
    named = msgspec.structs.replace(made.contract, classes=study.target.classes)
    priced = msgspec.structs.replace(made.event, unit=study.privacy.unit)
    if (named, priced) != (study.contract, planned.event):
        raise checks.PrivacyError(
            "The release is not the one that was charged for: nothing of it leaves. This is a "
            "fault in sudare; please report it"
        )
    # The same numbers under the study's own labels and unit.
    return msgspec.structs.replace(made, contract=study.contract, event=planned.event)


def _certify(planned: ReleasePlan, receipt: Receipt) -> Certificate:
    terms = planned.study.privacy
    return Certificate(
        study=planned.study.digest(),
        epsilon=terms.epsilon,
        delta=terms.delta,
        sentence=planned.sentence,
        parameters=planned.parameters,
        receipt=receipt.chain,
        moment=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _signed_again(
    ledger: Ledger, dataset: str, study: Study, fingerprint: str, party: str, key: SigningKey
) -> tuple[Receipt, bytes] | None:
    """What was signed again under this name and key, of a release of these data and this study."""
    from sudare.site._resigning import part_name  # it calls this module

    for each in ledger.record():
        request = each.receipt.request
        part = part_name(request, party, key)
        if each.receipt.dataset == dataset and part in each.kept:
            first, data = ledger.kept(request), ledger.kept(request, part)
            assert first is not None
            assert data is not None
            signed, signer = unverified(first)
            if request in _requests(study, fingerprint, signed.release.party, signer):
                return each.receipt, data
    return None


def _requests(study: Study, fingerprint: str, party: str, signer: str) -> list[str]:
    """The names of this one release, of the first edition of calibrations to today's."""
    return [_request(study, fingerprint, party, signer, each) for each in (1, EDITION)]


def _request(study: Study, fingerprint: str, party: str, signer: str, edition: int) -> str:
    """The name of this one release: study, data, party, signer and calibrations."""
    parts = [study.digest(), fingerprint, party, signer]
    if edition > 1:  # the first one went without saying
        parts.append(f"edition {edition}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
